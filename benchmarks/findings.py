"""What tools say of programs, and which lines belong together."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

Said = tuple[Path, int, str, bool]
"""What a tool says: path, line, message, and whether this is but a place that the finding before it names."""


@dataclass(frozen=True, order=True)
class Finding:
    """Something a tool said about a program, at a line of the program as it is written. ``related``: a place that a
    finding elsewhere names as one that it is about."""

    module: str
    line: int
    message: str
    related: bool = False


def statements(
    sources: Mapping[str, bytes], lines: Iterable[tuple[str, int]]
) -> Iterator[tuple[str, int, int]]:
    """The innermost statements that hold these lines; of a definition, its decorators and its head only."""
    for module, line in lines:
        found = (
            node
            for node in ast.walk(ast.parse(sources[module]))
            if isinstance(node, ast.stmt)
        )
        held = [
            node
            for node in found
            if _first(node) <= line <= (node.end_lineno or node.lineno)
        ]
        if not held:
            yield module, line, line
            continue
        inner = max(held, key=_first)
        body = getattr(inner, "body", None)
        last = _first(body[0]) - 1 if isinstance(body, list) else inner.end_lineno
        yield module, _first(inner), max(inner.lineno, last or inner.lineno)


def _first(node: ast.stmt) -> int:
    """The line that a statement begins at; its decorators stand above it."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])
