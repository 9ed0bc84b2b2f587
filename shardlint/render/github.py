"""Workflow commands, which GitHub shows beside the changed lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from shardlint import messages
from shardlint.addresses import rule_page
from shardlint.problems import Problem
from shardlint.render import Outcome, from_repository, in_cell
from shardtypes.lang.diagnostics import Diagnostic


def render(outcome: Outcome) -> str:
    """See the package."""
    found = [_one(diagnostic) for diagnostic in outcome.diagnostics]
    problems = [_problem(problem) for problem in outcome.problems]
    return "".join([*found, *problems])


def _one(diagnostic: Diagnostic) -> str:
    place = diagnostic.place
    level = "warning" if diagnostic.severity == "warning" else "error"
    fields: dict[str, object] = {
        "file": from_repository(place.path),
        "line": place.line,
        "endLine": place.end_line,
    }
    message = diagnostic.message
    if place.cell:  # GitHub counts the lines of the file that holds the cells
        fields = {"file": from_repository(place.path), "line": 1}
        message = f"{in_cell(place)}: {message}"
    elif place.end_line == place.line:
        # GitHub ignores the columns of a range over several lines.
        fields |= {"col": place.column, "endColumn": place.end_column}
    fields["title"] = f"{diagnostic.code} {diagnostic.name}"
    return _command(level, fields, f"{message}\n{rule_page(diagnostic.code)}")


def _problem(problem: Problem) -> str:
    fields: dict[str, object] = {}
    if problem.path is not None:
        fields["file"] = from_repository(problem.path)
    fields["title"] = messages.NOT_DONE
    return _command("error", fields, problem.text)


def notice_of_cost(change: Change) -> str:
    """A function that holds or sends other amounts than before."""
    fields: dict[str, object] = {"file": from_repository(change.file)}
    if change.line is not None:
        fields["line"] = change.line
    fields["title"] = messages.cost_of(change.function)
    return _command("notice", fields, "\n".join(change.lines))


class Change(Protocol):
    """What has changed in what a function costs."""

    @property
    def function(self) -> str: ...

    @property
    def file(self) -> str: ...

    @property
    def line(self) -> int | None: ...

    @property
    def lines(self) -> Sequence[str]: ...


def _command(level: str, fields: Mapping[str, object], message: str) -> str:
    properties = []
    for key, value in fields.items():
        written = _escape(str(value), ":,")
        properties.append(f"{key}={written}")
    listed = ",".join(properties)
    text = _escape(message)
    return f"::{level} {listed}::{text}\n"


def _escape(text: str, more: str = "") -> str:
    for character in ("%", "\r", "\n", *more):
        code = ord(character)
        text = text.replace(character, f"%{code:02X}")
    return text
