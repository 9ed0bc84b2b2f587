"""Trees in manual code: the specs of their parts, maps over instances of classes, and gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from shardlint.axis_set import EVERY_AXIS
from shardlint.engine import tree_paths
from shardlint.engine.libraries import knows
from shardlint.engine.plain import operand
from shardlint.engine.sharding import manual_leaves
from shardlint.engine.sharding.site import Site
from shardlint.engine.trees import children, is_leaf, map_leaves, rebuilt
from shardlint.ops.registry import NONE, is_none
from shardlint.ops.sharding.state import axes_met, marks, sharded, split_marks, state
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
    pass

_TREE = ("jax.tree.", "jax.tree_util.tree_")


@knows(manual_leaves.OF_LIBRARY, prefixes=_TREE, first=True)
def call(site: Site) -> Value | None:
    """``jax.tree.map`` and its like, of trees that hold instances or lie alike, in manual code."""
    it, frame, at = site.it, site.frame, site.at
    qualname, args, kwargs = site.qualname, site.args, site.kwargs
    if it.view is None:
        return None
    prefix = next((one for one in _TREE if qualname.startswith(one)), None)
    if prefix is None:
        return (
            None if kwargs else manual_leaves.of_library(it, frame, qualname, args, at)
        )
    name = qualname.removeprefix(prefix)
    if kwargs.keys() - {"is_leaf", "initializer"}:
        return None
    if name not in ("map", "map_with_path"):
        return manual_leaves.call(it, frame, name, args, kwargs, at)
    if len(args) < 2 or "initializer" in kwargs:
        return None
    trees = [manual_leaves.as_tree(one) for one in args[1:]]
    asks = not is_none(kwargs.get("is_leaf", NONE))
    if asks and not _is_alike(trees[0]):
        return None  # the function decides where leaves are
    func = args[0]
    if name == "map_with_path":
        paths = tree_paths.of_leaves(trees[0])
        return _map(
            lambda leaves: it.call(
                frame, func, [leaves[1], leaves[0], *leaves[2:]], {}, at
            ),
            trees[0],
            [paths, *trees[1:]],
            asks,
        )
    return _map(
        lambda leaves: it.call(frame, func, leaves, {}, at),
        trees[0],
        trees[1:],
        asks,
    )


def _is_alike(tree: Value) -> bool:
    return isinstance(tree, Unknown) and tree.leaf is not None


def _map(
    call: Callable[[list[Value]], Value], tree: Value, rest: list[Value], asks: bool
) -> Value:
    """``asks`` tells that leaves may be something else than arrays."""
    parts = children(tree)
    if parts is None:
        if any(_is_alike(one) for one in (tree, *rest)):
            given = [one if asks else operand(one) for one in (tree, *rest)]
            result = operand(call(given))
            return Unknown(
                "a mapped tree", leaf=result if isinstance(result, ArrayValue) else None
            )
        if not is_leaf(tree):
            return Unknown("maps a tree of unknown structure")
        return call([tree, *rest])
    others = [children(other) for other in rest]
    if any(other is None or len(other) != len(parts) for other in others):
        return Unknown("maps trees of unknown structure")
    rows = [dict(other or []) for other in others]
    made = []
    for key, item in parts:
        if any(key not in row for row in rows):
            return Unknown("maps trees of unknown structure")
        made.append((key, _map(call, item, [row[key] for row in rows], asks)))
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


def _is_whole(value: ArrayValue, axis: str) -> bool:
    """Whether each device has all of it, be it the same one or its own, which went another way before."""
    now = state(value, axis)
    return now == "replicated" or (now == "varying" and "derived" in marks(value, axis))


def gradient(
    view: View | None,
    argument: Value,
    result: Value,
    place: tuple[str, int],
    by_jax: bool = True,
) -> Value | None:
    """The gradient of ``result`` by ``argument`` in manual code; None elsewhere.

    It is split as the argument is: what the function gathers comes back reduced and scattered. Where JAX does not
    keep track of what varies, a replicated argument gets each device's own gradient, if all of it is ``by_jax``: rules
    that the program gives may reduce it. Of anything else nothing is said.
    """
    if view is None:
        return None

    def change(leaf: Value) -> Value:
        if isinstance(leaf, Unknown) and leaf.leaf is not None:
            inside = change(leaf.leaf)
            return Unknown(
                leaf.reason, leaf=inside if isinstance(inside, ArrayValue) else None
            )
        if not isinstance(leaf, ArrayValue):
            return leaf if is_leaf(leaf) else Unknown("a part of a tree")
        dims = (
            None
            if leaf.dims is None
            else tuple(Dimension(d.size, d.axes) for d in leaf.dims)
        )
        mine = sharded(leaf)
        known = dims is not None and all(dim.axes is not None for dim in dims)
        own: list[str] = []
        if by_jax and view.transposes is False and isinstance(result, ArrayValue):
            axes = dict.fromkeys(
                [*(axis for axis, _ in view.axes), *sorted(axes_met([leaf, result]))]
            )
            own = [
                axis
                for axis in axes
                if _is_whole(leaf, axis)
                and state(result, axis) in ("pending", "varying")
            ]
        unclear = EVERY_AXIS.minus(mine if known else ()).minus(own)
        notes = tuple(
            Note(axis, "each device takes the gradient of its own shard here", *place)
            for axis in own
        )
        return ArrayValue(
            dims,
            leaf.dtype,
            leaf.weak,
            manual=True,
            pending=frozenset(),
            varying=frozenset(own),
            unclear=unclear,
            marks=split_marks(mine) | {(axis, "derived") for axis in own},
            notes=notes,
        )

    return map_leaves(argument, change)
