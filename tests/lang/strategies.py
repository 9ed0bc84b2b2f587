"""Random sizes and shape strings, with their meaning in plain Python beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st

from shardtypes.lang import ShapeSyntaxError, Size, parse

cases = settings(max_examples=int(os.environ.get("ORACLE_CASES", "300")), deadline=None)
"""How many random cases each property is tried on: a sample by default, thousands for the long run."""

NAMES = ("B", "L", "M", "head")
assignments = st.fixed_dictionaries({name: st.integers(1, 40) for name in NAMES})


@dataclass(frozen=True)
class Expression:
    """An expression as text, as a ``Size``, and as a Python function of the sizes: the oracle."""

    text: str
    size: Size
    value: Callable[[Mapping[str, int]], int]

    def __repr__(self) -> str:
        return self.text


def _leaf(value: int | str) -> Expression:
    if isinstance(value, str):
        return Expression(value, Size.of(value), lambda env: env[value])
    return Expression(str(value), Size.of(value), lambda env: value)


def _combine(parts: tuple[Expression, str, Expression]) -> Expression:
    a, op, b = parts
    text = f"({a.text}){op}({b.text})"
    if op == "+":
        return Expression(
            text, a.size + b.size, lambda env: a.value(env) + b.value(env)
        )
    if op == "-":
        return Expression(
            text, a.size - b.size, lambda env: a.value(env) - b.value(env)
        )
    if op == "*":
        return Expression(
            text, a.size * b.size, lambda env: a.value(env) * b.value(env)
        )
    if b.size == 0:
        return a
    if op == "//":
        return Expression(
            text, a.size // b.size, lambda env: a.value(env) // b.value(env)
        )
    return Expression(text, a.size % b.size, lambda env: a.value(env) % b.value(env))


def is_size(text: str) -> bool:
    """Whether it may stand in a shape: random expressions divide by zero, or are always negative."""
    try:
        parse(text)
    except ShapeSyntaxError:
        return False
    return True


_leaves = st.one_of(st.sampled_from(NAMES), st.integers(0, 6)).map(_leaf)
expressions = st.recursive(
    _leaves,
    lambda inner: st.tuples(
        inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner
    ).map(_combine),
    max_leaves=7,
)

# As people write them: without the parentheses that precedence makes needless, and with signs.
written = st.recursive(
    st.one_of(st.sampled_from(NAMES), st.integers(0, 6).map(str)),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(
            "".join
        ),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"-{text}"),
    ),
    max_leaves=7,
)

_axes = st.lists(st.sampled_from(["d", "t", "fsdp"]), max_size=2, unique=True).map(
    lambda axes: "".join(f"/{axis}" for axis in axes)
)
_plain = st.one_of(
    st.sampled_from(NAMES),
    st.integers(0, 512).map(str),
    st.sampled_from(
        ["_", "_x", "#B", "#4", "L+1", "2*M", "head//2", "(B+1)*L", "B%4", "größe"]
    ),
    st.tuples(st.sampled_from(["", "#"]), written).map("".join).filter(is_size),
)
_dims = st.tuples(_plain, _axes).map("".join)
_pending = st.sampled_from(["", " {U:t}", " {U:d,t}"])


@st.composite
def shape_texts(draw: st.DrawFn) -> str:
    """Valid shape strings, odd spacing included."""
    dims = draw(st.lists(_dims, max_size=4))
    if draw(st.booleans()):
        dims.insert(
            draw(st.integers(0, len(dims))), draw(st.sampled_from(["...", "*xs"]))
        )
    space = draw(st.sampled_from([" ", "  "]))
    return draw(st.sampled_from(["", " "])) + space.join(dims) + draw(_pending)
