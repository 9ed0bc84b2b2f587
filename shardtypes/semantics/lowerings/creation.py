"""Functions that make arrays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from shardtypes.lang import Size, dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import are_names_known, of_rank, unknown
from shardtypes.semantics.lazy import np
from shardtypes.semantics.local_sizes import whole
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    AxisOutOfRange,
    asarray,
    cast,
    constant,
    dtype_name,
    inexact,
    int_of,
    not_read,
    number_of,
    of_shape,
    promoted,
    shape_of,
    sizes_of,
    stored,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.operators import add, multiply
from shardtypes.semantics.lowerings.shapes import broadcast_to
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives.structure import expand_dims, iota
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.sizes import greatest, is_surely_less, rounded_up
from shardtypes.semantics.special import held

_JNP, _LAX = "jax.numpy", "jax.lax"


@lowering(f"{_JNP}.array", unread="copy order device out_sharding")
def array(object: ArrayLike, dtype: Any = None, *, ndmin: int = 0) -> Array:
    not_read(ndmin=ndmin or None)
    return as_array(object, dtype)


@lowering(f"{_JNP}.asarray", unread="copy order device out_sharding")
def as_array(a: ArrayLike, dtype: Any = None) -> Array:
    made = asarray(a, dtype)
    if isinstance(a, (tuple, list)):
        return strong(made)
    if made.weak and made.rank:
        return e.copy(made)
    return made


def _new_shape(shape: Any) -> tuple[Any, ...]:
    """The sizes of a new array. Raises Refused for negative ones."""
    sizes = shape_of(shape)
    if any(is_surely_less(size, 0) for size in sizes):
        raise Refused("a negative size", "sizes")
    return sizes


@lowering(f"{_JNP}.zeros", unread="device out_sharding")
def zeros(shape: Any, dtype: Any = None) -> Array:
    return constant(0, _new_shape(shape), dtype_name(dtype or float))


@lowering(f"{_JNP}.empty", unread="device out_sharding")
def empty(shape: Any, dtype: Any = None) -> Array:
    if any(is_surely_less(size, 0) for size in shape_of(shape)):
        raise Unsupported("a negative size, which some releases let through")
    return zeros(shape, dtype)


@lowering(f"{_JNP}.ones", unread="device out_sharding")
def ones(shape: Any, dtype: Any = None) -> Array:
    return constant(1, _new_shape(shape), dtype_name(dtype or float))


@lowering(f"{_LAX}.full", unread="sharding")
def lax_full(shape: Any, fill_value: ArrayLike, dtype: Any = None) -> Array:
    if asarray(fill_value).shape:
        raise Refused("the value is a scalar")
    return full(shape, fill_value, dtype)


@lowering(f"{_JNP}.full", unread="device out_sharding")
def full(shape: Any, fill_value: ArrayLike, dtype: Any = None) -> Array:
    value = asarray(fill_value, dtype)
    return broadcast_to(value, _new_shape(shape))


@lowering(f"{_LAX}.zeros_like_array")
@lowering(f"{_JNP}.zeros_like", unread="device out_sharding")
def zeros_like(a: ArrayLike, dtype: Any = None, shape: Any = None) -> Array:
    return full_like(a, 0, dtype, shape)


@lowering(f"{_JNP}.empty_like", unread="device")
def empty_like(prototype: ArrayLike, dtype: Any = None, shape: Any = None) -> Array:
    return full_like(prototype, 0, dtype, shape)


@lowering(f"{_JNP}.ones_like", unread="device out_sharding")
def ones_like(a: ArrayLike, dtype: Any = None, shape: Any = None) -> Array:
    return full_like(a, 1, dtype, shape)


@lowering(f"{_JNP}.full_like", unread="device out_sharding")
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: Any = None,
    shape: Any = None,
) -> Array:
    like = asarray(a)
    value = asarray(fill_value, dtype)
    if dtype is None:
        value = cast(value, like.dtype)
    if shape is not None:
        made = broadcast_to(value, _new_shape(shape))
    elif like.shape is None:
        made = replace(value, shape=None)
    else:
        # each dimension is that of the other array
        made = replace(broadcast_to(value, like.dims), origins=like.origins)
    return made if dtype is not None else weak_as(made, like)


@lowering(f"{_LAX}.full_like")
def lax_full_like(
    x: ArrayLike,
    fill_value: ArrayLike,
    dtype: Any = None,
    shape: Any = None,
    sharding: Any = None,
) -> Array:
    return full_like(x, fill_value, dtype, shape)


@lowering(f"{_JNP}.arange", unread="device out_sharding")
def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Array:
    if stop is None:
        low = 0
        high = start
    else:
        low = start
        high = stop
    by = 1 if step is None else step
    if are_names_known():
        return _arange_of_sizes(low, high, by, dtype)
    bounds = [
        one if isinstance(one, (int, float)) else _number(one)
        for one in (low, high, by)
    ]
    made = np.arange(*bounds)
    if dtype is not None:
        name = dtype_name(dtype)
    else:
        name = stored(made.dtype.name)
    return Array(made.shape, name, value=Simulated.everywhere(held(made, name)))


def _arange_of_sizes(low: Any, high: Any, step: Any, dtype: Any) -> Array:
    """A range of which the shape is asked for alone."""
    bounds = [low, high, step]
    if dtype is not None:
        name = dtype_name(dtype)
    else:
        name = strong(promoted(*map(asarray, bounds))[0]).dtype
    return iota(shape=(_steps(*bounds),), dimension=0, dtype=name)


def _steps(low: Any, high: Any, step: Any) -> Any:
    """How many steps there are from one number to another; something unknown where that depends on the sign of a step
    that is not known, or on floats beside names."""
    numbers = [one for one in (low, high, step) if isinstance(one, (int, float))]
    if len(numbers) == 3:
        return _steps_of_numbers(low, high, step)
    if not isinstance(step, int) or not step:
        return unknown()
    for bound in (low, high):
        if not isinstance(bound, (int, Size)):
            return unknown()
    if step > 0:
        length = high - low
    else:
        length = low - high
    return rounded_up(greatest(length, 0), abs(step))


def _steps_of_numbers(low: float, high: float, step: float) -> Any:
    if not step:
        return unknown()
    count = (high - low) / step
    if not math.isfinite(count):
        return unknown()
    return max(0, math.ceil(count))


def _number(x: Any) -> float:
    if isinstance(x, Array) and dtypes.is_kind(x.dtype, "floating"):
        if x.value is None or x.value.axes:
            raise Unsupported("a range of a number that is not the same on all devices")
        return float(np.asarray(x.value.parts[0]))
    return int_of(x)


@lowering(f"{_LAX}.iota")
def lax_iota(dtype: Any, size: int) -> Array:
    return iota(shape=shape_of(size), dimension=0, dtype=dtype_name(dtype))


@lowering(f"{_LAX}.broadcasted_iota", unread="out_sharding")
def broadcasted_iota(dtype: Any, shape: Any, dimension: int) -> Array:
    sizes = shape_of(shape)
    if not 0 <= int(dimension) < len(sizes):
        raise AxisOutOfRange(int(dimension), len(sizes))
    return iota(shape=sizes, dimension=int(dimension), dtype=dtype_name(dtype))


@lowering(f"{_JNP}.linspace", unread="device")
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    low, high = map(strong, inexact(asarray(start), asarray(stop)))
    if are_names_known():
        made = asarray(_numbers_between(low, high, num, axis), dtype)
        return (made, add(low, high)) if retstep else made
    if retstep:
        raise Unsupported("linspace with its step")
    if axis:
        raise Unsupported("linspace along another axis")
    if endpoint:
        parts = max(num - 1, 1)
    else:
        parts = num
    places = iota(shape=(whole(num),), dimension=0, dtype=low.dtype)
    fractions = multiply(places, 1.0 / max(parts, 1))
    rank = max(low.rank, high.rank)
    axes = tuple(range(1, 1 + rank))
    wide = expand_dims(fractions, axes=axes)
    made = add(low, multiply(high - low, wide))
    return asarray(made, dtype)


def _numbers_between(low: Array, high: Array, count: Any, axis: int) -> Array:
    """So many numbers for each pair, along a new dimension."""
    pairs = add(low, high)
    if is_surely_less(number_of(count), 0):
        raise Refused("a negative number of points", "sizes")
    sizes = list(pairs.dims)
    rank = len(sizes) + 1
    if not -rank <= axis < rank:
        raise Unsupported("an axis out of range: whether it is refused depends")
    sizes.insert(axis % rank, number_of(count))
    return of_shape(pairs, sizes)


@lowering(f"{_JNP}.eye", f"{_LAX}.eye", unread="device")
def eye(
    N: int,
    M: int | None = None,
    k: int | Array = 0,
    dtype: Any = None,
) -> Array:
    rows, columns = _rows_and_columns(N, M, k)
    return cast(e.eq(rows, columns), dtype_name(dtype or float))


@lowering(f"{_JNP}.identity")
def identity(n: int, dtype: Any = None) -> Array:
    return eye(n, dtype=dtype)


@lowering(f"{_JNP}.tri")
def tri(N: int, M: int | None = None, k: int | Array = 0, dtype: Any = None) -> Array:
    rows, columns = _rows_and_columns(N, M, k)
    return cast(e.ge(rows, columns), dtype_name(dtype or "float32"))


def _rows_and_columns(N: int, M: int | None, k: int | Array) -> tuple[Array, Array]:
    """The number of each entry's row, moved by ``k``, which each device may have of its own, and of its column."""
    shape = _new_shape([N, N if M is None else M])
    rows, columns = (iota(shape=shape, dimension=d, dtype="int32") for d in (0, 1))
    offset = cast(k, "int32") if isinstance(k, Array) else int_of(k)
    return add(rows, offset), columns


@lowering(f"{_JNP}.tril")
def tril(m: ArrayLike, k: int = 0) -> Array:
    given = asarray(m)
    rows, columns = given.dims[-2:]
    kept = tri(rows, columns, k, bool)  # type: ignore[arg-type]
    return where(kept, given, zeros_like(given))


@lowering(f"{_JNP}.triu")
def triu(m: ArrayLike, k: int = 0) -> Array:
    given = asarray(m)
    rows, columns = given.dims[-2:]
    below = tri(rows, columns, k - 1, bool)  # type: ignore[arg-type]
    return where(below, zeros_like(given), given)


@lowering(f"{_JNP}.meshgrid")
def meshgrid(
    *xi: ArrayLike, copy: bool = True, sparse: bool = False, indexing: str = "xy"
) -> list[Array]:
    arrays = [asarray(x) for x in xi]
    arrays = [of_rank(array, 1) for array in arrays]
    if any(array.rank > 1 for array in arrays):
        raise Refused("needs vectors", "ranks")
    if any(array.rank == 0 for array in arrays):
        raise Unsupported("a grid of numbers")
    swap = indexing == "xy" and len(arrays) > 1
    order = list(range(len(arrays)))
    if swap:
        order[:2] = [1, 0]
    shape = [sizes_of(arrays[k])[0] for k in order]
    found = []
    for place, given in zip(order, arrays, strict=True):
        wide = expand_dims(
            given, axes=tuple(k for k in range(len(arrays)) if k != place)
        )
        found.append(wide if sparse else broadcast_to(wide, shape))
    return found
