"""optax's functions that give one number for a whole tree of arrays, from its documentation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import ArrayLike, asarray, promoted
from shardtypes.semantics.lowerings.operators import add, multiply
from shardtypes.semantics.lowerings.reductions import max_, min_, sum_
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import Unsupported, lowering
from shardtypes.semantics.trees import flatten, map_leaves

_F = TypeVar("_F", bound=Callable[..., Any])


def _of_trees(name: str, unread: str = "") -> Callable[[_F], _F]:
    """Under the names that versions of optax have."""
    return lowering(
        f"optax.tree.{name}", f"optax.tree_utils.tree_{name}", unread=unread
    )


def squared(x: ArrayLike) -> Array:
    """The square of the absolute value."""
    array = asarray(x)
    if dtypes.is_kind(array.dtype, "complex"):
        return e.square(e.abs_(array))
    return e.square(array)


@_of_trees("sum", unread="associative_reduction")
def total(tree: Any) -> Array:
    found: Array | None = None
    for leaf in flatten(tree)[0]:
        one = sum_(leaf)
        found = one if found is None else add(found, one)
    return asarray(0) if found is None else found


@_of_trees("vdot")
def vdot(tree_x: Any, tree_y: Any) -> Array:
    return total(map_leaves(_product, tree_x, tree_y))


def _product(x: ArrayLike, y: ArrayLike) -> Array:
    return multiply(e.conj(asarray(x)) if _is_complex(x) else x, y)


def _is_complex(x: ArrayLike) -> bool:
    return dtypes.is_kind(asarray(x).dtype, "complex") is True


@_of_trees("max")
def largest(tree: Any) -> Array:
    return _extreme(tree, max_, e.max_)


@_of_trees("min")
def least(tree: Any) -> Array:
    return _extreme(tree, min_, e.min_)


def _extreme(
    tree: Any, of_leaf: Callable[[Any], Array], of_two: Callable[[Array, Array], Array]
) -> Array:
    leaves = flatten(tree)[0]
    if not leaves:
        raise Unsupported("the largest of nothing")
    first, *rest = map(of_leaf, leaves)
    for one in rest:
        first = of_two(*promoted(first, one))
    return first


@_of_trees("norm")
def norm(
    tree: Any, ord: int | str | float | None = None, squared: bool = False
) -> Array:
    if ord is None or ord == 2:
        return sum_of_squares(tree) if squared else global_norm(tree)
    if ord == 1:
        found = total(map_leaves(_magnitude, tree))
    elif ord in (float("inf"), "inf", "infinity"):
        found = largest(map_leaves(_magnitude, tree))
    else:
        raise ValueError(f"Unsupported ord: {ord}")
    return e.square(found) if squared else found


def _magnitude(x: ArrayLike) -> Array:
    return e.abs_(asarray(x))


@lowering("optax.global_norm")
def global_norm(updates: Any) -> Array:
    return e.sqrt(sum_of_squares(updates))


def sum_of_squares(tree: Any) -> Array:
    return total(map_leaves(squared, tree))
