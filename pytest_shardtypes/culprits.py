"""The first annotated value on the way that is wrong on several devices, in which way, and what that tells.

What is compared is the value as the annotation describes it: its parts along the axes of its dimensions, the same on
all devices along the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from pytest_shardtypes.differences import Difference, compare, same
from pytest_shardtypes.intermediates import Coordinates, Host, Recording, Value


@dataclass(frozen=True)
class Unequal:
    """Devices along an axis hold other values though the annotation says that they hold the same."""

    axis: str

    def __str__(self) -> str:
        return f": devices along {self.axis} hold other values, and the annotation says that they do not"


@dataclass(frozen=True)
class Copies:
    """Devices along an axis hold the same though the annotation says that each holds a part."""

    axis: str

    def __str__(self) -> str:
        return f": devices along {self.axis} hold the same values, and the annotation says that each holds a part"


@dataclass(frozen=True)
class Misplaced:
    """Each device holds a part, but not its own; ``held`` and ``own`` are such a part and the place it is at."""

    own: str
    held: str

    def __str__(self) -> str:
        return f": the device at {self.own} holds the part that belongs to {self.held}"


@dataclass(frozen=True)
class Culprit:
    """The first annotated value that is wrong, and how."""

    label: str
    what: Unequal | Copies | Misplaced | Difference

    def __str__(self) -> str:
        if isinstance(self.what, Difference):
            return f"{self.label}{str(self.what).removeprefix('result')}"
        return f"{self.label}{self.what}"


def culprit(one: Recording, many: Recording) -> Culprit | None:
    """The first annotated value that is not the same in two recordings; None where none is known."""
    by_label = {value.label: value for value in many.values}
    for reference in one.values:
        value = by_label.get(reference.label)
        if value is None:
            continue
        axis = value.unequal_axis(same)
        if axis is not None:
            return Culprit(value.label, Unequal(axis))
        left, right = reference.whole(), value.whole()
        if left is None or right is None or len(left) != len(right):
            continue
        for time, (a, b) in enumerate(zip(left, right, strict=True)):
            difference = compare(a, b)
            if difference is not None:
                return Culprit(value.label, _copies(value, a, time) or _misplaced(value, a, time) or difference)
    return None


def reason(what: Unequal | Copies | Misplaced | Difference, sizes: Mapping[str, int]) -> str | None:
    """What a wrong value tells about the axes of these sizes; None where it could be anything."""
    axes = " and ".join(sizes)
    if isinstance(what, Unequal):
        return f"a reduction or a gather over {what.axis} is missing"
    if isinstance(what, Copies):
        return f"a reduction or a gather over {what.axis} is one too many"
    if isinstance(what, Misplaced):
        return f"an index along {axes} is wrong, or parts were put together in another order than they were split"
    n = math.prod(sizes.values())
    if what.shapes is not None:
        return f"parts are put together along other dimensions or axes than they were split: see out_specs and {axes}"
    if what.factor is not None and np.isclose(what.factor, n):
        return f"{n} is the number of devices along {axes}: a reduction over it is done twice, or done to a copy"
    if what.factor is not None and np.isclose(what.factor * n, 1):
        return f"that is one part in {n}: a reduction over {axes} is missing, or is a mean where a sum is wanted"
    if what.dimension is not None:
        return "shards are put together in another order, or along another dimension, than they were split"
    return None


def unknown_reason(sizes: Mapping[str, int]) -> str:
    """What to look for where the numbers tell nothing."""
    axes = " and ".join(sizes)
    return f"a reduction over {axes} may be missing (psum, psum_scatter), or one shard taken for the whole"


def _copies(value: Value, whole: Host, time: int) -> Copies | None:
    wanted = dict(_parts(value, whole))
    for axis in {axis for axes in value.dims for axis in axes}:
        number = value.axes.index(axis)
        lines: dict[Coordinates, list[Coordinates]] = {}
        for at in wanted:
            lines.setdefault(at[:number] + at[number + 1 :], []).append(at)
        alike = all(same(value.parts[line[0]][time], value.parts[at][time]) for line in lines.values() for at in line)
        if alike and not all(same(wanted[line[0]], wanted[at]) for line in lines.values() for at in line):
            return Copies(axis)
    return None


def _misplaced(value: Value, whole: Host, time: int) -> Misplaced | None:
    wanted = dict(_parts(value, whole))
    found: Misplaced | None = None
    for at in wanted:
        part = value.parts[at][time]
        if same(wanted[at], part):
            continue
        held = next((other for other in wanted if same(wanted[other], part)), None)
        if held is None:
            return None
        found = found or Misplaced(_place(value, at, held), _place(value, held, at))
    return found


def _place(value: Value, at: Coordinates, other: Coordinates) -> str:
    """The coordinates that tell two places apart."""
    numbers = zip(value.axes, at, other, strict=True)
    return ", ".join(f"{axis}={number}" for axis, number, unlike in numbers if number != unlike)


def _parts(value: Value, whole: Host) -> Iterator[tuple[Coordinates, Host]]:
    """What each device is to hold; nothing where it may hold any summand."""
    if value.pending:
        return
    sizes = dict(zip(value.axes, value.sizes, strict=True))
    for at in np.ndindex(*value.sizes):
        where, part = dict(zip(value.axes, at, strict=True)), whole
        for dim, axes in enumerate(value.dims):
            for axis in axes:
                part = np.split(part, sizes[axis], axis=dim)[where[axis]]
        yield tuple(at), part
