"""What expressions are that give arrays, by their places: written with a file's findings, read where types are shown.

It is one text, for it is kept with the findings of every file, and few files are looked at.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterable
from typing import TypeAlias

from shardlint.lower_ast import nodes_of

Arrays: TypeAlias = "str | list[Arrays] | None"
"""An array as it is shown, or a tuple of such and others."""

Range: TypeAlias = tuple[int, int, int, int]
"""Line, column, end line and end column, as Python's own tree has them: columns count bytes."""


def written(text: bytes, path: str, seen: Iterable[tuple[int, Arrays]]) -> str:
    """What is at nodes of a file, which has this text."""
    nodes = nodes_of(text, path)
    found = []
    for at, arrays in seen:
        node = nodes[at] if at < len(nodes) else None
        if isinstance(node, ast.expr):
            found.append((_range(node), arrays))
    return json.dumps(found)


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
