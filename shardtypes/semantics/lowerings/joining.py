"""Joining and splitting arrays, repeating them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import divided, require_equal
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    axis_of,
    int_of,
    not_read,
    number_of,
    promoted,
    shape_of,
    sizes_of,
)
from shardtypes.semantics.lowerings.shapes import (
    along,
    atleast_1d,
    atleast_2d,
    ravel,
    slice_along,
    slice_in_dim,
)
from shardtypes.semantics.lowerings.unpromoted import of_one_dtype
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import is_number, is_surely_less, known

_JNP, _LAX = "jax.numpy", "jax.lax"


def _items(arrays: Any) -> list[Array]:
    if isinstance(arrays, Array):
        return [arrays[i] for i in range(known(arrays.dims[0]))]
    return [asarray(x) for x in arrays]


@lowering(f"{_JNP}.concatenate", f"{_JNP}.concat")
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    items = promoted(*_items(arrays))
    if axis is None:
        items = [ravel(item) for item in items]
        axis = 0
    found = s.concatenate(
        *items, dimension=axis_of(axis, items[0].rank), count=len(items)
    )
    return asarray(found, dtype)


@lowering(f"{_LAX}.concatenate")
def lax_concatenate(operands: Any, dimension: int) -> Array:
    named = {f"operands[{i}]": item for i, item in enumerate(_items(operands))}
    return concatenate(of_one_dtype(**named), dimension)


@lowering(f"{_JNP}.stack")
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    items = promoted(*_items(arrays))
    at = axis_of(axis, items[0].rank + 1)
    widened = [s.expand_dims(item, axes=(at,)) for item in items]
    found = s.concatenate(*widened, dimension=at, count=len(widened))
    return asarray(found, dtype)


@lowering(f"{_JNP}.hstack")
def hstack(tup: Any, dtype: Any = None) -> Array:
    items = [atleast_1d(item) for item in _items(tup)]
    return concatenate(items, 0 if items[0].rank == 1 else 1, dtype)


@lowering(f"{_JNP}.vstack", f"{_JNP}.row_stack")
def vstack(tup: Any, dtype: Any = None) -> Array:
    return concatenate([atleast_2d(item) for item in _items(tup)], 0, dtype)


@lowering(f"{_JNP}.column_stack")
def column_stack(tup: Any) -> Array:
    columns = []
    for item in _items(tup):
        missing = tuple(range(item.rank, 2))
        columns.append(s.expand_dims(item, axes=missing) if missing else item)
    return concatenate(columns, 1)


@lowering(f"{_JNP}.append")
def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    return concatenate([arr, values], axis)


@lowering(f"{_JNP}.array_split")
def array_split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    array = asarray(ary)
    at = axis_of(axis, array.rank)
    size = sizes_of(array)[at]
    if not isinstance(indices_or_sections, (tuple, list)):
        return _nearly_even(array, size, int_of(indices_or_sections), at)
    places = [number_of(one) for one in indices_or_sections]
    parts = list(zip([0, *places], [*places, size], strict=True))
    if any(is_surely_less(high, low) for low, high in parts):
        raise Unsupported("places that are not in order, or lie outside")
    return [slice_along(array, low, high, at) for low, high in parts]


def _nearly_even(array: Array, size: Any, count: int, axis: int) -> list[Array]:
    """The first parts are larger by one where the size is no multiple."""
    if count < 1:
        raise Unsupported(f"{count} parts")
    parts = []
    low: Any = 0
    for k in range(count):
        high = low + (size - k + count - 1) // count
        parts.append(slice_along(array, low, high, axis))
        low = high
    return parts


@lowering(f"{_JNP}.split")
def split(ary: ArrayLike, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    """Unlike ``array_split`` into parts of one size."""
    array = asarray(ary)
    at = axis_of(axis, array.rank)
    if isinstance(indices_or_sections, (tuple, list)):
        return array_split(array, indices_or_sections, axis)
    count = int_of(indices_or_sections)
    if count < 1:
        raise Unsupported(f"{count} parts")
    part: Any = divided(sizes_of(array)[at], count)
    return [slice_along(array, k * part, (k + 1) * part, at) for k in range(count)]


@lowering(f"{_LAX}.split")
def lax_split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    array = asarray(operand)
    size = array.dims[axis_of(axis, array.rank)]
    total = sum(number_of(one) for one in sizes)
    require_equal(total, size, Refused("the sizes do not add up", "sizes"))
    bounds = [sum(sizes[:k]) for k in range(1, len(sizes))]
    return split(array, bounds, axis)


@lowering(f"{_JNP}.hsplit")
def hsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    array = asarray(ary)
    return split(array, indices_or_sections, 0 if array.rank == 1 else 1)


@lowering(f"{_JNP}.vsplit")
def vsplit(ary: ArrayLike, indices_or_sections: Any) -> list[Array]:
    return split(ary, indices_or_sections, 0)


@lowering(f"{_JNP}.unstack")
def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    array = asarray(x)
    at = axis_of(axis, array.rank)
    count = known(array.dims[at])
    return tuple(
        s.squeeze(slice_in_dim(array, i, i + 1, axis=at), axes=(at,))
        for i in range(count)
    )


@lowering(f"{_JNP}.repeat", unread="out_sharding")
def repeat(
    a: ArrayLike,
    repeats: Any,
    axis: int | None = None,
    *,
    total_repeat_length: int | None = None,
) -> Array:
    not_read(total_repeat_length=total_repeat_length)
    array, at = along(a, axis if asarray(a).rank else None)
    if isinstance(repeats, (tuple, list)) or (
        isinstance(repeats, Array) and repeats.rank
    ):
        raise Unsupported("repeat with a number for each entry")
    return _several(array, at, number_of(repeats), at + 1)


def _several(array: Array, at: int, times: Any, new: int) -> Array:
    """A dimension this many times as long: each entry repeated, where the ``new`` dimension stands behind it, or all of
    them, where it stands in front."""
    wide = s.expand_dims(array, axes=(new,))
    sizes = (*array.dims[:new], times, *array.dims[new:])
    spread = s.broadcast_in_dim(
        wide, shape=sizes, broadcast_dimensions=tuple(range(wide.rank))
    )
    size = sizes_of(array)[at]
    return s.reshape(
        spread, new_sizes=(*array.dims[:at], size * times, *array.dims[at + 1 :])
    )


@lowering(f"{_JNP}.tile")
def tile(A: ArrayLike, reps: Any) -> Array:
    array = asarray(A)
    times = shape_of(reps)
    rank = max(array.rank, len(times))
    array = s.expand_dims(array, axes=tuple(range(rank - array.rank)))
    times = (1,) * (rank - len(times)) + times
    for k, number in enumerate(times):
        if not is_number(number):
            array = _several(array, k, number, k)
        elif number != 1:
            if number:
                array = concatenate([array] * number, k)
            else:
                array = slice_in_dim(array, 0, 0, axis=k)
    return array
