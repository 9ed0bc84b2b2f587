"""Generated tables: displays of thousands of literals, folded before libcst parses the text.

libcst keeps some five kilobytes for each literal, and nothing is ever said of one of so many: what is known of a table
is its length, and what its items have in common.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from shardlint import ir

#: Literals of one display from which on they are not followed one by one.
MANY = 1000
#: Displays of no more items may hold tables as items: the values of a dict.
_FEW = 64
#: Text with fewer commas than one in so many bytes holds no table that matters.
_COMMA_EVERY = 25
_NAME = "__table_"


def fold(source: bytes, tree: ast.Module) -> tuple[bytes, dict[str, ir.Expr]]:
    """The text with names in place of what is between tables' brackets, and by those names what stands for each table.

    Lines stay where they are, and so does everything that is not on a table's first line.
    """
    commas = source.count(b",")
    if commas < MANY or commas * _COMMA_EVERY < len(source) or _is_odd(source):
        return source, {}
    lines = source.split(b"\n")
    tables: dict[str, ir.Expr] = {}
    for node in _large(tree):
        if node.end_lineno is None or node.end_col_offset is None:
            continue
        name = f"{_NAME}{len(tables)}"
        first, last = node.lineno - 1, node.end_lineno - 1
        opened, closing = lines[first][: node.col_offset + 1], lines[last][node.end_col_offset - 1 :]
        if opened[-1:] + closing[:1] != _BRACKETS[type(node)]:
            continue  # a tuple without brackets
        inside = name.encode() + b","  # of a dict this makes a set, which nothing is known of either
        if first == last:
            length = node.end_col_offset - node.col_offset - 2
            lines[first] = opened + inside.ljust(length) + closing
        else:
            lines[first] = opened + inside
            lines[first + 1 : last] = [b""] * (last - first - 1)
            lines[last] = b" " * (node.end_col_offset - 1) + closing
        tables[name] = _value(node)
    return b"\n".join(lines), tables


def _is_odd(source: bytes) -> bool:
    """Text in which Python's columns are not bytes of the text as it is, or which has names of ours."""
    if b"\r" in source or b"\f" in source or source.startswith(b"\xef\xbb\xbf") or _NAME.encode() in source:
        return True
    try:
        source.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return any(b"coding" in line for line in source.split(b"\n", 2)[:2])


_UNKNOWN: ir.Expr = ir.Opaque(-1, "a generated table")
_Display = ast.List | ast.Tuple | ast.Set | ast.Dict
_BRACKETS = {ast.List: b"[]", ast.Tuple: b"()", ast.Set: b"{}", ast.Dict: b"{}"}


def _large(tree: ast.Module) -> Iterator[_Display]:
    """The outermost tables, the last one first: so that what stands before a table has not moved."""
    found: list[_Display] = []
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, _Display) and len(_items(node)) > _FEW and (_literals(node) or 0) >= MANY:
            found.append(node)
        elif not isinstance(node, (ast.Constant, ast.JoinedStr)):  # what f-strings hold has no places of its own
            pending.extend(ast.iter_child_nodes(node))
    found.sort(key=lambda node: (node.lineno, node.col_offset), reverse=True)
    yield from found


def _items(node: _Display) -> list[ast.expr]:
    return node.values if isinstance(node, ast.Dict) else node.elts


def _literals(node: ast.expr | None) -> int | None:
    """How many literals an expression consists of; None where it is anything else as well."""
    match node:
        case ast.Constant():
            return 1
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float() | complex() as value)):
            return None if isinstance(value, bool) else 1
        case ast.List(elts=items) | ast.Tuple(elts=items) | ast.Set(elts=items):
            total = 0
        case ast.Dict(keys=keys, values=items):
            if not all(isinstance(key, ast.Constant) for key in keys):
                return None
            total = 0
        case _:
            return None
    for item in items:
        count = _literals(item)
        if count is None:
            return None
        total += count
    return total


def _value(node: _Display) -> ir.Expr:
    """``[a if … else b] * count``, of two items that differ wherever two of the table may."""
    if isinstance(node, (ast.Dict, ast.Set)):
        return _UNKNOWN
    first, kinds = node.elts[0], {_kind(item) for item in node.elts}
    item = _UNKNOWN
    if len(kinds) == 1:
        item = ir.IfExp(-1, _UNKNOWN, _sample(first, 0), _sample(first, 1))
    kind = type(node).__name__.lower()
    return ir.Binary(-1, "*", ir.Sequence(-1, kind, (item,)), ir.Const(-1, len(node.elts)))


def _kind(node: ast.expr) -> object:
    """Equal for items of which the same is known."""
    match node:
        case ast.Constant(value=value):
            return type(value)
        case ast.UnaryOp(operand=operand):
            return _kind(operand)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return (type(node), *map(_kind, items))
        case _:
            return type(node)


_SAMPLES: dict[type, tuple[object, object]] = {
    int: (0, 1), float: (0.0, 1.0), bool: (False, True), complex: (0j, 1j), str: ("", " "), bytes: (b"", b" "),
}  # fmt: skip


def _sample(node: ast.expr, which: int) -> ir.Expr:
    match node:
        case ast.UnaryOp(operand=operand):
            return _sample(operand, which)
        case ast.Constant(value=value):
            pair = _SAMPLES.get(type(value))
            return ir.Const(-1, value if pair is None else pair[which])
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return ir.Sequence(-1, type(node).__name__.lower(), tuple(_sample(item, which) for item in items))
        case _:
            return _UNKNOWN
