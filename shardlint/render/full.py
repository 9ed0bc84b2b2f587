"""For reading: the finding, its source line with the place marked, related places and the fix."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from shardlint.render import Lines
from shardtypes.lang.diagnostics import Diagnostic, Place


def render(diagnostics: Sequence[Diagnostic], lines: Lines) -> str:
    """See the package."""
    return "".join(_one(d, lines) for d in diagnostics)


def _one(diagnostic: Diagnostic, lines: Lines) -> str:
    parts = [f"{diagnostic.code} [{diagnostic.name}] {diagnostic.message}"]
    parts += _frame(diagnostic.place, lines, "-->", "^")
    for related in diagnostic.related:
        parts.append(f"  note: {related.message}")
        parts += _frame(related.place, lines, "-->", "-")
    if diagnostic.fix is not None:
        unsafe = " (unsafe)" if diagnostic.fix.applicability == "unsafe" else ""
        parts.append(f"  fix{unsafe}: {diagnostic.fix.title}")
    return "\n".join(parts) + "\n\n"


def _frame(place: Place, lines: Lines, arrow: str, mark: str) -> list[str]:
    margin = " " * len(str(place.line))
    head = f"{margin} {arrow} {place}"
    source = lines(place)
    if place.line > len(source):
        return [head]
    text = source[place.line - 1]
    end = place.end_column if place.end_line == place.line else len(text) + 1
    start = place.column - 1
    marked = text[start : max(end - 1, place.column)]
    indent = "".join(map(_blank, text[:start]))
    width = sum(map(_width, marked))
    carets = mark * max(1, width)
    return [
        head,
        f"{margin} |",
        f"{place.line} | {text}".rstrip(),
        f"{margin} | {indent}{carets}",
    ]


def _blank(character: str) -> str:
    """Nothing, as wide as the character."""
    return "\t" if character == "\t" else " " * _width(character)


def _width(character: str) -> int:
    """Columns of a terminal: East Asian characters take two, combining ones none."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
