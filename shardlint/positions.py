"""From node numbers to places in the file. Built only for files that have something to show."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from shardlint.decoding import characters, decoded, lines
from shardlint.deep import with_room
from shardlint.edits import tree_place
from shardlint.lower import Lowered, lower
from shardlint.lower_ast import nodes_of
from shardtypes.lang.diagnostics import Place

_ESCAPE = re.compile(
    r"\\(?:\r\n|[0-7]{1,3}|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|N\{[^}]*\}|.)",
    re.DOTALL,
)
_PLAIN_ESCAPES = "\\'\"abfnrtv01234567"


class Positions:
    """The places of one file's nodes, by number. Lines and columns start at 1."""

    def __init__(
        self, source: bytes, path: str, name: str = "", is_package: bool = False
    ) -> None:
        self._take(lower(source, name, path, is_package, keep_nodes=True), path)

    @classmethod
    def of(cls, lowered: Lowered, path: str) -> Positions:
        """The places of a file, or of a part of one, that was lowered with its nodes kept; its first has number 0."""
        made = cls.__new__(cls)
        made._take(lowered, path)
        return made

    def _take(self, lowered: Lowered, path: str) -> None:
        tree = MetadataWrapper(lowered.tree, unsafe_skip_copy=True)
        self._path = path
        self._nodes = lowered.nodes
        # libcst answers a RecursionError with another error, so that there has to be room from the start.
        self._ranges = with_room(lambda: tree.resolve(PositionProvider))

    def place(self, at: int) -> Place:
        """The place of node ``at``; for a compound statement that of its head. The file's start for made-up nodes."""
        node = self._nodes[at] if 0 <= at < len(self._nodes) else None
        return (
            self._place(_head(node))
            if node is not None
            else Place(self._path, 1, 1, 1, 1)
        )

    def within(self, at: int, start: int, end: int) -> Place:
        """The place of ``value[start:end]`` of the string literal at ``at``; the whole node if it is no string."""
        node = self._nodes[at] if 0 <= at < len(self._nodes) else None
        if not isinstance(node, cst.SimpleString | cst.ConcatenatedString):
            return self.place(at)
        characters = list(self._characters(node))
        starts = [c[:2] for c in characters]
        if not characters or start >= len(characters):
            # Just past the text: the closing quote.
            whole = self._place(node)
            quote = len(_last(node).quote)
            column = whole.end_column - quote
            return Place(self._path, whole.end_line, column, whole.end_line, column + 1)
        last = characters[min(max(end, start + 1), len(characters)) - 1]
        return Place(self._path, *starts[start], last[2], last[3])

    def _place(self, node: cst.CSTNode) -> Place:
        found = self._ranges[node]
        return Place(
            self._path,
            found.start.line,
            found.start.column + 1,
            found.end.line,
            found.end.column + 1,
        )

    def _characters(
        self, node: cst.BaseExpression
    ) -> Iterator[tuple[int, int, int, int]]:
        """Per character of the literal's value: line, column, end line, end column."""
        if isinstance(node, cst.ConcatenatedString):
            yield from self._characters(node.left)
            yield from self._characters(node.right)
        if not isinstance(node, cst.SimpleString):
            return
        place = self._place(node)
        line, column = place.line, place.column + len(node.prefix) + len(node.quote)
        body = node.value[len(node.prefix) + len(node.quote) : -len(node.quote)]
        raw, is_bytes = "r" in node.prefix.lower(), "b" in node.prefix.lower()
        offset = 0
        while offset < len(body):
            text, values = _unit(body, offset, raw, is_bytes)
            end_line, end_column = line, column + len(text)
            tail = text.replace("\r\n", "\n").replace("\r", "\n")
            if "\n" in tail:
                end_line, end_column = (
                    line + tail.count("\n"),
                    len(tail) - tail.rfind("\n"),
                )
            for _ in range(values):
                yield line, column, end_line, end_column
            line, column = end_line, end_column
            offset += len(text)


class TreePositions:
    """The places of a file that Python takes and libcst does not. Of a part of a string it knows the whole only."""

    def __init__(self, source: bytes, path: str) -> None:
        self._path = path
        self._nodes = nodes_of(source, path)
        self._lines = [one.encode() for one in lines(decoded(source))]

    def place(self, at: int) -> Place:
        """The place of node ``at``, of a compound statement that of its first line; the file's start for made-up
        nodes."""
        node = self._nodes[at] if 0 <= at < len(self._nodes) else None
        if not isinstance(
            node, (ast.stmt, ast.expr, ast.pattern, ast.arg, ast.keyword)
        ):
            return Place(self._path, 1, 1, 1, 1)
        place = tree_place(node, self._lines, self._path)
        if hasattr(node, "body") and place.end_line > place.line:
            end = characters(self._lines[place.line - 1]) + 1
            return Place(self._path, place.line, place.column, place.line, end)
        return place

    def within(self, at: int, start: int, end: int) -> Place:
        """The place of the whole string at ``at``."""
        return self.place(at)


def _unit(body: str, offset: int, raw: bool, is_bytes: bool) -> tuple[str, int]:
    """The source text of the next unit of a literal, and how many characters of the value it stands for."""
    if body[offset] != "\\" or raw:
        return ("\r\n", 1) if body.startswith("\r\n", offset) else (body[offset], 1)
    match = _ESCAPE.match(body, offset)
    if match is None:
        return body[offset], 1
    text = match.group()
    kind = text[1]
    if kind in "\r\n":
        return text, 0
    if kind == "x" or kind in _PLAIN_ESCAPES or (kind in "uUN" and not is_bytes):
        return text, 1
    # No escape: the backslash stands for itself.
    return body[offset], 1


def _last(node: cst.SimpleString | cst.ConcatenatedString) -> cst.SimpleString:
    while isinstance(node, cst.ConcatenatedString):
        right = node.right
        if not isinstance(right, cst.SimpleString | cst.ConcatenatedString):
            break
        node = right
    assert isinstance(node, cst.SimpleString)
    return node


def _head(node: cst.CSTNode) -> cst.CSTNode:
    if isinstance(node, cst.FunctionDef | cst.ClassDef):
        return node.name
    if isinstance(node, cst.If | cst.While):
        return node.test
    if isinstance(node, cst.For):
        return node.iter
    if isinstance(node, cst.With):
        return node.items[0]
    if isinstance(node, cst.Match):
        return node.subject
    return node
