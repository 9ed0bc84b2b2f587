"""``optax``'s functions of numbers: counts, norms that have a gradient everywhere, moments."""

from __future__ import annotations

from typing import Any

from shardlint.evaluation.lowered import jnp, linalg
from shardlint.evaluation.outside import provide
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import asarray, cast, promoted
from shardtypes.semantics.lowerings.creation import ones_like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.optax_trees import squared
from shardtypes.semantics.lowerings.reductions import mean, sum_
from shardtypes.semantics.lowerings.shapes import squeeze
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.trees import flatten, map_leaves


def dtype_of(value: Any) -> str:
    return asarray(value).dtype or "float32"


def as_number(count: Any) -> Array:
    """A number of steps that exponents are."""
    return cast(asarray(count), "float32")


@provide("optax.safe_increment")
@provide("optax.safe_int32_increment")
@provide("optax.numerics.safe_increment")
def incremented(count: Any) -> Array:
    """One more, but for the largest number of its dtype."""
    array = asarray(count)
    dtype = dtype_of(array)
    if dtypes.is_kind(dtype, "floating"):
        return array + 1  # the largest one stays what it is
    if not dtypes.is_kind(dtype, "signed", "unsigned"):
        raise ValueError(f"Cannot safely increment count with dtype {dtype}")
    limit = cast(asarray(np.iinfo(dtype).max), dtype)
    return where(array < limit, array + cast(asarray(1), dtype), limit)


def norm(x: Any) -> Array:
    return e.sqrt(sum_(squared(x)))


@provide("optax.safe_norm")
@provide("optax.numerics.safe_norm")
def safe_norm(
    x: Any, min_norm: Any, ord: Any = None, axis: Any = None, keepdims: bool = False
) -> Array:
    """A norm that is at least so large, whose gradient is zero where it would be smaller."""
    of_vectors = linalg.norm
    array = asarray(x)
    found = of_vectors(array, ord, axis, True)
    array = where(found <= min_norm, ones_like(array), array)
    if not keepdims:
        found = squeeze(found, axis)
    masked = of_vectors(array, ord, axis, keepdims)
    return where(found <= min_norm, min_norm, masked)


def root_mean_square(x: Any) -> Array:
    return e.sqrt(mean(squared(x)))


@provide("optax.safe_root_mean_squares")
@provide("optax.numerics.safe_root_mean_squares")
def safe_root_mean_square(x: Any, min_rms: Any) -> Array:
    """The root of the mean square, at least so large, whose gradient is zero where it would be smaller."""
    array = asarray(x)
    is_small = root_mean_square(array) <= min_rms
    array = where(is_small, ones_like(array), array)
    return where(is_small, min_rms, root_mean_square(array))


def _mixed(decay: Any, new: Any, old: Any) -> Any:
    return (1 - decay) * new + decay * old


@provide("optax.update_moment")
@provide("optax.tree.update_moment")
@provide("optax.tree_utils.tree_update_moment")
def moment(updates: Any, moments: Any, decay: Any, order: Any) -> Any:
    """A running average of powers."""

    def mixed(new: Any, old: Any) -> Any:
        return _mixed(decay, new if order == 1 else new**order, old)

    return map_leaves(mixed, updates, moments)


@provide("optax.update_moment_per_elem_norm")
@provide("optax.tree.update_moment_per_elem_norm")
@provide("optax.tree_utils.tree_update_moment_per_elem_norm")
def moment_of_norms(updates: Any, moments: Any, decay: Any, order: Any) -> Any:
    """A running average of powers of the absolute values."""

    def mixed(new: Any, old: Any) -> Any:
        if order == 2:
            return _mixed(decay, squared(new), old)
        if dtypes.is_kind(dtype_of(new), "complex"):
            return _mixed(decay, squared(new) ** (order / 2), old)
        return _mixed(decay, new**order, old)

    return map_leaves(mixed, updates, moments)


@provide("optax.update_infinity_moment")
@provide("optax.tree.update_infinity_moment")
@provide("optax.tree_utils.tree_update_infinity_moment")
def infinity_moment(updates: Any, moments: Any, decay: Any, eps: Any) -> Any:
    """A running maximum."""
    larger = jnp.maximum
    return map_leaves(
        lambda new, old: larger(e.abs_(new) + eps, decay * old), updates, moments
    )


@provide("optax.bias_correction")
@provide("optax.tree.bias_correction")
@provide("optax.tree_utils.tree_bias_correction")
def corrected(moments: Any, decay: Any, count: Any) -> Any:
    """Running averages that began at zero, so many steps ago, without that."""
    share = asarray(1 - decay ** as_number(count))
    return map_leaves(lambda leaf: leaf / cast(share, dtype_of(leaf)), moments)


def with_lookahead(moments: Any, updates: Any, decay: Any, count: Any) -> Any:
    """The corrected running averages of the step after, of Nesterov's."""
    ahead = corrected(moments, decay, incremented(count))
    now = corrected(updates, decay, count)
    return map_leaves(lambda m, g: decay * m + (1 - decay) * g, ahead, now)


def cast_tree(tree: Any, dtype: Any) -> Any:
    """A tree in a dtype; as it is for None."""
    if dtype is None:
        return tree
    return map_leaves(lambda leaf: asarray(leaf, dtype), tree)


def cast_like(tree: Any, other: Any) -> Any:
    """A tree in the dtypes of another."""
    return map_leaves(lambda leaf, one: cast(asarray(leaf), dtype_of(one)), tree, other)


def chosen(condition: Any, tree: Any, other: Any) -> Any:
    """One of two trees."""
    return map_leaves(lambda a, b: where(condition, a, b), tree, other)


def highest_dtype(tree: Any) -> str:
    """The dtype that all leaves can have."""
    leaves = [asarray(leaf) for leaf in flatten(tree)[0]]
    if not leaves:
        return "float32"
    return promoted(*leaves)[0].dtype or "float32"
