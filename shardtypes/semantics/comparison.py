"""How sizes are compared where they have to be equal: as numbers, or by what a reading knows of their names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Protocol, TypeAlias

from shardtypes.semantics.array import Array, Dim, Shape, SizesDiffer
from shardtypes.semantics.mismatches import Mismatch
from shardtypes.semantics.registry import Refused

Said: TypeAlias = "Refused | str | None"
"""What JAX says then; a text is of operands that do not fit."""
Why: TypeAlias = "Mismatch | Said"
"""What JAX says then, or what meets."""


class Comparison(Protocol):
    """What is known of sizes that are no numbers."""

    def require_equal(self, a: Dim, b: Dim, why: Why) -> None:
        """Raises where two sizes certainly differ. ``why`` JAX then refuses them, where no operation pairs them."""

    def broadcast(self, shapes: Sequence[Shape], why: Said) -> Shape:
        """The shape that shapes broadcast to. Raises where they certainly do not: ``why`` JAX then refuses them."""

    def either(self, a: Dim, b: Dim) -> Dim:
        """The size of two dimensions that are of one size: what says more of it."""

    def divided(self, size: Dim, count: Dim, why: Refused | None) -> Dim:
        """The size of each of ``count`` equal parts. Raises where a size certainly has none: ``why`` JAX then says."""

    def unknown(self) -> Dim:
        """A size of which nothing is known."""

    def is_known(self, size: Dim) -> bool:
        """Whether anything is known of a size."""

    def numpy_refuses(self, why: Refused) -> None:
        """Raises if it is NumPy's function of the name that is called: it refuses what JAX takes."""


class Numbers:
    """Nothing is known of sizes but that numbers differ."""

    def require_equal(self, a: Dim, b: Dim, why: Why) -> None:
        """Raises SizesDiffer where both are numbers and not equal."""
        if isinstance(a, int) and isinstance(b, int) and a != b:
            raise SizesDiffer(f"{int(a)} is not {int(b)}")

    def unknown(self) -> Dim:
        return None

    def is_known(self, size: Dim) -> bool:
        return size is not None

    def numpy_refuses(self, why: Refused) -> None:
        """These are JAX's functions."""

    def divided(self, size: Dim, count: Dim, why: Refused | None) -> Dim:
        """Raises Refused for a number that is no multiple."""
        if size is None or count is None:
            return None
        if isinstance(size, int) and isinstance(count, int) and size % count:
            raise why or undivided(size, count)
        return size // count

    def either(self, a: Dim, b: Dim) -> Dim:
        return b if a is None else a

    def broadcast(self, shapes: Sequence[Shape], why: Said) -> Shape:
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


def either(a: Dim, b: Dim) -> Dim:
    """The size of two dimensions that are of one size."""
    return _comparison.get().either(a, b)


def common_shape(shapes: Sequence[Shape], why: Said = None) -> Shape:
    """The shape that shapes broadcast to. Raises, numbers SizesDiffer, where they do not."""
    return _comparison.get().broadcast(shapes, why)


def divided(size: Dim, count: Dim, why: Refused | None = None) -> Dim:
    """The size of each of ``count`` equal parts. Raises, numbers Refused, where there are none."""
    if count == 1:
        return size
    return _comparison.get().divided(size, count, why)


def undivided(size: Dim, count: Dim) -> Refused:
    """What JAX says of a size that has not so many equal parts."""
    return Refused(f"a size of {size} is not divisible by {count}", "sizes")


def unknown() -> Dim:
    """A size of which nothing is known."""
    return _comparison.get().unknown()


def is_known(size: Dim) -> bool:
    """Whether anything is known of a size."""
    return _comparison.get().is_known(size)


def numpy_refuses(why: Refused) -> None:
    """Raises if it is NumPy's function of the name that is called: it refuses what JAX takes."""
    _comparison.get().numpy_refuses(why)


def of_common_rank(arrays: Sequence[Array]) -> list[Array]:
    """Arrays that are of one rank: those of which it is not known have that of the others."""
    ranks = [len(array.shape) for array in arrays if array.shape is not None]
    if not ranks:
        return list(arrays)
    return [of_rank(array, ranks[0]) for array in arrays]


def of_rank(array: Array, rank: int) -> Array:
    """The array, of that rank and unknown sizes where its rank is not known."""
    if array.shape is not None:
        return array
    sizes = tuple(unknown() for _ in range(rank))
    return replace(array, shape=sizes)
