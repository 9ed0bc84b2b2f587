"""``jax.ops``: reductions of the rows of each segment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    cast,
    like,
    number_of,
    strong,
)
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.indexing import At
from shardtypes.semantics.lowerings.shapes import broadcast_to
from shardtypes.semantics.primitive import require_equal
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives.structure import reshape
from shardtypes.semantics.registry import Refused, Unsupported, lowering

_OPS = "jax.ops"


def _extreme(array: Array, largest: bool) -> float:
    """What an empty segment has: the other end of the dtype."""
    if dtypes.is_kind(array.dtype, "floating"):
        if largest:
            return math.inf
        return -math.inf
    info = np.iinfo(array.dtype or "int32")
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


@lowering(f"{_OPS}.segment_sum")
def segment_sum(
    data: ArrayLike,
    segment_ids: ArrayLike,
    num_segments: int | None = None,
    **options: Any,
) -> Array:
    if num_segments is None:
        raise Unsupported("segment_sum without num_segments")
    array = asarray(data)
    if array.dtype == "bool":
        raise TypeError("a sum of booleans")
    ids = _rows(array, segment_ids)
    count = number_of(num_segments)
    zeros = broadcast_to(like(0, array), (count, *array.dims[1:]))
    inside = e.and_(e.ge(ids, like(0, ids)), e.lt(ids, like(count, ids)))
    mask = reshape(
        cast(inside, array.dtype or "float32"),
        new_sizes=(*ids.dims, *[1] * (array.rank - 1)),
    )
    return strong(At(zeros, ids).add(e.mul(array, mask)))


def _segments(name: str, first: Callable[[Array], float]) -> Callable[..., Array]:
    def function(
        data: ArrayLike,
        segment_ids: ArrayLike,
        num_segments: int | None = None,
        **options: Any,
    ) -> Array:
        if num_segments is None:
            raise Unsupported(f"segment_{name} without num_segments")
        array = asarray(data)
        if array.dtype == "bool" and name == "mul":
            raise TypeError("a product of booleans")
        ids = _rows(array, segment_ids)
        count = number_of(num_segments)
        inside = e.and_(e.ge(ids, like(0, ids)), e.lt(ids, like(count, ids)))
        # rows of no segment are put behind the last one
        row = where(inside, ids, like(count, ids))
        empty = broadcast_to(like(first(array), array), (count + 1, *array.dims[1:]))
        updated: Array = getattr(At(empty, row), name)(array)
        return strong(updated[:count])

    return function


lowering(f"{_OPS}.segment_max")(_segments("max", lambda array: _extreme(array, False)))
lowering(f"{_OPS}.segment_min")(_segments("min", lambda array: _extreme(array, True)))
lowering(f"{_OPS}.segment_prod")(_segments("mul", lambda array: 1))


@lowering("jax.numpy.bincount")
def bincount(
    x: ArrayLike,
    weights: ArrayLike | None = None,
    minlength: int = 0,
    *,
    length: int | None = None,
) -> Array:
    array = asarray(x)
    if length is None:
        if array.value is None or array.value.axes:
            raise Unsupported("bincount without a length")
        length = max(int(np.max(array.value.parts[0], initial=-1)) + 1, minlength)
    if weights is None:
        given = broadcast_to(asarray(1), array.dims)
    else:
        given = asarray(weights)
    return segment_sum(given, array, length)
