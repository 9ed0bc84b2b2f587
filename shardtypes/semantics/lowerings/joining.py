"""Joining and splitting arrays, repeating them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import (
    are_names_known,
    divided,
    either,
    of_common_rank,
    require_equal,
)
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
    with_sizes,
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
from shardtypes.semantics.mismatches import Join
from shardtypes.semantics.primitives import structure as s
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import is_number, is_surely_less, known

_JNP, _LAX = "jax.numpy", "jax.lax"


#: Of an array with more rows than these nothing is known of what joins them.
_ROWS = 64


def items_of(arrays: Any) -> list[Array]:
    """The arrays that are joined: those of a sequence, or the rows of one array. Raises Refused where there are
    none."""
    if isinstance(arrays, Array):
        count = known(arrays.dims[0])
        if are_names_known() and count > _ROWS:
            raise Unsupported(f"{count} rows")
        return [arrays[i] for i in range(count)]
    if isinstance(arrays, list) and not arrays:
        raise Unsupported("an empty list, which may have grown")
    if not arrays:
        raise Refused("needs at least one array", "joins")
    return [asarray(x) for x in arrays]


def _of_one_rank(items: Sequence[Array]) -> list[Array]:
    """The arrays, those of unknown rank of that of the others. Raises Refused where ranks differ."""
    found = of_common_rank(items)
    for i, item in enumerate(found):
        if item.shape is not None and item.rank != found[0].rank:
            raise Refused("ranks differ", "joins", i)
    return found


def _common_sizes(items: Sequence[Array], axis: int | None) -> list[Any]:
    """The sizes that the arrays have in common. Raises where they differ in a dimension but ``axis``."""
    shapes = tuple(item.dims for item in items)
    common = list(shapes[0])
    for i, shape in enumerate(shapes[1:], 1):
        for k, size in enumerate(shape):
            if k != axis:
                require_equal(common[k], size, Join(shapes, axis, k, 0, i))
                common[k] = either(common[k], size)
    return common


def _joined(items: Sequence[Array], axis: int, common: Sequence[Any]) -> Array:
    found = s.concatenate(*items, dimension=axis, count=len(items))
    if not are_names_known():
        return found
    sizes = with_sizes(common, axis, found.dims[axis])
    return replace(found, shape=tuple(sizes))


@lowering(f"{_JNP}.concatenate", f"{_JNP}.concat")
def concatenate(arrays: Any, axis: int | None = 0, dtype: Any = None) -> Array:
    items = promoted(*items_of(arrays))
    if axis is None:
        items = [ravel(item) for item in items]
        axis = 0
    items = _of_one_rank(items)
    if not items[0].rank:
        raise Refused("a scalar cannot be concatenated; use jnp.stack", "joins")
    at = axis_of(axis, items[0].rank)
    found = _joined(items, at, _common_sizes(items, at))
    return asarray(found, dtype)


@lowering(f"{_LAX}.concatenate")
def lax_concatenate(operands: Any, dimension: int) -> Array:
    named = {}
    items = items_of(operands)
    for i, item in enumerate(items):
        named[f"operands[{i}]"] = item
    if len(items) == 1:
        return asarray(items[0])  # whatever the dimension
    return concatenate(of_one_dtype(**named), dimension)


@lowering(f"{_JNP}.stack")
def stack(arrays: Any, axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    items = _of_one_rank(promoted(*items_of(arrays)))
    at = axis_of(axis, items[0].rank + 1)
    common = _common_sizes(items, None)
    common.insert(at, len(items))
    widened = [s.expand_dims(item, axes=(at,)) for item in items]
    return asarray(_joined(widened, at, common), dtype)


@lowering(f"{_JNP}.hstack")
def hstack(tup: Any, dtype: Any = None) -> Array:
    items = [atleast_1d(item) for item in items_of(tup)]
    return concatenate(items, 0 if items[0].rank == 1 else 1, dtype)


@lowering(f"{_JNP}.vstack", f"{_JNP}.row_stack")
def vstack(tup: Any, dtype: Any = None) -> Array:
    matrices = [atleast_2d(item) for item in items_of(tup)]
    return concatenate(matrices, 0, dtype)


@lowering(f"{_JNP}.column_stack")
def column_stack(tup: Any) -> Array:
    columns = []
    for item in items_of(tup):
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
    parts = []
    for k in range(count):
        start = k * part
        parts.append(slice_along(array, start, start + part, at))
    return parts


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
    return s.reshape(spread, new_sizes=with_sizes(array.dims, at, size * times))


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
