"""Results that ``out_specs`` gives as replicated, and of which devices hold different values.

JAX proves that there are none where ``check_vma`` is on, and takes the value of some device where it is off.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardlint.evaluation.comparison import Outcome, furthest_apart
from shardlint.evaluation.guards import ITEM
from shardlint.evaluation.mapping import replicated_axes
from shardlint.evaluation.recording import Recorded, Recorder, Where
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.collectives import collectives
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.trees import flatten, paths_of

#: Of more places on the way to a result a reader learns nothing.
MOST_PLACES = 2
_COLLECTIVES = collectives("combines", "exchanges")
_REDUCTIONS = frozenset({"jax.lax.psum", "jax.lax.pmean"})


@dataclass(frozen=True)
class DevicesDiffer:
    """A result of a mapped ``function`` of which devices along an ``axis`` have different values: an entry of the array
    at ``path``, two devices' values of it, and the expression that gave it."""

    axis: str
    function: str
    path: str
    index: tuple[int, ...]
    first: float
    second: float
    where: Where


@dataclass(frozen=True)
class Unequal(DevicesDiffer):
    """The result should be the same. ``selects`` tells that it comes from an entry that was indexed out of a value
    which differs: devices may be given the same, one after another. ``calls`` are the lines, by file, in which the
    mapped function is called, ``begun`` the expression with which the difference begins, if it is another one,
    ``collapsed`` those which make of shards what is none any more, and ``elsewhere`` the one reduction on the way, over
    other axes."""

    selects: bool
    calls: frozenset[tuple[str, int]]
    begun: Where | None
    collapsed: tuple[Where, ...]
    elsewhere: Where | None


@dataclass(frozen=True)
class _Found:
    """The same, with the number of the mapped call and of the array among its results."""

    region: int
    leaf: int
    axis: str
    path: str
    index: tuple[int, ...]
    values: tuple[float, float]


def has_unequal(run: Outcome) -> bool:
    """Whether some result is given as replicated and is not."""
    return next(_unequal(run), None) is not None


def unequal_results(
    run: Outcome, region: int, but_along: str | None = None
) -> frozenset[str]:
    """The results of one call of a mapped function that are given as replicated and are not, along any axis but one."""
    found = (one for one in _unequal(run) if one.region == region)
    return frozenset(one.path for one in found if one.axis != but_along)


def unequal(run: Outcome) -> tuple[Unequal, ...]:
    """The first such result along each axis, of a run that is recorded."""
    assert run.recorder is not None
    found: dict[str, Unequal] = {}
    for one in _unequal(run):
        if one.axis in found:
            continue
        region = run.regions[one.region]
        leaf = flatten(region.places[0])[0][one.leaf]
        source = source_of(run.recorder, leaf, one.axis)
        if source is None:
            continue
        name = name_of(region.function)
        selects = _selects(run.recorder, leaf, one.axis)
        found[one.axis] = Unequal(
            one.axis,
            name,
            one.path,
            one.index,
            *one.values,
            source.where,
            selects,
            _calls(run.recorder, leaf),
            _begun(run.recorder, source, one.axis),
            _collapsed(run.recorder, leaf, source, one.axis),
            reduced_elsewhere(run.recorder, leaf, one.axis),
        )
    return tuple(found.values())


def _calls(recorder: Recorder, leaf: Array) -> frozenset[tuple[str, int]]:
    """The lines of the calls of mapped functions that an array was computed in."""
    led = recorder.led(leaf.sources)
    calls = [recorder.calls[number] for number in led if number in recorder.calls]
    return frozenset((one.path, one.place[0]) for one in calls)


def _begun(recorder: Recorder, source: Recorded, axis: str) -> Where | None:
    """The one expression that made what differs along an axis of what does not; None if it is the source itself, if
    there are several, or where arguments differ."""
    led = [recorder.values[number] for number in recorder.led([source.number])]
    differing = [one for one in led if _differs(one, axis)]
    first = [
        one
        for one in differing
        if not any(_differs(recorder.values[n], axis) for n in one.sources)
    ]
    places = {one.where for one in first}
    if len(places) != 1 or source.where in places:
        return None
    return None if first[0].is_argument else places.pop()


def _collapsed(
    recorder: Recorder, leaf: Array, source: Recorded, axis: str
) -> tuple[Where, ...]:
    """The expressions that make of shards along an axis what is none any more, on the way to an array, but for its
    source. None where there are many."""
    places: dict[Where, None] = {}
    for number in sorted(_led_differing(recorder, leaf, axis)):
        one = recorder.values[number]
        if one.is_argument or not one.is_inside or one.array.is_sharded(axis):
            continue
        operands = [recorder.values[each] for each in one.sources]
        differing = [each for each in operands if _differs(each, axis)]
        # of what is computed for each example, it is not known which dimension they are
        dimensions = [each.array.sharded_dimension(axis) for each in differing]
        if _differs(one, axis) and differing and None not in dimensions:
            places[one.where] = None
    places.pop(source.where, None)
    return tuple(places) if len(places) <= MOST_PLACES else ()


def _led_differing(recorder: Recorder, leaf: Array, axis: str) -> set[int]:
    """What an array was computed from, without what led to values that are the same along an axis."""
    return recorder.led(
        leaf.sources, lambda one: _differs(one, axis) and not one.is_argument
    )


def reduced_elsewhere(recorder: Recorder, leaf: Array, axis: str) -> Where | None:
    """The one reduction over other axes that what differs along an axis came through; None if there are several."""
    led = _led_differing(recorder, leaf, axis)
    places = {
        one.where
        for one in map(recorder.values.__getitem__, led)
        if _differs(one, axis) and _is_over_others(one, axis)
    }
    return places.pop() if len(places) == 1 else None


def _is_over_others(value: Recorded, axis: str) -> bool:
    names = value.given.names
    is_reduction = value.name in _REDUCTIONS
    return is_reduction and bool(names) and axis not in names


def _unequal(run: Outcome) -> Iterator[_Found]:
    for number, region in enumerate(run.regions):
        leaves, structure = flatten(region.places[0])
        paths = paths_of(structure)
        replicated = replicated_axes(region)
        for position, (leaf, axes) in enumerate(zip(leaves, replicated, strict=True)):
            if not isinstance(leaf, Array) or leaf.value is None:
                continue
            for axis in axes:
                differing = _differing(leaf.value, axis)
                if differing is not None:
                    index, values = differing
                    yield _Found(number, position, axis, paths[position], index, values)


def _differing(
    value: Simulated, axis: str
) -> tuple[tuple[int, ...], tuple[float, float]] | None:
    """An entry that devices along an axis have different values of, and two of these; None where they agree."""
    size = dict(value.axes).get(axis)
    if size is None:
        return None
    devices = value.devices((axis, size))
    for device in devices[1:]:
        for one, other in zip(devices[0].parts, device.parts, strict=True):
            found = apart(np.asarray(one), np.asarray(other))
            if found is not None:
                return found
    return None


def apart(one: Any, other: Any) -> tuple[tuple[int, ...], tuple[float, float]] | None:
    """The entry in which what two devices have is furthest apart, with their values of it; None where they agree."""
    index = furthest_apart(one, other)
    if index is None:
        return None
    return index, (complex(one[index]).real, complex(other[index]).real)


def name_of(function: Any) -> str:
    """What a mapped function is called in messages."""
    name: str = getattr(function, "__name__", "the mapped function")
    return name


def source_of(recorder: Recorder, leaf: Array, axis: str) -> Recorded | None:
    """The expression at which a reduction over the axis is missing, or the one that gave the array.

    What differs is followed back as long as it is computed from one value that differs: through sums of parameters and
    updates to the gradient, to a collective over other axes or to where the gradient comes from.
    """
    if len(leaf.sources) != 1:
        return None
    (number,) = leaf.sources
    current = recorder.values[number]
    while not _is_collective(current):
        operands = [recorder.values[source] for source in current.sources]
        differing = [one for one in operands if _differs(one, axis)]
        if len(differing) != 1 or differing[0].is_backward:
            break
        before = differing[0].array
        made = current.array
        is_alike = (before.rank, before.dtype) == (made.rank, made.dtype)
        if not is_alike or before.is_sharded(axis):
            break
        current = differing[0]
    return current


def _is_collective(value: Recorded) -> bool:
    return value.name.rpartition(".")[2] in _COLLECTIVES


def _selects(recorder: Recorder, leaf: Array, axis: str) -> bool:
    """Whether an entry is indexed out of something that differs along the axis, on the way to the array."""
    seen: set[int] = set()
    waiting = list(leaf.sources)
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        seen.add(number)
        current = recorder.values[number]
        differing = [
            one
            for one in map(recorder.values.__getitem__, current.sources)
            if _differs(one, axis)
        ]
        if current.what == ITEM and any(
            one.array.rank > current.array.rank for one in differing
        ):
            return True
        waiting += [one.number for one in differing]
    return False


def _differs(value: Recorded, axis: str) -> bool:
    return value.array.value is not None and value.array.value.varies_along(axis)
