"""Diagonals, blocks, insertions, positions of triangles and grids, windows of signals."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import are_names_known, require_equal, unknown
from shardtypes.semantics.lazy import np
from shardtypes.semantics.local_sizes import plain
from shardtypes.semantics.lowerings.contractions import diagonal
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    DType,
    asarray,
    axis_of,
    cast,
    constant,
    counting,
    default,
    dtype_name,
    in_dtype_of,
    inexact,
    int_of,
    number_of,
    of_shape,
    shape_of,
    sizes_of,
    strong,
    weak_as,
    with_sizes,
)
from shardtypes.semantics.lowerings.creation import linspace, zeros
from shardtypes.semantics.lowerings.indexing import At, take
from shardtypes.semantics.lowerings.joining import concatenate, split, stack
from shardtypes.semantics.lowerings.operators import power
from shardtypes.semantics.lowerings.shapes import (
    along,
    broadcast_to,
    entries_of,
    expand_dims,
    moveaxis,
    ravel,
    reshape,
    size_of,
)
from shardtypes.semantics.primitives.structure import iota
from shardtypes.semantics.registry import Unsupported, lowering
from shardtypes.semantics.sizes import is_number, is_surely_less, known, least

_JNP, _LAX = "jax.numpy", "jax.lax"


@lowering(f"{_JNP}.shape")
def shape(a: ArrayLike) -> tuple[Any, ...]:
    return tuple(plain(size) for size in asarray(a).dims)


@lowering(f"{_JNP}.ndim")
def ndim(a: ArrayLike) -> int:
    return asarray(a).rank


@lowering(f"{_JNP}.size")
def size(a: ArrayLike, axis: int | None = None) -> Any:
    array = asarray(a)
    if axis is None:
        return entries_of(array)
    return plain(array.dims[axis_of(axis, array.rank)])


@lowering(f"{_JNP}.atleast_3d")
def atleast_3d(*arys: ArrayLike) -> Any:
    found = [_three(asarray(x)) for x in arys]
    if len(found) == 1:
        return found[0]
    return found


def _three(array: Array) -> Array:
    places: dict[int, tuple[int, ...]] = {
        0: (0, 1, 2),
        1: (0, 2),
        2: (2,),
    }
    added = places.get(array.rank, ())
    if added:
        return expand_dims(array, added)
    return array


@lowering(f"{_JNP}.dstack")
def dstack(tup: Any, dtype: Any = None) -> Array:
    return concatenate([_three(asarray(x)) for x in tup], 2, dtype)


@lowering(f"{_JNP}.dsplit")
def dsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    return split(ary, indices_or_sections, 2)


@lowering(f"{_LAX}.stack")
def lax_stack(operands: Any, axis: int = 0) -> Array:
    from shardtypes.semantics.lowerings.joining import stack

    return stack(operands, axis)


@lowering(f"{_LAX}.unstack")
def lax_unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    from shardtypes.semantics.lowerings.joining import unstack

    return unstack(x, axis=axis)


@lowering(f"{_LAX}.tile")
def lax_tile(operand: ArrayLike, reps: Any) -> Array:
    from shardtypes.semantics.lowerings.joining import tile

    return tile(operand, reps)


@lowering(f"{_LAX}.broadcast_to_rank")
def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    array = asarray(x)
    if rank > array.rank:
        return expand_dims(array, tuple(range(rank - array.rank)))
    return array


@lowering(f"{_JNP}.block")
def block(arrays: Any) -> Array:
    """Nested lists of blocks: the innermost are joined along the last dimension, their lists along the one before."""
    found, _ = _block(arrays, _depth(arrays))
    return found


def _depth(arrays: Any) -> int:
    if isinstance(arrays, list):
        return 1 + max(_depth(one) for one in arrays)
    return 0


def _block(arrays: Any, depth: int) -> tuple[Array, int]:
    if not isinstance(arrays, list):
        array = asarray(arrays)
        rank = max(array.rank, depth, 1)
        return (
            expand_dims(array, tuple(range(rank - array.rank)))
            if rank > array.rank
            else array
        ), 0
    made = [_block(one, depth) for one in arrays]
    level = 1 + max(below for _, below in made)
    return concatenate([one for one, _ in made], -level), level


# --- diagonals ------------------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.diag")
def diag(v: ArrayLike, k: int = 0) -> Array:
    array = asarray(v)
    if array.rank == 2:
        return diagonal(array, k)
    if array.rank != 1:
        raise ValueError("diag input must be 1d or 2d")
    return weak_as(diagflat(array, k), array)


@lowering(f"{_JNP}.diagflat")
def diagflat(v: ArrayLike, k: int = 0) -> Array:
    array = ravel(v)
    count = size_of(array)
    side = count + abs(k)
    if not is_number(side):
        return strong(of_shape(array, (side, side)))
    rows = np.arange(count) + max(-k, 0)
    empty = zeros((side, side), DType(array.dtype))
    places = (rows, rows + k)
    return At(empty, places).set(array)


@lowering(f"{_JNP}.fill_diagonal")
def fill_diagonal(
    a: ArrayLike, val: ArrayLike, wrap: bool = False, *, inplace: bool = True
) -> Array:
    array = asarray(a)
    if array.rank < 2:
        raise ValueError("array must be at least 2-d")
    if wrap or inplace:
        raise Unsupported("fill_diagonal in place, or wrapped")
    if array.rank > 2:
        for size in array.dims[1:]:
            require_equal(array.dims[0], size, "needs dimensions of one size")
    length = least(*sizes_of(array))
    if not is_number(length):
        return of_shape(array, array.dims)
    places = np.arange(length)
    new = ravel(val)
    new = take(new, places % size_of(new))
    return At(array, (places,) * array.rank).set(new)


# --- insertions -----------------------------------------------------------------------------------------------------


def _static(obj: Any, size: int, what: str) -> Any:
    """Positions that are numbers: a slice, an int, or several."""
    if isinstance(obj, slice):
        return np.arange(size)[obj]
    if isinstance(obj, Array):
        if obj.value is None or obj.value.axes:
            raise Unsupported(f"{what} at positions that differ between devices")
        return np.asarray(obj.numbers())
    return np.asarray(obj)


def _of_more(array: Array, at: int, more: Any) -> Array:
    """An array with so many entries more along a dimension; None is a number that is not known."""
    sizes = sizes_of(array)
    if more is None:
        size = unknown()
    else:
        size = sizes[at] + more
    return of_shape(array, with_sizes(sizes, at, size))


@lowering(f"{_JNP}.delete")
def delete(
    arr: ArrayLike,
    obj: Any,
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Array:
    array, at = along(arr, axis)
    if are_names_known():
        return _of_more(array, at, -1 if isinstance(obj, int) else None)
    places = np.arange(known(sizes_of(array)[at]))
    return take(array, np.delete(places, _static(obj, len(places), "delete")), at)


def _inserted(array: Array, obj: Any, values: Array) -> Any:
    """How many entries are inserted; None where that is not known."""
    if not isinstance(obj, int):
        return None
    if values.shape is None:
        return None
    if values.rank < max(array.rank, 1):
        return 1
    return values.dims[0]


@lowering(f"{_JNP}.insert")
def insert(
    arr: ArrayLike, obj: Any, values: ArrayLike, axis: int | None = None
) -> Array:
    array, at = along(arr, axis)
    if are_names_known():
        return _of_more(array, at, _inserted(array, obj, asarray(values)))
    count = known(sizes_of(array)[at])
    index = _static(obj, count, "insert")
    new = in_dtype_of(values, array)
    if index.size > 1 and new.rank == 0 and array.rank > 1:
        raise Unsupported("one value inserted at several places")
    more = index.size
    if index.ndim == 0 and new.rank == array.rank:
        new = moveaxis(new, 0, at)
        more = known(new.dims[at])
    if index.ndim == 0 and 0 < new.rank < array.rank:
        new = expand_dims(new, at)
    if index.ndim and more == 1 and new.rank:
        raise Unsupported("several values inserted at the one place of a list")
    places = np.arange(count)
    order = np.insert(places, index, count + np.arange(more))
    shape = with_sizes(sizes_of(array), at, more)
    both = concatenate([array, broadcast_to(new, shape)], at)
    return take(both, order, at)


@lowering(f"{_JNP}.resize")
def resize(a: ArrayLike, new_shape: Any) -> Array:
    array = ravel(a)
    wanted = shape_of(new_shape)
    total = math.prod(wanted)
    if not (is_number(total) and is_number(size_of(array))):
        return of_shape(array, wanted)
    if not size_of(array):
        return zeros(wanted, DType(array.dtype))
    return reshape(take(array, np.arange(total) % size_of(array)), wanted)


@lowering(f"{_JNP}.trim_zeros")
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: Any = None) -> Array:
    array = asarray(filt)
    if array.rank != 1 or array.value is None or array.value.axes:
        raise Unsupported(
            "trim_zeros of what differs between devices, or has several dimensions"
        )
    (there,) = np.nonzero(np.asarray(array.numbers()))
    if not len(there):
        return array[:0]
    start = 0
    stop = size_of(array)
    if "f" in trim.lower():
        start = int(there[0])
    if "b" in trim.lower():
        stop = int(there[-1]) + 1
    return array[start:stop]


# --- positions ------------------------------------------------------------------------------------------------------


def _numbers(made: Any) -> Array:
    return cast(asarray(np.asarray(made, np.int32)), default(int))


def _triangle(function: str) -> Callable[..., tuple[Array, ...]]:
    def indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
        return tuple(map(_numbers, getattr(np, function)(int_of(n), int_of(k), m)))

    return indices


def _triangle_from(function: str) -> Callable[..., tuple[Array, ...]]:
    def indices(arr: ArrayLike, k: int = 0) -> tuple[Array, ...]:
        rows, columns = map(known, sizes_of(asarray(arr)))
        return tuple(map(_numbers, getattr(np, function)(rows, int_of(k), columns)))

    return indices


for _name in ("tril_indices", "triu_indices"):
    lowering(f"{_JNP}.{_name}")(_triangle(_name))
    lowering(f"{_JNP}.{_name}_from")(_triangle_from(_name))


@lowering(f"{_JNP}.diag_indices")
def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    return (counting(number_of(n)),) * ndim


@lowering(f"{_JNP}.diag_indices_from")
def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    array = asarray(arr)
    return diag_indices(sizes_of(array)[0], array.rank)


@lowering(f"{_JNP}.indices")
def indices(dimensions: Sequence[int], dtype: Any = None, sparse: bool = False) -> Any:
    name = dtype_name(dtype or int)
    sizes = shape_of(dimensions)
    rank = len(sizes)
    if sparse:
        found = []
        ones = (1,) * rank
        for k, size in enumerate(sizes):
            shape = with_sizes(ones, k, size)
            grid = iota(shape=shape, dimension=k, dtype=name)
            found.append(grid)
        return tuple(found)
    if not rank:
        return constant(0, (0,), name)
    grids = []
    for k in range(rank):
        grid = iota(shape=sizes, dimension=k, dtype=name)
        grids.append(grid)
    return stack(grids)


@lowering(f"{_JNP}.ix_")
def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    arrays = [asarray(one) for one in args]
    if any(array.dtype == "bool" for array in arrays):
        raise Unsupported("ix_ of masks")
    if len(arrays) == 1:
        return tuple(arrays)
    found = []
    for k, array in enumerate(arrays):
        others = [j for j in range(len(arrays)) if j != k]
        wide = expand_dims(array, tuple(others))
        found.append(wide)
    return tuple(found)


@lowering(f"{_JNP}.fromfunction")
def fromfunction(
    function: Callable[..., Any], shape: Any, *, dtype: Any = float, **kwargs: Any
) -> Any:
    """The function is of the positions of each entry, as if it were mapped over them."""
    made = np.indices(shape_of(shape))
    found = function(
        *(cast(_numbers(one), dtype_name(dtype)) for one in made), **kwargs
    )
    if not isinstance(found, Array) or found.dims != shape_of(shape):
        raise Unsupported("fromfunction of no function of each entry")
    return found


# --- ranges and windows ---------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.logspace")
def logspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    base: ArrayLike = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    spread = linspace(start, stop, num, endpoint, axis=axis)
    made = power(asarray(base, float), spread)
    return cast(made, spread.dtype if dtype is None else dtype_name(dtype))


@lowering(f"{_JNP}.geomspace")
def geomspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    dtype: Any = None,
    axis: int = 0,
) -> Array:
    from shardtypes.semantics.primitives import elementwise as e

    low, high = map(strong, inexact(asarray(start), asarray(stop)))
    if low.dtype in dtypes.COMPLEX:
        raise Unsupported("a spiral of complex numbers")
    sign = e.sign(low)
    first = e.log(low * sign)
    last = e.log(high * sign)
    spread = linspace(first, last, num, endpoint, axis=axis)
    made = sign * e.exp(spread)
    return cast(made, low.dtype if dtype is None else dtype_name(dtype))


def _window(function: str) -> Callable[..., Array]:
    def made(M: int) -> Array:
        return _made_window(function, M)

    return made


for _name in ("bartlett", "blackman", "hamming", "hanning"):
    lowering(f"{_JNP}.{_name}")(_window(_name))


@lowering(f"{_JNP}.kaiser")
def kaiser(M: int, beta: Any) -> Array:
    return _made_window("kaiser", M, beta)


def _made_window(function: str, M: int, *args: Any) -> Array:
    if are_names_known():
        count = number_of(M)
        if is_surely_less(count, 0):
            raise Unsupported("a negative size: NumPy takes it")
        return constant(0, (count,), dtype_name(float))
    numbers = getattr(np, function)(int_of(M), *(float(arg) for arg in args))
    return asarray(np.asarray(numbers, np.float64))
