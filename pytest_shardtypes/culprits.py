"""The first annotated value on the way that is wrong on several devices, in which way, and what that tells.

What is compared is the value as the annotation describes it: its parts along the axes of its dimensions, the same on
all devices along the others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pytest_shardtypes.differences import Difference, compare, same
from pytest_shardtypes.intermediates import Coordinates, Host, Recording, Value
from pytest_shardtypes.relations import Relation, relation
from shardtypes.lang.messages import axes_text


@dataclass(frozen=True)
class Unequal:
    """Devices along an axis hold other values though the annotation says that they hold the same; ``relation`` is what
    these are to what one device holds."""

    axis: str
    relation: Relation | None = None

    def __str__(self) -> str:
        return f": devices along {self.axis!r} hold different values, but the annotation says replicated"


@dataclass(frozen=True)
class Copies:
    """Devices along an axis hold the same though the annotation says that each holds a part; ``relation`` is what that
    is to the parts."""

    axis: str
    relation: Relation | None = None

    def __str__(self) -> str:
        return f": devices along {self.axis!r} hold the same values, but the annotation says sharded over {self.axis!r}"


@dataclass(frozen=True)
class Misplaced:
    """Each device holds a part, but not its own; ``held`` and ``own`` are such a part and the place it is at."""

    own: str
    held: str

    def __str__(self) -> str:
        return f": the device at {self.own} holds the shard of {self.held}"


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
    """The first annotated value that is not the same in two recordings; None where none is known.

    A value whose size goes by the number of devices, such as a buffer for what one device holds, cannot be compared:
    it is the culprit only where no other is.
    """
    by_label = {value.label: value for value in many.values}
    sized: Culprit | None = None
    for reference in one.values:
        value = by_label.get(reference.label)
        if value is None:
            continue
        left, right = reference.whole(), value.whole()
        axis = value.unequal_axis(same)
        if axis is not None:
            return Culprit(value.label, Unequal(axis, _relation_along(value, axis, left)))
        if left is None or right is None or len(left) != len(right):
            continue
        for time, (a, b) in enumerate(zip(left, right, strict=True)):
            difference = compare(a, b)
            if difference is None:
                continue
            if difference.shapes is not None and not _is_repeated(difference.shapes, math.prod(value.sizes)):
                sized = sized or Culprit(value.label, difference)
                continue
            return Culprit(value.label, _copies(value, a, time) or _misplaced(value, a, time) or difference)
    return sized


def _is_repeated(shapes: tuple[tuple[int, ...], tuple[int, ...]], count: int) -> bool:
    """Whether one dimension is so many times as long, and the others are the same."""
    expected, found = shapes
    if len(expected) != len(found):
        return False
    unlike = [(a, b) for a, b in zip(expected, found, strict=True) if a != b]
    return len(unlike) == 1 and unlike[0][1] == unlike[0][0] * count


def _relation_along(value: Value, axis: str, whole: list[Host] | None) -> Relation | None:
    """What the values of the devices along an axis are to what they should all hold."""
    if not whole:
        return None
    number = value.axes.index(axis)
    for at, wanted in _parts(value, whole[0]):
        line = [value.parts.get((*at[:number], step, *at[number + 1 :]), []) for step in range(value.sizes[number])]
        if all(line) and not all(same(line[0][0], seen[0]) for seen in line):
            return relation([seen[0] for seen in line], wanted)
    return None


def reason(what: Unequal | Copies | Misplaced | Difference, sizes: Mapping[str, int]) -> str | None:
    """What a wrong value tells about the axes of these sizes; None where it could be anything."""
    axes = axes_text(sizes)
    if isinstance(what, Unequal):
        return _of_unequal(what)
    if isinstance(what, Copies):
        return _of_copies(what)
    if isinstance(what, Misplaced):
        return f"an index along {axes} is wrong, or shards are concatenated in another order"
    n = math.prod(sizes.values())
    if what.shapes is not None and _is_repeated(what.shapes, n):
        return f"a dimension is {n} times as long, the number of devices along {axes}: check out_specs"
    if what.shapes is not None:
        return f"its size depends on the number of devices along {axes}"
    if what.factor is not None and np.isclose(what.factor, n):
        why = "a psum is applied twice or to a replicated value, or a mean divides by the local size"
        return f"{n} is the number of devices along {axes}: {why}"
    if what.factor is not None and np.isclose(what.factor * n, 1):
        why = f"a psum over {axes} is missing, or is a pmean, or the program divides by the number of devices"
        return f"that is 1/{n}: {why}"
    if what.dimension is not None:
        return "shards are concatenated in another order, or along another dimension, than they were split"
    return None


def _of_unequal(what: Unequal) -> str | None:
    found = what.relation
    if found is None:
        return f"they are not partial sums, means, maxima or shards along {what.axis!r} of what one device holds"
    words = f"{found} what one device holds"
    return f"{words}: a {found.collective} over {what.axis!r} is missing" if found.factor == 1 else words


def _of_copies(what: Copies) -> str | None:
    found = what.relation
    if found is None:
        return None
    if found.dimension is not None:
        return f"each holds the whole array: slice it over {what.axis!r}, or remove an all_gather"
    return f"each holds the {found.how} of the shards: remove a {found.collective} over {what.axis!r}"


def replicas_reason(values: Sequence[Host], whole: Host, sizes: Mapping[str, int]) -> str | None:
    """What the copies of a result tell that are not the same; None where they are, or nothing is known."""
    if all(same(values[0], value) for value in values):
        return None
    axes = axes_text(sizes)
    found = relation(values, whole)
    unlike = "its replicas differ"
    if found is None:
        return f"{unlike}, and are not partial sums, means, maxima or shards of what one device gives"
    words = f"{unlike}: {found} what one device gives"
    return f"{words}, so a {found.collective} over {axes} is missing" if found.factor == 1 else words


def unknown_reason(sizes: Mapping[str, int], dependence: str | None) -> str:
    """What is known where the numbers tell nothing."""
    axes = axes_text(sizes)
    known = f"the numbers do not show how it depends on {axes}"
    return known if dependence is None else f"{known}; {dependence}, which may be meant"


def _copies(value: Value, whole: Host, time: int) -> Copies | None:
    wanted = dict(_parts(value, whole))
    for axis in {axis for axes in value.dims for axis in axes}:
        number = value.axes.index(axis)
        lines: dict[Coordinates, list[Coordinates]] = {}
        for at in wanted:
            lines.setdefault(at[:number] + at[number + 1 :], []).append(at)
        alike = all(same(value.parts[line[0]][time], value.parts[at][time]) for line in lines.values() for at in line)
        if alike and not all(same(wanted[line[0]], wanted[at]) for line in lines.values() for at in line):
            line = next(iter(lines.values()))
            return Copies(axis, relation([wanted[at] for at in line], value.parts[line[0]][time]))
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
