"""Functions of ordering that have no lowering: JAX does not document the order, or their sizes depend on numbers."""

from __future__ import annotations

from shardlint.ops.arrays import (
    array,
    checked_axis,
    cleared,
    flattened,
    with_dims,
    with_dtype,
)
from shardlint.ops.registry import (
    Call,
    UnknownArgument,
    is_none,
    model,
    static_bool,
)
from shardlint.values import ArrayValue, Dimension, Value


@model("a, kth, axis=-1", "jax.numpy.argpartition")
def argpartition(call: Call) -> Value:
    value = array(call, "a")
    if call.ctx.numpy and (is_none(call["axis"]) or value.dims == ()):
        value = with_dims(value, flattened(value))
    else:
        checked_axis(call, value, call["axis"])
    if value.weak:
        return with_dtype(cleared(value), None)
    return with_dtype(cleared(value), "int64" if call.ctx.x64 else "int32")


@model(
    "ar1, ar2, assume_unique=False, *, size=None, fill_value=None",
    "jax.numpy.setdiff1d",
    "jax.numpy.setxor1d",
)
@model(
    "ar1, ar2, assume_unique=False, return_indices=False, *, size=None, fill_value=None",
    "jax.numpy.intersect1d",
)
def set_operation(call: Call) -> Value:
    if static_bool(call.get("return_indices")):
        raise UnknownArgument
    return ArrayValue((Dimension(None),), None)
