"""Workflow commands, which GitHub shows beside the changed lines."""

from __future__ import annotations

from shardlint.addresses import rule_page
from shardlint.render import Outcome, in_cell
from shardtypes.lang.diagnostics import Diagnostic


def render(outcome: Outcome) -> str:
    """See the package."""
    return "".join(map(_one, outcome.diagnostics))


def _one(diagnostic: Diagnostic) -> str:
    place = diagnostic.place
    level = "warning" if diagnostic.severity == "warning" else "error"
    fields = {
        "file": place.path,
        "line": place.line,
        "endLine": place.end_line,
    }
    message = diagnostic.message
    if place.cell:  # GitHub counts the lines of the file that holds the cells
        fields = {"file": place.path, "line": 1}
        message = f"{in_cell(place)}: {message}"
    elif place.end_line == place.line:
        # GitHub ignores the columns of a range over several lines.
        fields |= {"col": place.column, "endColumn": place.end_column}
    fields["title"] = f"{diagnostic.code} {diagnostic.name}"
    properties = []
    for key, value in fields.items():
        written = _escape(str(value), ":,")
        properties.append(f"{key}={written}")
    listed = ",".join(properties)
    said = _escape(f"{message}\n{rule_page(diagnostic.code)}")
    return f"::{level} {listed}::{said}\n"


def _escape(text: str, more: str = "") -> str:
    for character in ("%", "\r", "\n", *more):
        code = ord(character)
        text = text.replace(character, f"%{code:02X}")
    return text
