"""What a mismatch suggests: a forgotten ``keepdims``, a transpose, operands in the wrong order, another axis.

Every function answers with a clause to append to a message, empty where nothing is evident.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardtypes.lang import Size, format_shape

Sizes = Sequence[Size | None]


def _equal(a: Size | None, b: Size | None) -> bool:
    return a is not None and a == b


def _broadcasts(a: Sizes, b: Sizes) -> bool:
    """Whether two shapes certainly broadcast."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(_equal(x, y) or x == 1 or y == 1 for x, y in pairs)


def broadcasting(a: Sizes, b: Sizes) -> str:
    """For two shapes that do not broadcast: would they, had a reduction kept its dimension, or after a transpose?"""
    short, long = (a, b) if len(a) < len(b) else (b, a)
    missing = len(long) - len(short)
    if short and missing:
        widened = [*short, *[Size.const(1)] * missing]
        if _broadcasts(widened, long):
            how = "keepdims=True, or [..., None]" if missing == 1 else "keepdims=True"
            return f"; '{format_shape(widened)}' does: use {how}"
    if (
        len(short) == len(long)
        and len(short) >= 2
        and _broadcasts(a, [*b[:-2], b[-1], b[-2]])
    ):
        return "; transpose the second"
    return ""


def contraction(a: Sizes, b: Sizes) -> str:
    """For a product that contracts the last dimension of ``a`` with the second to last of ``b``."""
    if len(a) < 1 or len(b) < 2:
        return ""
    if _equal(a[-1], b[-1]):
        return "; transpose the right operand"
    if len(a) >= 2 and _equal(b[-1], a[-2]):
        return "; swap the operands"
    if len(a) >= 2 and _equal(a[-2], b[-2]):
        return "; transpose the left operand"
    return ""


def joining(shapes: Sequence[Sizes], axis: int) -> str:
    """For arrays that differ in another dimension than the one along which they are joined: along which do they fit?"""
    first = shapes[0]
    if any(len(shape) != len(first) for shape in shapes):
        return ""
    apart = [
        i
        for i in range(len(first))
        if not all(_equal(shape[i], first[i]) for shape in shapes)
    ]
    return f"; use axis={apart[0]}" if len(apart) == 1 and apart[0] != axis else ""


def einsum(inputs: Sequence[Sequence[str]], shapes: Sequence[Sizes | None]) -> str:
    """For two operands whose letters do not fit: do they, the other way round?"""
    if (
        len(inputs) != 2
        or any(shape is None for shape in shapes)
        or any("..." in letters for letters in inputs)
    ):
        return ""
    bound: dict[str, Size | None] = {}
    for letters, shape in zip(inputs, reversed(shapes), strict=True):
        if shape is None or len(letters) != len(shape):
            return ""
        for letter, size in zip(letters, shape, strict=True):
            if size is None or bound.setdefault(letter, size) != size:
                return ""
    return "; swap the operands"
