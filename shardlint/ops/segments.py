"""``jax.ops``: sums and extrema over segments of the first dimension."""

from __future__ import annotations

from shardlint.ops.arrays import (
    array,
    broadcast_dimension,
    shown,
    size_of,
    with_dims,
    with_dtype,
)
from shardlint.ops.elementwise import cleared, names
from shardlint.ops.registry import Call, OpError, is_none, model
from shardlint.values import Dimension, Value
from shardtypes.lang import dtypes


@model(
    "data, segment_ids, num_segments=None, indices_are_sorted=False, unique_indices=False, bucket_size=None, mode=None",
    *names("jax.ops", "segment_sum segment_prod segment_max segment_min"),
)
def segment(call: Call) -> Value:
    """``num_segments`` results; the ids name the segment of each row of the data."""
    data, ids = array(call, "data"), array(call, "segment_ids")
    if dtypes.is_kind(ids.dtype, "floating", "complex"):
        raise OpError(
            "ST212",
            f"{call.name}: segment ids are integers, got {ids.dtype}",
            operand=1,
        )
    out = with_dtype(data if call.last == "segment_sum" else cleared(data), None)
    usual = (
        dtypes.is_kind(data.dtype, "floating", "signed", "unsigned") and not data.weak
    )
    out = with_dtype(out, data.dtype if usual else None)
    if data.dims is None or ids.dims is None:
        return with_dims(out, None)
    if len(ids.dims) != 1 or not data.dims:
        # several dimensions of ids are indices into as many of the data
        return with_dims(out, None)
    # a single row stretches
    rows = broadcast_dimension(call.ctx, data.dims[0], ids.dims[0])
    if not isinstance(rows, Dimension):
        what = f"data of shape {shown(data)} and segment ids of shape {shown(ids)} differ in length"
        raise OpError("ST204", f"{call.name}: {what}", rows)
    count = None if is_none(call["num_segments"]) else size_of(call["num_segments"])
    return with_dims(out, (Dimension(count, ()), *data.dims[1:]))
