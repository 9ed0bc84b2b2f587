"""What a function costs: its rows, in words and as data."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from shardlint.costing.formula import Formula, summed
from shardtypes.lang.columns import in_columns
from shardtypes.lang.frozen import frozen
from shardtypes.lang.messages import axes_text, sizes_text

#: Of an array of which nothing is known.
NOT_ANNOTATED = "not annotated"
#: Of the data that is written; another one is not read.
VERSION = 1


@frozen
class Held:
    """One array that goes in or comes out, and the bytes that each device holds of it; None where its shape or dtype is
    not known. ``split`` tells whether a mesh axis splits it, None where nothing says so. ``cuts`` are the sizes of the
    dimensions that mesh axes split, on each device."""

    name: str
    array: str
    held: Formula | None
    split: bool | None
    cuts: tuple[Formula, ...] = ()


@frozen
class Moved:
    """A collective on a line: the bytes that each device sends, in all rounds of the loops around it that are known.
    None where its operand's shape or dtype is not known. ``at_least`` where a loop is not known."""

    collective: str
    axes: tuple[str, ...]
    line: int
    file: str
    sent: Formula | None
    at_least: bool


@frozen
class Cost:
    """What a function costs on a mesh. ``uncounted`` are places, ``file:line``, and what is not known of them."""

    function: str
    mesh: Mapping[str, int]
    sizes: Mapping[str, int]
    arguments: tuple[Held, ...]
    results: tuple[Held, ...]
    moved: tuple[Moved, ...]
    uncounted: tuple[tuple[str, str], ...]

    @property
    def held(self) -> list[Formula]:
        """What each array holds, as far as it is known."""
        found = []
        for row in (*self.arguments, *self.results):
            if row.held is not None:
                found.append(row.held)
        return found

    @property
    def sent(self) -> list[Formula]:
        """What each collective sends, as far as it is known."""
        found = []
        for row in self.moved:
            if row.sent is not None:
                found.append(row.sent)
        return found

    def missing(self, formulas: Iterable[Formula]) -> list[str]:
        """The sizes that are named there and not given."""
        return sorted(_symbols(formulas) - self.sizes.keys())

    @property
    def named(self) -> list[str]:
        """The sizes that are named, given or not."""
        return sorted(_symbols([*self.held, *self.sent]))

    def bytes_of(self, formula: Formula | None) -> int | None:
        """In bytes; None where that takes a size that is not given."""
        if formula is None:
            return None
        return self.total([formula])

    def total(self, formulas: Iterable[Formula]) -> int | None:
        """The sum in bytes; None where that takes a size that is not given."""
        total = Fraction(0)
        for formula in formulas:
            value = formula.value(self.sizes, self.mesh)
            if value is None:
                return None
            total += value
        return math.ceil(total)

    @property
    def whole(self) -> list[Held]:
        """The arrays that every one of several devices holds whole."""
        if math.prod(self.mesh.values()) == 1:
            return []
        found = []
        for row in (*self.arguments, *self.results):
            if row.split is False:
                found.append(row)
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain data, which ``--write`` keeps."""
        return {
            "version": VERSION,
            "function": self.function,
            "mesh": dict(self.mesh),
            "sizes": dict(self.sizes),
            "held": self._total(self.held, self._knows_held),
            "moved": self._total(self.sent, self._knows_sent),
            "arguments": list(map(self._held, self.arguments)),
            "results": list(map(self._held, self.results)),
            "collectives": list(map(self._moved, self.moved)),
            "uncounted": list(map(list, self.uncounted)),
        }

    @property
    def _knows_held(self) -> bool:
        return len(self.held) == len(self.arguments) + len(self.results)

    @property
    def _knows_sent(self) -> bool:
        return len(self.sent) == len(self.moved) and not self.uncounted

    def _total(self, formulas: Sequence[Formula], is_all: bool) -> dict[str, Any]:
        return {
            "formula": summed(formulas),
            "bytes": self.total(formulas),
            "complete": is_all,
        }

    def _held(self, row: Held) -> dict[str, Any]:
        return {
            "name": row.name,
            "array": row.array,
            "formula": None if row.held is None else str(row.held),
            "bytes": self.bytes_of(row.held),
            "split": row.split,
        }

    def _moved(self, row: Moved) -> dict[str, Any]:
        return {
            "collective": row.collective,
            "axes": list(row.axes),
            "file": row.file,
            "line": row.line,
            "formula": None if row.sent is None else str(row.sent),
            "bytes": self.bytes_of(row.sent),
            "at_least": row.at_least,
        }

    def __str__(self) -> str:
        mesh = sizes_text(self.mesh)
        lines = [f"{self.function} on {mesh}, bytes on each device"]
        for title, rows in (("arguments", self.arguments), ("results", self.results)):
            own = [row.held for row in rows if row.held is not None]
            lines.append(f"  {title}: {self._sum(own, len(own) == len(rows))}")
            columns = []
            for row in rows:
                columns.append((row.name, row.array, self._held_text(row)))
            lines += in_columns(columns)
        lines.append(f"  sent: {self._sum(self.sent, self._knows_sent)}")
        columns = [self._columns(row) for row in self.moved]
        lines += in_columns(columns)
        if self.uncounted:
            lines.append("  not counted")
            lines += [f"    {place}: {why}" for place, why in self.uncounted]
        return "\n".join(lines)

    def _columns(self, row: Moved) -> tuple[str, str, str]:
        return (
            f"{row.file}:{row.line}",
            f"{row.collective} over {axes_text(row.axes)}",
            self._sent_text(row),
        )

    def _sum(self, formulas: Sequence[Formula], is_all: bool) -> str:
        if not formulas and not is_all:
            return "not known"
        text = self._with_number(summed(formulas), self.total(formulas))
        if is_all:
            return text
        return f"{text}, and what is not known"

    def _text(self, formula: Formula | None) -> str:
        if formula is None:
            return "not known"
        return self._with_number(str(formula), self.bytes_of(formula))

    def _with_number(self, text: str, number: int | None) -> str:
        if number is None or text == str(number):
            return text
        return f"{text} = {number:,}"

    def _held_text(self, row: Held) -> str:
        text = self._text(row.held)
        if row.held is None and row.split is None:
            return text
        if row.split or math.prod(self.mesh.values()) == 1:
            return text
        if row.split is None:
            return f"{text}, if it is not sharded"
        return f"{text}, whole on every device"

    def _sent_text(self, row: Moved) -> str:
        text = self._text(row.sent)
        if row.at_least:
            return f"{text}, a round"
        return text


def _symbols(formulas: Iterable[Formula]) -> set[str]:
    named: set[str] = set()
    for one in formulas:
        named |= one.symbols
    return named
