"""For reading: the finding, its source lines with the place marked, related places and the fix."""

from __future__ import annotations

import unicodedata

from shardlint.render import Lines, Outcome
from shardlint.render.style import Style
from shardtypes.lang.diagnostics import Diagnostic, Fix, Place

#: Of a place over more lines than this, the first and the last are shown.
_MOST_LINES = 8
_FIRST_LINES, _LAST_LINES = 4, 2
#: A tab in a place over several lines, where what lies to the left of it has to have a known width.
_TAB = 4


def render(outcome: Outcome) -> str:
    """See the package."""
    parts: list[str] = []
    for found in outcome.diagnostics:
        parts += _one(found, outcome.lines, outcome.style)
        parts.append("")
    return "".join(f"{part}\n" for part in parts)


def _one(found: Diagnostic, lines: Lines, style: Style) -> list[str]:
    code = style.code(found.code, found.severity)
    message = style.strong(found.message)
    parts = [f"{code} [{found.name}] {message}"]
    parts += _Frame(found.place, lines, style, found.severity).rows()
    note = style.note("note")
    for related in found.related:
        parts.append(f"  {note}: {related.message}")
        parts += _Frame(related.place, lines, style).rows()
    if found.fix is not None:
        parts.append(_fix(found.fix, style))
    return parts


def _fix(fix: Fix, style: Style) -> str:
    word = style.fix("fix")
    if fix.applicability == "unsafe":
        word += " (unsafe)"
    return f"  {word}: {fix.title}"


class _Frame:
    """The source of a place; without a ``severity`` it is related to a finding."""

    def __init__(
        self,
        place: Place,
        lines: Lines,
        style: Style,
        severity: str | None = None,
    ) -> None:
        self._place = place
        self._source = lines(place)
        self._style = style
        self._severity = severity
        self._sign = "-" if severity is None else "^"
        last = min(place.end_line, len(self._source))
        longest = str(max(place.line, last))
        self._digits = len(longest)

    def rows(self) -> list[str]:
        place = self._place
        margin = " " * self._digits
        arrow = self._style.margin("-->")
        head = f"{margin} {arrow} {place}"
        if place.line > len(self._source):
            return [head]
        marked = self._on_one_line
        if place.line < place.end_line <= len(self._source):
            marked = self._over_lines
        return [
            head,
            self._row(""),
            *marked(),
        ]

    def _on_one_line(self) -> list[str]:
        place = self._place
        text = self._text(place.line)
        end = place.end_column
        if place.end_line != place.line:
            end = len(text) + 1
        start = place.column - 1
        indent = "".join(map(_blank, text[:start]))
        marked = text[start : max(end - 1, place.column)]
        width = max(_columns(marked), 1)
        marks = self._mark(self._sign * width)
        return [
            self._row(text, place.line),
            self._row(indent + marks),
        ]

    def _over_lines(self) -> list[str]:
        """Each line with a bar to the left of it, which begins and ends at the place::

        4 |       return jnp.exp(
          |  ____________^
        5 | |         x,
        6 | |     )
          | |_____^
        """
        place = self._place
        before = self._text(place.line)[: place.column - 1]
        start = _columns(_expanded(before))
        inside = self._text(place.end_line)[: place.end_column - 1]
        end = _columns(_expanded(inside))
        opening = "_" * (start + 1)
        closing = "_" * max(end, 1)
        first = _expanded(self._text(place.line))
        rows = [
            self._row("  " + first, place.line),
            self._row(self._mark(f" {opening}{self._sign}")),
        ]
        for line in self._later_lines():
            rows.append(self._barred(line))
        rows.append(self._row(self._mark(f"|{closing}{self._sign}")))
        return rows

    def _barred(self, line: int | None) -> str:
        bar = self._mark("|")
        if line is None:
            dots = self._style.margin("...")
            blank = " " * self._digits
            return f"{dots}{blank}{bar}"
        text = _expanded(self._text(line))
        return self._row(f"{bar} {text}", line)

    def _later_lines(self) -> list[int | None]:
        """The numbers of the lines after the first; None for those that are left out."""
        first = self._place.line + 1
        every: list[int | None] = list(range(first, self._place.end_line + 1))
        if len(every) < _MOST_LINES:
            return every
        shown = every[: _FIRST_LINES - 1]
        shown.append(None)
        shown += every[-_LAST_LINES:]
        return shown

    def _text(self, line: int) -> str:
        return self._source[line - 1]

    def _mark(self, text: str) -> str:
        is_related = self._severity is None
        return self._style.mark(text, is_related, self._severity or "")

    def _row(self, text: str, line: int | None = None) -> str:
        number = "" if line is None else str(line)
        number = number.rjust(self._digits)
        margin = self._style.margin(f"{number} |")
        row = f"{margin} {text}"
        return row.rstrip()


def _expanded(text: str) -> str:
    return text.expandtabs(_TAB)


def _blank(character: str) -> str:
    """Nothing, as wide as the character."""
    return "\t" if character == "\t" else " " * _width(character)


def _columns(text: str) -> int:
    return sum(map(_width, text))


def _width(character: str) -> int:
    """Columns of a terminal: East Asian characters take two, combining ones none."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
