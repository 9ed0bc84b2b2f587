"""``jax.ops``: reductions of the rows of each segment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import require_equal
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    cast,
    int_of,
    known_dtype,
    like,
    not_read,
    number_of,
    strong,
)
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.indexing import At
from shardtypes.semantics.lowerings.shapes import broadcast_to
from shardtypes.semantics.lowerings.unpromoted import require_same_shape
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives.structure import reshape
from shardtypes.semantics.registry import Refused, Unsupported, lowering
from shardtypes.semantics.sizes import is_number

_OPS = "jax.ops"
_UNREAD = "out_sharding"


def _extreme(array: Array, largest: bool) -> float:
    """What an empty segment has: the other end of the dtype."""
    dtype = known_dtype(array)
    if dtypes.is_kind(dtype, "floating"):
        if largest:
            return math.inf
        return -math.inf
    info = np.iinfo(dtype)
    return int(info.max if largest else info.min)


def _rows(data: Array, segment_ids: ArrayLike) -> Array:
    """The segment of each row. Raises Refused, and Unsupported for ids of several dimensions."""
    ids = asarray(segment_ids)
    if dtypes.is_kind(ids.dtype, "floating", "complex"):
        raise Refused(f"segment ids are integers, got {ids.dtype}", "dtypes")
    if ids.rank > 1:
        raise Unsupported("segment ids of several dimensions")
    if ids.rank == 1 and data.rank and data.dims[0] != 1:
        require_equal(data.dims[0], ids.dims[0])
    return ids


def _are_below(ids: Array, count: Any) -> Array:
    """Whether they are those of a segment."""
    is_there = e.ge(ids, like(0, ids))
    is_below = e.lt(ids, like(count, ids))
    return e.and_(is_there, is_below)


@lowering(
    f"{_OPS}.segment_sum",
    unread=_UNREAD,
)
def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    bucket_size: int | None = None,
    mode: Any = None,
) -> Array:
    not_read(mode=mode)
    if num_segments is None:
        raise Unsupported("segment_sum without num_segments")
    array = asarray(data)
    if array.dtype == "bool":
        raise TypeError("a sum of booleans")
    ids = _rows(array, segment_ids)
    count = number_of(num_segments)
    zeros = broadcast_to(like(0, array), (count, *array.dims[1:]))
    inside = _are_below(ids, count)
    mask = reshape(
        cast(inside, array.dtype),
        new_sizes=(*ids.dims, *[1] * (array.rank - 1)),
    )
    return strong(At(zeros, ids).add(e.mul(array, mask)))


def _segments(name: str, first: Callable[[Array], float]) -> Callable[..., Array]:
    def function(
        data: ArrayLike,
        segment_ids: ArrayLike,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: Any = None,
    ) -> Array:
        not_read(mode=mode)
        if num_segments is None:
            raise Unsupported(f"segment_{name} without num_segments")
        array = asarray(data)
        if array.dtype == "bool" and name == "mul":
            raise TypeError("a product of booleans")
        ids = _rows(array, segment_ids)
        count = number_of(num_segments)
        inside = _are_below(ids, count)
        # rows of no segment are put behind the last one
        row = where(inside, ids, like(count, ids))
        shape = (count + 1, *array.dims[1:])
        empty = broadcast_to(like(first(array), array), shape)
        updated: Array = getattr(At(empty, row), name)(array)
        return strong(updated[:count])

    return function


lowering(f"{_OPS}.segment_max", unread=_UNREAD)(
    _segments("max", lambda array: _extreme(array, False))
)
lowering(f"{_OPS}.segment_min", unread=_UNREAD)(
    _segments("min", lambda array: _extreme(array, True))
)
lowering(f"{_OPS}.segment_prod", unread=_UNREAD)(_segments("mul", lambda array: 1))


@lowering("jax.numpy.bincount", unread="out_sharding")
def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> Array:
    array = asarray(x)
    if array.rank != 1:
        raise Refused("counts in a vector", "ranks")
    if dtypes.is_kind(array.dtype, "floating", "complex") is True:
        raise Refused(f"counts integers, got {array.dtype}", "dtypes")
    if array.dtype == "bool":
        array = cast(array, "int32")
    if is_number(length) and length is not None and int_of(length) < 0:
        raise Refused(f"length is {int_of(length)}", "sizes")
    if length is None:
        if array.value is None or array.value.axes:
            raise Unsupported("bincount without a length")
        largest = np.max(array.value.parts[0], initial=-1)
        length = max(int(largest) + 1, minlength)
    if weights is None:
        given = broadcast_to(asarray(1), array.dims)
    else:
        given = asarray(weights)
        require_same_shape(array, given, "weights have the shape of x")
    return segment_sum(given, array, length)
