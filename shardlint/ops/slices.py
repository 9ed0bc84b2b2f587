"""The items of an index, and how long a slice is: Python's clamping rules on symbolic sizes."""

from __future__ import annotations

from shardlint.values import SequenceValue, Value
from shardtypes.lang import Size

ZERO = Size.const(0)


def index_items(index: Value) -> tuple[Value, ...]:
    """What stands between the brackets: the items of a tuple, else the index itself."""
    if isinstance(index, SequenceValue) and index.kind == "tuple":
        return index.items
    return (index,)


def _from_start(size: Size | None, bound: Size) -> Size | None:
    """A bound counted from the start, at least 0 and not yet cut off at the end; None where its sign is not known."""
    if bound.is_nonnegative:
        return bound
    if (-bound).is_nonnegative:
        return None if size is None else size - Size.part(-bound, size)
    return None


def slice_length(
    size: Size | None, lower: Size | None, upper: Size | None, step: int = 1
) -> Size | None:
    """The length of ``[lower:upper:step]`` over a dimension, ``step`` at least 1; None where it is not known.

    ``lower`` and ``upper`` are given; an omitted one is 0 or ``size``. Only a negative bound needs the size; a
    slice ``[:3]`` of an unknown size is unknown, as the dimension may be shorter.
    """
    if size is None or lower is None or upper is None:
        return None
    start, stop = _from_start(size, lower), _from_start(size, upper)
    if start is None or stop is None:
        return None
    length = Size.part(stop, size) - start
    if not length.is_nonnegative:
        length = Size.maximum(length, ZERO)
    return length if step == 1 else (length + (step - 1)) // step
