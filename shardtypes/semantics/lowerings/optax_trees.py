"""optax's functions that give one number for a whole tree of arrays, from its documentation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, TypeVar

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.contractions import vdot
from shardtypes.semantics.lowerings.convert import ArrayLike, asarray, inexact, promoted
from shardtypes.semantics.lowerings.operators import absolute, add, numeric
from shardtypes.semantics.lowerings.reductions import max_, min_, sum_
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import lowering
from shardtypes.semantics.trees import flatten, map_leaves

_F = TypeVar("_F", bound=Callable[..., Any])


def _of_trees(name: str, unread: str = "") -> Callable[[_F], _F]:
    """Under the names that versions of optax have."""
    return lowering(
        f"optax.tree.{name}", f"optax.tree_utils.tree_{name}", unread=unread
    )


def squared(x: ArrayLike) -> Array:
    """The square of the absolute value."""
    (array,) = numeric(x)
    if dtypes.is_kind(array.dtype, "complex"):
        return e.square(e.abs_(array))
    return e.square(array)


@_of_trees("sum", unread="associative_reduction")
def total(tree: Any) -> Array:
    return _added([sum_(leaf) for leaf in flatten(tree)[0]])


@_of_trees("vdot")
def tree_vdot(tree_x: Any, tree_y: Any) -> Array:
    return _added(flatten(map_leaves(vdot, tree_x, tree_y))[0])


def _added(parts: Sequence[Array]) -> Array:
    """The sum of these and of a whole number, as which it begins."""
    if not parts:
        return asarray(0)
    _, found = promoted(asarray(0), reduce(add, parts))
    return found


@_of_trees("max")
def largest(tree: Any) -> Array:
    return _extreme(tree, max_, e.max_, -math.inf)


@_of_trees("min")
def least(tree: Any) -> Array:
    return _extreme(tree, min_, e.min_, math.inf)


def _extreme(
    tree: Any,
    of_leaf: Callable[[Any], Array],
    of_two: Callable[[Array, Array], Array],
    first: float,
) -> Array:
    found = asarray(first)
    for leaf in flatten(tree)[0]:
        found = of_two(*promoted(found, of_leaf(asarray(leaf))))
    return found


@_of_trees("norm")
def norm(
    tree: Any, ord: int | str | float | None = None, squared: bool = False
) -> Array:
    if ord is None or ord == 2:
        return sum_of_squares(tree) if squared else global_norm(tree)
    if ord == 1:
        found = total(map_leaves(absolute, tree))
    elif ord in (float("inf"), "inf", "infinity"):
        found = largest(map_leaves(absolute, tree))
    else:
        raise ValueError(f"Unsupported ord: {ord}")
    return e.square(*numeric(found)) if squared else found


@lowering("optax.global_norm")
def global_norm(updates: Any) -> Array:
    return e.sqrt(*inexact(sum_of_squares(updates)))


def sum_of_squares(tree: Any) -> Array:
    return total(map_leaves(squared, tree))
