"""What is expected of the items of displays.

mypy takes what the items of a list have in common for the type of each, and arrays of different shapes have only their
class in common. So each item is asked for its own type.
"""

from __future__ import annotations

from collections.abc import Iterator

from mypy.nodes import (
    DictExpr,
    Expression,
    ListExpr,
    SetExpr,
    StarExpr,
    TupleExpr,
)
from mypy.types import Instance, ProperType, TupleType, Type, UnionType, get_proper_type

_LIBRARY = ("builtins.", "typing.", "collections.", "_typeshed.")


def displayed(expected: Type, node: Expression) -> Iterator[tuple[Type, Expression]]:
    """The expressions that a value is written with, each with the type that is expected of it: the items of displays,
    else the expression itself."""
    want = get_proper_type(expected)
    items = _items(want, node)
    for item_type, item in items:
        if isinstance(item, StarExpr):
            yield expected, item.expr
        else:
            yield from displayed(item_type, item)
    if not items:
        yield expected, node


def _items(want: ProperType, node: Expression) -> list[tuple[Type, Expression]]:
    if isinstance(want, UnionType):
        kinds = [_items(get_proper_type(item), node) for item in want.items]
        found = [items for items in kinds if items]
        return found[0] if len(found) == 1 else []
    if isinstance(want, TupleType):
        items = node.items if isinstance(node, TupleExpr) else []
        same = len(items) == len(want.items)
        plain = same and not any(isinstance(item, StarExpr) for item in items)
        return list(zip(want.items, items, strict=True)) if plain else []
    if not isinstance(want, Instance) or not want.type.fullname.startswith(_LIBRARY):
        return []
    if isinstance(node, (TupleExpr, ListExpr, SetExpr)) and len(want.args) == 1:
        return [(want.args[0], item) for item in node.items]
    if isinstance(node, DictExpr) and len(want.args) == 2:
        return [(want.args[1], value) for key, value in node.items if key is not None]
    return []
