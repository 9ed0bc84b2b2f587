"""A function that another module decorates is what its decorators make of it, however it is imported."""

from __future__ import annotations

import pytest

from shardlint.engine import analyze
from shardlint.project import Project
from tests.projects import lowered

HELPERS = """
import jax
import jax.numpy as jnp
from functools import partial
from jax.sharding import PartitionSpec as P
from gone import traced

@jax.vmap
def total(x):
    return jnp.sum(x)

@partial(jax.vmap, in_axes=(0, None))
def project(x, w):
    return w @ x

@jax.jit
def double(x):
    return 2 * x

@traced
def parts(x):
    return x, x, None

@partial(traced, name='parts')
def named_parts(x):
    return x, x, None

def thrice(f):
    def inner(x):
        return f(x), f(x), f(x)
    return inner

@thrice
def each(x):
    return jnp.tanh(x)
"""
PACKAGE = "from helpers import double, each, named_parts, parts, project, total\n"
ARRAYS = "import jax.numpy as jnp\nx = jnp.ones((4, 3))\nw = jnp.ones((7, 3))\n"
IMPORTS = {
    "by name": ("from helpers import {name}\n", "{name}"),
    "renamed": ("from helpers import {name} as other\n", "other"),
    "of the module": ("import helpers\n", "helpers.{name}"),
    "from a package": ("from package import {name}\n", "{name}"),
    "all names": ("from helpers import *\n", "{name}"),
}
#: A call, what fits its result, and what does not (if its result is known).
CALLS = [
    ("total", "{f}(x) + jnp.ones(4)", "{f}(x) + jnp.ones(5)"),
    ("project", "{f}(x, w) + jnp.ones((4, 7))", "{f}(x, w) + jnp.ones((4, 8))"),
    ("double", "{f}(x) + x", "{f}(x) + w"),
    ("each", "{f}(x)[2] + x", "{f}(x)[2] + w"),
    ("parts", "{f}(x) + x", None),
    ("named_parts", "{f}(x) + x", None),
]


def codes(text: str) -> list[str]:
    modules = lowered({"helpers": HELPERS, "package": PACKAGE, "main": text})
    return [event.code for event in analyze(Project(modules), modules["main"])]


@pytest.mark.once
@pytest.mark.parametrize("how", IMPORTS)
@pytest.mark.parametrize(("name", "right", "wrong"), CALLS, ids=[c[0] for c in CALLS])
def test_the_decorated_function_is_called(
    name: str, right: str, wrong: str | None, how: str
) -> None:
    statement, called = IMPORTS[how]
    head = ARRAYS + statement.format(name=name)
    f = called.format(name=name)
    assert codes(head + right.format(f=f)) == []
    inner = f"def use():\n    return {right.format(f=f)}\nuse()\n"
    assert codes(head + inner) == []
    if wrong is not None:
        assert codes(head + wrong.format(f=f)) == ["ST204"]
        inner = f"def use():\n    return {wrong.format(f=f)}\nuse()\n"
        assert codes(head + inner) == ["ST204"]
