"""``jax.tree.map`` over trees that hold instances of classes."""

from __future__ import annotations

from collections.abc import Callable

from shardlint.engine.trees import children, is_leaf, rebuilt
from shardlint.values import InstanceValue, Literal, Unknown, Value

_NOT_KNOWN = Unknown("maps a tree of unknown structure")


def holds_instance(value: Value) -> bool:
    """Whether some part of a tree is an instance that is a node."""
    parts = children(value)
    if parts is None:
        return False
    return isinstance(value, InstanceValue) or any(
        holds_instance(item) for _, item in parts
    )


def mapped(
    call: Callable[[list[Value]], Value], tree: Value, rest: list[Value]
) -> Value:
    """``call`` of every leaf with those in the same place of the other trees."""
    if isinstance(tree, Literal) and tree.value is None:
        return tree
    parts = children(tree)
    if parts is None:
        return call([tree, *rest]) if is_leaf(tree) else _NOT_KNOWN
    columns: list[dict[object, Value]] = []
    for other in rest:
        found = children(other)
        if (
            found is None
            or type(other) is not type(tree)
            or dict(found).keys() != dict(parts).keys()
        ):
            found = [(key, _NOT_KNOWN) for key, _ in parts]
        columns.append(dict(found))
    made = [
        (key, mapped(call, item, [column[key] for column in columns]))
        for key, item in parts
    ]
    return rebuilt(tree, made)
