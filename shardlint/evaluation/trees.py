"""``jax.tree`` and ``jax.tree_util`` in guarded code."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.outside import provide
from shardtypes.semantics import trees
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.lowerings.creation import zeros
from shardtypes.semantics.lowerings.joining import concatenate
from shardtypes.semantics.lowerings.shapes import reshape
from shardtypes.semantics.trees import (
    NODE,
    Registered,
    Structure,
    flatten,
    map_leaves,
    unflatten,
)

for _base in ("jax.tree", "jax.tree_util"):
    _of = "tree_" if _base.endswith("util") else ""
    provide(f"{_base}.{_of}map")(map_leaves)
    provide(f"{_base}.{_of}leaves")(
        lambda tree, is_leaf=None: flatten(tree, is_leaf)[0]
    )
    provide(f"{_base}.{_of}flatten")(flatten)
    provide(f"{_base}.{_of}structure")(
        lambda tree, is_leaf=None: flatten(tree, is_leaf)[1]
    )
    provide(f"{_base}.{_of}unflatten")(unflatten)
    provide(f"{_base}.{_of}all")(
        lambda tree, is_leaf=None: all(flatten(tree, is_leaf)[0])
    )
setattr(Structure, MARK, True)


@provide("jax.tree.reduce")
@provide("jax.tree_util.tree_reduce")
def _reduce(
    function: Callable[[Any, Any], Any],
    tree: Any,
    *initializer: Any,
    is_leaf: Any = None,
) -> Any:
    return functools.reduce(function, flatten(tree, is_leaf)[0], *initializer)


@provide("jax.tree.transpose")
@provide("jax.tree_util.tree_transpose")
def _transpose(
    outer_treedef: Structure, inner_treedef: Structure, pytree_to_transpose: Any
) -> Any:
    leaves, _ = flatten(pytree_to_transpose)
    step = inner_treedef.leaves
    rows = [leaves[i : i + step] for i in range(0, len(leaves), step)]
    columns = [
        unflatten(outer_treedef, list(column)) for column in zip(*rows, strict=True)
    ]
    return unflatten(inner_treedef, columns)


class Key:
    """A step of a path to a leaf, shown as JAX shows it: ``['a']`` in a dict, ``[0]`` in a sequence, ``.a`` in an
    object with fields, ``[<flat index 0>]`` in one that is registered without names."""

    def __init__(self, key: Any, shown: str) -> None:
        self.key = self.name = self.idx = key
        self._shown = shown

    def __str__(self) -> str:
        return self._shown

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Key) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(self._shown)


setattr(Key, MARK, True)


def _step(node: Any, key: Any) -> Key:
    """The step from a node to a child of it."""
    is_registered = getattr(type(node), NODE, None) is not None
    if isinstance(key, str) and (is_registered or hasattr(node, "_fields")):
        return Key(key, f".{key}")
    return Key(key, f"[<flat index {key}>]" if is_registered else f"[{key!r}]")


def _paths(
    tree: Any, is_leaf: Any, path: tuple[Key, ...] = ()
) -> list[tuple[tuple[Key, ...], Any]]:
    found = None if is_leaf is not None and is_leaf(tree) else trees.parts(tree)
    if found is None:
        return [(path, tree)]
    return [
        row
        for key, child in found[0]
        for row in _paths(child, is_leaf, (*path, _step(tree, key)))
    ]


def _refuse_paths(is_leaf: Any, is_leaf_takes_path: bool) -> None:
    if is_leaf is not None and is_leaf_takes_path:
        raise NotEvaluable("leaves that are told by their paths")


@provide("jax.tree.map_with_path")
@provide("jax.tree_util.tree_map_with_path")
def _map_with_path(
    function: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Any = None,
    is_leaf_takes_path: bool = False,
) -> Any:
    _refuse_paths(is_leaf, is_leaf_takes_path)
    paths = iter([path for path, _ in _paths(tree, is_leaf)])
    return map_leaves(
        lambda *leaves: function(next(paths), *leaves), tree, *rest, is_leaf=is_leaf
    )


@provide("jax.tree.flatten_with_path")
@provide("jax.tree_util.tree_flatten_with_path")
def _flatten_with_path(
    tree: Any, is_leaf: Any = None, is_leaf_takes_path: bool = False
) -> Any:
    _refuse_paths(is_leaf, is_leaf_takes_path)
    return _paths(tree, is_leaf), flatten(tree, is_leaf)[1]


@provide("jax.tree.leaves_with_path")
@provide("jax.tree_util.tree_leaves_with_path")
def _leaves_with_path(
    tree: Any, is_leaf: Any = None, is_leaf_takes_path: bool = False
) -> Any:
    _refuse_paths(is_leaf, is_leaf_takes_path)
    return _paths(tree, is_leaf)


@provide("jax.tree_util.keystr")
def _key_string(
    keys: tuple[Key, ...], *, simple: bool = False, separator: str = ""
) -> str:
    return separator.join(str(step.key) if simple else str(step) for step in keys)


@provide("jax.flatten_util.ravel_pytree")
def _ravel(pytree: Any) -> tuple[Array, Callable[[Any], Any]]:
    """All entries of a pytree in one vector, and what makes such a vector a pytree again."""
    leaves, structure = flatten(pytree)
    arrays = [asarray(leaf) for leaf in leaves]
    if not arrays:
        return zeros((0,)), lambda vector: unflatten(structure, [])
    flat = [reshape(one, (-1,)) for one in arrays]
    ends = list(itertools.accumulate(len(one) for one in flat))

    def unravel(vector: Array) -> Any:
        pieces = zip(arrays, [0, *ends[:-1]], ends, strict=True)
        return unflatten(
            structure,
            [
                cast(reshape(vector[start:end], one.shape), one.dtype or "float32")
                for one, start, end in pieces
            ],
        )

    return concatenate(flat), unravel


# --- classes as nodes -------------------------------------------------------------------------------------------------


def register_fields(cls: type, data: tuple[str, ...], rest: tuple[str, ...]) -> type:
    """Make a class a node with these fields as children; the others are part of the structure."""

    def split(value: Any) -> Any:
        kept = tuple((name, getattr(value, name)) for name in rest)
        return [(name, getattr(value, name)) for name in data], (type(value), kept)

    def join(structure: Any, children: Any) -> Any:
        made_of, kept = structure
        made = object.__new__(made_of)
        for name, value in (*zip(data, children, strict=True), *kept):
            object.__setattr__(made, name, value)
        return made

    setattr(cls, NODE, Registered(split, join))
    return cls


def register_dataclass_fields(cls: type) -> type:
    """A dataclass whose fields are children, but for those that are marked as static."""
    static = static_fields(cls)
    children = [f.name for f in dataclasses.fields(cls) if f.name not in static]
    return register_fields(cls, tuple(children), static)


def static_fields(cls: type) -> tuple[str, ...]:
    """The fields of a dataclass that are marked as no part of the tree."""
    return tuple(
        f.name
        for f in dataclasses.fields(cls)
        if f.metadata.get("static") or f.metadata.get("pytree_node") is False
    )


@provide("jax.tree_util.register_dataclass")
def _register_dataclass(
    nodetype: Any = None,
    data_fields: Any = None,
    meta_fields: Any = None,
    **options: Any,
) -> Any:
    if nodetype is None:
        return functools.partial(
            _register_dataclass, data_fields=data_fields, meta_fields=meta_fields
        )
    if data_fields is None:
        return register_dataclass_fields(nodetype)
    return register_fields(nodetype, tuple(data_fields), tuple(meta_fields or ()))


@provide("jax.tree_util.register_pytree_node_class")
def _register_class(cls: type) -> type:
    def split(value: Any) -> Any:
        children, rest = value.tree_flatten()
        return list(enumerate(children)), (type(value), rest)

    setattr(
        cls,
        NODE,
        Registered(
            split,
            lambda structure, children: structure[0].tree_unflatten(
                structure[1], children
            ),
        ),
    )
    return cls


@provide("jax.tree_util.register_pytree_node")
def _register_node(
    nodetype: type, flatten_func: Any, unflatten_func: Any, **options: Any
) -> None:
    def split(value: Any) -> Any:
        children, rest = flatten_func(value)
        return list(enumerate(children)), rest

    setattr(nodetype, NODE, Registered(split, unflatten_func))


@provide("jax.tree_util.Partial")
def _partial(function: Any, *args: Any, **kwargs: Any) -> Any:
    return functools.partial(function, *args, **kwargs)


def _dataclass_like(cls: Any = None, **options: Any) -> Any:
    """``flax.struct.dataclass``, ``chex.dataclass``, ``pytree_dataclass``: a frozen dataclass that is a node."""
    if cls is None:
        return functools.partial(_dataclass_like, **options)
    frozen = bool(options.get("frozen", True))
    made = dataclasses.dataclass(
        frozen=frozen, kw_only=bool(options.get("kw_only", False))
    )(cls)
    made.replace = lambda self, **changes: dataclasses.replace(self, **changes)
    return register_dataclass_fields(made)


for _name in ("flax.struct.dataclass", "shardtypes.pytree_dataclass", "chex.dataclass"):
    provide(_name)(_dataclass_like)


@provide("flax.struct.field")
def _field(pytree_node: bool = True, **options: Any) -> Any:
    return dataclasses.field(metadata={"pytree_node": pytree_node}, **options)


class Node:
    """The base of classes that are dataclasses and nodes by being below it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__()
        _dataclass_like(cls)


setattr(Node, MARK, True)
provide("flax.struct.PyTreeNode<base>")(Node)


class Equinox:
    """``equinox.Module``: as such a node, though its fields may be written to while it is made."""

    has_own_init = False
    """Whether the class, or one above it, says how it is made."""

    def __init_subclass__(cls, **options: Any) -> None:
        if "__init__" in vars(cls):
            cls.has_own_init = True
        made = dataclasses.dataclass(init=not cls.has_own_init, eq=False)(cls)
        register_dataclass_fields(made)


setattr(Equinox, MARK, True)
provide("equinox.Module<base>")(Equinox)


@provide("equinox.field")
def _equinox_field(static: bool = False, converter: Any = None, **options: Any) -> Any:
    return dataclasses.field(metadata={"static": static}, **options)
