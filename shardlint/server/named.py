"""The words of documents, where they stand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shardlint.server.documents import Document
from shardlint.server.units import Unit
from shardlint.server.words import Word, words_of


@dataclass(frozen=True, slots=True)
class At:
    """A word of a document: its ``line`` (from 0) there, and in what is analysed of it."""

    document: Document
    unit: Unit
    word: Word
    line: int
    analysed: int


@dataclass(frozen=True, slots=True)
class Text:
    """A document as it was at one time: its units, and those of the whole program that it is a part of."""

    document: Document
    version: int | None
    units: Sequence[Unit]
    program: Sequence[Unit]

    @classmethod
    def of(cls, document: Document) -> Text:
        """As it is now."""
        return cls(document, document.version, document.units, document.program)

    @property
    def is_current(self) -> bool:
        """Whether the document was not changed since."""
        return self.document.version == self.version

    @property
    def good(self) -> str:
        """What is analysed of it."""
        return "".join(line for unit in self.units for line in unit.good)

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
            yield At(self.document, unit, word, line + word.line, analysed + word.line)

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
