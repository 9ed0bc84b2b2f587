"""What the engine saw of collectives in one analysis, kept where somebody asks what a function sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from shardlint import ir
from shardlint.values import ArrayValue
from shardtypes.lang import Size
from shardtypes.lang.frozen import frozen

Place: TypeAlias = tuple[str, int]
"""A module and a node in it."""


@frozen
class Sent:
    """One collective of an array, which has global sizes. ``rounds`` are the lengths of the loops around it, outermost
    first, None where one is not known; ``base`` is the function whose evaluation met it, ``own`` if it is
    in that itself and not in what it calls."""

    collective: str
    axes: tuple[str, ...]
    operand: ArrayValue
    rounds: tuple[Size | None, ...]
    place: Place
    base: ir.Function | ir.Lambda
    own: bool


@frozen
class Left:
    """A place of which it is not known what it sends, and why."""

    place: Place
    why: str
    base: ir.Function | ir.Lambda
    of_gradient: bool = False
    """It is what a gradient sends."""


@dataclass
class Recorder:
    """What was seen. One call that is evaluated again, as in loops that have to become stable, is seen once."""

    sent: dict[tuple[Any, ...], Sent] = field(default_factory=dict)
    left: dict[Left, None] = field(default_factory=dict)
    mapped: dict[Left, None] = field(default_factory=dict)
    """Calls of functions that map themselves over devices, from where nothing is."""
    outside: set[int] = field(default_factory=set)
    """The functions, by their nodes, that were evaluated as code which is not manual."""
    around: list[tuple[object, Size | None]] = field(default_factory=list)

    def calls_of(self, base: ir.Function | ir.Lambda) -> set[object]:
        """The places of calls, by a function or by what it calls, in which a collective was seen."""
        found: set[object] = set()
        for (calls, *_), one in self.sent.items():
            if one.base is base:
                found.update(calls)
        return found

    @contextmanager
    def repeated(self, where: object, rounds: Size | None) -> Iterator[None]:
        """In the block, what is seen runs so many times."""
        self.around.append((where, rounds))
        try:
            yield
        finally:
            self.around.pop()
