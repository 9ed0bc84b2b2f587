"""Generated tables: displays of thousands of literals.

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
_UNKNOWN: ir.Expr = ir.Opaque(-1, "a generated table")
Display = ast.List | ast.Tuple | ast.Set | ast.Dict


def may_have_tables(source: bytes) -> bool:
    """A quick look at the text."""
    commas = source.count(b",")
    return commas >= MANY and commas * _COMMA_EVERY >= len(source)


def outermost(tree: ast.Module) -> Iterator[Display]:
    """The outermost tables."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if (
            isinstance(node, Display)
            and len(_items(node)) > _FEW
            and (_literals(node) or 0) >= MANY
        ):
            yield node
        # what f-strings hold has no places of its own
        elif not isinstance(node, (ast.Constant, ast.JoinedStr)):
            pending.extend(ast.iter_child_nodes(node))


def _items(node: Display) -> list[ast.expr]:
    return node.values if isinstance(node, ast.Dict) else node.elts


def _literals(node: ast.expr | None) -> int | None:
    """How many literals an expression consists of; None where it is anything else as well."""
    match node:
        case ast.Constant():
            return 1
        case ast.UnaryOp(
            op=ast.USub() | ast.UAdd(),
            operand=ast.Constant(value=int() | float() | complex() as value),
        ):
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


def value_of(node: Display) -> ir.Expr:
    """``[a if … else b] * count``, of two items that differ wherever two of the table may."""
    if isinstance(node, (ast.Dict, ast.Set)):
        return _UNKNOWN
    first, kinds = node.elts[0], {_kind(item) for item in node.elts}
    item = _UNKNOWN
    if len(kinds) == 1:
        item = ir.IfExp(-1, _UNKNOWN, _sample(first, 0), _sample(first, 1))
    kind = type(node).__name__.lower()
    return ir.Binary(
        -1, "*", ir.Sequence(-1, kind, (item,)), ir.Const(-1, len(node.elts))
    )


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
            return ir.Sequence(
                -1,
                type(node).__name__.lower(),
                tuple(_sample(item, which) for item in items),
            )
        case _:
            return _UNKNOWN
