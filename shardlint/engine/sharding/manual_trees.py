"""Trees in manual code: the specs of their parts, maps over instances of classes, and gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from shardlint.axis_set import EVERY_AXIS
from shardlint.engine.frames import Frame
from shardlint.engine.plain import operand
from shardlint.engine.trees import children, is_leaf, map_leaves, rebuilt
from shardlint.ops.sharding.state import sharded, split_marks, state
from shardlint.ops.sharding.view import View
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    InstanceValue,
    Note,
    SequenceValue,
    Unknown,
    Value,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_MAP = "jax.tree.map"
_LEAVES = frozenset({"jax.tree.leaves", "jax.tree_util.tree_leaves", "jax.tree_leaves"})
_MAX_LEAVES = 64


def call(
    it: Interpreter, frame: Frame, qualname: str, args: Sequence[Value], kwargs: Mapping[str, Value], at: int
) -> Value | None:
    """``jax.tree.map`` and ``leaves`` of trees that hold instances; None for any other call."""
    if it.view is None or kwargs:
        return None
    if qualname == _MAP and len(args) >= 2:
        return _map(it, frame, args[0], args[1], list(args[2:]), at)
    if qualname in _LEAVES and len(args) == 1:
        found = leaves(args[0])
        return None if found is None else SequenceValue(tuple(found), "list")
    return None


def leaves(tree: Value) -> list[Value] | None:
    """The leaves in order; None where the structure is not known."""
    parts = children(tree)
    if parts is None:
        return [tree] if is_leaf(tree) else None
    found: list[Value] = []
    for _, item in parts:
        inner = leaves(item)
        if inner is None or len(found) > _MAX_LEAVES:
            return None
        found += inner
    return found


def _map(it: Interpreter, frame: Frame, func: Value, tree: Value, rest: list[Value], at: int) -> Value:
    from shardlint.engine.calls import call as call_function

    parts = children(tree)
    if parts is None:
        if any(isinstance(one, Unknown) and one.leaf is not None for one in (tree, *rest)):
            result = call_function(it, frame, func, [operand(one) for one in (tree, *rest)], {}, at)
            return Unknown("a mapped tree", leaf=result if isinstance(result, ArrayValue) else None)
        if not is_leaf(tree):
            return Unknown("maps a tree of unknown structure")
        return call_function(it, frame, func, [tree, *rest], {}, at)
    others = [children(other) for other in rest]
    if any(other is None or len(other) != len(parts) for other in others):
        return Unknown("maps trees of unknown structure")
    rows = [dict(other or []) for other in others]
    made = []
    for key, item in parts:
        if any(key not in row for row in rows):
            return Unknown("maps trees of unknown structure")
        made.append((key, _map(it, frame, func, item, [row[key] for row in rows], at)))
    return rebuilt(tree, made)


def parts_of(specs: Value | None, tree: Value) -> dict[object, Value] | None:
    """The specs of a tree's parts, by their keys; None where one is for all of them."""
    if isinstance(specs, InstanceValue):
        same = isinstance(tree, InstanceValue) and tree.cls is specs.cls
    elif isinstance(specs, (SequenceValue, DictValue)):
        same = isinstance(tree, (SequenceValue, DictValue))
    else:
        return None
    return dict(children(specs) or []) if same else {}


def gradient(view: View | None, argument: Value, result: Value, place: tuple[str, int]) -> Value | None:
    """The gradient of ``result`` by ``argument`` in manual code; None elsewhere.

    It is split as the argument is: what the function gathers comes back reduced and scattered. Where JAX does not
    keep track of what varies, a replicated argument gets each device's own gradient; of anything else nothing is said.
    """
    if view is None:
        return None

    def change(leaf: Value) -> Value:
        if isinstance(leaf, Unknown) and leaf.leaf is not None:
            inside = change(leaf.leaf)
            return Unknown(leaf.reason, leaf=inside if isinstance(inside, ArrayValue) else None)
        if not isinstance(leaf, ArrayValue):
            return leaf if is_leaf(leaf) else Unknown("a part of a tree")
        dims = None if leaf.dims is None else tuple(Dimension(d.size, d.axes) for d in leaf.dims)
        mine = sharded(leaf)
        known = dims is not None and all(dim.axes is not None for dim in dims)
        own: list[str] = []
        if view.transposes is False and isinstance(result, ArrayValue):
            own = [
                axis for axis, _ in view.axes
                if state(leaf, axis) == "replicated" and state(result, axis) in ("pending", "varying")
            ]  # fmt: skip
        unclear = EVERY_AXIS.minus(mine if known else ()).minus(own)
        notes = tuple(Note(axis, "the gradient of each device's own part is taken here", *place) for axis in own)
        return ArrayValue(
            dims, leaf.dtype, leaf.weak, manual=True, pending=frozenset(), varying=frozenset(own), unclear=unclear,
            marks=split_marks(mine), notes=notes,
        )  # fmt: skip

    return map_leaves(argument, change)
