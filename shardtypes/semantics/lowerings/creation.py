"""Functions that make arrays."""

from __future__ import annotations

from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lazy import np
from shardtypes.semantics.local_sizes import whole
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    cast,
    constant,
    dtype_name,
    inexact,
    int_of,
    shape_of,
    sizes_of,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.operators import add, multiply
from shardtypes.semantics.lowerings.shapes import broadcast_to
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives.structure import expand_dims, iota
from shardtypes.semantics.registry import Unsupported, lowering
from shardtypes.semantics.simulated import Simulated
from shardtypes.semantics.special import held

_JNP, _LAX = "jax.numpy", "jax.lax"


@lowering(f"{_JNP}.array", f"{_JNP}.asarray")
def array(object: ArrayLike, dtype: Any = None, **options: Any) -> Array:
    made = asarray(object, dtype)
    if made.weak and made.rank:
        return e.copy(made)
    return made


@lowering(f"{_JNP}.zeros", f"{_JNP}.empty")
def zeros(shape: Any, dtype: Any = None, **options: Any) -> Array:
    return constant(0, shape_of(shape), dtype_name(dtype or "float32"))


@lowering(f"{_JNP}.ones")
def ones(shape: Any, dtype: Any = None, **options: Any) -> Array:
    return constant(1, shape_of(shape), dtype_name(dtype or "float32"))


@lowering(f"{_JNP}.full", f"{_LAX}.full")
def full(shape: Any, fill_value: ArrayLike, dtype: Any = None, **options: Any) -> Array:
    value = asarray(fill_value, dtype)
    return broadcast_to(value, shape_of(shape))


@lowering(f"{_JNP}.zeros_like", f"{_JNP}.empty_like", f"{_LAX}.zeros_like_array")
def zeros_like(
    a: ArrayLike, dtype: Any = None, shape: Any = None, **options: Any
) -> Array:
    return full_like(a, 0, dtype, shape)


@lowering(f"{_JNP}.ones_like")
def ones_like(
    a: ArrayLike, dtype: Any = None, shape: Any = None, **options: Any
) -> Array:
    return full_like(a, 1, dtype, shape)


@lowering(f"{_JNP}.full_like", f"{_LAX}.full_like")
def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: Any = None,
    shape: Any = None,
    **options: Any,
) -> Array:
    like = asarray(a)
    if shape is None:
        sizes = like.dims
    else:
        sizes = shape_of(shape)
    made = broadcast_to(asarray(fill_value, dtype or like.dtype), sizes)
    if dtype is None:
        return weak_as(made, like)
    return made


@lowering(f"{_JNP}.arange")
def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: Any = None, **options: Any
) -> Array:
    if stop is None:
        low = 0
        high = start
    else:
        low = start
        high = stop
    by = 1 if step is None else step
    bounds = [
        one if isinstance(one, (int, float)) else _number(one)
        for one in (low, high, by)
    ]
    made = np.arange(*bounds)
    if dtype is not None:
        name = dtype_name(dtype)
    else:
        name = dtypes.canonical(made.dtype.name)
    return Array(made.shape, name, value=Simulated.everywhere(held(made, name)))


def _number(x: Any) -> float:
    if isinstance(x, Array) and dtypes.is_kind(x.dtype, "floating"):
        if x.value is None or x.value.axes:
            raise Unsupported("a range of a number that is not the same on all devices")
        return float(np.asarray(x.value.parts[0]))
    return int_of(x)


@lowering(f"{_LAX}.iota")
def lax_iota(dtype: Any, size: int) -> Array:
    return iota(shape=(whole(size),), dimension=0, dtype=dtype_name(dtype))


@lowering(f"{_LAX}.broadcasted_iota")
def broadcasted_iota(dtype: Any, shape: Any, dimension: int, **options: Any) -> Array:
    return iota(
        shape=shape_of(shape), dimension=int(dimension), dtype=dtype_name(dtype)
    )


@lowering(f"{_JNP}.linspace")
def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    **options: Any,
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


@lowering(f"{_JNP}.eye", f"{_LAX}.eye")
def eye(
    N: int,
    M: int | None = None,
    k: int | Array = 0,
    dtype: Any = None,
    **options: Any,
) -> Array:
    rows, columns = _rows_and_columns(N, M, k)
    return cast(e.eq(rows, columns), dtype_name(dtype or "float32"))


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
