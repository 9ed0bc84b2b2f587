"""``jax.tree``: maps, leaves and reductions of trees whose structure is known.

A tree here is made of tuples, lists, NamedTuples, dicts and None; its leaves are arrays, numbers and whatever else is
certainly no container. An instance of a class, or anything unknown, may be a tree of its own: then nothing is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from shardlint.ops.arrays import as_array, entries_in
from shardlint.ops.registry import NONE, Call, is_none, model, names
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    DTypeValue,
    IntValue,
    Literal,
    MeshValue,
    PartialValue,
    ScalarValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    StringValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size

_LEAVES = (
    ArrayValue,
    IntValue,
    Literal,
    ScalarValue,
    StringValue,
    DTypeValue,
    SpecValue,
    ShardingValue,
    MeshValue,
)
_MAX_LEAVES = 256


class _NotKnown(Exception):
    """The structure of a tree is not known."""


def ordered(tree: DictValue) -> list[tuple[object, Value]]:
    """The items of a dict as JAX flattens it: sorted by key."""
    try:
        return sorted(tree.items, key=lambda item: item[0])  # type: ignore[arg-type, return-value]  # as JAX does
    except TypeError:
        raise _NotKnown from None


def _is_node(tree: SequenceValue) -> bool:
    """Whether a sequence has the items that are known of it: a list may have grown unseen, keys are one array."""
    return tree.kind == "tuple" or (tree.kind == "list" and bool(tree.items))


def leaves_of(tree: Value) -> Iterator[Value]:
    """The leaves, in JAX's order. Raises _NotKnown."""
    if is_none(tree):
        return
    if isinstance(tree, _LEAVES):
        yield tree
    elif isinstance(tree, SequenceValue) and _is_node(tree):
        for item in tree.items:
            yield from leaves_of(item)
    elif isinstance(tree, DictValue):
        for _, item in ordered(tree):
            yield from leaves_of(item)
    else:
        raise _NotKnown


def _nodes(tree: Value) -> Iterator[Value]:
    """The containers of a tree, itself included."""
    if isinstance(tree, (SequenceValue, DictValue)):
        yield tree
        for item in (
            tree.items
            if isinstance(tree, SequenceValue)
            else (item for _, item in tree.items)
        ):
            yield from _nodes(item)


def leaf_list(call: Call, tree: Value) -> list[Value] | None:
    """The leaves of a tree; None where its structure is not known."""
    is_leaf = call.get("is_leaf")
    if not is_none(is_leaf) and any(
        call.ctx.call(is_leaf, [node], {}) != Literal(False) for node in _nodes(tree)
    ):
        return None
    try:
        found = list(leaves_of(tree))
    except _NotKnown:
        return None
    return found if len(found) <= _MAX_LEAVES else None


def _mapped(call: Call, tree: Value, rest: list[Value]) -> Value:
    if is_none(tree):
        return tree
    if isinstance(tree, _LEAVES):
        return call.ctx.call(call["f"], [tree, *rest], {})
    if isinstance(tree, SequenceValue) and _is_node(tree):
        for other in rest:
            if (
                not isinstance(other, SequenceValue)
                or other.kind != tree.kind
                or other.names != tree.names
            ):
                raise _NotKnown
            if len(other.items) != len(tree.items):
                raise _NotKnown
        rows = [
            [other.items[i] for other in rest if isinstance(other, SequenceValue)]
            for i in range(len(tree.items))
        ]
        return replace(
            tree,
            items=tuple(
                _mapped(call, item, row)
                for item, row in zip(tree.items, rows, strict=True)
            ),
        )
    if isinstance(tree, DictValue):
        others = [dict(other.items) for other in rest if isinstance(other, DictValue)]
        if len(others) < len(rest) or any(
            set(other) != {key for key, _ in tree.items} for other in others
        ):
            raise _NotKnown
        return DictValue(
            tuple(
                (key, _mapped(call, item, [other[key] for other in others]))
                for key, item in tree.items
            )
        )
    raise _NotKnown


@model("f, tree, *rest, is_leaf=None", "jax.tree.map")
def tree_map(call: Call) -> Value:
    """``f`` of every leaf, in the structure of the first tree."""
    rest = call["rest"]
    found = leaf_list(call, call["tree"])
    if found is None or not isinstance(rest, SequenceValue):
        return Unknown("maps a tree of unknown structure")
    try:
        return _mapped(call, call["tree"], list(rest.items))
    except _NotKnown:
        return Unknown("maps trees of unknown structure")


def _names(text: str) -> list[str]:
    return [
        *names("jax.tree", text),
        *[f"jax.tree_util.tree_{name}" for name in text.split()],
    ]


@model("tree, is_leaf=None", *_names("leaves"))
def leaves(call: Call) -> Value:
    found = leaf_list(call, call["tree"])
    return (
        Unknown("leaves of a tree of unknown structure")
        if found is None
        else SequenceValue(tuple(found), "list")
    )


@model("tree, is_leaf=None", *_names("flatten"))
def flatten(call: Call) -> Value:
    """The leaves and the structure."""
    found = leaf_list(call, call["tree"])
    leaves = (
        Unknown("leaves of a tree of unknown structure")
        if found is None
        else SequenceValue(tuple(found), "list")
    )
    return SequenceValue((leaves, Unknown("the structure of a tree")))


@model("function, tree, initializer=None, is_leaf=None", *_names("reduce"))
def reduce(call: Call) -> Value:
    """``function`` folded over the leaves. Without an initializer it starts from the first leaf."""
    found = leaf_list(call, call["tree"])
    if found is None:
        return Unknown("reduces a tree of unknown structure")
    if not found and is_none(call["initializer"]):
        return Unknown("reduces a tree without leaves")
    rest = iter(found)
    total = next(rest, NONE) if is_none(call["initializer"]) else call["initializer"]
    for leaf in rest:
        total = call.ctx.call(call["function"], [total, leaf], {})
    return total


@model("pytree", "jax.flatten_util.ravel_pytree")
def ravel(call: Call) -> Value:
    """All leaves in one vector, and the function that undoes it."""
    found = leaf_list(call, call["pytree"])
    arrays = [as_array(leaf) for leaf in found or ()]
    total: Size | None = Size.const(0) if found else None
    for leaf in arrays:
        size = None if leaf is None else entries_in(leaf)
        total = None if total is None or size is None else total + size
    alike = len({(leaf.dtype, leaf.weak) for leaf in arrays if leaf is not None}) == 1
    dtype = (
        arrays[0].dtype
        if alike and arrays[0] is not None and not arrays[0].weak
        else None
    )
    return SequenceValue(
        (ArrayValue((Dimension(total),), dtype), Unknown("what puts the leaves back"))
    )


@model("func, /, *args, **kwargs", "jax.tree_util.Partial")
def partial(call: Call) -> Value:
    """``functools.partial`` that is a tree itself."""
    args, kwargs = call["args"], call["kwargs"]
    if not isinstance(args, SequenceValue) or not isinstance(kwargs, DictValue):
        return Unknown("arguments of Partial")
    return PartialValue(
        call["func"],
        args.items,
        tuple((str(name), value) for name, value in kwargs.items),
    )


@model(
    "tree, is_leaf=None", *_names("structure leaves_with_path flatten_with_path all")
)
@model("treedef, leaves", *_names("unflatten"))
@model("outer_treedef, inner_treedef, pytree_to_transpose", *_names("transpose"))
@model(
    "f, tree, *rest, is_leaf=None, is_leaf_takes_path=False, none_is_leaf=False",
    *_names("map_with_path"),
)
@model(
    "tree, **kwargs",
    "jax.tree_util.keystr",
    "jax.tree_util.treedef_is_leaf",
    "jax.tree_util.treedef_tuple",
)
@model(
    "cls, *args, **kwargs",
    *names(
        "jax.tree_util",
        "register_pytree_node register_pytree_with_keys register_static "
        "register_pytree_node_class register_pytree_with_keys_class register_dataclass",
    ),
)
def structure(call: Call) -> Value:
    return Unknown(f"what {call.name} gives is not followed")
