"""What is known of the name, or of the expression, at a place of a document."""

from __future__ import annotations

from dataclasses import replace

from shardlint.found import ShownType
from shardlint.server.documents import Document
from shardtypes.lang.diagnostics import Place

#: Of the text of a longer expression the beginning is shown.
_LONG = 60


def known_at(document: Document, line: int, column: int) -> ShownType | None:
    """What is known of the innermost name around a position; line and column from 0, in characters."""
    return _innermost(known_on(document, line), line, column)


def expression_at(document: Document, line: int, column: int) -> ShownType | None:
    """What is known of the innermost expression around a position that gives an array, and is no name; its text is in
    the place of a name."""
    arrays = [one for one in _on(document, line) if not one.name]
    one = _innermost(arrays, line, column)
    if one is None:
        return None
    return replace(one, name=_short(_text(document, one.place)))


def known_on(document: Document, line: int) -> list[ShownType]:
    """What is known of each name on a line (from 0): of those that are assigned before those that are used."""
    return [one for one in _on(document, line) if one.name]


def _on(document: Document, line: int) -> list[ShownType]:
    found = []
    for known in (document.types, document.uses):
        for one in known(line, line):
            if one.place.line <= line + 1 <= one.place.end_line:
                found.append(one)
    return found


def _innermost(known: list[ShownType], line: int, column: int) -> ShownType | None:
    around = [one for one in known if _contains(one, line + 1, column + 1)]
    return min(around, key=_length, default=None)


def _text(document: Document, place: Place) -> str:
    lines = list(document.lines[place.line - 1 : place.end_line])
    lines[-1] = lines[-1][: place.end_column - 1]
    lines[0] = lines[0][place.column - 1 :]
    return " ".join(" ".join(lines).split())


def _short(text: str) -> str:
    if len(text) <= _LONG:
        return text
    return text[:_LONG] + " …"


def _contains(one: ShownType, line: int, column: int) -> bool:
    place = one.place
    start = (place.line, place.column)
    end = (place.end_line, place.end_column)
    return start <= (line, column) <= end


def _length(one: ShownType) -> tuple[int, int]:
    place = one.place
    return place.end_line - place.line, place.end_column - place.column
