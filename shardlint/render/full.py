"""For reading: the finding, its source lines with the place marked, related places and the fix."""

from __future__ import annotations

import unicodedata

from shardlint.render import Lines, Outcome
from shardlint.render.style import Style
from shardtypes.lang.diagnostics import Diagnostic, Place

#: Of a place over more lines than this, the first and the last are shown.
_MOST_LINES = 8
_FIRST_LINES, _LAST_LINES = 4, 2
#: A tab in a place over several lines, where what lies to the left of it has to have a known width.
_TAB = 4


def render(outcome: Outcome) -> str:
    """See the package."""
    return "".join(
        _one(one, outcome.lines, outcome.style) for one in outcome.diagnostics
    )


def _one(diagnostic: Diagnostic, lines: Lines, style: Style) -> str:
    code = style.code(diagnostic.code, diagnostic.name, diagnostic.severity)
    parts = [f"{code} [{diagnostic.name}] {style.strong(diagnostic.message)}"]
    parts += _Frame(diagnostic.place, lines, style, diagnostic.severity).rows()
    for related in diagnostic.related:
        parts.append(f"  {style.note('note')}: {related.message}")
        parts += _Frame(related.place, lines, style).rows()
    if diagnostic.fix is not None:
        unsafe = " (unsafe)" if diagnostic.fix.applicability == "unsafe" else ""
        parts.append(f"  {style.fix('fix')}{unsafe}: {diagnostic.fix.title}")
    return "\n".join(parts) + "\n\n"


class _Frame:
    """The source of a place; without a ``severity`` it is related to a finding."""

    def __init__(
        self, place: Place, lines: Lines, style: Style, severity: str | None = None
    ) -> None:
        self._place = place
        self._source = lines(place)
        self._style = style
        self._severity = severity
        last = min(place.end_line, len(self._source))
        self._digits = len(str(max(place.line, last)))

    def rows(self) -> list[str]:
        place = self._place
        margin = " " * self._digits
        head = f"{margin} {self._style.margin('-->')} {place}"
        if place.line > len(self._source):
            return [head]
        several = place.line < place.end_line <= len(self._source)
        marked = self._over_lines() if several else self._on_one_line()
        return [head, self._row(""), *marked]

    def _on_one_line(self) -> list[str]:
        place = self._place
        text = self._source[place.line - 1]
        end = place.end_column if place.end_line == place.line else len(text) + 1
        start = place.column - 1
        indent = "".join(map(_blank, text[:start]))
        width = sum(map(_width, text[start : max(end - 1, place.column)]))
        marks = self._mark(self._sign * max(1, width))
        return [self._row(text, place.line), self._row(f"{indent}{marks}")]

    def _over_lines(self) -> list[str]:
        """Each line with a bar to the left of it, which begins and ends at the place::

        4 |       return jnp.exp(
          |  ____________^
        5 | |         x,
        6 | |     )
          | |_____^
        """
        place = self._place
        first = self._text(place.line)
        last = self._text(place.end_line)
        start = sum(map(_width, _expanded(first[: place.column - 1])))
        end = sum(map(_width, _expanded(last[: place.end_column - 1])))
        opening = f" {'_' * (start + 1)}{self._sign}"
        closing = f"|{'_' * max(end, 1)}{self._sign}"
        rows = [
            self._row(f"  {_expanded(first)}", place.line),
            self._row(self._mark(opening)),
        ]
        bar = self._mark("|")
        for line in self._later_lines():
            if line is None:
                rows.append(f"{self._style.margin('...')}{' ' * self._digits}{bar}")
            else:
                rows.append(self._row(f"{bar} {_expanded(self._text(line))}", line))
        return [*rows, self._row(self._mark(closing))]

    def _later_lines(self) -> list[int | None]:
        """The numbers of the lines after the first; None for those that are left out."""
        place = self._place
        every: list[int | None] = list(range(place.line + 1, place.end_line + 1))
        if len(every) < _MOST_LINES:
            return every
        return [*every[: _FIRST_LINES - 1], None, *every[-_LAST_LINES:]]

    def _text(self, line: int) -> str:
        return self._source[line - 1]

    @property
    def _sign(self) -> str:
        return "-" if self._severity is None else "^"

    def _mark(self, text: str) -> str:
        return self._style.mark(text, self._severity is None, self._severity or "")

    def _row(self, text: str, line: int | None = None) -> str:
        number = "" if line is None else str(line)
        margin = self._style.margin(f"{number:>{self._digits}} |")
        return f"{margin} {text}".rstrip()


def _expanded(text: str) -> str:
    return text.expandtabs(_TAB)


def _blank(character: str) -> str:
    """Nothing, as wide as the character."""
    return "\t" if character == "\t" else " " * _width(character)


def _width(character: str) -> int:
    """Columns of a terminal: East Asian characters take two, combining ones none."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
