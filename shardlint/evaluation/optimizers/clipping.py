"""``optax``'s transformations that bound, normalize or disturb updates."""

from __future__ import annotations

from typing import Any

from shardlint.evaluation.lowered import jnp, random
from shardlint.evaluation.optimizers import base
from shardlint.evaluation.optimizers.base import GradientTransformation, state
from shardlint.evaluation.optimizers.numerics import (
    as_number,
    incremented,
    root_mean_square,
)
from shardlint.evaluation.optimizers.trees import random_like
from shardlint.evaluation.outside import provide
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.lowerings.creation import zeros_like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.optax_trees import global_norm, squared
from shardtypes.semantics.lowerings.reductions import mean, sum_
from shardtypes.semantics.lowerings.shapes import broadcast_to, squeeze
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import Unsupported
from shardtypes.semantics.trees import flatten, map_leaves

AddNoiseState = state("AddNoiseState", "count rng_key")
ZeroNansState = state("ZeroNansState", "found_nan")

_larger = jnp.maximum


@provide("optax.clip")
def clip(max_delta: Any) -> Any:
    clipped = jnp.clip
    return base.of_each(lambda g, param: clipped(g, -max_delta, max_delta))


@provide("optax.clip_by_block_rms")
def clip_by_block_rms(threshold: Any) -> Any:
    return base.of_each(
        lambda g, param: g / _larger(1.0, root_mean_square(g) / threshold)
    )


@provide("optax.clip_by_global_norm")
def clip_by_global_norm(max_norm: Any) -> Any:
    def clipped(updates: Any, params: Any) -> Any:
        whole = global_norm(updates)

        def scaled(g: Any) -> Any:
            return where(whole < max_norm, g, g / cast(whole, g.dtype) * max_norm)

        return map_leaves(scaled, updates)

    return base.stateless(clipped)


@provide("optax.per_example_global_norm_clip")
def per_example_global_norm_clip(grads: Any, l2_norm_clip: Any) -> Any:
    """The sum of the gradients of examples, each of a norm that is at most so large, and how many were larger."""
    squares: Any = 0.0
    for leaf in _of_examples(grads):
        squares = squares + sum_(squared(leaf), tuple(range(1, leaf.rank)))
    factors = jnp.minimum(l2_norm_clip / e.sqrt(squares), 1.0)
    factors = jnp.nan_to_num(factors, nan=1.0)
    product = jnp.tensordot
    total = map_leaves(lambda g: product(factors, g, 1), grads)
    return total, sum_(cast(factors < 1.0, "int32"))


def _of_examples(grads: Any) -> list[Array]:
    """The leaves. Raises ValueError where they have not all a dimension for the examples."""
    leaves = [asarray(leaf) for leaf in flatten(grads)[0]]
    sizes = {leaf.dims[:1] for leaf in leaves}
    if len(sizes) != 1 or () in sizes:
        raise ValueError(
            "Unlike other transforms, `per_example_global_norm_clip` expects `grads` to have a batch dimension in the"
            " 0th axis."
        )
    return leaves


_AXES: dict[int, tuple[int, ...]] = {2: (0,), 3: (0,), 4: (0, 1, 2), 5: (0, 1, 2, 3)}
"""The axes of the inputs of a unit, by the rank of the weights."""


def unitwise_norm(x: Any, axis: Any = None) -> Array:
    """The norm of the weights of each unit, in the shape of the weights."""
    array = asarray(x)
    if axis is not None:
        axes: Any = axis
    elif squeeze(array).rank <= 1:
        axes = None
    elif array.rank in _AXES:
        axes = _AXES[array.rank]
    else:
        raise ValueError(f"Expected parameter with shape in {(1, 2, 3, 4, 5)}")
    squares = sum_(squared(array), axes, keepdims=True)
    return broadcast_to(e.sqrt(squares), array.dims)


@provide("optax.adaptive_grad_clip")
def adaptive_grad_clip(clipping: Any, eps: Any = 1e-3, axis: Any = None) -> Any:
    def clipped(g: Any, p: Any) -> Any:
        found = unitwise_norm(g, axis)
        most = clipping * _larger(unitwise_norm(p, axis), eps)
        return where(found < most, g, g * (most / _larger(found, 1e-6)))

    return base.by_parameters(clipped)


@provide("optax.normalize_by_update_norm")
def normalize_by_update_norm(scale_factor: Any = 1.0, eps: Any = 1e-6) -> Any:
    def normalized(updates: Any, params: Any) -> Any:
        whole = (global_norm(updates) + eps) / scale_factor
        return map_leaves(lambda g: g / whole, updates)

    return base.stateless(normalized)


@provide("optax.centralize")
def centralize() -> Any:
    """Without the mean of each row."""

    def centered(g: Any, param: Any) -> Any:
        array = asarray(g)
        if array.rank < 2:
            return array
        return array - mean(array, tuple(range(1, array.rank)), keepdims=True)

    return base.of_each(centered)


@provide("optax.zero_nans")
def zero_nans() -> Any:
    is_nan = jnp.isnan
    any_of = jnp.any

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        found = map_leaves(lambda g: any_of(is_nan(g)), updates)
        out = map_leaves(lambda g: where(is_nan(g), zeros_like(g), g), updates)
        return out, ZeroNansState(found)

    def init(params: Any) -> Any:
        return ZeroNansState(map_leaves(lambda p: asarray(False), params))

    return GradientTransformation(init, update)


@provide("optax.keep_params_nonnegative")
def keep_params_nonnegative() -> Any:
    return base.by_parameters(lambda g, p: where(p + g < 0.0, -p, g))


@provide("optax.add_noise")
def add_noise(eta: Any, gamma: Any, key: Any = None, *, seed: Any = None) -> Any:
    given = key if seed is None else seed
    if given is None:
        given = 0

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        count = incremented(state.count)
        deviation = e.sqrt(asarray(eta / as_number(count) ** gamma))
        keys = random.split(state.rng_key)
        noise = random_like(keys[1], updates)
        out = map_leaves(lambda g, n: g + deviation * n, updates, noise)
        return out, AddNoiseState(count, keys[0])

    def init(params: Any) -> Any:
        return AddNoiseState(base.zero(), _key(given))

    return GradientTransformation(init, update)


def _key(given: Any) -> Any:
    if isinstance(given, Array) and not dtypes.is_kind(given.dtype, "signed"):
        if given.shape == (2,):
            raise Unsupported("noise by a key of two words")
        return given
    return random.key(given)
