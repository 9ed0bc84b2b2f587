"""Where nodes are in a text, and changes of it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from typing import Protocol, TypeAlias

from shardlint import decoding
from shardtypes.lang.diagnostics import Edit, Place


class HasPlaces(Protocol):
    """Where the nodes of a file are, by number."""

    def place(self, at: int) -> Place: ...

    def within(self, at: int, start: int, end: int) -> Place: ...


_Located: TypeAlias = ast.stmt | ast.expr | ast.pattern | ast.arg | ast.keyword


def tree_place(node: _Located, text: Sequence[bytes], path: str) -> Place:
    """The place of a node of Python's own tree, in the lines of its file."""
    end_line = node.end_lineno or node.lineno
    start = decoding.characters(text[node.lineno - 1][: node.col_offset]) + 1
    end = decoding.characters(text[end_line - 1][: node.end_col_offset or 0]) + 1
    return Place(path, node.lineno, start, end_line, end)


def insertion(path: str, line: int, column: int, text: str) -> Edit:
    """Put a text in front of a column; both count from 1."""
    place = Place(path, line, column, line, column)
    return Edit(place, text)


def line_starts(text: str) -> list[int]:
    """Where each line begins, in characters."""
    starts = [0]
    for line in decoding.lines(text, keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def span_of(edit: Edit, starts: Sequence[int]) -> tuple[int, int, str]:
    """Where an edit begins and ends in the text, in characters, and what it puts there."""
    place = edit.place
    return (
        starts[place.line - 1] + place.column - 1,
        starts[place.end_line - 1] + place.end_column - 1,
        edit.replacement,
    )


def replaced(text: str, spans: Iterable[tuple[int, int, str]]) -> str:
    """The text with each of these spans, which do not touch each other, replaced."""
    for start, end, replacement in sorted(spans, reverse=True):
        text = text[:start] + replacement + text[end:]
    return text
