"""Trees of arrays, as JAX has them: tuples, lists, dicts, named tuples, None, and classes that were registered."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

from shardtypes.lang.frozen import frozen
from shardtypes.semantics import work

NODE = "__shardtypes_node__"
"""The attribute by which a class is a node: a ``Registered``."""


@frozen
class Registered:
    """How instances of a class are taken apart and made: ``flatten`` gives the children with their keys, and the
    rest."""

    flatten: Callable[[Any], tuple[Sequence[tuple[str, Any]], Hashable]]
    unflatten: Callable[[Any, Sequence[Any]], Any]


@frozen
class Structure:
    """The structure of a tree. ``kind`` is a class, None for a leaf; ``rest`` what else makes an instance."""

    kind: type | None
    rest: Any = None
    keys: tuple[Any, ...] = ()
    children: tuple[Structure, ...] = ()

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        if self.kind is None:
            return 1
        return sum(child.leaves for child in self.children)

    @property
    def num_leaves(self) -> int:
        """``PyTreeDef.num_leaves``."""
        return self.leaves

    @property
    def num_nodes(self) -> int:
        """``PyTreeDef.num_nodes``: the leaves are among them."""
        return 1 + sum(child.num_nodes for child in self.children)

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """``PyTreeDef.unflatten``."""
        return unflatten(self, list(leaves))

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """``PyTreeDef.flatten_up_to``: what a tree has where this one has leaves. Raises ValueError if it differs."""
        return _up_to(self, tree)


LEAF = Structure(None)


def parts(value: Any) -> tuple[list[tuple[Any, Any]], Any] | None:
    """The children of a node with their keys, and the rest; None for a leaf."""
    if value is None:
        return [], None
    registered = getattr(type(value), NODE, None)
    if registered is not None:
        children, rest = registered.flatten(value)
        return list(children), rest
    if isinstance(value, dict):
        return [(key, value[key]) for key in sorted(value)], type(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value, strict=True)), type(value)
    # JAX takes subclasses, such as PartitionSpec, for leaves
    if type(value) in (tuple, list):
        return list(enumerate(value)), type(value)
    return None


def flatten(
    tree: Any, is_leaf: Callable[[Any], Any] | None = None
) -> tuple[list[Any], Structure]:
    """The leaves and the structure."""
    leaves: list[Any] = []
    structure = _flatten(tree, is_leaf, leaves)
    work.tell(len(leaves))
    return leaves, structure


def _flatten(
    tree: Any, is_leaf: Callable[[Any], Any] | None, leaves: list[Any]
) -> Structure:
    if is_leaf is not None and is_leaf(tree):
        found = None
    else:
        found = parts(tree)
    if found is None:
        leaves.append(tree)
        return LEAF
    children, rest = found
    keys = tuple(key for key, _ in children)
    return Structure(
        type(tree),
        rest,
        keys,
        tuple(_flatten(child, is_leaf, leaves) for _, child in children),
    )


def unflatten(structure: Structure, leaves: Sequence[Any]) -> Any:
    """The tree of a structure with these leaves. Raises ValueError where their number differs."""
    rest = iter(leaves)
    tree = _unflatten(structure, rest)
    if next(rest, leaves) is not leaves:
        raise ValueError("too many leaves for the structure")
    return tree


def _unflatten(structure: Structure, leaves: Iterator[Any]) -> Any:
    if structure.kind is None:
        for leaf in leaves:
            return leaf
        raise ValueError("too few leaves for the structure")
    if structure.kind is type(None):
        return None
    children = [_unflatten(child, leaves) for child in structure.children]
    registered = getattr(structure.kind, NODE, None)
    if registered is not None:
        return registered.unflatten(structure.rest, children)
    if issubclass(structure.kind, dict):
        return structure.rest(zip(structure.keys, children, strict=True))
    if hasattr(structure.kind, "_fields"):
        return structure.kind(*children)
    return structure.kind(children)  # type: ignore[call-arg]  # a list or a tuple


def map_leaves(
    function: Callable[..., Any],
    tree: Any,
    *rest: Any,
    is_leaf: Callable[[Any], Any] | None = None,
) -> Any:
    """A function of the leaves of trees of one structure; the others may have whole trees where the first has leaves.

    Raises ValueError where structures differ.
    """
    leaves, structure = flatten(tree, is_leaf)
    others = [structure.flatten_up_to(other) for other in rest]
    return unflatten(
        structure, [function(*items) for items in zip(leaves, *others, strict=True)]
    )


def _up_to(structure: Structure, tree: Any) -> list[Any]:
    """What a tree has where the structure has leaves."""
    if structure.kind is None:
        return [tree]
    found = parts(tree)
    if found is None or type(tree) is not structure.kind:
        raise ValueError(
            f"structures differ: {structure.kind.__name__} and {type(tree).__name__}"
        )
    children, _ = found
    if tuple(key for key, _ in children) != structure.keys:
        raise ValueError("structures differ: other keys, or another number of entries")
    return [
        leaf
        for child, (_, value) in zip(structure.children, children, strict=True)
        for leaf in _up_to(child, value)
    ]


def spread_prefix(prefix: Any, tree: Any, is_leaf: Callable[[Any], bool]) -> list[Any]:
    """The leaf of a prefix tree for each leaf of a tree. Raises ValueError where the prefix does not fit."""
    found: list[Any] = []
    _spread(prefix, tree, is_leaf, found)
    return found


def _spread(
    prefix: Any, tree: Any, is_leaf: Callable[[Any], bool], found: list[Any]
) -> None:
    if is_leaf(prefix):
        found.extend([prefix] * len(flatten(tree)[0]))
        return
    above = parts(prefix)
    below = parts(tree)
    if (
        above is None
        or below is None
        or [k for k, _ in above[0]] != [k for k, _ in below[0]]
    ):
        raise ValueError("a prefix that does not fit its tree")
    for (_, one), (_, other) in zip(above[0], below[0], strict=True):
        _spread(one, other, is_leaf, found)


def paths_of(structure: Structure, path: str = "") -> list[str]:
    """The keys to each leaf. Two runs have classes of their own, so kinds of nodes are not compared."""
    if structure.kind is None:
        return [path]
    rows = zip(structure.keys, structure.children, strict=True)
    return [
        one
        for key, child in rows
        for one in paths_of(child, f"{path}.{key}" if path else str(key))
    ]


def leaf_at(tree: Any, path: str) -> Any:
    """The leaf to which a path leads; None where there is none."""
    leaves, structure = flatten(tree)
    paths = paths_of(structure)
    if path not in paths:
        return None
    return leaves[paths.index(path)]
