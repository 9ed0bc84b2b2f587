"""Offsets of shards: positions in a shard that are meant in the whole array, and the other way round."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from shardlint.evaluation.change import Repair
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.recording import Parameter, Recorded, Where
from shardlint.evaluation.suspects.common import at, axis_size, device_index, is_integer
from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import map_leaves

_COUNTS = frozenset({"jax.numpy.arange", "jax.lax.iota"})
_POSITIONS = frozenset({"argmax", "argmin", "argsort", "top_k", "approx_max_k"})


def offsets(departure: Departure, led: Iterable[Recorded]) -> Iterator[Repair]:
    """Positions in a shard that are meant in the whole, and the other way round."""
    axis, trace = departure.axis, departure.evidence.trace
    for one in led:
        counts = one.name in _COUNTS
        if counts and _is_counted_in_shards(trace, one, axis):
            text = f"{_offset_of_shard(axis)} added to this"
            counted = functools.partial(_from_shard_on, axis=axis)
            yield at(one, text, value=counted)
        offset = _offset_of_positions(trace, one, axis)
        if offset is not None:
            text = f"{_offset_of_shard(axis)} added to the positions here"
            yield at(one, text, value=offset)
    size = _indexed_size(departure)
    if size is not None:
        yield from _subtracted(trace, departure.culprit.step.value, axis, size)


def _offset_of_shard(axis: str) -> str:
    return f"the offset of the shard (lax.axis_index({axis!r}) times its size)"


def _offset_of_positions(
    trace: Trace, value: Recorded, axis: str
) -> Callable[[Any], Any] | None:
    """The change that makes the positions of the largest entries of a shard those in the whole array; None if a value
    has no such positions."""
    name = value.name.rpartition(".")[2]
    if name not in _POSITIONS or value.is_backward or len(value.sources) != 1:
        return None
    (source,) = value.sources
    given = trace.many.values[source]
    dimension = trace.step(source).dim
    if dimension is None:
        return None
    local = given.array.dims[dimension]
    if not isinstance(local, int):
        return None
    whole = int(local) * trace.counts[0]
    return functools.partial(_with_offset, axis=axis, whole=whole)


def _with_offset(value: Any, axis: str, whole: int) -> Any:
    """Positions in a shard as those in the whole array, and what else there is beside them as it is."""
    first = _first_of_shard(axis, whole)

    def shifted(leaf: Any) -> Any:
        if not isinstance(leaf, Array):
            return leaf
        dtype = leaf.dtype or ""
        if not dtype.startswith("int"):
            return leaf
        return leaf + first

    return map_leaves(shifted, value)


def _is_counted_in_shards(trace: Trace, value: Recorded, axis: str) -> bool:
    """Whether positions are as many as a shard has entries."""
    if axis in value.given.local:
        return value.array.rank == 1
    twin = trace.twin(value)
    if twin is None or value.array.rank != 1 or twin.array.rank != 1:
        return False
    many, few = trace.counts
    return _entries(value) * many == _entries(twin) * few


def _entries(value: Recorded) -> int:
    (size,) = value.array.dims
    if not isinstance(size, int):
        return 0
    return size


def _from_shard_on(positions: Any, axis: str) -> Any:
    return positions + device_index(axis) * positions.dims[0]


def _indexed_size(departure: Departure) -> int | None:
    """How many entries the sharded dimension has as a whole that is indexed where the runs part."""
    sharded = []
    for one in departure.culprit.operands:
        if one.dim is None:
            continue
        dims = one.value.array.dims
        sharded.append(dims[one.dim])
    if len(sharded) != 1:
        return None
    (local,) = sharded
    if not isinstance(local, int):
        return None
    return int(local) * departure.counts[0]


def _subtracted(
    trace: Trace, indexed: Recorded, axis: str, size: int
) -> Iterator[Repair]:
    """Indices that functions are given which led to one, the innermost functions first."""
    led = {one.number for one in trace.led([indexed.number]) if is_integer(one)}
    for parameter, numbers in reversed(trace.many.passed.items()):
        if numbers.isdisjoint(led):
            continue
        use = _first_use(trace, parameter, numbers)
        if use is None:
            continue
        text = f"{_offset_of_shard(axis)} subtracted from {parameter.name}"
        function = functools.partial(
            _with_local_positions, name=parameter.name, axis=axis, size=size
        )
        change = at(use, text, function=function)
        definition = Where.of_definition(parameter.code)
        yield replace(change, changed=(definition,))


def _first_use(
    trace: Trace, parameter: Parameter, numbers: set[int]
) -> Recorded | None:
    """The first expression in a function that computes something of a parameter."""
    lines = {line for _, _, line in parameter.code.co_lines()}
    inside: list[Recorded] = []
    for one in trace.many.values:
        where = one.where
        is_there = where.path == parameter.code.co_filename and where.place[0] in lines
        if is_there and not where.backward and one.sources & numbers:
            inside.append(one)
    return min(inside, key=lambda one: one.where.place, default=None)


def _with_local_positions(function: Any, name: str, axis: str, size: int) -> Any:
    """The function, which is given a parameter as it counts in the shard."""
    position = function.__code__.co_varnames.index(name)

    def shifted(*args: Any, **kwargs: Any) -> Any:
        given = list(args)
        if position < len(given):
            given[position] = _in_shard(given[position], axis, size)
        if name in kwargs:
            kwargs[name] = _in_shard(kwargs[name], axis, size)
        return function(*given, **kwargs)

    return shifted


def _in_shard(positions: Any, axis: str, size: int) -> Any:
    return positions - _first_of_shard(axis, size)


def _first_of_shard(axis: str, whole: int) -> Any:
    """Where a device's shard begins in a dimension of some size."""
    return device_index(axis) * (whole // axis_size(axis))
