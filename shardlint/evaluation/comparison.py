"""Is what a program computes on many devices what it computes on one? Decided in numbers, by running it on meshes of
several sizes.

Every mapped function that is called gives its results on each mesh. Where two meshes agree, the program may be right on
these; where no two agree, though the arguments do, it is wrong on all but one of them at most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardlint.evaluation import mapping, meshes, modules
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import Place, Run, running
from shardlint.evaluation.mapping import Region
from shardtypes.semantics.array import Array
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.trees import Structure, flatten

TOLERANCE = 1e-6  # of the largest entry; all floats are computed in double precision
Entry = Callable[[modules.World], Any]


@dataclass(frozen=True)
class Outcome:
    """One run: the mapped functions that were called, in order; ``reason`` says why it ended early."""

    regions: tuple[Region, ...]
    machine: meshes.Machine
    reason: str = ""
    trace: tuple[tuple[str, Place, Any], ...] = field(default=(), compare=False)


def run(
    find: modules.Find, entry: Entry, machine: meshes.Machine, steps: int, literals: Mapping[modules.Where, int] | None = None
) -> Outcome:
    """Run a program on a machine of devices."""
    regions: list[Region] = []
    world = modules.World(find, literals)
    reason = ""
    with evaluation(), meshes.on_machine(machine), running(Run(steps)), np.errstate(all="ignore"), observed(regions):
        try:
            entry(world)
        except NotEvaluable as error:
            reason = error.reason
        except Exception as error:  # noqa: BLE001 - whatever the program raises
            reason = f"{type(error).__name__}: {error}"
    return Outcome(tuple(regions), machine, reason)


class observed:
    """Collect the regions that are run in the block."""

    def __init__(self, regions: list[Region]) -> None:
        self.regions = regions

    def __enter__(self) -> None:
        mapping.observers.append(self.regions.append)

    def __exit__(self, *args: object) -> None:
        mapping.observers.remove(self.regions.append)


@dataclass(frozen=True)
class Difference:
    """Two results of a mapped function that should be the same: which of its results, and an entry of each."""

    path: str
    index: tuple[int, ...]
    first: float
    second: float


def paths_of(structure: Structure, path: str = "") -> list[str]:
    """The keys to each leaf. Two runs have classes of their own, so kinds of nodes are not compared."""
    if structure.kind is None:
        return [path]
    rows = zip(structure.keys, structure.children, strict=True)
    return [one for key, child in rows for one in paths_of(child, f"{path}.{key}" if path else str(key))]


def numbers_of(leaf: Any) -> Any:
    if isinstance(leaf, Array):
        return None if leaf.value is None or leaf.value.axes else leaf.value.at({})
    return np.asarray(leaf) if isinstance(leaf, (int, float, np.ndarray, np.generic)) else None


def difference(first: Any, second: Any) -> Difference | None | str:
    """The first entry in which two trees differ; None if they agree, a reason if that cannot be told."""
    a, structure = flatten(first)
    b, other = flatten(second)
    if paths_of(structure) != paths_of(other):
        return "values of different structure"
    for path, one, two in zip(paths_of(structure), a, b, strict=True):
        x, y = numbers_of(one), numbers_of(two)
        if x is None or y is None:
            return f"no numbers at {path}"
        if x.shape != y.shape:
            return f"different shapes at {path}: {x.shape}, {y.shape}"
        found = _apart(x, y)
        if found is not None:
            return Difference(path, found, complex(x[found]).real, complex(y[found]).real)
    return None


def _apart(x: Any, y: Any) -> tuple[int, ...] | None:
    """Where two arrays are furthest apart, if they differ."""
    if x.dtype.kind not in "fc":
        unequal = np.argwhere(x != y)
        return tuple(int(i) for i in unequal[0]) if len(unequal) else None
    known = np.isfinite(x) & np.isfinite(y)
    if not np.array_equal(np.isnan(x), np.isnan(y)):
        return None
    distance = np.where(known, np.abs(x - y), 0)
    scale = max(float(np.max(np.abs(np.where(known, y, 0)), initial=0)), 1e-30)
    if float(np.max(distance, initial=0)) <= TOLERANCE * scale:
        return None
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(distance)), distance.shape))


@dataclass(frozen=True)
class Refutation:
    """A mapped function whose results differ on all meshes."""

    region: Region
    number: int
    meshes: tuple[Mapping[str, int], ...]
    difference: Difference


def compare(outcomes: Sequence[Outcome]) -> Refutation | str:
    """The first mapped function that no two runs agree on, or why there is none."""
    count = min(len(outcome.regions) for outcome in outcomes)
    if not count:
        return "no mapped function is called: " + "; ".join(outcome.reason for outcome in outcomes)
    for k in range(count):
        regions = [outcome.regions[k] for outcome in outcomes]
        inputs = [difference(regions[0].arguments, region.arguments) for region in regions[1:]]
        if any(inputs):
            return f"call {k}: the arguments differ: {next(filter(None, inputs))}"
        apart = []
        for i, one in enumerate(regions):
            for two in regions[i + 1 :]:
                apart.append(difference(one.results, two.results))
        if any(isinstance(found, str) for found in apart):
            return str(next(found for found in apart if isinstance(found, str)))
        if all(isinstance(found, Difference) for found in apart):
            first = apart[0]
            assert isinstance(first, Difference)
            return Refutation(regions[0], k, tuple(region.mesh.shape for region in regions), first)
    return ""
