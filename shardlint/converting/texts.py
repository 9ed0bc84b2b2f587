"""Where nodes of a tree are in the text that they were read from, in characters."""

from __future__ import annotations

import ast
import re

from shardlint import decoding
from shardlint.edits import line_starts

#: A string as it is written, without prefix, escapes and parts.
_PLAIN = re.compile(
    r"""('''|\"\"\"|'|")(?P<content>.*)\1""",
    re.DOTALL,
)


class Refused(Exception):
    """What cannot be converted: why, with the remedy, and where in the text, in characters."""

    def __init__(
        self,
        start: int,
        text: str,
    ) -> None:
        super().__init__(text)
        self.start = start
        self.text = text


class Spans:
    """Of a text that is all of a file, or begins ``base`` characters after its start."""

    def __init__(self, text: str, base: int = 0) -> None:
        self.text = text
        self.base = base
        self._lines = decoding.lines(text, keepends=True)
        self._starts = line_starts(text)

    def of(self, node: ast.expr | ast.stmt | ast.alias) -> tuple[int, int]:
        """Where a node begins and ends in the file."""
        start = self._offset(
            node.lineno,
            node.col_offset,
        )
        end = self._offset(
            node.end_lineno or 0,
            node.end_col_offset or 0,
        )
        return start, end

    def _offset(
        self,
        line: int,
        column: int,
    ) -> int:
        before = self._lines[line - 1].encode("utf-8", "surrogatepass")[:column]
        start = self._starts[line - 1]
        return self.base + start + decoding.characters(before)

    def quoted(self, node: ast.Constant) -> tuple[ast.expr, Spans] | None:
        """The annotation that a string holds, with its places; None where it holds none."""
        start, end = self.of(node)
        found = _PLAIN.fullmatch(
            self.text,
            start - self.base,
            end - self.base,
        )
        if found is None or found["content"] != node.value:
            return None
        tree = expression(found["content"])
        if tree is None:
            return None
        # one character, the parenthesis, is before what stands in the file
        before = found.start("content") - 1
        return tree, Spans(parenthesized(found["content"]), self.base + before)


def line_start(text: str, position: int) -> int:
    """Where the line begins that a position is on."""
    return text.rfind("\n", 0, position) + 1


def parenthesized(text: str) -> str:
    """An annotation in a string may go over lines."""
    return f"({text}\n)"


def expression(text: str) -> ast.expr | None:
    """What a text is as an expression; None where it is none."""
    try:
        return ast.parse(parenthesized(text), mode="eval").body
    except (SyntaxError, ValueError):
        return None
