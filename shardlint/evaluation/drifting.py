"""Copies of parameters that begin alike on all devices of a ``pmap``, take steps of each device's own, and of which
the program takes one in the end.

Devices may train models of their own, or average them later. Whoever reads the entry of a single device takes it for
all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardlint.evaluation.comparison import Outcome, furthest_apart, numbers_of
from shardlint.evaluation.guards import ITEM
from shardlint.evaluation.recording import Recorder, Where
from shardlint.evaluation.replicas import source_of
from shardlint.evaluation.replication import TAKES_ONE
from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import flatten, paths_of


@dataclass(frozen=True)
class Drifting:
    """A result of a mapped ``function`` that it is given again and that began alike: an entry of the array at ``path``,
    two devices' values of it, the expression that gave it, and where one device's is ``taken``."""

    axis: str
    function: str
    path: str
    index: tuple[int, ...]
    first: float
    second: float
    where: Where
    taken: Where


def drifting(run: Outcome) -> tuple[Drifting, ...]:
    """The first such result along each axis, of a run that is recorded."""
    assert run.recorder is not None
    found: dict[str, Drifting] = {}
    for number, region in enumerate(run.regions):
        if region.stacked is None:
            continue
        (axis,) = region.split
        if axis in found:
            continue
        drifts = _drifts(run, run.recorder, number, axis)
        first = next(drifts, None)
        if first is not None:
            found[axis] = first
    return tuple(found.values())


def _drifts(
    run: Outcome, recorder: Recorder, number: int, axis: str
) -> Iterator[Drifting]:
    region = run.regions[number]
    began_alike = {
        path for path, leaf in _leaves(region.arguments) if _differing(leaf) is None
    }
    own = dict(_leaves(region.places[0]))
    for path, leaf in _leaves(region.results):
        differing = _differing(leaf)
        carried = _carried(run, number, leaf)
        if differing is None or carried is None or carried not in began_alike:
            continue
        inner = own[path]
        taken = _taken(run, recorder, number, path)
        if taken is None or not _is_from_gradients(recorder, inner):
            continue
        source = source_of(recorder, inner, axis)
        if source is not None:
            index, first, second = differing
            name = getattr(region.function, "__name__", "the mapped function")
            yield Drifting(axis, name, path, index, first, second, source.key[0], taken)


def _leaves(tree: Any) -> Iterator[tuple[str, Array]]:
    """The arrays of floats in a tree."""
    leaves, structure = flatten(tree)
    for path, leaf in zip(paths_of(structure), leaves, strict=True):
        if isinstance(leaf, Array) and (leaf.dtype or "").startswith(("float", "bf")):
            yield path, leaf


def _differing(stacked: Array) -> tuple[tuple[int, ...], float, float] | None:
    """An entry that two devices have different values of, where these lie one after another."""
    numbers = numbers_of(stacked)
    if numbers is None:
        return None
    for row in numbers[1:]:
        index = furthest_apart(numbers[0], row)
        if index is not None:
            one, other = complex(numbers[0][index]), complex(row[index])
            return index, one.real, other.real
    return None


def _carried(run: Outcome, number: int, leaf: Array) -> str | None:
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
        if value.what != ITEM and getattr(value.what, "qualname", "") not in TAKES_ONE:
            continue
        (source,) = value.sources
        is_of_result = recorder.values[source].array.value is leaf.value
        if is_of_result and value.array.dims == leaf.dims[1:]:
            return value.key[0]
    return None


def _is_from_gradients(recorder: Recorder, leaf: Array) -> bool:
    """Whether an array was computed from gradients."""
    waiting = list(leaf.sources)
    seen: set[int] = set()
    while waiting:
        number = waiting.pop()
        if number in seen:
            continue
        seen.add(number)
        value = recorder.values[number]
        if value.key[0].backward:
            return True
        waiting.extend(value.sources)
    return False
