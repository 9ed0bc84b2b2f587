"""Other values for some positions of an argument, such as a caller might give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from shardtypes.laws.arguments import Leaf
from shardtypes.laws.differences import on_host
from shardtypes.laws.walk import Host

_TRIES = 8


def changed(leaf: Leaf, where: Host, rng: np.random.Generator) -> Any:
    """The array with other values where it says so: of the kind that the array has, so that they are in range."""
    value = leaf.value
    if leaf.kind == "key":
        key = jax.random.key(
            int(rng.integers(1 << 30)), impl=jax.random.key_impl(value)
        )
        return jnp.where(where, jax.random.split(key, value.shape), value)
    array = np.asarray(value)
    return np.where(where, _fresh(leaf, array, where, rng), array).astype(array.dtype)


def _fresh(leaf: Leaf, array: Host, where: Host, rng: np.random.Generator) -> Host:
    values = array
    if leaf.kind == "f":
        values = array[np.isfinite(array)]
    distinct = np.unique(values)
    if leaf.kind == "f" and (leaf.made or distinct.size < 3):
        sizes = np.where(np.isfinite(array), np.abs(array), 1)
        scale = sizes.max(initial=0) or 1
        return np.asarray(array + scale * rng.standard_normal(array.shape))
    if distinct.size < 2:
        return array
    for _ in range(_TRIES):
        fresh = rng.choice(distinct, array.shape)
        if (fresh != array)[where].any():
            return np.asarray(fresh)
    return np.roll(array, 1)


def with_random_weights(leaves: Sequence[Leaf], rng: np.random.Generator) -> list[Any]:
    """The arguments with random numbers in place of weights that are all zeros or all ones, as they are before they
    are trained: such weights hide what depends on what. Scalars are left, which may be switches."""
    found = []
    for leaf in leaves:
        value = leaf.value
        if leaf.kind == "f" and leaf.axis is None and value.ndim and value.size:
            array = on_host(value).astype(np.float64)
            if np.all(array == array.flat[0]) and array.flat[0] in (0, 1):
                random = array + 0.5 * rng.standard_normal(array.shape)
                value = random.astype(value.dtype)
        found.append(value)
    return found
