"""What an array sends on its way from one layout to another, in the steps in which XLA goes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from shardtypes.proving.relation import Axes, Sizes


@dataclass(frozen=True)
class Placed:
    """The mesh axes of each dimension, major to minor; and the partial sums, the axes of each that is reduced at
    once."""

    dims: tuple[Axes, ...]
    pending: tuple[Axes, ...] = ()

    @property
    def axes(self) -> frozenset[str]:
        """Those that shard a dimension."""
        return frozenset(axis for axes in self.dims for axis in axes)

    def over(self, sizes: Sizes) -> Placed:
        """As it is over these axes alone, without those of one device."""
        return Placed(_kept(self.dims, sizes), _kept(self.pending, sizes))

    def parts(self, sizes: Sizes) -> int:
        """Into how many parts it is split."""
        return math.prod(_counts(self, sizes))


def _kept(groups: tuple[Axes, ...], sizes: Sizes) -> tuple[Axes, ...]:
    return tuple(
        tuple(axis for axis in axes if sizes.get(axis, 1) > 1) for axes in groups
    )


@dataclass(frozen=True)
class Move:
    """One collective: ``held`` bytes of its operand are on each of the ``devices`` that talk with each other."""

    collective: str
    axes: Axes
    held: Fraction
    devices: int


def resharding(size: int, before: Placed, after: Placed, sizes: Sizes) -> list[Move]:
    """The collectives that bring an array of ``size`` bytes in all from one layout to another."""
    before = before.over(sizes)
    after = after.over(sizes)
    moves, before = _reduced(size, before, after, sizes)
    return [*moves, *_moved(size, before, after, sizes)]


def _reduced(
    size: int, before: Placed, after: Placed, sizes: Sizes
) -> tuple[list[Move], Placed]:
    """The partial sums are added up, to shards where the result is sharded."""
    moves = []
    kept = {axis for axes in after.pending for axis in axes}
    for group in before.pending:
        axes = tuple(axis for axis in group if axis not in kept)
        if not axes:
            continue
        held = Fraction(size, before.parts(sizes))
        devices = math.prod(sizes[axis] for axis in axes)
        scattered = _scattered(before, after, axes)
        if scattered is None:
            moves.append(Move("psum", axes, held, devices))
        else:
            moves.append(Move("reduce_scatter", axes, held, devices))
            before = scattered
    return moves, replace(before, pending=after.pending)


def _scattered(before: Placed, after: Placed, axes: Axes) -> Placed | None:
    """The layout after a sum over these axes is left in shards along them; None where it is needed whole."""
    for dim, (own, wanted) in enumerate(zip(before.dims, after.dims, strict=True)):
        if wanted[: len(own) + len(axes)] == (*own, *axes):
            dims = list(before.dims)
            dims[dim] = (*own, *axes)
            return replace(before, dims=tuple(dims))
    return None


def _counts(placed: Placed, sizes: Sizes) -> list[int]:
    return [math.prod(sizes[axis] for axis in axes) for axes in placed.dims]


def _moved(size: int, before: Placed, after: Placed, sizes: Sizes) -> Iterator[Move]:
    if _extends(after, before):
        return  # each device takes a slice of what it has
    old = _counts(before, sizes)
    new = _counts(after, sizes)
    if _divide(new, old):
        # each device slices what it has as the result is sliced, and gives it to the device that wants it
        held = Fraction(size, math.prod(new))
        yield Move("ppermute", _changed(before, after), held, math.prod(new))
    elif _divide(old, new):
        held = Fraction(size, math.prod(old))
        if not _extends(before, after):
            yield Move("ppermute", _changed(before, after), held, math.prod(old))
        yield from _gathered(before, after, held, old, new)
    else:
        yield from _exchanged(size, before, after, sizes)


def _extends(longer: Placed, shorter: Placed) -> bool:
    """Whether each dimension is sharded as that of another layout, and perhaps further."""
    return all(
        more[: len(less)] == less
        for more, less in zip(longer.dims, shorter.dims, strict=True)
    )


def _divide(multiples: list[int], counts: list[int]) -> bool:
    return all(
        multiple % count == 0 for multiple, count in zip(multiples, counts, strict=True)
    )


def _changed(before: Placed, after: Placed) -> Axes:
    """The axes of the dimensions that are sharded otherwise."""
    found: dict[str, None] = {}
    for own, wanted in zip(before.dims, after.dims, strict=True):
        if own != wanted:
            found.update(dict.fromkeys((*own, *wanted)))
    return tuple(found)


def _gathered(
    before: Placed, after: Placed, held: Fraction, old: list[int], new: list[int]
) -> Iterator[Move]:
    """The dimensions one after another, the last one first: what it gathers, those before it gather as well."""
    for dim in reversed(range(len(old))):
        count = old[dim] // new[dim]
        if count > 1:
            left = tuple(
                axis for axis in before.dims[dim] if axis not in after.dims[dim]
            )
            yield Move("all_gather", left or before.dims[dim], held, count)
            held *= count


def _exchanged(
    size: int, before: Placed, after: Placed, sizes: Sizes
) -> Iterator[Move]:
    """Axes of which the result has nothing are gathered, then those of other dimensions exchanged."""
    held = Fraction(size, before.parts(sizes))
    for own in reversed(before.dims):
        gone = tuple(axis for axis in own if axis not in after.axes)
        count = math.prod(sizes[axis] for axis in gone)
        if count > 1:
            yield Move("all_gather", gone, held, count)
            held *= count
    for own, wanted in zip(before.dims, after.dims, strict=True):
        moved = tuple(axis for axis in own if axis in after.axes - set(wanted))
        count = math.prod(sizes[axis] for axis in moved)
        if count > 1:
            yield Move("all_to_all", moved, held, count)
