"""Where a program departs from what one device computes: the expressions after which nothing is a part, a shard or a
copy of what one device has, all the way to a result that differs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from shardlint.evaluation import relations
from shardlint.evaluation.recording import Recorded, Recorder
from shardtypes.semantics.array import Array
from shardtypes.semantics.relation import Relation


@dataclass(frozen=True)
class Step:
    """One expression, its value on devices and on one, and the relations that hold between the two."""

    devices: Recorded
    alone: Recorded | None
    relations: tuple[Relation, ...] | None

    @property
    def explained(self) -> bool | None:
        """Whether a relation holds; None where that cannot be told."""
        return None if self.relations is None else bool(self.relations)


class Trace:
    """Two runs of one program, side by side: on several devices along one axis, and on one."""

    def __init__(self, devices: Recorder, alone: Recorder, axis: str, counts: tuple[int, int]) -> None:
        self.devices = devices
        self.axis = axis
        self.counts = counts
        self._alone = {one.key: one for one in alone.values if devices.met[one.key[0]] == alone.met[one.key[0]]}
        self._steps: dict[int, Step] = {}

    def step(self, number: int) -> Step:
        """One recorded value of the run on devices, compared."""
        found = self._steps.get(number)
        if found is None:
            found = self._steps[number] = self._compared(self.devices.values[number])
        return found

    def _compared(self, one: Recorded) -> Step:
        twin = self._alone.get(one.key)
        if twin is None:
            return Step(one, None, None)
        held = relations.found(one.array, twin.array, self.axis, self.counts)
        return Step(one, twin, None if held is None else tuple(held))

    def culprits(self, sources: Iterable[int]) -> list[Step]:
        """The steps after which nothing is explained any more, among those that led to values."""
        seen: set[int] = set()
        found: dict[int, Step] = {}
        waiting = list(sources)
        while waiting:
            number = waiting.pop()
            if number in seen:
                continue
            seen.add(number)
            step = self.step(number)
            if step.explained:
                continue
            before = [self.step(source) for source in step.devices.sources]
            if step.explained is False and all(one.explained for one in before):
                found[number] = step
            waiting.extend(step.devices.sources)
        return [found[number] for number in sorted(found)]


def sources_of(array: Array) -> frozenset[int]:
    return array.sources
