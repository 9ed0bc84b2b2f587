"""Sets of mesh axes, all axes that there may be included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AxisSet:
    """The axes ``names``, or with ``all_but`` every axis except them: which axes a mesh has is not always known."""

    names: frozenset[str] = frozenset()
    all_but: bool = False

    def __contains__(self, axis: str) -> bool:
        return (axis in self.names) != self.all_but

    def __bool__(self) -> bool:
        return self.all_but or bool(self.names)

    def __or__(self, other: AxisSet) -> AxisSet:
        if self.all_but and other.all_but:
            return AxisSet(self.names & other.names, True)
        if self.all_but or other.all_but:
            most, few = (self, other) if self.all_but else (other, self)
            return AxisSet(most.names - few.names, True)
        return AxisSet(self.names | other.names)

    def plus(self, axes: Iterable[str]) -> AxisSet:
        return self | AxisSet(frozenset(axes))

    def minus(self, axes: Iterable[str]) -> AxisSet:
        gone = frozenset(axes)
        return AxisSet(
            self.names | gone if self.all_but else self.names - gone, self.all_but
        )


NO_AXIS = AxisSet()
EVERY_AXIS = AxisSet(all_but=True)
