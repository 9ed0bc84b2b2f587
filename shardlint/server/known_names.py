"""What is known of the name at a place of a document."""

from __future__ import annotations

from shardlint.found import ShownType
from shardlint.server.documents import Document


def known_at(document: Document, line: int, column: int) -> ShownType | None:
    """What is known of the innermost name around a position; line and column from 0, in characters."""
    around = []
    for one in known_on(document, line):
        if _contains(one, line + 1, column + 1):
            around.append(one)
    return min(around, key=_length, default=None)


def known_on(document: Document, line: int) -> list[ShownType]:
    """What is known of each name on a line (from 0): of those that are assigned before those that are used."""
    found = []
    for known in (document.types, document.uses):
        for one in known(line, line):
            if one.place.line <= line + 1 <= one.place.end_line:
                found.append(one)
    return found


def _contains(one: ShownType, line: int, column: int) -> bool:
    place = one.place
    start = (place.line, place.column)
    end = (place.end_line, place.end_column)
    return start <= (line, column) <= end


def _length(one: ShownType) -> tuple[int, int]:
    place = one.place
    return place.end_line - place.line, place.end_column - place.column
