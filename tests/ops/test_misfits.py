"""Calls that JAX refuses for the number or the names of their arguments, and what the models say of signatures."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path
from typing import Any

import pytest

from shardlint.ops.application import find_model, is_modelled
from shardlint.ops.misfits import MORE, OTHERWISE
from shardlint.ops.registry import MODELS
from shardtypes.semantics.lowerings import LOWERINGS
from tests.engine.test_cases import expected, found, project

BY_POSITION = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def function(qualname: str) -> Any:
    """The function of JAX, or None where this JAX has none of that name."""
    parts = qualname.split(".")
    for count in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            value = getattr(value, part, None)
        return value
    return None


def signature(qualname: str) -> inspect.Signature | None:
    try:
        return inspect.signature(function(qualname))
    except (TypeError, ValueError):
        return None


NAMES = [
    name
    for name in sorted({*MODELS, *LOWERINGS})
    if is_modelled(name)
    and name.startswith("jax.")
    and "[]" not in name
    and "__" not in name
    and signature(name) is not None
]


def test_there_are_many() -> None:
    assert len(NAMES) > 450


@pytest.mark.parametrize("qualname", NAMES)
def test_nothing_that_jax_takes_is_refused(qualname: str) -> None:
    theirs = signature(qualname)
    assert theirs is not None
    known = find_model(qualname)
    assert known is not None
    takes = known.signature
    parameters = theirs.parameters.values()
    positional = [one.name for one in parameters if one.kind in BY_POSITION]
    if any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return  # a ufunc, which counts by itself, or any number
    if not takes.takes_any_number and qualname not in MORE:
        assert known.most >= len(positional)
    if qualname in OTHERWISE or takes.takes_any_number:
        return
    needed = {one.name for one in parameters if one.default is one.empty}
    only_by_position = {
        one.name for one in parameters if one.kind is one.POSITIONAL_ONLY
    }
    assert len(takes.needed) <= len(needed)
    for ours, their in zip(takes.positional, positional, strict=False):
        assert ours == their or their in only_by_position


CALLS = """
import jax
import jax.numpy as jnp
import numpy as np

x = jnp.ones((2, 3))


def a():
    return jnp.zeros(2, 3, 4, 5, 6)  # expect: ST220


def transposed(y):
    return jnp.transpose(y, 1, 0)  # expect: ST220


def moved():
    return jnp.moveaxis(x, 0)  # expect: ST220


def summed():
    return x.sum(axes=0)  # expect: ST220


def swapped():
    return jnp.swapaxes(x, (0, 1))  # expect: ST220


def of_torch():
    return jnp.sum(x, dim=0)  # expect: ST220


def expanded():
    return jnp.expand_dims(x)  # expect: ST220


def broadcast():
    return jnp.broadcast_to(x, 4, 2, 3, 5, 6)  # expect: ST220


def right(args, options):
    x.transpose(1, 0)
    np.concat([np.ones(2), np.ones(3)], 0)
    np.sum(np.ones((2, 3)), 0, None, None, True)
    jnp.transpose(*args)
    jnp.moveaxis(x, **options)
    jnp.sum(x, 0, jnp.float32)
    jnp.maximum(x, 1)
    jax.nn.softmax(x, -1)
    return jnp.broadcast_to(array=x, shape=(4, 2, 3))
"""


def test_calls(tmp_path: Path) -> None:
    path = tmp_path / "calls.py"
    path.write_text(CALLS)
    assert found(project(tmp_path), path) == expected(path)
