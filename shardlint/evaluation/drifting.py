"""Copies of parameters that begin alike on all devices of a ``pmap``, take steps of each device's own, and of which
the program takes one in the end.

Devices may train models of their own, or average them later. Whoever reads the entry of a single device takes it for
all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardlint.evaluation.comparison import Outcome, numbers_of
from shardlint.evaluation.guards import ITEM
from shardlint.evaluation.recording import Recorder, Where
from shardlint.evaluation.replicas import DevicesDiffer, apart, name_of, source_of
from shardlint.evaluation.replication import TAKES_ONE
from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import flatten, paths_of


@dataclass(frozen=True)
class Drifting(DevicesDiffer):
    """The result is one that the function is given again and that began alike; where one device's is ``taken``."""

    taken: Where


@dataclass(frozen=True)
class _Carried:
    """The same before it is known where the values come from: of the call with this number, the result at ``path``."""

    call: int
    axis: str
    path: str
    index: tuple[int, ...]
    values: tuple[float, float]


def may_drift(run: Outcome) -> bool:
    """Whether some copies that began alike are no longer."""
    return next(_carried(run), None) is not None


def drifting(run: Outcome) -> tuple[Drifting, ...]:
    """The first such result along each axis, of a run that is recorded."""
    assert run.recorder is not None
    found: dict[str, Drifting] = {}
    for one in _carried(run):
        drift = None if one.axis in found else _drifting(run, run.recorder, one)
        if drift is not None:
            found[one.axis] = drift
    return tuple(found.values())


def _carried(run: Outcome) -> Iterator[_Carried]:
    for number, region in enumerate(run.regions):
        if region.stacked is None:
            continue
        (axis,) = region.split
        count = region.stacked
        began_alike = {
            path
            for path, leaf in _leaves(region.arguments)
            if _differing(leaf, count) is None
        }
        for path, leaf in _leaves(region.results):
            differing = _differing(leaf, count)
            if differing is not None and _given_again(run, number, leaf) in began_alike:
                yield _Carried(number, axis, path, *differing)


def _drifting(run: Outcome, recorder: Recorder, one: _Carried) -> Drifting | None:
    region = run.regions[one.call]
    leaf = dict(_leaves(region.places[0]))[one.path]
    taken = _taken(run, recorder, one.call, one.path)
    if taken is None or not _is_from_gradients(recorder, leaf):
        return None
    source = source_of(recorder, leaf, one.axis)
    if source is None:
        return None
    return Drifting(
        one.axis,
        name_of(region.function),
        one.path,
        one.index,
        *one.values,
        source.where,
        taken,
    )


def _leaves(tree: Any) -> Iterator[tuple[str, Array]]:
    """The arrays of floats in a tree."""
    leaves, structure = flatten(tree)
    for path, leaf in zip(paths_of(structure), leaves, strict=True):
        if isinstance(leaf, Array) and (leaf.dtype or "").startswith(("float", "bf")):
            yield path, leaf


def _differing(
    leaf: Array, count: int
) -> tuple[tuple[int, ...], tuple[float, float]] | None:
    """An entry that two devices have different values of, where these lie one after another: not in what all of so many
    devices are given, or one returns for all."""
    numbers = numbers_of(leaf)
    if numbers is None or numbers.shape[:1] != (count,):
        return None
    pairs = (apart(numbers[0], row) for row in numbers[1:])
    return next((pair for pair in pairs if pair is not None), None)


def _given_again(run: Outcome, number: int, leaf: Array) -> str | None:
    """The argument as which a result is given to the same function again."""
    function = run.regions[number].function
    for later in run.regions[number + 1 :]:
        if later.function is not function:
            continue
        for path, argument in _leaves(later.arguments):
            if argument.value is leaf.value:
                return path
    return None


def _taken(run: Outcome, recorder: Recorder, number: int, path: str) -> Where | None:
    """Where the program takes one device's entry of a result, from this call of the function on."""
    function = run.regions[number].function
    for later in run.regions[number:]:
        if later.function is not function:
            continue
        leaf = dict(_leaves(later.results)).get(path)
        taken = None if leaf is None else _item(recorder, leaf)
        if taken is not None:
            return taken
    return None


def _item(recorder: Recorder, leaf: Array) -> Where | None:
    """Where one entry of a result is taken that has the values of all devices one after another."""
    for value in recorder.values:
        if value.is_inside or len(value.sources) != 1:
            continue
        if value.what != ITEM and value.name not in TAKES_ONE:
            continue
        (source,) = value.sources
        is_of_result = recorder.values[source].array.value is leaf.value
        if is_of_result and value.array.dims == leaf.dims[1:]:
            return value.where
    return None


def _is_from_gradients(recorder: Recorder, leaf: Array) -> bool:
    """Whether an array was computed from gradients."""
    led = recorder.led(leaf.sources)
    return any(recorder.values[number].is_backward for number in led)
