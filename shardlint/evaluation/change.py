"""One small change of a program, at an expression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from shardlint.evaluation.recording import Where


def same(given: Any) -> Any:
    """What is not changed."""
    return given


@dataclass(frozen=True)
class Repair:
    """A change at an expression: of the function that is called there, or of its value. ``text`` says it."""

    where: Where
    text: str
    function: Callable[[Any], Any] = field(compare=False, default=same)
    value: Callable[[Any], Any] = field(compare=False, default=same)
    is_new: bool = False
    """Whether it is a reduction that was not there."""
    is_best: bool = False
    """Whether it is best made there, if anywhere: beside a reduction over other axes, or in a backward rule."""
    is_wider: bool = False
    """Whether it is the largest or the smallest over more axes, which is as good as that over one at the same place."""
    left: frozenset[str] = frozenset()
    """Other results that still depend on the number of devices."""
    changed: tuple[Where, ...] = ()
    """What is changed, if that is not the expression."""
    caller: Where | None = None
    """The call of the function that the expression is in; None in the mapped function itself."""
    argument: tuple[int, str] | None = None
    """The position and the name of the one that is another."""
    other: Repair | None = None
    """Another change that does as well."""
    asks_recorder: bool = False
    """Whether what it does depends on what was recorded before."""
    is_of_all: bool = False
    """Whether it says nothing if other results still depend on the number of devices."""

    @property
    def needs_recorder(self) -> bool:
        """Whether it is made in a run that is recorded alone: a cotangent is known by the value that it is of."""
        return self.asks_recorder or any(where.backward for where in self.changes)

    @property
    def changes(self) -> dict[Where, Repair]:
        """The change at each place that it is made at."""
        return dict.fromkeys(self.changed or (self.where,), self)
