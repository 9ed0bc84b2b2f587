"""Annotated variables that a function inside assigns to, by ``nonlocal`` and ``global``; those of a module itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

import shardtypes as st
from tests.runtime.loading import OURS, load, outcome, run

HEAD = """
import contextlib
import jax
import jax.numpy as jnp
from shardtypes import f32, key

G: f32['3 M'] = jnp.ones((3, 2))

"""

# How the function inside assigns y to h of the function around it, which holds f32['N'] for N = 3.
ASSIGNMENTS = {
    "plain": "h = y",
    "several targets": "k = h = y",
    "a tuple": "k, (h, *l) = y, (y, y)",
    "augmented": "h += jnp.zeros((2, 1)) if y.shape != x.shape else 0",
    "walrus": "if (h := y) is not None:\n    pass",
    "walrus in a comprehension": "[(h := y) for _ in range(1)]",
    "for": "for h in [y]:\n    pass",
    "with": "with contextlib.nullcontext(y) as h:\n    pass",
    "match": "match {'a': y}:\n    case {'a': h}:\n        pass",
}

# What is around the statement that assigns, inside of a function of x and y that has annotated h; {} is the statement.
PLACES = {
    "function": "def inner():\n    nonlocal h\n{}\ninner()",
    "two deep": "def middle():\n    def inner():\n        nonlocal h\n{}{}\n    inner()\nmiddle()",
    "by way of": "def middle():\n    nonlocal h\n    def inner():\n        nonlocal h\n{}{}\n    inner()\nmiddle()",
    "method": "class A:\n    h = 1\n    def m(self):\n        nonlocal h\n{}{}\nA().m()",
    "class": "class A:\n    nonlocal h\n{}",
    "names of its own": "def inner(f32, N: int = 1):\n    nonlocal h\n{}\ninner(1)",
    "loop of JAX": "def body(i, c):\n    nonlocal h\n{}\n    return c\njax.lax.fori_loop(0, 2, body, 1)",
    "generator": "def inner():\n    nonlocal h\n{}\n    yield\nlist(inner())",
    "checked too": "@checked\ndef inner(z: f32['N']):\n    nonlocal h\n{}\ninner(jnp.ones(5))",
    "with variables": "@checked\ndef inner(z: f32['N']):\n    nonlocal h\n    k: f32['N'] = z\n{}\ninner(jnp.ones(5))",
    "afterwards": "def inner():\n    nonlocal h\n{}\nreturn inner",
}


def function(place: str, assignment: str, head: str = "def f(x: f32['N'], y):") -> str:
    inside = "".join(f"    {line}\n" for line in assignment.splitlines())
    deeper = "".join(f"    {line}\n" for line in inside.splitlines())
    template = PLACES[place]
    body = (
        template.format("", deeper) if "{}{}" in template else template.format(inside)
    )
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f"{HEAD}@checked\n{head}\n    h: f32['N'] = x\n{lines}"


def call(f: Callable[..., Any], *args: Any) -> Any:
    made = run(f, *args)
    return made() if callable(made) else made


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize(
    ("place", "assignment"),
    [
        *((place, "plain") for place in PLACES),
        *(("function", name) for name in ASSIGNMENTS if name != "plain"),
    ],
)
def test_variables_of_a_function_around(
    tmp_path: Path, way: str, place: str, assignment: str
) -> None:
    f = load(tmp_path, function(place, ASSIGNMENTS[assignment]), way).f
    assert outcome(lambda: call(f, jnp.ones(3), jnp.ones(3))) == "silence"
    assert outcome(lambda: call(f, jnp.ones(2), jnp.ones(2))) == "silence"
    assert outcome(lambda: call(f, jnp.ones(3), jnp.ones(4))) == "alarm"
    if assignment != "augmented":
        assert outcome(lambda: call(f, jnp.ones(3), jnp.ones((3, 1)))) == "alarm"
        assert outcome(lambda: call(f, jnp.ones(3), jnp.ones(3, int))) == "alarm"


@pytest.mark.parametrize("way", OURS)
def test_each_call_has_variables_of_its_own(tmp_path: Path, way: str) -> None:
    """Also where a function of one call runs inside of another, and when both have returned."""
    source = f"""{HEAD}
@checked
def f(x: f32['N'], y, other=None):
    h: f32['N']
    def inner(y):
        nonlocal h
        h = y
        return h
    if other is not None:
        other(y)
    return inner
"""
    f = load(tmp_path, source, way).f
    three, five = f(jnp.ones(3), None), f(jnp.ones(5), None)
    for inner, right, wrong in ((three, 3, 5), (five, 5, 3), (three, 3, 5)):
        assert (
            outcome(lambda inner=inner, right=right: inner(jnp.ones(right)))
            == "silence"
        )
        assert (
            outcome(lambda inner=inner, wrong=wrong: inner(jnp.ones(wrong))) == "alarm"
        )
    assert outcome(lambda: f(jnp.ones(5), jnp.ones(3), three)) == "silence"
    assert outcome(lambda: f(jnp.ones(5), jnp.ones(5), three)) == "alarm"


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_variables_of_a_module_that_functions_assign(
    tmp_path: Path, way: str, assignment: str
) -> None:
    """A name for a size stands for another one in each assignment."""
    inside = "".join(f"    {line}\n" for line in ASSIGNMENTS[assignment].splitlines())
    head = f"{HEAD}h: f32['3 M'] = jnp.ones((3, 2))\n@checked\n"
    source = f"{head}def f(x: f32['3 M'], y, f32=None):\n    global h\n{inside}"
    f = load(tmp_path, source, way).f
    for right in (2, 5) if assignment != "augmented" else (2,):
        assert (
            outcome(lambda right=right: f(jnp.ones((3, 2)), jnp.ones((3, right))))
            == "silence"
        )
    if assignment == "augmented":
        source = source.replace("jnp.zeros((2, 1))", "jnp.zeros((7, 3, 2))")
        f = load(tmp_path, source, way).f
    assert outcome(lambda: f(jnp.ones((3, 2)), jnp.ones((4, 2)))) == "alarm"


def test_modules_are_checked_at_every_assignment(tmp_path: Path) -> None:
    """Also in functions without annotations of their own, and not in classes, whose names are their own."""
    way = "shardtypes.install_import_hook"
    for line in (
        "G = Y",
        "k, G = 1, Y",
        "for G in [Y]:\n    pass",
        "if (G := Y) is not None:\n    pass",
        "G *= Y",
    ):
        source = f"{HEAD}Y = jnp.ones(SHAPE)\n{line}\n"
        assert load(tmp_path, source.replace("SHAPE", "(3, 2)"), way).G.shape == (3, 2)
        with pytest.raises(
            st.ShapeError, match=r"^variable 'G': rank is 3, expected 2"
        ):
            load(tmp_path, source.replace("SHAPE", "(1, 3, 2)"), way)
    module = load(
        tmp_path,
        f"{HEAD}def f(y):\n    global G\n    G = y\nclass A:\n    G = 1\n",
        way,
    )
    module.f(jnp.ones((3, 7)))
    with pytest.raises(
        st.ShapeError, match=r"^f: variable 'G': dimension 0 is 4, expected 3"
    ):
        module.f(jnp.ones((4, 7)))


@pytest.mark.parametrize("way", OURS)
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (
            "def inner():\n    nonlocal x\n    x = y\ninner()",
            "f: parameter 'x': what is assigned to it is not checked",
        ),
        (
            "def inner():\n    nonlocal h\n    h = y\nh: f32['N'] = x\ninner()",
            "f.inner: variable 'h', before it is annotated",
        ),
        (
            "h: f32['N'] = x\nh: f32['M'] = x\ndef inner():\n    nonlocal h\n    h = y\ninner()",
            "f.inner: variable 'h', which has several annotations",
        ),
        ("global LATE\nLATE = y", "f: variable 'LATE', before it is annotated"),
        (
            "global TWICE\nTWICE = y",
            "f: variable 'TWICE', which has several annotations",
        ),
    ],
)
def test_what_is_left_out_is_counted(
    tmp_path: Path, way: str, body: str, reason: str
) -> None:
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    head = f"{HEAD}TWICE: f32['3'] = jnp.ones(3)\nTWICE: f32['N'] = jnp.ones(3)\n@checked\n"
    source = f"{head}def f(x: f32['N'], y):\n{lines}"
    f = load(tmp_path, f"{source}LATE: f32['3'] = jnp.ones(3)\n", way).f
    before = st._stats.snapshot()["not_possible"].get(reason, 0)
    f(jnp.ones(3), jnp.ones(4))
    assert st._stats.snapshot()["not_possible"].get(reason, 0) > before


def test_a_function_around_that_is_not_checked_gives_no_sizes(tmp_path: Path) -> None:
    """Dtypes and ranks are compared, and that sizes are not is counted."""
    source = f"""{HEAD}
def f(x: f32['N'], y):
    h: f32['N'] = x
    @checked
    def inner():
        nonlocal h
        h = y
    inner()
"""
    f = load(tmp_path, source, "shardtypes.typechecked").f
    assert outcome(lambda: f(jnp.ones(3), jnp.ones(4))) == "count"
    assert outcome(lambda: f(jnp.ones(3), jnp.ones((3, 1)))) == "alarm"


@pytest.mark.parametrize("way", OURS)
def test_variables_of_the_same_name_are_left_alone(tmp_path: Path, way: str) -> None:
    source = f"""{HEAD}
@checked
def f(x: f32['N'], y):
    h: f32['N'] = x
    def own():
        h = y
        return h
    def between():
        h = None
        def inner():
            nonlocal h
            h = y
        inner()
        return h
    def parameter(h):
        def inner():
            nonlocal h
            h = y
        inner()
        return [h for h in range(3)], lambda h: h
    def elsewhere():
        global h
        h = y
    return own(), between(), parameter(1), elsewhere(), x.sum()
"""
    module = load(tmp_path, source, way)
    assert outcome(lambda: module.f(jnp.ones(3), jnp.ones((4, 4)))) == "silence"
    assert module.h.shape == (4, 4)


@pytest.mark.parametrize("way", OURS)
def test_functions_stay_what_they_were(tmp_path: Path, way: str) -> None:
    source = f"""{HEAD}
@checked
def f(x: f32['N'], y):
    'what it does'
    h: f32['N'] = x
    def inner(a, b=2):
        nonlocal h
        h = a + b
        return sys._getframe().f_lineno
    return inner
"""
    f = load(tmp_path, source.replace("import jax\n", "import jax, sys\n"), way).f
    inner = f(jnp.ones(3), None)
    code = inner.__code__
    assert f.__doc__ == "what it does" and inner.__qualname__ == "f.<locals>.inner"
    assert inner(jnp.ones(3)) == code.co_firstlineno + 3
