"""Functions that make arrays."""

from __future__ import annotations

from typing import Any

from shardtypes.lang import Size, dtypes
from shardtypes.semantics.array import Array
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
from shardtypes.semantics.sizes import greatest, rounded_up
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


@lowering(f"{_JNP}.zeros", f"{_JNP}.empty", unread="device out_sharding")
def zeros(shape: Any, dtype: Any = None) -> Array:
    return constant(0, shape_of(shape), dtype_name(dtype or float))


@lowering(f"{_JNP}.ones", unread="device out_sharding")
def ones(shape: Any, dtype: Any = None) -> Array:
    return constant(1, shape_of(shape), dtype_name(dtype or float))


@lowering(f"{_LAX}.full", unread="sharding")
def lax_full(shape: Any, fill_value: ArrayLike, dtype: Any = None) -> Array:
    if asarray(fill_value).shape:
        raise Refused("the value is a scalar")
    return full(shape, fill_value, dtype)


@lowering(f"{_JNP}.full", unread="device out_sharding")
def full(shape: Any, fill_value: ArrayLike, dtype: Any = None) -> Array:
    value = asarray(fill_value, dtype)
    return broadcast_to(value, shape_of(shape))


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
    if shape is None:
        sizes = like.dims
    else:
        sizes = shape_of(shape)
    if dtype is not None:
        return broadcast_to(asarray(fill_value, dtype), sizes)
    made = broadcast_to(cast(asarray(fill_value), like.dtype), sizes)
    return weak_as(made, like)


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
    if isinstance(low, Size) or isinstance(high, Size):
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
    """Raises Unsupported where the sign of the step is not known."""
    if any(isinstance(one, float) for one in (low, high, step)):
        raise Unsupported("a range of floats, up to a size that is not a number")
    by = int_of(step)
    if by < 1:
        raise Unsupported("a range backwards, up to a size that is not a number")
    first, last = number_of(low), number_of(high)
    count = rounded_up(greatest(last - first, 0), by)
    name = stored("int64") if dtype is None else dtype_name(dtype)
    return iota(shape=(count,), dimension=0, dtype=name)


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
) -> Array:
    if retstep or axis:
        raise Unsupported("linspace with its step, or along another axis")
    low, high = map(strong, inexact(asarray(start), asarray(stop)))
    if endpoint:
        parts = max(num - 1, 1)
    else:
        parts = num
    fractions = multiply(
        iota(shape=(whole(num),), dimension=0, dtype=low.dtype), 1.0 / max(parts, 1)
    )
    wide = expand_dims(fractions, axes=tuple(range(1, 1 + max(low.rank, high.rank))))
    made = add(low, multiply(high - low, wide))
    return asarray(made, dtype)


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
    shape = shape_of([N, N if M is None else M])
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
    if any(array.rank != 1 for array in arrays):
        raise Refused("needs vectors", "ranks")
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
