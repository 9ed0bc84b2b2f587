r"""Other ``PartitionSpec``\ s of arguments."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from typing import Any

from shardlint.evaluation.change import Repair
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.recording import Recorded, Where
from shardlint.evaluation.suspects.common import varying_axes


def more_sharded(trace: Trace, led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    """One more dimension that is sharded over the axis, in all PartitionSpecs of a line that are of arguments."""
    for one in led:
        where = trace.many.specs.get(one.number)
        if where is None or one.array.is_sharded(axis):
            continue
        line = _specs_of_line(trace, where)
        first = min(line, key=lambda other: other.place)
        for dimension in range(one.array.rank):
            text = f"dimension {dimension} sharded over {axis!r} here"
            if len(line) > 1:
                text += " and in the other specs of this line"
            function = functools.partial(_sharding, dimension=dimension, axis=axis)
            changed = tuple(line)
            yield Repair(first, text, function=function, changed=changed)


def swapped_entries(
    trace: Trace, led: Iterable[Recorded], axis: str
) -> Iterator[Repair]:
    """Two entries of a PartitionSpec of an argument that change places, one of them with the axis."""
    for one in led:
        where = trace.many.specs.get(one.number)
        sharded = one.array.sharded_dimension(axis)
        if where is None or sharded is None:
            continue
        for other in range(one.array.rank):
            if other == sharded:
                continue
            first, second = sorted((other, sharded))
            text = f"entries {first} and {second} of this spec in the other order"
            function = functools.partial(_swapping, first=first, second=second)
            yield Repair(where, text, function=function)


def other_axes(trace: Trace, led: Iterable[Recorded], axis: str) -> Iterator[Repair]:
    """Another mesh axis in place of this one in a PartitionSpec of an argument, if others are sharded over it still.
    First those over which nothing is sharded: one of them was meant. With none in its place, an argument is replicated,
    and whatever is wrong with its shards goes away."""
    varying = varying_axes(trace)
    others = trace.mesh_axes - {axis}
    unused = sorted(others - varying)
    used = sorted(others & varying)
    many = trace.many
    sharded = set[Where]()
    for number, made in many.specs.items():
        argument = many.values[number]
        if argument.array.is_sharded(axis):
            sharded.add(made)
    for one in led:
        where = many.specs.get(one.number)
        if where not in sharded or len(sharded) == 1:
            continue
        for other in (*unused, *used):
            text = f"{other!r} in place of {axis!r} in this spec"
            function = functools.partial(_replacing, axis=axis, other=other)
            yield Repair(where, text, function=function, is_of_all=True)


def _specs_of_line(trace: Trace, where: Where) -> set[Where]:
    """Where the specs of arguments are made that begin in the line of one."""
    line = where.place[0]
    return {
        other
        for other in trace.many.specs.values()
        if other.path == where.path and other.place[0] == line
    }


def _sharding(function: Any, dimension: int, axis: str) -> Any:
    """``PartitionSpec`` that shards a dimension over one axis more."""

    def spec(*entries: Any, **options: Any) -> Any:
        given = _padded(entries, dimension + 1)
        entry = given[dimension]
        if entry is None:
            given[dimension] = axis
        elif isinstance(entry, (tuple, list)):
            given[dimension] = (*entry, axis)
        else:
            given[dimension] = (entry, axis)
        return function(*given, **options)

    return spec


def _padded(entries: Iterable[Any], rank: int) -> list[Any]:
    """The entries of a spec for at least so many dimensions."""
    given = list(entries)
    while len(given) < rank:
        given.append(None)
    return given


def _swapping(function: Any, first: int, second: int) -> Any:
    """``PartitionSpec`` with two of its entries in each other's place."""

    def spec(*entries: Any, **options: Any) -> Any:
        given = _padded(entries, second + 1)
        given[first], given[second] = given[second], given[first]
        return function(*given, **options)

    return spec


def _replacing(function: Any, axis: str, other: str) -> Any:
    """``PartitionSpec`` with another axis in place of one."""

    def entry(given: Any) -> Any:
        if isinstance(given, (tuple, list)):
            return tuple(other if name == axis else name for name in given)
        return other if given == axis else given

    def spec(*entries: Any, **options: Any) -> Any:
        given = map(entry, entries)
        return function(*given, **options)

    return spec
