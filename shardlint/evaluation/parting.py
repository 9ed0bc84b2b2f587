"""Two recorded runs of a program, with many devices along an axis and with few, up to where they part."""

from __future__ import annotations

import functools
from collections.abc import Collection
from dataclasses import dataclass

from shardlint.evaluation.comparison import (
    Difference,
    Outcome,
    Program,
    Resized,
    padded_lengths,
)
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.mapping import Region
from shardlint.evaluation.other_meshes import (
    DEVICES,
    OtherRun,
    is_meant,
    refuting_run,
)
from shardtypes.semantics.array import Array
from shardtypes.semantics.trees import leaf_at

OWN = "its results are meant to be each device's own"


@dataclass(frozen=True)
class Parting:
    """Two recorded runs, with ``many`` devices along an axis and with ``few``, up to that call of a mapped function
    after which they part, which has this ``number``."""

    program: Program
    declared: Outcome
    other: OtherRun
    axis: str
    many: Outcome
    few: Outcome
    number: int

    @property
    def region(self) -> Region:
        return self.many.regions[self.number]

    @property
    def twin(self) -> Region:
        return self.few.regions[self.number]

    def is_own(self, difference: Difference | Resized) -> bool:
        """Whether a result depends on what each device draws for itself."""
        results = [result_of(one, difference) for one in (self.region, self.twin)]
        if not any(one is not None and self.axis in one.own for one in results):
            return False
        return results[0] is None or self.trace.has_own(results[0].sources)

    @functools.cached_property
    def trace(self) -> Trace:
        """Both runs, side by side."""
        return trace_of(self.many, self.few, self.axis)

    @functools.cached_property
    def is_refuted(self) -> bool:
        """Whether the program itself asserts what holds with one device along the axis, and fails: whatever depends on
        their number is not meant then."""
        if self.other.is_refuting or not self.program.excuses:
            return True
        return refuting_run(self.program, self.declared, self.axis) is not None

    def refutes(self, excuse: str) -> bool:
        """Whether the program itself says that this is no reason. Of what devices draw for themselves that is not
        known: on one device there is nothing to tell them apart."""
        return excuse != OWN and self.is_refuted

    @functools.cached_property
    def is_meant(self) -> bool:
        """Whether another number in the program's text may stand for the size of the mesh, too."""
        return not self.is_refuted and is_meant(
            self.program, self.declared, self.other, self.axis
        )

    def undoes(self, sources: Collection[int]) -> bool:
        """Whether the program takes out the factor itself, outside of the mapped function, that values are off by."""
        return _is_undone(self.program, self.other, self.axis, sources)


def trace_of(many: Outcome, few: Outcome, axis: str) -> Trace:
    """Two recorded runs, side by side."""
    assert many.recorder is not None and few.recorder is not None
    counts = many.sizes[axis], few.sizes[axis]
    pairs = zip(many.regions, few.regions, strict=False)
    padded = frozenset(pair for both in pairs for pair in padded_lengths(*both))
    return Trace(
        many.recorder, few.recorder, axis, counts, frozenset(many.sizes), padded
    )


def result_of(region: Region, difference: Difference | Resized) -> Array | None:
    """The array that differs, as the devices have it."""
    leaf = leaf_at(region.places[0], difference.path)
    return leaf if isinstance(leaf, Array) else None


def _is_undone(
    program: Program, other: OtherRun, axis: str, sources: Collection[int]
) -> bool:
    """Whether the program itself takes out the factor that values are off by, outside of the mapped function."""
    few = program.run(other.setting.devices, other.setting.literals, record=True)
    many = program.run(DEVICES, record=True)
    return not program.allowance.is_spent and trace_of(many, few, axis).is_undone(
        sources
    )
