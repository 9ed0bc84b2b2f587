"""The words of documents, where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardlint.server.documents import Document
from shardlint.server.units import Unit
from shardlint.server.words import Word, words_of


@dataclass(frozen=True, slots=True)
class At:
    """A word of a document: its ``line`` (from 0) there, and in what is analysed of it; ``margin`` is the number of
    columns that what is analysed lacks in front."""

    document: Document
    unit: Unit
    word: Word
    line: int
    analysed: int
    margin: int

    @property
    def column(self) -> int:
        """From 0, in the document."""
        return self.word.column + self.margin

    @property
    def end(self) -> int:
        """The column behind it."""
        return self.word.end + self.margin


@dataclass(frozen=True, slots=True)
class Text:
    """A document as it was at one time: its number as a cell, its units, and those of the whole program that it is a
    part of."""

    document: Document
    cell: int
    version: int | None
    units: Sequence[Unit]
    program: Sequence[Unit]

    @classmethod
    def of(cls, document: Document) -> Text:
        """As it is now."""
        return cls(
            document,
            document.cell,
            document.version,
            document.units,
            document.program,
        )

    @property
    def is_current(self) -> bool:
        """Whether the document was not changed since."""
        document = self.document
        return (document.version, document.cell) == (self.version, self.cell)

    def words(self) -> Iterator[At]:
        """All words, in order; of damaged units none."""
        starts: dict[int, tuple[int, int]] = {}
        line = analysed = 0
        for unit in self.units:
            starts[unit.number] = line, analysed
            line += len(unit.lines)
            analysed += len(unit.good)
        for unit, word in words_of(self.units, self.program):
            line, analysed = starts[unit.number]
            line += word.line
            analysed += word.line
            margin = self.document.margins.get(line, 0)
            yield At(self.document, unit, word, line, analysed, margin)

    def is_damaged(self, line: int) -> bool:
        """Whether a line (from 0) of what is analysed is of a unit that does not parse now."""
        below = 0
        for unit in self.units:
            below += len(unit.good)
            if line < below:
                return unit.failure is not None
        return False


def words_at(document: Document) -> Iterator[At]:
    """All words of a document as it is now."""
    return Text.of(document).words()
