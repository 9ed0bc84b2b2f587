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
)
from shardlint.evaluation.outside import provide
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.lowerings.creation import full_like, ones_like, zeros_like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.shapes import entries_of
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
