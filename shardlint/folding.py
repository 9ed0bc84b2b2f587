"""Text that libcst need not, or cannot well, parse: generated tables, and what is nested too deeply. Each gets a name
in its place before libcst sees the text, and the name stands for what is known of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from shardlint import ir, tables
from shardlint.deep import names_of_pattern, too_deep, too_deep_patterns

#: A statement ``match``, or what may be one.
_MATCH = re.compile(rb"^[ \t]*match\b", re.MULTILINE)
#: Names that stand for the items of a table, and for a whole expression.
_TABLE, _NESTED = "__table_", "__nested_"
_BRACKETS = {ast.List: b"[]", ast.Tuple: b"()", ast.Set: b"{}", ast.Dict: b"{}"}
#: What stands for an expression that is nested too deeply.
NESTED = "nested too deeply to be followed"


def fold(source: bytes, tree: ast.Module) -> tuple[bytes, dict[str, ir.Expr]]:
    """The text with names in place of what is folded, and what each name stands for.

    Lines stay where they are, and so does everything that is not on the first line of something folded.
    """
    if _is_odd(source):
        return source, {}
    found = sorted(
        _folded(source, tree), key=lambda part: _order(part[0]), reverse=True
    )
    lines = source.split(b"\n")
    values: dict[str, ir.Expr] = {}
    for node, value in found:  # the last one first: what stands before it has not moved
        name = f"{_TABLE if isinstance(node, tables.Display) else _NESTED}{len(values)}"
        if _replace(lines, node, name):
            values[name] = value
    return (b"\n".join(lines), values) if values else (source, {})


def _order(node: ast.expr | ast.pattern) -> tuple[int, int, int, int]:
    """By start; what holds others that start there comes before them."""
    return (
        node.lineno,
        node.col_offset,
        -(node.end_lineno or 0),
        -(node.end_col_offset or 0),
    )


def _folded(
    source: bytes, tree: ast.Module
) -> Iterator[tuple[ast.expr | ast.pattern, ir.Expr]]:
    if tables.may_have_tables(source):
        for table in tables.outermost(tree):
            yield table, tables.value_of(table)
    for node in too_deep(tree):
        yield (
            node,
            ir.Const(-1, node.value)
            if isinstance(node, ast.Constant)
            else ir.Opaque(-1, NESTED),
        )
    if _MATCH.search(source):
        for pattern in too_deep_patterns(tree):
            yield pattern, ir.Opaque(-1, NESTED)


def _is_odd(source: bytes) -> bool:
    """Text in which Python's columns are not bytes of the text as it is, or which has names of ours."""
    if b"\r" in source or b"\f" in source or source.startswith(b"\xef\xbb\xbf"):
        return True
    if _TABLE.encode() in source or _NESTED.encode() in source:
        return True
    try:
        source.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return any(b"coding" in line for line in source.split(b"\n", 2)[:2])


def _replace(lines: list[bytes], node: ast.expr | ast.pattern, name: str) -> bool:
    """Put a name in the place of an expression, of a display between its brackets. A pattern becomes one of a class of
    that name which binds the same names."""
    if node.end_lineno is None or node.end_col_offset is None:
        return False
    first, last, start, end = (
        node.lineno - 1,
        node.end_lineno - 1,
        node.col_offset,
        node.end_col_offset,
    )
    inside = name.encode()
    brackets = None
    if isinstance(node, ast.pattern):
        inside += f"({', '.join(names_of_pattern(node))})".encode()
    else:
        brackets = _BRACKETS.get(type(node))
    if brackets is not None:
        if lines[first][start : start + 1] + lines[last][end - 1 : end] != brackets:
            return False  # a tuple without brackets
        # of a dict this makes a set, which is as unknown
        start, end, inside = start + 1, end - 1, inside + b","
    if first == last:
        lines[first] = (
            lines[first][:start] + inside.ljust(end - start) + lines[first][end:]
        )
        return True
    joined = [line.rstrip().endswith(b"\\") for line in lines[first:last]]
    rest = b" " * end + lines[last][end:]
    lines[first] = lines[first][:start] + inside + (b" \\" if joined[0] else b"")
    lines[first + 1 : last] = [b"\\" if goes_on else b"" for goes_on in joined[1:]]
    lines[last] = rest
    return True
