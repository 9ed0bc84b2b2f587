"""What an array sends on its way from one layout to another, in the steps in which XLA goes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from shardtypes.meshes import parts_of
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
        return math.prod(self.counts(sizes))

    def counts(self, sizes: Sizes) -> list[int]:
        """Into how many parts each dimension is split."""
        return [parts_of(axes, sizes) for axes in self.dims]


def _kept(groups: tuple[Axes, ...], sizes: Sizes) -> tuple[Axes, ...]:
    found = []
    for axes in groups:
        kept = tuple(axis for axis in axes if sizes.get(axis, 1) > 1)
        found.append(kept)
    return tuple(found)


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
        devices = parts_of(axes, sizes)
        scattered = _scattered(before, after, axes)
        if scattered is None:
            collective = "psum"
        else:
            collective = "reduce_scatter"
            before = scattered
        moves.append(
            Move(
                collective=collective,
                axes=axes,
                held=held,
                devices=devices,
            )
        )
    return moves, replace(before, pending=after.pending)


def _scattered(before: Placed, after: Placed, axes: Axes) -> Placed | None:
    """The layout after a sum over these axes is left in shards along them; None where it is needed whole."""
    dims = list(before.dims)
    for dim, wanted in enumerate(after.dims):
        made = (*before.dims[dim], *axes)
        if wanted[: len(made)] == made:
            dims[dim] = made
            return replace(before, dims=tuple(dims))
    return None


def _moved(size: int, before: Placed, after: Placed, sizes: Sizes) -> Iterator[Move]:
    if _extends(after, before):
        return  # each device takes a slice of what it has
    old = before.counts(sizes)
    new = after.counts(sizes)
    if _divide(new, old):
        # each device slices what it has as the result is sliced, and gives it to the device that wants it
        devices = math.prod(new)
        held = Fraction(size, devices)
        yield Move(
            collective="ppermute",
            axes=_changed(before, after),
            held=held,
            devices=devices,
        )
    elif _divide(old, new):
        devices = math.prod(old)
        held = Fraction(size, devices)
        if not _extends(before, after):
            yield Move(
                collective="ppermute",
                axes=_changed(before, after),
                held=held,
                devices=devices,
            )
        yield from _gathered(before, after, held, old, new)
    else:
        yield from _exchanged(size, before, after, sizes)


def _extends(longer: Placed, shorter: Placed) -> bool:
    """Whether each dimension is sharded as that of another layout, and perhaps further."""
    pairs = zip(longer.dims, shorter.dims, strict=True)
    return all(more[: len(less)] == less for more, less in pairs)


def _divide(multiples: list[int], counts: list[int]) -> bool:
    pairs = zip(multiples, counts, strict=True)
    return all(multiple % count == 0 for multiple, count in pairs)


def _changed(before: Placed, after: Placed) -> Axes:
    """The axes of the dimensions that are sharded otherwise."""
    found: dict[str, None] = {}
    for own, wanted in zip(before.dims, after.dims, strict=True):
        if own != wanted:
            axes = (*own, *wanted)
            found.update(dict.fromkeys(axes))
    return tuple(found)


def _gathered(
    before: Placed, after: Placed, held: Fraction, old: list[int], new: list[int]
) -> Iterator[Move]:
    """The dimensions one after another, the last one first: what it gathers, those before it gather as well."""
    for dim in reversed(range(len(old))):
        count = old[dim] // new[dim]
        if count > 1:
            own = before.dims[dim]
            gone = tuple(axis for axis in own if axis not in after.dims[dim])
            yield Move(
                collective="all_gather",
                axes=gone or own,
                held=held,
                devices=count,
            )
            held *= count


def _exchanged(
    size: int, before: Placed, after: Placed, sizes: Sizes
) -> Iterator[Move]:
    """Axes of which the result has nothing are gathered, then those of other dimensions exchanged."""
    held = Fraction(size, before.parts(sizes))
    for own in reversed(before.dims):
        gone = tuple(axis for axis in own if axis not in after.axes)
        count = parts_of(gone, sizes)
        if count > 1:
            yield Move(
                collective="all_gather",
                axes=gone,
                held=held,
                devices=count,
            )
            held *= count
    for own, wanted in zip(before.dims, after.dims, strict=True):
        elsewhere = after.axes - set(wanted)
        moved = tuple(axis for axis in own if axis in elsewhere)
        count = parts_of(moved, sizes)
        if count > 1:
            yield Move(
                collective="all_to_all",
                axes=moved,
                held=held,
                devices=count,
            )
