"""How the linter words what does not fit in a product, an equation or a join, and what it suggests then."""

from __future__ import annotations

from functools import singledispatch
from typing import TypeAlias

from shardlint.ops import advice
from shardlint.ops.arrays import shown_size, shown_sizes
from shardlint.ops.open_sizes import known_size
from shardtypes.lang import Size
from shardtypes.semantics.array import Shape
from shardtypes.semantics.mismatches import Contraction, Equation, Join, Reshape

Worded: TypeAlias = tuple[str, str, int | None]
"""The code, the text, and which of the arrays is to blame, if one is."""


@singledispatch
def worded(mismatch: object, a: Size, b: Size) -> Worded:
    """What is said of a mismatch of two sizes."""
    raise TypeError(f"no words for {mismatch!r}")


def _sizes(shape: Shape) -> list[Size | None]:
    return list(map(known_size, shape))


@worded.register
def _contraction(mismatch: Contraction, a: Size, b: Size) -> Worded:
    left, right = _sizes(mismatch.left), _sizes(mismatch.right)
    shapes = f"{shown_sizes(left)} with {shown_sizes(right)}"
    text = f"cannot contract {shapes}: {shown_size(a)} against {shown_size(b)}"
    is_usual = mismatch.i == len(left) - 1 and mismatch.k == len(right) - 2
    if is_usual:
        text += advice.contraction(left, right)
    return "ST204", text, None


@worded.register
def _equation(mismatch: Equation, a: Size, b: Size) -> Worded:
    shapes = list(map(_sizes, mismatch.shapes))
    first, second = mismatch.first, mismatch.second
    before = f"operand {first}"
    if first == second:
        before = f"the same operand {first}"
    text = (
        f"'{mismatch.letter}' of '{mismatch.text}' is {shown_size(a)} in {before}, {shown_sizes(shapes[first])}, "
        f"and {shown_size(b)} in operand {second}, {shown_sizes(shapes[second])}"
    )
    return "ST205", text + advice.einsum(mismatch.terms, shapes), second


@worded.register
def _join(mismatch: Join, a: Size, b: Size) -> Worded:
    shapes = list(map(_sizes, mismatch.shapes))
    first = shown_sizes(shapes[mismatch.first])
    second = shown_sizes(shapes[mismatch.second])
    text = f"dimension {mismatch.k} of {first} and {second} differs"
    if mismatch.axis is not None:
        text += advice.joining(shapes, mismatch.axis)
    return "ST209", text, None


@worded.register
def _reshape(mismatch: Reshape, a: Size, b: Size) -> Worded:
    has = f"{shown_sizes(_sizes(mismatch.shape))} has {shown_size(a)} elements"
    wanted = f"{shown_sizes(_sizes(mismatch.wanted))} has {shown_size(b)}"
    return "ST206", f"{has}, but {wanted}", None
