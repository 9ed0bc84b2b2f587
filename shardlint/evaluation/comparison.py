"""Is what a program computes on many devices what it computes on one? Decided in numbers, by running it on both.

Every mapped function that is called gives its results on each mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardlint.evaluation import mapping, meshes, modules
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import Run, running
from shardlint.evaluation.mapping import Region
from shardlint.evaluation.recording import Recorder
from shardlint.evaluation.relations import TOLERANCE
from shardtypes.semantics.array import Array
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.trees import Structure, flatten

Entry = Callable[[modules.World], Any]


@dataclass(frozen=True)
class Outcome:
    """One run: the mapped functions that were called, in order; ``reason`` says why it ended early."""

    regions: tuple[Region, ...]
    machine: meshes.Machine
    recorder: Recorder | None
    reason: str = ""


@dataclass(frozen=True)
class Program:
    """What is run: the sources, and where it begins."""

    find: modules.Find
    entry: Entry
    steps: int

    def run(self, machine: meshes.Machine, record: bool = False, literals: Mapping[Any, int] | None = None) -> Outcome:
        """Run it on a machine of devices."""
        regions: list[Region] = []
        world = modules.World(self.find, literals)
        recorder = Recorder() if record else None
        reason = ""
        with evaluation(), meshes.on_machine(machine), running(Run(self.steps, recorder)), observed(regions):
            try:
                with np.errstate(all="ignore"):
                    self.entry(world)
            except NotEvaluable as error:
                reason = error.reason
            except Exception as error:  # noqa: BLE001 - whatever the program raises
                reason = f"{type(error).__name__}: {error}"
        return Outcome(tuple(regions), machine, recorder, reason)


@contextmanager
def observed(regions: list[Region]) -> Iterator[None]:
    """Collect the regions that are run in the block."""
    mapping.observers.append(regions.append)
    try:
        yield
    finally:
        mapping.observers.pop()


@dataclass(frozen=True)
class Difference:
    """An entry in which two values differ that should be the same: ``path`` leads to the array in a tree."""

    path: str
    index: tuple[int, ...]
    first: float
    second: float


@dataclass(frozen=True)
class Incomparable:
    """Why two values cannot be compared."""

    reason: str


def paths_of(structure: Structure, path: str = "") -> list[str]:
    """The keys to each leaf. Two runs have classes of their own, so kinds of nodes are not compared."""
    if structure.kind is None:
        return [path]
    rows = zip(structure.keys, structure.children, strict=True)
    return [one for key, child in rows for one in paths_of(child, f"{path}.{key}" if path else str(key))]


def numbers_of(leaf: Any) -> Any:
    """The numbers of an array that all devices hold; None for one that differs between them, or is not known."""
    if isinstance(leaf, Array):
        return None if leaf.value is None or leaf.value.axes else leaf.value.at({})
    return np.asarray(leaf) if isinstance(leaf, (int, float, np.ndarray, np.generic)) else None


def differences(first: Any, second: Any) -> list[Difference] | Incomparable:
    """Where two trees differ: the entry of each array that is furthest apart."""
    a, structure = flatten(first)
    b, other = flatten(second)
    if paths_of(structure) != paths_of(other):
        return Incomparable("values of different structure")
    found = []
    for path, one, two in zip(paths_of(structure), a, b, strict=True):
        x, y = numbers_of(one), numbers_of(two)
        if x is None or y is None:
            return Incomparable(f"no numbers at {path}")
        if x.shape != y.shape:
            return Incomparable(f"shapes {x.shape} and {y.shape} at {path}")
        index = _apart(x, y)
        if index is not None:
            found.append(Difference(path, index, complex(x[index]).real, complex(y[index]).real))
    return found


def _apart(x: Any, y: Any) -> tuple[int, ...] | None:
    """Where two arrays are furthest apart, if they differ."""
    if x.dtype.kind not in "fc":
        unequal = np.argwhere(x != y)
        return tuple(int(i) for i in unequal[0]) if len(unequal) else None
    known = np.isfinite(x) & np.isfinite(y)
    distance = np.where(known, np.abs(x - y), 0)
    scale = float(np.max(np.abs(np.where(known, y, 0)), initial=0))
    if float(np.max(distance, initial=0)) <= TOLERANCE * scale:
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), distance.shape))


def sizes_of(outcome: Outcome) -> dict[str, int]:
    """The axes of all meshes that a program made, with the sizes that it wanted."""
    return {name: int(size) for mesh in outcome.machine.made for name, size in zip(mesh.axis_names, mesh.sizes, strict=True)}


def first_difference(one: Outcome, other: Outcome) -> tuple[int, Difference] | Incomparable | None:
    """The first call of a mapped function whose results differ though its arguments agree.

    A negative number stands for what was computed between that call and the one before.
    """
    for k, (region, twin) in enumerate(zip(one.regions, other.regions, strict=False)):
        given = differences(region.arguments, twin.arguments)
        if isinstance(given, Incomparable):
            return given
        if given:
            return -k, given[0]
        results = differences(region.results, twin.results)
        if isinstance(results, Incomparable):
            return results
        if results:
            return k, results[0]
    if len(one.regions) != len(other.regions):
        return Incomparable(one.reason or other.reason or "another number of mapped functions is called")
    return None


