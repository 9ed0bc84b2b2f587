"""How sizes are compared where they have to be equal: as numbers, or by what a reading knows of their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeAlias

from shardtypes.semantics.array import Dim, Shape, SizesDiffer
from shardtypes.semantics.registry import Refused

Why: TypeAlias = "Refused | str | None"
"""What JAX says then; a text is of operands that do not fit."""


class Comparison(Protocol):
    """What is known of sizes that are no numbers."""

    def require_equal(self, a: Dim, b: Dim, why: Why) -> None:
        """Raises where two sizes certainly differ. ``why`` JAX then refuses them, where no operation pairs them."""

    def broadcast(self, shapes: Sequence[Shape]) -> Shape:
        """The shape that shapes broadcast to. Raises where they certainly do not."""

    def divided(self, size: Dim, count: int) -> Dim:
        """The size of each of ``count`` equal parts. Raises where a size certainly has none."""


class Numbers:
    """Nothing is known of sizes but that numbers differ."""

    def require_equal(self, a: Dim, b: Dim, why: Why) -> None:
        """Raises SizesDiffer where both are numbers and not equal."""
        if isinstance(a, int) and isinstance(b, int) and a != b:
            raise SizesDiffer(f"{int(a)} is not {int(b)}")

    def divided(self, size: Dim, count: int) -> Dim:
        """Raises Refused for a number that is no multiple."""
        if size is None:
            return None
        if isinstance(size, int) and size % count:
            raise Refused(f"a size of {size} is not divisible by {count}", "sizes")
        return size // count

    def broadcast(self, shapes: Sequence[Shape]) -> Shape:
        """Raises SizesDiffer where two numbers do not broadcast."""
        result: Shape = ()
        for shape in shapes:
            pairs = zip(*aligned([result, shape]), strict=True)
            result = tuple(self._common(*pair) for pair in pairs)
        return result

    def _common(self, a: Dim, b: Dim) -> Dim:
        """A number above 1 decides, a size that is not known leaves it open."""
        if b == 1:
            return a
        if a == 1:
            return b
        self.require_equal(a, b, None)
        if isinstance(a, int):
            return a
        if isinstance(b, int) or b is None:
            return b
        return a


def aligned(shapes: Sequence[Shape]) -> list[Shape]:
    """The shapes, with ones in front so that all are of one rank."""
    rank = max(map(len, shapes), default=0)
    ones: Shape = (1,) * rank
    return [(*ones[len(shape) :], *shape) for shape in shapes]


_NUMBERS = Numbers()
_comparison: ContextVar[Comparison] = ContextVar(
    "shardtypes_comparison", default=_NUMBERS
)


@contextmanager
def comparing(comparison: Comparison) -> Iterator[None]:
    """Compare sizes by what is known of them in the block."""
    token = _comparison.set(comparison)
    try:
        yield
    finally:
        _comparison.reset(token)


def are_names_known() -> bool:
    """Whether more is known of sizes than that numbers differ."""
    return _comparison.get() is not _NUMBERS


def require_equal(a: Dim, b: Dim, why: Why = None) -> None:
    """Compare two sizes that have to be equal. Raises, numbers SizesDiffer, where they are not."""
    _comparison.get().require_equal(a, b, why)


def common_shape(shapes: Sequence[Shape]) -> Shape:
    """The shape that shapes broadcast to. Raises, numbers SizesDiffer, where they do not."""
    return _comparison.get().broadcast(shapes)


def divided(size: Dim, count: int) -> Dim:
    """The size of each of ``count`` equal parts. Raises, numbers Refused, where there are none."""
    return _comparison.get().divided(size, count)
