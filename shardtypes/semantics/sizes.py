"""Sizes as functions compute with them: numbers where they are evaluated, expressions of names where shapes are
told."""

from __future__ import annotations

from typing import Any, TypeAlias

from shardtypes.lang.size import Size
from shardtypes.semantics.registry import Unsupported

Number: TypeAlias = Any
"""An int, or a ``Size``."""

_ZERO = Size.const(0)


def is_number(size: Number) -> bool:
    """Whether it is a number, and no expression of names."""
    return not isinstance(size, Size)


def known(size: Number) -> int:
    """A size that has to be a number. Raises Unsupported for an expression of names."""
    if not isinstance(size, int):
        raise Unsupported("a size that is not a number")
    return int(size)


def simple(size: Number) -> Number:
    """An expression that is a number as that number."""
    if isinstance(size, Size) and size.constant is not None:
        return size.constant
    return size


def least(*sizes: Number) -> Number:
    if all(map(is_number, sizes)):
        return min(sizes)
    return simple(Size.minimum(*sizes))


def greatest(*sizes: Number) -> Number:
    if all(map(is_number, sizes)):
        return max(sizes)
    return simple(Size.maximum(*sizes))


def is_less(a: Number, b: Number) -> bool:
    """Raises Unsupported where that depends on the values of names."""
    if is_number(a) and is_number(b):
        return bool(a < b)
    difference = Size.of(b) - Size.of(a)
    if (difference - 1).is_nonnegative:
        return True
    if (-difference).is_nonnegative:
        return False
    raise Unsupported("a comparison of sizes that are not numbers")


def is_surely_less(a: Number | None, b: Number | None) -> bool:
    """Whether it is, whatever the names stand for. That it is for some is no error: who slices knows that the part lies
    inside."""
    if a is None or b is None:
        return False
    if isinstance(a, int) and isinstance(b, int):
        return a < b
    more = Size.of(b) - Size.of(a)
    above = more - 1
    return bool(above.is_nonnegative)


def rounded_up(size: Number, divisor: int) -> Number:
    """``size / divisor``, rounded up."""
    return simple((size + (divisor - 1)) // divisor)


def bounds(start: Any, stop: Any, size: Number) -> tuple[Number, Number]:
    """Where ``[start:stop]`` begins and ends in a dimension of this size, by Python's rules.

    Raises Unsupported where that depends on the values of names.
    """
    size = simple(size)
    if is_number(size):
        first, last, _ = slice(start, stop).indices(size)
        return first, max(last, first)
    if start is None and stop is None:
        return 0, size
    low: Number = 0
    if start is not None:
        low = _from_start(start, size)
    high: Number = size
    if stop is not None:
        high = _up_to(stop, size)
    length = Size.of(high - low)
    if not length.is_nonnegative:
        length = Size.maximum(length, _ZERO)
    return simple(low), simple(low + length)


def _up_to(stop: Any, size: Size) -> Number:
    if is_number(stop) and stop < 0:
        return greatest(size + stop, 0)
    return Size.part(_from_start(stop, size), size)


def _from_start(bound: Any, size: Size) -> Number:
    """A bound counted from the start, at least 0."""
    if isinstance(bound, Size):
        number = bound
    else:
        number = Size.const(int(bound))
    if number.is_nonnegative:
        return number
    if (-number).is_nonnegative:
        return size - Size.part(-number, size)
    raise Unsupported("a bound of which the sign is not known")


def sliced(part: slice, size: Number) -> Number:
    """How many entries a slice leaves of a dimension. Raises Unsupported where that depends on the values of names."""
    if is_number(size):
        return len(range(size)[part])
    step = 1 if part.step is None else int(part.step)
    if step < 0:
        if part.start is None and part.stop is None:
            return rounded_up(size, -step)
        raise Unsupported("a slice backwards, of a size that is not a number")
    low, high = bounds(part.start, part.stop, size)
    return rounded_up(high - low, step)
