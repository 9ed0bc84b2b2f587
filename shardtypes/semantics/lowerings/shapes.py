"""Reshapes, transposes, broadcasts, slices along one dimension, rolls and flips."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardtypes.lang import Size
from shardtypes.semantics.array import Array, Shape, UnknownRank
from shardtypes.semantics.comparison import (
    are_names_known,
    common_shape,
    divided,
    is_known,
    require_equal,
    unknown,
)
from shardtypes.semantics.local_sizes import axes_of as local_axes_of
from shardtypes.semantics.local_sizes import plain, sharded
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axes_of,
    axis_of,
    int_of,
    lax_axes_of,
    number_of,
    of_shape,
    shape_of,
    sizes_of,
)
from shardtypes.semantics.lowerings.unpromoted import of_one_dtype
from shardtypes.semantics.mismatches import Reshape
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import (
    NegativeSize,
    Refused,
    Unsupported,
    lowering,
)
from shardtypes.semantics.sizes import bounds, is_number, is_surely_less

_JNP, _LAX = "jax.numpy", "jax.lax"


def size_of(array: Array) -> Any:
    """The number of entries."""
    return math.prod(map(_unmarked, sizes_of(array)))


def _unmarked(size: Any) -> Any:
    """A size that does not know over which axes it is sharded."""
    if isinstance(size, int):
        return int(size)
    return size


def entries_of(array: Array) -> int:
    """The number of entries, as a program asks for it: it knows over which axes the array is sharded."""
    found: int = math.prod(plain(size) for size in array.dims)
    return found


def _resolved(array: Array, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape with a number in place of -1, which is as local as the entries that no other size takes; so is one
    that is not known beside others."""
    open_ = [k for k, size in enumerate(shape) if size == -1 or not is_known(size)]
    if not open_:
        return tuple(shape)
    wanted: list[Any] = list(shape)
    others = [_unmarked(size) for k, size in enumerate(shape) if k not in open_]
    rest: Any = math.prod(others)
    entries = size_of(array)
    if len(open_) > 1 or not is_known(entries):
        for k in open_:
            wanted[k] = unknown()
        return tuple(wanted)
    (place,) = open_
    if is_number(rest) and not rest:
        if shape[place] == -1:
            raise Refused("-1 cannot be inferred beside a size of 0", "sizes")
        wanted[place] = unknown()
        return tuple(wanted)
    text = f"{entries} elements are not divisible by {rest}"
    left: Any = divided(entries, rest, Refused(text, "sizes"))
    axes = local_axes_of(*array.dims) - local_axes_of(*shape)
    wanted[place] = sharded(left, axes) if axes else left
    return tuple(wanted)


def _refuse_negative(shape: Sequence[Any], wild: Sequence[int]) -> None:
    """Raises Refused for sizes that are none. ``wild`` are those that stand for what is left, one of them at most."""
    negative = [size for size in shape if is_surely_less(size, 0)]
    if len(negative) > 1 and set(negative) <= set(wild):
        raise Refused(f"-1 is given {len(negative)} times", "sizes")
    for size in negative:
        if size not in wild:
            raise NegativeSize(f"{size} is not a size")


def _compare_entries(array: Array, shape: Sequence[Any]) -> None:
    """Compare the number of entries with that of another shape."""
    if any(size is None for size in (*array.dims, *shape)):
        return
    wanted: Any = math.prod(map(_unmarked, shape))
    entries = size_of(array)
    require_equal(entries, wanted, Reshape(array.dims, tuple(shape)))


def _shown(shape: Sequence[Any]) -> str:
    sizes = " ".join(map(str, shape))
    return f"'{sizes}'"


@lowering(f"{_JNP}.reshape", unread="copy out_sharding")
def reshape(a: ArrayLike, shape: Any, order: str = "C") -> Array:
    array = asarray(a)
    given = shape_of(shape)
    _refuse_negative(given, [-1])
    if array.shape is None and are_names_known():
        sizes = [unknown() if size == -1 else size for size in given]
        return of_shape(array, sizes)
    wanted = _resolved(array, given)
    _compare_entries(array, wanted)
    if order != "C" and are_names_known():
        return of_shape(array, wanted)
    if order != "C":
        raise Unsupported("a reshape in Fortran's order")
    return s.reshape(array, new_sizes=wanted)


@lowering("jax.Array.reshape", unread="copy out_sharding")
def method_reshape(a: Array, *args: Any, order: str = "C", shape: Any = None) -> Array:
    if shape is not None:
        return reshape(a, shape, order)
    if len(args) == 1:
        return reshape(a, args[0], order)
    return reshape(a, args, order)


@lowering(f"{_LAX}.reshape", unread="out_sharding")
def lax_reshape(operand: ArrayLike, new_sizes: Any, dimensions: Any = None) -> Array:
    array = asarray(operand)
    if dimensions is not None:
        array = s.transpose(array, permutation=tuple(dimensions))
    given = shape_of(new_sizes)
    if -1 in given:
        raise Refused("takes no -1; jnp.reshape does", "sizes")
    _refuse_negative(given, [])
    if array.shape is None:
        return of_shape(array, given)
    wanted = _resolved(array, given)
    _compare_entries(array, wanted)
    return s.reshape(array, new_sizes=wanted)


@lowering(f"{_LAX}.collapse")
def collapse(
    operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None
) -> Array:
    array = asarray(operand)
    start, stop, _ = slice(start_dimension, stop_dimension).indices(array.rank)
    if start > stop:
        raise Refused(f"no dimensions from {start} to {stop}", "ranks")
    entries = math.prod(map(_unmarked, sizes_of(array)[start:stop]))
    return reshape(array, (*array.dims[:start], entries, *array.dims[stop:]))


@lowering(f"{_JNP}.ravel", unread="out_sharding")
def ravel(a: ArrayLike, order: str = "C") -> Array:
    return reshape(a, -1, order)


@lowering("jax.Array.ravel", "jax.Array.flatten", unread="out_sharding")
def method_ravel(self: Array, order: str = "C") -> Array:
    return reshape(self, -1, order)


def along(a: ArrayLike, axis: int | None) -> tuple[Array, int]:
    """An array and the number of one of its dimensions; of none, the flat array and its only one."""
    array = asarray(a)
    if axis is None:
        return ravel(array), 0
    return array, axis_of(axis, array.rank)


@lowering(f"{_JNP}.transpose", f"{_JNP}.permute_dims")
def transpose(a: ArrayLike, axes: Any = None) -> Array:
    array = asarray(a)
    if axes is None:
        order = tuple(range(array.rank))[::-1]
        return s.transpose(array, permutation=order)
    array = _of_rank(array, len(axes))
    if len(axes) != array.rank:
        text = f"{len(axes)} axes for {array.rank} dimensions"
        raise Refused(text, "ranks")
    order = tuple(axis_of(axis, array.rank) for axis in axes)
    axes_of(order, array.rank)
    return s.transpose(array, permutation=order)


def _of_rank(array: Array, rank: int) -> Array:
    """The array, which is of this rank if it is not known of which: only such a one is what it is taken for."""
    if array.shape is not None or array.relations is not None:
        return array
    return replace(array, shape=(None,) * rank)


@lowering("jax.Array.transpose")
def method_transpose(a: Array, *axes: Any) -> Array:
    given: Any = axes or None
    if len(axes) == 1 and not isinstance(axes[0], int):
        given = axes[0]
    return transpose(a, given)


@lowering(f"{_LAX}.transpose")
def lax_transpose(operand: ArrayLike, permutation: Any) -> Array:
    array = asarray(operand)
    lax_axes_of(permutation, array.rank)
    return transpose(array, permutation)


@lowering(f"{_JNP}.matrix_transpose")
def matrix_transpose(x: ArrayLike) -> Array:
    return swapaxes(x, -1, -2)


@lowering(f"{_JNP}.swapaxes")
def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    array = asarray(a)
    order = list(range(array.rank))
    i = axis_of(axis1, array.rank)
    j = axis_of(axis2, array.rank)
    order[i], order[j] = order[j], order[i]
    return s.transpose(array, permutation=tuple(order))


@lowering(f"{_JNP}.moveaxis")
def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    array = asarray(a)
    sources = [axis_of(axis, array.rank) for axis in _several(source)]
    targets = [axis_of(axis, array.rank) for axis in _several(destination)]
    axes_of(tuple(sources), array.rank)
    if len(sources) != len(targets):
        text = f"{len(sources)} source axes, {len(targets)} destinations"
        raise Refused(text, "ranks")
    order = [axis for axis in range(array.rank) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return s.transpose(array, permutation=tuple(order))


def _several(axis: Any) -> Sequence[int]:
    if isinstance(axis, (tuple, list)):
        return tuple(axis)
    return (axis,)


@lowering(f"{_JNP}.rollaxis")
def rollaxis(a: ArrayLike, axis: int, start: int = 0) -> Array:
    array = asarray(a)
    at = axis_of(axis, array.rank)
    if start < 0:
        target = start + array.rank
    else:
        target = start
    return moveaxis(array, at, target - (at < target))


@lowering(f"{_JNP}.expand_dims")
def expand_dims(a: ArrayLike, axis: Any) -> Array:
    array = asarray(a)
    given = _several(axis)
    return s.expand_dims(array, axes=axes_of(given, array.rank + len(given)))


@lowering(f"{_LAX}.expand_dims")
def lax_expand_dims(array: ArrayLike, dimensions: Any) -> Array:
    return expand_dims(array, tuple(dimensions))


@lowering(f"{_JNP}.squeeze")
def squeeze(a: ArrayLike, axis: Any = None) -> Array:
    array = asarray(a)
    if axis is None:
        if any(isinstance(size, Size) and size.is_opaque for size in array.dims):
            raise UnknownRank  # each of them may be 1
        axes = tuple(k for k, size in enumerate(array.dims) if size == 1)
    else:
        axes = axes_of(axis, array.rank)
        for k in axes:
            why = Refused(f"dimension {k} is not of size 1", "ranks")
            require_equal(array.dims[k], 1, why)
    return s.squeeze(array, axes=axes)


@lowering(f"{_LAX}.squeeze")
def lax_squeeze(array: ArrayLike, dimensions: Any) -> Array:
    return squeeze(array, tuple(dimensions))


@lowering(f"{_JNP}.broadcast_to", unread="out_sharding")
def broadcast_to(array: ArrayLike, shape: Any) -> Array:
    given = asarray(array)
    if isinstance(shape, (tuple, list)):
        wanted = tuple(shape)
    else:
        wanted = (shape,)
    first = len(wanted) - given.rank
    if first < 0:
        raise Refused(f"has more dimensions than {_shown(wanted)}")
    require_broadcast(given.dims, wanted)
    return s.broadcast_in_dim(
        given, shape=wanted, broadcast_dimensions=tuple(range(first, len(wanted)))
    )


@lowering(f"{_LAX}.broadcast", unread="out_sharding")
def broadcast(operand: ArrayLike, sizes: Any) -> Array:
    array = asarray(operand)
    return broadcast_to(array, (*shape_of(sizes), *array.dims))


@lowering(f"{_LAX}.broadcast_in_dim", unread="out_sharding")
def broadcast_in_dim(
    operand: ArrayLike, shape: Any, broadcast_dimensions: Any
) -> Array:
    return s.broadcast_in_dim(
        asarray(operand),
        shape=shape_of(shape),
        broadcast_dimensions=tuple(broadcast_dimensions),
    )


def require_broadcast(
    sizes: Sequence[Any], shape: Sequence[Any], why: str | None = None
) -> None:
    """Compare sizes with those at the end of a shape that they are broadcast to."""
    for size, wanted in zip(reversed(sizes), reversed(shape), strict=False):
        if size != 1:
            require_equal(size, wanted, why)


@lowering(f"{_JNP}.broadcast_arrays")
def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    arrays = [asarray(x) for x in args]
    shape = common_shape([array.dims for array in arrays])
    return [broadcast_to(array, shape) for array in arrays]


@lowering(f"{_JNP}.broadcast_shapes", f"{_LAX}.broadcast_shapes")
def broadcast_shapes(*shapes: Any) -> Shape:
    return common_shape([shape_of(shape) for shape in shapes])


@lowering(f"{_JNP}.atleast_1d")
def atleast_1d(*arrays: ArrayLike) -> Any:
    found = []
    for given in arrays:
        array = asarray(given)
        if array.rank == 0:
            array = s.expand_dims(array, axes=(0,))
        found.append(array)
    if len(found) == 1:
        return found[0]
    return found


@lowering(f"{_JNP}.atleast_2d")
def atleast_2d(*arrays: ArrayLike) -> Any:
    found = []
    for given in arrays:
        array = asarray(given)
        if array.rank < 2:
            array = s.expand_dims(array, axes=tuple(range(2 - array.rank)))
        found.append(array)
    if len(found) == 1:
        return found[0]
    return found


# --- slices -------------------------------------------------------------------------------------------------------


def slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """A slice along one dimension."""
    array = asarray(operand)
    at = axis_of(axis, array.rank)
    low, high = bounds(start_index, limit_index, sizes_of(array)[at])
    return slice_along(array, low, high, at, stride)


def slice_along(array: Array, low: Any, high: Any, at: int, stride: int = 1) -> Array:
    """A slice between two places that lie inside."""
    starts: list[Any] = [0] * array.rank
    limits = list(array.dims)
    strides = [1] * array.rank
    starts[at], limits[at], strides[at] = low, high, stride
    return s.slice_(
        array,
        start_indices=tuple(starts),
        limit_indices=tuple(limits),
        strides=tuple(strides),
    )


@lowering(f"{_LAX}.slice_in_dim")
def lax_slice_in_dim(
    operand: ArrayLike,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """Unlike Python's slices one that ends outside is refused. A size that is not a number is large enough."""
    array = asarray(operand)
    at = axis_of(axis, array.rank)
    size = sizes_of(array)[at]
    low = _counted(0 if start_index is None else start_index, size)
    high = _counted(size if limit_index is None else limit_index, size)
    if (
        is_surely_less(low, 0)
        or is_surely_less(high, low)
        or is_surely_less(size, high)
    ):
        text = f"[{low}:{high}] is out of bounds for dimension {at}"
        raise Refused(text, "indices")
    return slice_along(array, low, high, at, stride)


def _counted(place: Any, size: Any) -> Any:
    """A place counted from the start; negative numbers are counted from the end."""
    number = number_of(place)
    if is_number(number) and number < 0:
        return size + number
    return number


@lowering(f"{_LAX}.slice")
def lax_slice(
    operand: ArrayLike, start_indices: Any, limit_indices: Any, strides: Any = None
) -> Array:
    if strides is None:
        steps = None
    else:
        steps = tuple(strides)
    return s.slice_(
        asarray(operand),
        start_indices=tuple(start_indices),
        limit_indices=tuple(limit_indices),
        strides=steps,
    )


@lowering(f"{_LAX}.index_in_dim")
def index_in_dim(
    operand: ArrayLike, index: int, axis: int = 0, keepdims: bool = True
) -> Array:
    array = asarray(operand)
    at = axis_of(axis, array.rank)
    size = sizes_of(array)[at]
    number = 0
    if is_number(size):
        if not -size <= index < size:
            text = f"index {index} is out of bounds for dimension {at}"
            raise Refused(text, "indices")
        number = index % size
    found = slice_in_dim(array, number, number + 1, axis=at)
    if keepdims:
        return found
    return s.squeeze(found, axes=(at,))


def _starts(given: Any, rank: int) -> list[Array]:
    if isinstance(given, Array):
        items = [given[k] for k in range(rank)]
    else:
        items = list(given)
        if len(items) != rank:
            text = f"{len(items)} start indices for {rank} dimensions"
            raise Refused(text, "indices")
    return [asarray(item) for item in items]


@lowering(f"{_LAX}.dynamic_slice", unread="allow_negative_indices")
def dynamic_slice(operand: ArrayLike, start_indices: Any, slice_sizes: Any) -> Array:
    array = asarray(operand)
    starts = _starts(start_indices, array.rank)
    sizes = shape_of(slice_sizes)
    if len(sizes) != array.rank:
        text = f"{len(sizes)} slice sizes for {array.rank} dimensions"
        raise Refused(text, "indices")
    for size, part in zip(array.dims, sizes, strict=True):
        if is_surely_less(size, part):
            raise Refused("the slice is larger than the array", "indices")
    return s.dynamic_slice(array, *starts, slice_sizes=sizes)


@lowering(f"{_LAX}.dynamic_slice_in_dim", unread="allow_negative_indices")
def dynamic_slice_in_dim(
    operand: ArrayLike,
    start_index: ArrayLike,
    slice_size: int,
    axis: int = 0,
) -> Array:
    array = asarray(operand)
    at = axis_of(axis, array.rank)
    starts: list[ArrayLike] = [0] * array.rank
    sizes = list(array.dims)
    starts[at], sizes[at] = start_index, number_of(slice_size)
    return dynamic_slice(array, starts, tuple(sizes))


@lowering(f"{_LAX}.dynamic_index_in_dim", unread="allow_negative_indices")
def dynamic_index_in_dim(
    operand: ArrayLike,
    index: ArrayLike,
    axis: int = 0,
    keepdims: bool = True,
) -> Array:
    found = dynamic_slice_in_dim(operand, index, 1, axis)
    if keepdims:
        return found
    return s.squeeze(found, axes=(axis_of(axis, found.rank),))


@lowering(f"{_LAX}.dynamic_update_slice", unread="allow_negative_indices")
def dynamic_update_slice(
    operand: ArrayLike, update: ArrayLike, start_indices: Any
) -> Array:
    array, new = of_one_dtype(operand=operand, update=update)
    return _updated(array, new, start_indices)


def _updated(array: Array, update: Array, starts: Any) -> Array:
    """Raises Refused for an update that does certainly not lie in the array."""
    if update.rank != array.rank:
        raise Refused("ranks differ")
    for size, new in zip(array.dims, update.dims, strict=True):
        if is_surely_less(size, new):
            raise Refused("the update is larger than the array", "indices")
    return s.dynamic_update_slice(array, update, *_starts(starts, array.rank))


def _updated_along(array: Array, update: Array, start: ArrayLike, axis: int) -> Array:
    starts: list[ArrayLike] = [0] * array.rank
    starts[axis_of(axis, array.rank)] = start
    return _updated(array, update, starts)


@lowering(f"{_LAX}.dynamic_update_slice_in_dim", unread="allow_negative_indices")
def dynamic_update_slice_in_dim(
    operand: ArrayLike,
    update: ArrayLike,
    start_index: ArrayLike,
    axis: int,
) -> Array:
    array, new = of_one_dtype(operand=operand, update=update)
    return _updated_along(array, new, start_index, axis)


@lowering(f"{_LAX}.dynamic_update_index_in_dim", unread="allow_negative_indices")
def dynamic_update_index_in_dim(
    operand: ArrayLike, update: ArrayLike, index: ArrayLike, axis: int
) -> Array:
    array, new = of_one_dtype(operand=operand, update=update)
    at = axis_of(axis, array.rank)
    if new.rank < array.rank:
        new = s.expand_dims(new, axes=(at,))
    return _updated_along(array, new, index, at)


# --- flips and rolls ------------------------------------------------------------------------------------------------


@lowering(f"{_JNP}.flip")
def flip(m: ArrayLike, axis: Any = None) -> Array:
    array = asarray(m)
    return s.rev(array, dimensions=axes_of(axis, array.rank))


@lowering(f"{_JNP}.fliplr")
def fliplr(m: ArrayLike) -> Array:
    return flip(m, 1)


@lowering(f"{_JNP}.flipud")
def flipud(m: ArrayLike) -> Array:
    return flip(m, 0)


@lowering(f"{_LAX}.rev")
def rev(operand: ArrayLike, dimensions: Any) -> Array:
    array = asarray(operand)
    return flip(array, lax_axes_of(dimensions, array.rank))


@lowering(f"{_JNP}.roll")
def roll(a: ArrayLike, shift: Any, axis: Any = None) -> Array:
    array = asarray(a)
    if axis is None:
        rolled = reshape(roll(ravel(array), shift, 0), array.dims)
        return replace(rolled, origins=array.origins)
    axes = [axis_of(one, array.rank) for one in _several(axis)]
    if isinstance(shift, (tuple, list)):
        shifts = shift
    else:
        shifts = [shift] * len(axes)
    for at, by in zip(axes, shifts, strict=True):
        array = _rolled(array, by, at)
    return array


def _rolled(array: Array, by: ArrayLike, axis: int) -> Array:
    size = sizes_of(array)[axis]
    if not is_number(size):
        return of_shape(array, array.dims)
    if not size:
        return array
    if isinstance(by, Array) and (by.value is None or by.value.axes):
        twice = s.concatenate(array, array, dimension=axis, count=2)
        return dynamic_slice_in_dim(twice, size - by % size, size, axis)
    start = int_of(by) % size
    if not start:
        return array
    first = slice_in_dim(array, size - start, size, axis=axis)
    return s.concatenate(
        first, slice_in_dim(array, 0, size - start, axis=axis), dimension=axis, count=2
    )


@lowering(f"{_JNP}.rot90")
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    array = asarray(m)
    first, second = (axis_of(axis, array.rank) for axis in axes)
    axes_of((first, second), array.rank)
    match int_of(k) % 4:
        case 0:
            return array
        case 1:
            return swapaxes(flip(array, second), first, second)
        case 2:
            return flip(array, (first, second))
        case _:
            return flip(swapaxes(array, first, second), second)
