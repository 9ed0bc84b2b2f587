"""``optax.tree.get`` and ``optax.tree.set`` in guarded code: values of a state by their name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.outside import provide
from shardtypes.semantics.trees import flatten, parts, unflatten


def _children(node: Any) -> dict[Any, Any] | None:
    """What a named tuple or a dict has under names; None for others."""
    if isinstance(node, tuple) and hasattr(node, "_fields"):
        return dict(zip(node._fields, node, strict=True))
    if isinstance(node, dict):
        return dict(node)
    return None


def _is_named(node: Any, names: Mapping[str, Any]) -> bool:
    """Whether a node is of a class with one of the names, or has a value under one."""
    children = _children(node)
    if children is None:
        return False
    if not isinstance(node, dict) and type(node).__name__ in names:
        return True
    return any(key in names for key in children)


def _found(node: Any, key: str) -> Iterator[Any]:
    if _is_named(node, {key: None}):
        children = _children(node) or {}
        is_class = not isinstance(node, dict) and type(node).__name__ == key
        yield node if is_class else children[key]
    for _, child in (parts(node) or ([], None))[0]:
        yield from _found(child, key)


def _refuse_filter(filtering: Any) -> None:
    if filtering is not None:
        raise NotEvaluable("a filter of the values of a state")


@provide("optax.tree.get")
@provide("optax.tree_utils.tree_get")
def get(tree: Any, key: Any, default: Any = None, filtering: Any = None) -> Any:
    """The only value of this name."""
    _refuse_filter(filtering)
    found = list(_found(tree, key))
    if len(found) > 1:
        raise KeyError(f"Found multiple values for '{key}'")
    return found[0] if found else default


@provide("optax.tree.set")
@provide("optax.tree_utils.tree_set")
def with_values(tree: Any, filtering: Any = None, /, **kwargs: Any) -> Any:
    """The tree with other values under these names."""
    _refuse_filter(filtering)
    for key in kwargs:
        if not list(_found(tree, key)):
            raise KeyError(f"Found no values matching '{key}'")
    leaves, structure = flatten(tree, lambda node: _is_named(node, kwargs))
    return unflatten(structure, [_replaced(leaf, kwargs) for leaf in leaves])


def _replaced(node: Any, values: Mapping[str, Any]) -> Any:
    if not _is_named(node, values):
        return node
    if not isinstance(node, dict) and type(node).__name__ in values:
        return values[type(node).__name__]
    children = _children(node) or {}
    made = {
        key: values[key] if key in values else _replaced(child, values)
        for key, child in children.items()
    }
    return made if isinstance(node, dict) else node._replace(**made)
