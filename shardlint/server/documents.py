"""The open documents: their text in units, and what is known of it, in places of the text as it is now."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

from shardlint import decoding
from shardlint.discovery import shown
from shardlint.found import Proposal, ShownType
from shardlint.server.units import (
    Lines,
    Unit,
    changed_lines,
    edited,
    numbered,
    repaired,
    split,
)
from shardtypes.lang.diagnostics import Diagnostic, Edit, Fix, Place, Related

_Moving: TypeAlias = Callable[[Place], Place | None]
"""Where a place is now, if it still is."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The lines of a document that were analysed, by unit: where each begins (from 0), its number, and its lines.
    ``cell`` is the number of the cell that it was."""

    starts: tuple[int, ...]
    numbers: tuple[int, ...]
    lines: tuple[Lines, ...]
    cell: int = 0

    @classmethod
    def of(cls, units: Sequence[Unit], cell: int = 0) -> Snapshot:
        """What is analysed of these units."""
        starts = []
        numbers = []
        lines = []
        line = 0
        for unit in units:
            starts.append(line)
            numbers.append(unit.number)
            lines.append(unit.good)
            line += len(unit.good)
        return cls(tuple(starts), tuple(numbers), tuple(lines), cell)

    @property
    def text(self) -> str:
        """All lines."""
        return "".join(line for lines in self.lines for line in lines)

    def unit_of(self, line: int) -> int:
        """The index of the unit with a line (from 1)."""
        return max(0, bisect_right(self.starts, line - 1) - 1)


@dataclass(slots=True)
class Known:
    """What is known of one unit, in places of a snapshot. ``evaluated`` was found by running it in numbers."""

    snapshot: Snapshot
    lines: Lines
    diagnostics: list[Diagnostic] = field(default_factory=list)
    evaluated: list[Diagnostic] = field(default_factory=list)
    types: list[ShownType] = field(default_factory=list)
    uses: list[ShownType] = field(default_factory=list)
    proposals: list[Proposal] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Results:
    """What a run found in one document. ``evaluated`` tells whether programs were run in numbers, too."""

    diagnostics: Sequence[Diagnostic]
    types: Sequence[ShownType] = ()
    uses: Sequence[ShownType] = ()
    proposals: Sequence[Proposal] = ()
    evaluated: bool = False


class Document:
    """One open document. All of its findings have places in the text as it is at present."""

    #: The number of a cell among those of its notebook, from 1; 0 for a file.
    cell: int = 0
    #: The columns that lines (from 0) have in front of their Python, where they have any.
    margins: Mapping[int, int] = MappingProxyType({})

    def __init__(
        self, path: Path, text: str, version: int | None, uri: str = ""
    ) -> None:
        self.path = path
        self._uri = uri
        self.shown = shown(path)
        self.version = version
        self.lines: list[str] = decoding.lines(text, keepends=True)
        self.units = numbered(split(self._python()))
        self.known: dict[int, Known] = {}
        self._index()

    def change(self, text: str, version: int | None) -> list[Unit]:
        """Take over a new text; gives the units that are other ones now."""
        before = set(map(id, self.units))
        self.lines = decoding.lines(text, keepends=True)
        self.version = version
        self.units = edited(self.units, self._python())
        self._index()
        return [unit for unit in self.units if id(unit) not in before]

    def _python(self) -> list[str]:
        """Its lines as Python."""
        return self.lines

    @property
    def uri(self) -> str:
        """What editors call it."""
        return self._uri or self.path.as_uri()

    @property
    def program(self) -> Sequence[Unit]:
        """The units of the module that it is, or is a part of."""
        return self.units

    def repair(self) -> None:
        """Look at the text as a whole, where parts do not parse by themselves."""
        self.units = repaired(self.units)
        self._index()

    def start(self, unit: Unit) -> int:
        """The line (from 0) where a unit begins."""
        return self._starts[unit.number]

    def unit_at(self, line: int) -> Unit | None:
        """The unit with a line (from 0)."""
        index = bisect_right(self._first_lines, line) - 1
        if index < 0:
            return None
        return self.units[index]

    @property
    def failures(self) -> list[tuple[int, int, str]]:
        """What does not parse: line and column (from 1), and why."""
        found = []
        for unit in self.units:
            failure = unit.failure
            if failure is None:
                continue
            line = self.start(unit) + failure.line
            found.append((line, failure.column, failure.message))
        return found

    # --- results --------------------------------------------------------------------------------------------------

    def take(
        self, snapshot: Snapshot, results: Results, only: Collection[int] | None = None
    ) -> None:
        """Keep what a run over a snapshot found: of the units that are still those, and of ``only`` some if given."""
        fresh: dict[int, Known] = {}
        for number, lines in zip(snapshot.numbers, snapshot.lines, strict=True):
            unit = self._units.get(number)
            if only is not None and number not in only:
                continue
            if unit is not None and unit.good is lines:
                fresh[number] = Known(snapshot, lines)

        def known_at(place: Place) -> Known | None:
            index = snapshot.unit_of(place.line)
            return fresh.get(snapshot.numbers[index])

        for diagnostic in results.diagnostics:
            known = known_at(diagnostic.place)
            if known is not None:
                known.diagnostics.append(diagnostic)
        for shown_type in results.types:
            known = known_at(shown_type.place)
            if known is not None:
                known.types.append(shown_type)
        for use in results.uses:
            known = known_at(use.place)
            if known is not None:
                known.uses.append(use)
        for proposal in results.proposals:
            known = known_at(proposal.place)
            if known is not None:
                known.proposals.append(proposal)
        for number, known in fresh.items():
            self._keep(number, known, results.evaluated)
        for number in self.known.keys() - self._units.keys():
            del self.known[number]

    def _keep(self, number: int, known: Known, evaluated: bool) -> None:
        """What running found stays until it is run again, where the unit is still the same."""
        before = self.known.get(number)
        if evaluated:
            if before is not None and before.snapshot is known.snapshot:
                plain = {_said(one) for one in before.diagnostics}
                before.evaluated = [
                    one for one in known.diagnostics if _said(one) not in plain
                ]
            return
        self.known[number] = known
        if before is None or before.lines is not known.lines:
            return
        for one in before.evaluated:
            moved = self._moved(before, one, known)
            if moved is not None:
                known.evaluated.append(moved)

    def _moved(self, before: Known, found: Diagnostic, now: Known) -> Diagnostic | None:
        """A finding of an earlier snapshot in places of another one."""

        def place(at: Place) -> Place | None:
            if not self._has(at, before.snapshot):
                return at
            return _between(before.snapshot, now.snapshot, at)

        return _with_places(found, place)

    def findings(self) -> Iterator[Diagnostic]:
        """All findings, where they are now; those on lines that were changed since are left out."""
        for unit in self.units:
            known = self.known.get(unit.number)
            if known is None:
                continue
            for found in (*known.diagnostics, *known.evaluated):
                moved = _with_places(found, partial(self.now, known))
                if moved is not None:
                    yield moved

    def types(self, first: int, last: int) -> Iterator[ShownType]:
        """What assigned names are, in units that have one of these lines (from 0)."""
        for known in self._between(first, last):
            yield from self._placed(known, known.types)

    def uses(self, first: int, last: int) -> Iterator[ShownType]:
        """What names are where they are used."""
        for known in self._between(first, last):
            yield from self._placed(known, known.uses)

    def proposals(self, first: int, last: int) -> Iterator[Proposal]:
        """The annotations that functions lack, in units that have one of these lines (from 0)."""
        for known in self._between(first, last):
            for one in known.proposals:
                place = self.now(known, one.place)
                edits = _edits(one.edits, partial(self.now, known))
                if place is not None and edits:
                    yield replace(one, place=place, edits=edits)

    def _between(self, first: int, last: int) -> Iterator[Known]:
        for unit in self.units:
            begin = self.start(unit)
            end = begin + len(unit.lines)
            known = self.known.get(unit.number)
            if known is not None and begin <= last and end > first:
                yield known

    def _placed(
        self, known: Known, shown_types: Sequence[ShownType]
    ) -> Iterator[ShownType]:
        for one in shown_types:
            place = self.now(known, one.place)
            if place is not None:
                yield replace(one, place=place)

    def now(self, known: Known, at: Place) -> Place | None:
        """Where a place of a snapshot is now; None where its lines were changed since. Other files' stay."""
        snapshot = known.snapshot
        if not self._has(at, snapshot):
            return at
        index = snapshot.unit_of(at.line)
        unit = self._units.get(snapshot.numbers[index])
        if unit is None:
            return None
        return _shifted(
            replace(at, cell=self.cell),
            snapshot.starts[index],
            snapshot.lines[index],
            self.start(unit),
            unit.lines,
        )

    def _has(self, at: Place, snapshot: Snapshot) -> bool:
        """Whether a place is one of this document, as it was called in a snapshot."""
        return at.path == self.shown and at.cell == snapshot.cell

    def _index(self) -> None:
        self._starts: dict[int, int] = {}
        self._units = {unit.number: unit for unit in self.units}
        line = 0
        self._first_lines = []
        for unit in self.units:
            self._starts[unit.number] = line
            self._first_lines.append(line)
            line += len(unit.lines)


def _said(found: Diagnostic) -> tuple[str, Place, str]:
    return found.code, found.place, found.message


def _between(before: Snapshot, after: Snapshot, at: Place) -> Place | None:
    index = before.unit_of(at.line)
    number = before.numbers[index]
    if number not in after.numbers:
        return None
    there = after.numbers.index(number)
    return _shifted(
        replace(at, cell=after.cell),
        before.starts[index],
        before.lines[index],
        after.starts[there],
        after.lines[there],
    )


def _shifted(
    at: Place, begin: int, before: Lines, now: int, after: Lines
) -> Place | None:
    """A place in lines that begin at one line, in those that they became and that begin at another."""
    delta = now - begin
    if before is not after:
        first, last = _changed(before, after)
        start = at.line - 1 - begin
        end = at.end_line - 1 - begin
        if start >= last:
            delta += len(after) - len(before)
        elif end >= first:
            return None
    if not delta:
        return at
    return replace(at, line=at.line + delta, end_line=at.end_line + delta)


@lru_cache(maxsize=64)
def _changed(before: Lines, after: Lines) -> tuple[int, int]:
    return changed_lines(before, after)


def _with_places(found: Diagnostic, place: _Moving) -> Diagnostic | None:
    """A finding with every place replaced, without notes and a fix that are gone; None if it is gone itself."""
    own = place(found.place)
    if own is None:
        return None
    related = []
    for one in found.related:
        at = place(one.place)
        if at is not None:
            related.append(Related(at, one.message))
    fix = _fix(found.fix, place)
    return replace(found, place=own, related=tuple(related), fix=fix)


def _fix(fix: Fix | None, place: _Moving) -> Fix | None:
    if fix is None:
        return None
    edits = _edits(fix.edits, place)
    if edits is None:
        return None
    return replace(fix, edits=edits)


def _edits(edits: Sequence[Edit], place: _Moving) -> tuple[Edit, ...] | None:
    """Changes where they are now; None if one of them is gone."""
    found = []
    for edit in edits:
        at = place(edit.place)
        if at is None:
            return None
        found.append(Edit(at, edit.replacement))
    return tuple(found)
