"""``jax.ops``: reductions of the rows of each segment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import ArrayLike, asarray, like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.indexing import At
from shardtypes.semantics.lowerings.shapes import broadcast_to
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import Unsupported, lowering

_OPS = "jax.ops"


def _extreme(array: Array, largest: bool) -> float:
    """What an empty segment has: the other end of the dtype."""
    if dtypes.is_kind(array.dtype, "floating"):
        if largest:
            return math.inf
        return -math.inf
    info = np.iinfo(array.dtype or "int32")
    return int(info.max if largest else info.min)


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
        ids = asarray(segment_ids)
        count = int(num_segments)
        inside = e.and_(e.ge(ids, like(0, ids)), e.lt(ids, like(count, ids)))
        # rows of no segment are put behind the last one
        row = where(inside, ids, count)
        empty = broadcast_to(like(first(array), array), (count + 1, *array.dims[1:]))
        updated: Array = getattr(At(empty, row), name)(array)
        return updated[:count]

    return function


lowering(f"{_OPS}.segment_max")(_segments("max", lambda array: _extreme(array, False)))
lowering(f"{_OPS}.segment_min")(_segments("min", lambda array: _extreme(array, True)))
lowering(f"{_OPS}.segment_prod")(_segments("mul", lambda array: 1))
