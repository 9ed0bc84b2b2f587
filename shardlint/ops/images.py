"""``jax.image``: a new size for each dimension."""

from __future__ import annotations

from shardlint.ops.arrays import (
    array,
    cleared,
    dims_of,
    shown,
    shown_sizes,
    sizes_argument,
    with_dims,
    with_dtype,
)
from shardlint.ops.registry import Call, OpError, model, static_int
from shardlint.values import Dimension, SequenceValue, Value
from shardtypes.lang import dtypes


@model("image, shape, method, antialias=True, precision=None", "jax.image.resize")
@model(
    "image, shape, spatial_dims, scale, translation, method, antialias=True, precision=None",
    "jax.image.scale_and_translate",
)
def resize(call: Call) -> Value:
    """``scale_and_translate`` keeps the dimensions that it is not told to scale."""
    value = array(call, "image")
    sizes = (
        sizes_argument(call["shape"])
        if isinstance(call["shape"], SequenceValue)
        else None
    )
    usual = dtypes.is_kind(value.dtype, "floating") and not value.weak
    out = with_dtype(cleared(value), value.dtype if usual else None)
    if sizes is None:
        return with_dims(out, None)
    if value.dims is not None and len(value.dims) != len(sizes):
        raise OpError(
            "ST208",
            f"{call.name}: {shown_sizes(sizes)} has another rank than the image, {shown(value)}",
        )
    if any((size.constant or 0) < 0 for size in sizes if size is not None):
        return with_dims(out, None)
    if "spatial_dims" not in call.args:
        return with_dims(out, dims_of(*sizes))
    scaled = call["spatial_dims"]
    if value.dims is None or not isinstance(scaled, SequenceValue):
        return with_dims(out, dims_of(*[None] * len(sizes)))
    rank, axes = len(value.dims), [static_int(item) for item in scaled.items]
    if any(axis is None or not -rank <= axis < rank for axis in axes):
        return with_dims(out, dims_of(*[None] * len(sizes)))
    where = {axis % rank for axis in axes if axis is not None}
    return with_dims(
        out,
        tuple(
            Dimension(sizes[i]) if i in where else dim
            for i, dim in enumerate(value.dims)
        ),
    )
