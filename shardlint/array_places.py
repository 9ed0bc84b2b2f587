"""What expressions are that give arrays, by their places: written with a file's findings, read where types are shown.

It is one text, for it is kept with the findings of every file, and few files are looked at.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from typing import TypeAlias

from shardlint.decoding import decoded, lines
from shardlint.lower_ast import nodes_of

Arrays: TypeAlias = "str | list[Arrays] | None"
"""An array as it is shown, or a tuple of such and others."""

Range: TypeAlias = tuple[int, int, int, int]
"""Line, column, end line and end column, as Python's own tree has them."""


def written(text: bytes, path: str, seen: Iterable[tuple[int, Arrays]]) -> str:
    """What is at nodes of a file, which has this text."""
    nodes = nodes_of(text, path)
    plain = _plain_columns(text)
    found = []
    for at, arrays in seen:
        node = nodes[at] if at < len(nodes) else None
        if not isinstance(node, ast.expr):
            continue
        line, column, end_line, end_column = place = _range(node)
        if column <= plain.get(line, column) and end_column <= plain.get(
            end_line, end_column
        ):
            found.append((place, arrays))
    return json.dumps(found)


def _plain_columns(text: bytes) -> dict[int, int]:
    """How many characters of a line are ASCII, for lines with others: tools disagree on the columns behind those."""
    if text.isascii():
        return {}
    found = {}
    for number, line in enumerate(lines(decoded(text)), 1):
        count = next((at for at, one in enumerate(line) if not one.isascii()), None)
        if count is not None:
            found[number] = count
    return found


def read(text: str) -> dict[Range, Arrays]:
    """What was written, by place."""
    found = json.loads(text) if text else []
    return {tuple(place): arrays for place, arrays in found}


def _range(node: ast.expr) -> Range:
    return (
        node.lineno,
        node.col_offset,
        node.end_lineno or node.lineno,
        node.end_col_offset or node.col_offset,
    )
