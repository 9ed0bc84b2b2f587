"""Findings as data, shared by every tool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from shardtypes.lang.frozen import frozen

Applicability: TypeAlias = Literal["safe", "unsafe"]


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A range in a file. Lines and columns start at 1; the end column is the one after the last character. In a
    notebook ``cell`` is the number of the cell, from 1, whose lines are meant; elsewhere it is 0."""

    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    cell: int = 0

    @property
    def shown_path(self) -> str:
        """The path, and the cell of a notebook: ``a.ipynb:cell 3``."""
        if self.cell:
            return f"{self.path}:cell {self.cell}"
        return self.path

    def __str__(self) -> str:
        return f"{self.shown_path}:{self.line}:{self.column}"

    def to_json(self) -> dict[str, object]:
        """The position, without the path."""
        return {
            "line": self.line,
            "column": self.column,
            "end_line": self.end_line,
            "end_column": self.end_column,
        }


@frozen
class Related:
    """Another place that explains a finding: where the other half of a conflict comes from."""

    place: Place
    message: str


@frozen
class Edit:
    """Replace the text at ``place``."""

    place: Place
    replacement: str


@frozen
class Fix:
    """A change that removes a finding. A safe one never changes what a correct program does."""

    title: str
    applicability: Applicability
    edits: tuple[Edit, ...]


@frozen
class Diagnostic:
    """One finding. ``witness`` are sizes for which the program fails."""

    code: str
    name: str
    message: str
    place: Place
    severity: str = "error"
    witness: tuple[tuple[str, int], ...] = ()
    related: tuple[Related, ...] = ()
    fix: Fix | None = None

    def to_json(self) -> dict[str, object]:
        """The object that ``shardlint --format json`` prints."""
        fix = self.fix and {
            "title": self.fix.title,
            "applicability": self.fix.applicability,
            "edits": [
                {
                    "start": {"line": e.place.line, "column": e.place.column},
                    "end": {"line": e.place.end_line, "column": e.place.end_column},
                    "replacement": e.replacement,
                }
                for e in self.fix.edits
            ],
        }
        return {
            "code": self.code,
            "name": self.name,
            "severity": self.severity,
            "message": self.message,
            "path": self.place.path,
            "cell": self.place.cell or None,
            **self.place.to_json(),
            "witness": dict(self.witness),
            "related": [
                {
                    "path": r.place.path,
                    "cell": r.place.cell or None,
                    "line": r.place.line,
                    "column": r.place.column,
                    "message": r.message,
                }
                for r in self.related
            ],
            "fix": fix,
        }
