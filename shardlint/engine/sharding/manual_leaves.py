"""The leaves of trees in manual code: lists of them, folds over them, and their norm.

Trees may hold instances of classes, and arrays of which it is only known how all of them lie on the mesh.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.engine.joining import join, join_all
from shardlint.engine.plain import operand
from shardlint.engine.trees import children, is_leaf, ordered, rebuilt
from shardlint.ops.registry import is_none
from shardlint.values import (
    ArrayValue,
    CollectionValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: What ``tree.structure`` gives, around the tree itself.
STRUCTURE = "jax.tree.structure"
_MAX_LEAVES = 64
_NORMS = frozenset(
    {
        "optax.global_norm",
        "optax.tree.norm",
        "optax.tree_utils.tree_l2_norm",
        "optax.tree_utils.tree_norm",
    }
)


def call(
    it: Interpreter,
    frame: Frame,
    name: str,
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    at: int,
) -> Value | None:
    """What ``jax.tree.<name>`` gives of the leaves of a tree; None for any other call, and where that is not known."""
    given = list(args)
    asks = "is_leaf" in kwargs and not is_none(kwargs["is_leaf"])
    match name, len(given):
        case "leaves", 1:
            return listed(given[0], asks)
        case "flatten", 1:
            found = listed(given[0], asks)
            return (
                None
                if found is None
                else SequenceValue((found, WrappedValue(STRUCTURE, given[0])))
            )
        case "structure", 1:
            return None if asks else WrappedValue(STRUCTURE, given[0])
        case "unflatten", 2 if (
            isinstance(given[0], WrappedValue) and given[0].kind == STRUCTURE
        ):
            return unflattened(given[0].func, given[1])
        case "reduce", 2 | 3 if not asks:
            start = [
                *given[2:],
                *(value for key, value in kwargs.items() if key == "initializer"),
            ]
            return _reduced(it, frame, given[0], given[1], start, at)
        case _:
            return None


#: Functions of libraries that take a tree as its leaves, one after the other.
OF_LIBRARY = _NORMS | {"jax.flatten_util.ravel_pytree"}


def of_library(
    it: Interpreter, frame: Frame, qualname: str, args: Sequence[Value], at: int
) -> Value | None:
    """``ravel_pytree`` and the norm over all leaves of a tree; None for any other call."""
    if len(args) != 1 or qualname not in OF_LIBRARY:
        return None
    flat = _raveled(it, frame, args[0], at)
    if flat is None:
        return None
    if qualname in _NORMS:
        return it.apply(frame, "jax.numpy.linalg.norm", [flat], {}, at)
    return SequenceValue((flat, Unknown("what puts the leaves back")))


def known(tree: Value) -> list[Value] | None:
    """The leaves in JAX's order; None where the structure is not known."""
    parts = ordered(tree)
    if parts is None:
        return [tree] if is_leaf(tree) else None
    found: list[Value] = []
    for _, item in parts:
        inner = known(item)
        if inner is None or len(found) > _MAX_LEAVES:
            return None
        found += inner
    return found


def alike(tree: Value) -> Value | None:
    """What holds of every leaf, where they are not known one by one; None where nothing is."""
    if isinstance(tree, CollectionValue):
        return alike(tree.item)
    if isinstance(tree, Unknown):
        return tree if tree.leaf is not None else None
    parts = children(tree)
    if parts is None:
        return tree if isinstance(tree, ArrayValue) else None
    found = [alike(item) for _, item in parts if not is_none(item)]
    if len(found) == 1:
        return found[0]
    arrays = [operand(one) for one in found if one is not None]
    whole = join_all(arrays) if arrays and len(arrays) == len(found) else None
    return whole if isinstance(whole, ArrayValue) and whole.manual else None


def as_tree(value: Value) -> Value:
    """A collection of unknown length as a tree of arrays that lie alike; any other value as it is."""
    if not isinstance(value, CollectionValue):
        return value
    one = alike(value)
    leaf = None if one is None else operand(one)
    return Unknown(
        "a collection of unknown length",
        leaf=leaf if isinstance(leaf, ArrayValue) else None,
    )


def listed(tree: Value, asks: bool = False) -> Value | None:
    """The list of the leaves. ``asks`` tells that a function says what is a leaf."""
    found = None if asks else known(tree)
    if found is not None:
        return SequenceValue(tuple(found), "list")
    one = None if asks and children(tree) is not None else alike(tree)
    return None if one is None else CollectionValue(one)


def unflattened(tree: Value, leaves: Value) -> Value:
    """The tree with other leaves."""
    found = known(tree)
    if (
        isinstance(leaves, SequenceValue)
        and found is not None
        and len(found) == len(leaves.items)
    ):
        return _filled(tree, iter(leaves.items).__next__)
    return (
        as_tree(leaves)
        if isinstance(leaves, CollectionValue)
        else Unknown("a tree of other leaves")
    )


def _filled(tree: Value, following: Callable[[], Value]) -> Value:
    parts = ordered(tree)
    if parts is None:
        return following()
    made = {key: _filled(item, following) for key, item in parts}
    return rebuilt(tree, [(key, made[key]) for key, _ in children(tree) or []])


def _reduced(
    it: Interpreter, frame: Frame, func: Value, tree: Value, start: list[Value], at: int
) -> Value | None:

    found = known(tree)
    if found is None:
        one = alike(tree)
        if one is None:
            return None
        item = operand(one)
        total = it.call(frame, func, [*(start or [item]), item], {}, at)
        return join(total, it.call(frame, func, [total, item], {}, at))
    if not start and not found:
        return None
    total, rest = (start[0], found) if start else (found[0], found[1:])
    for leaf in rest:
        total = it.call(frame, func, [total, leaf], {}, at)
    return total


def _raveled(it: Interpreter, frame: Frame, tree: Value, at: int) -> ArrayValue | None:
    """All leaves in one vector."""
    found = known(tree)
    if found is None:
        one = alike(tree)
        leaf = None if one is None else operand(one)
        found = None if not isinstance(leaf, ArrayValue) else [replace(leaf, dims=None)]
    if not found:
        return None
    flat = [it.apply(frame, "jax.numpy.ravel", [leaf], {}, at) for leaf in found]
    result = it.apply(
        frame, "jax.numpy.concatenate", [SequenceValue(tuple(flat), "list")], {}, at
    )
    return result if isinstance(result, ArrayValue) else None
