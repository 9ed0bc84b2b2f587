"""What is proved of a value: its relation to the value of one device, for all arguments.

For devices at coordinates along the axes, combining the values along ``parts`` gives ``factor`` times the block of the
value of one device that the axes of each dimension choose, major to minor; along all other axes devices hold the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

from shardtypes.proving.relation import Axes, Related, Sizes, related
from shardtypes.semantics.relation import Monoid

Shape = tuple[int, ...]
States: TypeAlias = "list[State | None]"


class Unknown(Exception):
    """Nothing is known of a result; the message says why."""


def refuse(condition: object, why: str) -> None:
    """Raise ``Unknown`` under a condition."""
    if condition:
        raise Unknown(why)


@dataclass(frozen=True)
class State:
    """``whole`` is the shape on one device, ``dims`` the mesh axes of each dimension. Along a ``uniform`` dimension all
    entries are the same, on devices and on one: of what is longer there, the value is any shard. A ``zero`` is a part
    as well."""

    whole: Shape
    dims: tuple[Axes, ...]
    parts: tuple[tuple[str, Monoid], ...] = ()
    factor: Fraction = Fraction(1)
    uniform: frozenset[int] = frozenset()
    zero: bool = False

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def axes(self) -> frozenset[str]:
        """Those that shard a dimension."""
        return frozenset(axis for names in self.dims for axis in names)

    @property
    def over(self) -> frozenset[str]:
        """Those over which it is a part."""
        return frozenset(axis for axis, _ in self.parts)

    @property
    def monoid(self) -> Monoid | None:
        if self.parts:
            return self.parts[0][1]
        return None

    @property
    def plain(self) -> bool:
        """The very value of one device, on every device."""
        return not self.axes and not self.parts and self.factor == 1

    @property
    def exact(self) -> bool:
        """The value or its shards, off by no factor."""
        return not self.parts and self.factor == 1

    def related(self) -> Related:
        """In the words of verdicts."""
        if self.zero:
            return Related(zero=True)
        return related(
            {dim: axes for dim, axes in enumerate(self.dims) if axes},
            dict(self.parts),
            self.factor,
        )


def same(whole: Sequence[int], factor: Fraction = Fraction(1)) -> State:
    return State(tuple(whole), ((),) * len(whole), factor=factor)


def count(axes: Iterable[str], sizes: Sizes) -> int:
    return math.prod(sizes[axis] for axis in axes)


def checked(state: State, local: Shape, sizes: Sizes) -> State:
    """The state, if it fits the shapes on devices and on one. Raises ``Unknown``."""
    refuse(
        len(local) != state.rank or len(state.whole) != state.rank,
        "shapes of different rank",
    )
    named = [axis for names in state.dims for axis in names]
    refuse(
        len(set(named)) != len(named) or not state.over.isdisjoint(named),
        "one axis in two places",
    )
    for dim, (few, many) in enumerate(zip(local, state.whole, strict=True)):
        refuse(
            few * count(state.dims[dim], sizes) != many
            and (dim not in state.uniform or state.dims[dim]),
            f"dimension {dim} has the size {few} on a device, {many} on one",
        )
    return state


def adopted(
    state: State,
    dim: int,
    axes: Axes,
    local: Shape,
    sizes: Sizes,
) -> State:
    """A uniform dimension as the shard that it is beside a sharded one. Raises ``Unknown``."""
    if state.dims[dim] == axes:
        return state
    refuse(dim not in state.uniform or state.dims[dim], "sharded differently")
    taken = set(axes) & (state.axes | state.over)
    refuse(
        taken or local[dim] * count(axes, sizes) != state.whole[dim],
        "sharded differently",
    )
    dims = list(state.dims)
    dims[dim] = axes
    return replace(state, dims=tuple(dims))


def settled(state: State, local: Shape) -> State:
    """A state whose uniform dimensions are whole or sharded. Raises ``Unknown``."""
    for dim in state.uniform:
        refuse(
            not state.dims[dim] and local[dim] != state.whole[dim],
            "a constant dimension whose size depends on the mesh",
        )
    return state


def leveled(states: Sequence[State], sizes: Sizes) -> list[State]:
    """Values to be added: what is the same on n devices is a partial sum of n times that. Raises ``Unknown``."""
    over = {axis for state in states for axis in state.over if not state.zero}
    refuse(
        any(state.monoid not in (None, "sum") for state in states if not state.zero),
        "partial results that are no sums are added",
    )
    found = []
    for state in states:
        more = over - state.over
        if state.zero or not more:
            found.append(state)
            continue
        refuse(more & state.axes, "a partial result and a sharded value are added")
        added = [(axis, _SUM) for axis in more]
        parts = tuple(sorted((*state.parts, *added)))
        factor = state.factor * count(more, sizes)
        found.append(replace(state, parts=parts, factor=factor))
    return found


_SUM: Monoid = "sum"


def joined(a: State, b: State, sizes: Sizes) -> State:
    """What holds of a value that is one of two. Raises ``Unknown``."""
    if a == b:
        return a
    if a.parts != b.parts and not a.zero and not b.zero:
        a, b = leveled([a, b], sizes)
    refuse(a.whole != b.whole, "shapes on one device differ")
    for one, other in ((a, b), (b, a)):
        if one.zero and not other.zero and _fits(one, other):
            return replace(other, uniform=other.uniform & one.uniform)
    uniform = a.uniform & b.uniform
    if (a.dims, a.parts, a.factor) == (b.dims, b.parts, b.factor):
        return replace(a, uniform=uniform, zero=a.zero and b.zero)
    if a.parts == b.parts and a.factor == b.factor and a.zero == b.zero:
        dims = []
        for dim, (left, right) in enumerate(zip(a.dims, b.dims, strict=True)):
            if left == right or (not right and dim in b.uniform):
                dims.append(left)
            elif not left and dim in a.uniform:
                dims.append(right)
            else:
                raise Unknown("sharded differently")
        return replace(a, dims=tuple(dims), uniform=uniform)
    raise Unknown("different relations")


def _fits(zero: State, other: State) -> bool:
    return all(
        mine == his or (not mine and dim in zero.uniform)
        for dim, (mine, his) in enumerate(zip(zero.dims, other.dims, strict=True))
    )


def either(a: State | None, b: State | None, sizes: Sizes) -> State | None:
    """What holds of a value that is one of two; None if nothing is known."""
    if a is None or b is None:
        return None
    try:
        return joined(a, b, sizes)
    except Unknown:
        return None


def row(state: State | None) -> State | None:
    """One row of what a loop goes over."""
    if state is None or state.dims[0]:
        return None
    uniform = frozenset(dim - 1 for dim in state.uniform if dim)
    whole = state.whole[1:]
    dims = state.dims[1:]
    return State(whole, dims, state.parts, state.factor, uniform, state.zero)


def stacked(state: State | None, length: int) -> State | None:
    if state is None:
        return None
    uniform = frozenset(dim + 1 for dim in state.uniform)
    return State(
        (length, *state.whole),
        ((), *state.dims),
        state.parts,
        state.factor,
        uniform,
        state.zero,
    )
