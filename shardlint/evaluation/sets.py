"""``jnp.setdiff1d``, ``intersect1d`` and ``setxor1d`` in guarded code."""

from __future__ import annotations

from typing import Any

import numpy as np

from shardlint.evaluation.lowered import jnp
from shardlint.evaluation.outside import provide
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast, counting, promoted
from shardtypes.semantics.registry import Unsupported


def _flat(*given: Any) -> list[Array]:
    """The entries of arrays, of which some are there, and all are numbers."""
    arrays = [jnp.ravel(asarray(one)) for one in given]
    for array in arrays:
        if not len(array):
            raise Unsupported("an empty set")
        parts = () if array.value is None else array.value.parts
        if any(np.isnan(np.asarray(part, np.complex128)).any() for part in parts):
            raise Unsupported("a set with what is no number")
    return arrays


def _distinct(array: Array) -> tuple[Array, Array, Array]:
    """The different entries in order, where each is found first, and which of these are there."""
    values, index = jnp.unique(array, return_index=True, size=len(array))
    is_there = (counting(len(array)) == 0) | (values != values[0])
    return values, index, is_there


def _chosen(
    mask: Array, size: int | None, *arrays: tuple[Array, Any]
) -> tuple[Array, ...]:
    """Of arrays the entries where a mask holds, ``size`` of them, each array with what stands behind them."""
    count = jnp.sum(cast(mask, "int32"))
    if size is None:
        if dtypes.is_kind(arrays[0][0].dtype, "floating", "complex"):
            raise Unsupported("a set without a size: how many differ, rounding tells")
        size = int(count.numbers())
    order = jnp.argsort(~mask)
    order = jnp.pad(order, (0, max(0, size - len(order))))[:size]
    is_there = counting(size) < count
    made = []
    for array, behind in arrays:
        made.append(jnp.where(is_there, jnp.take(array, order), behind))
    return tuple(made)


def _padding(values: Array, mask: Array, fill_value: Any) -> Any:
    """What JAX writes behind the entries of a set: the least of them, or 0."""
    if fill_value is not None:
        return cast(asarray(fill_value), values.dtype or "float32")
    first = jnp.take(values, jnp.argmax(cast(mask, "int32")))
    return jnp.where(jnp.any(mask), first, jnp.zeros_like(first))


def _refuse_assumption(assume_unique: bool) -> None:
    if assume_unique:
        raise Unsupported("assume_unique")


@provide("jax.numpy.setdiff1d")
def setdiff1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    _refuse_assumption(assume_unique)
    first, second = _flat(ar1, ar2)
    values, _, is_there = _distinct(first)
    mask = is_there & ~jnp.isin(values, second)
    behind = cast(asarray(fill_value or 0), first.dtype or "float32")
    return _chosen(mask, size, (values, behind))[0]


@provide("jax.numpy.setxor1d")
def setxor1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    _refuse_assumption(assume_unique)
    first, second = promoted(*_flat(ar1, ar2))
    values, _, is_there = _distinct(jnp.concatenate([first, second]))
    mask = is_there & (jnp.isin(values, first) ^ jnp.isin(values, second))
    behind = _padding(values, mask, fill_value)
    return _chosen(mask, size, (values, behind))[0]


@provide("jax.numpy.intersect1d")
def intersect1d(
    ar1: Any,
    ar2: Any,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    _refuse_assumption(assume_unique)
    first, second = promoted(*_flat(ar1, ar2))
    values, index, is_there = _distinct(first)
    is_same = values[:, None] == second[None, :]
    mask = is_there & jnp.any(is_same, axis=1)
    behind = _padding(values, mask, fill_value)
    others = jnp.argmax(cast(is_same, "int32"), axis=1)
    wanted = [(values, behind)]
    if return_indices:
        wanted += [(index, len(first)), (others, len(second))]
    found = _chosen(mask, size, *wanted)
    return found if return_indices else found[0]
