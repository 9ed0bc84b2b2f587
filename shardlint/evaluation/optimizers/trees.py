"""``optax``'s functions of trees in guarded code: averages of parameters, and arithmetic of whole trees."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlint.evaluation.lowered import jnp, random
from shardlint.evaluation.optimizers.numerics import (
    cast_like,
    cast_tree,
    chosen,
    dtype_of,
    squared,
)
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.lowerings.creation import full_like, ones_like, zeros_like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.reductions import max_, min_, sum_
from shardtypes.semantics.lowerings.shapes import entries_of
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.trees import flatten, map_leaves, unflatten


@provide("optax.incremental_update")
def incremental_update(new_tensors: Any, old_tensors: Any, step_size: Any) -> Any:
    """An exponential average of parameters."""
    return map_leaves(
        lambda new, old: step_size * asarray(new) + (1.0 - step_size) * asarray(old),
        new_tensors,
        old_tensors,
    )


@provide("optax.periodic_update")
def periodic_update(
    new_tensors: Any, old_tensors: Any, steps: Any, update_period: int
) -> Any:
    """The new parameters every so many steps, else the old ones."""
    is_due = asarray(steps) % update_period == 0
    return map_leaves(
        lambda new, old: where(is_due, new, old), new_tensors, old_tensors
    )


# --- arithmetic -------------------------------------------------------------------------------------------------------


def _provided(name: str) -> Callable[[Any], Any]:
    """Under the names that versions of optax have."""

    def register(function: Any) -> Any:
        provide(f"optax.tree_utils.tree_{name}")(function)
        return provide(f"optax.tree.{name}")(function)

    return register


@_provided("add")
def add(first: Any, second: Any, *rest: Any) -> Any:
    found = map_leaves(lambda a, b: asarray(a) + b, first, second)
    return add(found, *rest) if rest else found


@_provided("sub")
def sub(tree_x: Any, tree_y: Any) -> Any:
    return map_leaves(lambda a, b: asarray(a) - b, tree_x, tree_y)


@_provided("mul")
def mul(tree_x: Any, tree_y: Any) -> Any:
    return map_leaves(lambda a, b: asarray(a) * b, tree_x, tree_y)


@_provided("div")
def div(tree_x: Any, tree_y: Any) -> Any:
    return map_leaves(lambda a, b: asarray(a) / b, tree_x, tree_y)


@_provided("scale")
@_provided("scalar_mul")
def scale(scalar: Any, tree: Any) -> Any:
    return map_leaves(lambda leaf: scalar * asarray(leaf), tree)


@_provided("add_scale")
@_provided("add_scalar_mul")
def add_scale(tree_x: Any, scalar: Any, tree_y: Any) -> Any:
    return map_leaves(lambda a, b: asarray(a) + scalar * asarray(b), tree_x, tree_y)


@_provided("zeros_like")
def zeros(tree: Any, dtype: Any = None) -> Any:
    return map_leaves(lambda leaf: zeros_like(leaf, dtype), tree)


@_provided("ones_like")
def ones(tree: Any, dtype: Any = None) -> Any:
    return map_leaves(lambda leaf: ones_like(leaf, dtype), tree)


@_provided("full_like")
def full(tree: Any, fill_value: Any, dtype: Any = None) -> Any:
    return map_leaves(lambda leaf: full_like(leaf, fill_value, dtype), tree)


@_provided("conj")
def conjugated(tree: Any) -> Any:
    return map_leaves(jnp.conj, tree)


@_provided("real")
def real(tree: Any) -> Any:
    return map_leaves(jnp.real, tree)


@_provided("clip")
def clip(tree: Any, min_value: Any = None, max_value: Any = None) -> Any:
    clipped = jnp.clip
    return map_leaves(lambda leaf: clipped(leaf, min_value, max_value), tree)


@_provided("size")
def size(tree: Any) -> Any:
    return sum(entries_of(asarray(leaf)) for leaf in flatten(tree)[0])


_provided("where")(chosen)
_provided("cast")(cast_tree)
_provided("cast_like")(cast_like)


@_provided("split_key_like")
def split_key_like(rng_key: Any, target_tree: Any) -> Any:
    """A key for each leaf."""
    structure = flatten(target_tree)[1]
    keys = random.split(rng_key, structure.leaves)
    return unflatten(structure, [keys[k] for k in range(structure.leaves)])


@_provided("random_like")
def random_like(
    rng_key: Any, target_tree: Any, sampler: Any = None, dtype: Any = None
) -> Any:
    """A tree of random numbers, by default of a normal distribution."""
    draw = random.normal if sampler is None else sampler

    def drawn(leaf: Any, key: Any) -> Any:
        return draw(key, asarray(leaf).dims, dtype or dtype_of(leaf))

    return map_leaves(drawn, target_tree, split_key_like(rng_key, target_tree))


@_provided("sum")
def total(tree: Any) -> Any:
    found = asarray(0.0)
    for leaf in flatten(tree)[0]:
        found = found + sum_(asarray(leaf))
    return found


@_provided("vdot")
def vdot(first: Any, second: Any) -> Any:
    return total(mul(first, second))


def _extreme(tree: Any, of_leaf: Any, of_two: str) -> Any:
    found: Array | None = None
    for leaf in flatten(tree)[0]:
        one = of_leaf(asarray(leaf))
        found = one if found is None else LOWERINGS[of_two](found, one)
    return found


@_provided("max")
def largest(tree: Any) -> Any:
    return _extreme(tree, max_, "jax.numpy.maximum")


@_provided("min")
def least(tree: Any) -> Any:
    return _extreme(tree, min_, "jax.numpy.minimum")


@_provided("l2_norm")
@_provided("norm")
def norm(tree: Any, ord: Any = None, squared: bool = False) -> Any:
    if ord is None or ord == 2:
        found = _sum_of_squares(tree)
        return asarray(found) if squared else global_norm(tree)
    if ord == 1:
        found = total(map_leaves(e.abs_, tree))
    elif ord in (float("inf"), "inf", "infinity"):
        found = largest(map_leaves(e.abs_, tree))
    else:
        raise ValueError(f"Unsupported ord: {ord}")
    return e.square(found) if squared else found


def _sum_of_squares(tree: Any) -> Any:
    found: Any = 0.0
    for leaf in flatten(tree)[0]:
        found = sum_(squared(leaf)) + found
    return found


@provide("optax.global_norm")
def global_norm(updates: Any) -> Array:
    return e.sqrt(asarray(_sum_of_squares(updates)))
