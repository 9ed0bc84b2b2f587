"""Elementwise functions of ``jax.lax``: no promotion, equal ranks or scalars."""

from __future__ import annotations

from shardlint import dtypes
from shardlint.ops.arrays import (
    array,
    arrays,
    broadcast_dims,
    dims_of,
    dtype_argument,
    shown,
    size_of,
    sizes_argument,
    with_dtype,
)
from shardlint.ops.elementwise import cleared, names
from shardlint.ops.registry import Call, OpError, model
from shardlint.values import ArrayValue, Value


@model("x, accuracy=None", *names("jax.lax", "exp exp2 log log1p expm1 tanh logistic sin cos tan sqrt rsqrt cbrt"))
@model("x", *names("jax.lax", "abs sign floor ceil square is_finite erf erfc erf_inv neg"))
def unary(call: Call) -> Value:
    value = array(call, "x")
    out = value if call.last == "neg" else cleared(value)
    if call.last == "is_finite":
        return with_dtype(out, "bool")
    if not dtypes.is_kind(value.dtype, "floating"):
        return with_dtype(out, None)
    return with_dtype(out, value.dtype, value.weak)


@model("x, y", *names("jax.lax", "add sub mul div rem max min pow atan2 nextafter"))
def binary(call: Call) -> Value:
    """Ranks are equal, or one is a scalar; a dimension of 1 stretches."""
    x, y = arrays(call, "x", "y")
    dims = x.dims or y.dims
    if x.dims is None or y.dims is None:
        dims = None
    elif x.dims and y.dims:
        if len(x.dims) != len(y.dims):
            raise OpError("ST204", f"{call.name}: ranks differ: {shown(x)} and {shown(y)}")
        dims = broadcast_dims(call.name, [x, y], call.ctx)
    dtype = x.dtype if x.dtype == y.dtype and dtypes.is_kind(x.dtype, "floating") and x.weak == y.weak else None
    pending = frozenset[str]() if x.pending == y.pending == frozenset() else None
    return ArrayValue(dims, dtype, x.weak and dtype is not None, pending, x.manual or y.manual)


@model("dtype, size", "jax.lax.iota")
@model("dtype, shape, dimension, *, out_sharding=None", "jax.lax.broadcasted_iota")
def iota(call: Call) -> Value:
    sizes = [size_of(call["size"])] if "size" in call.args else sizes_argument(call["shape"])
    dims = None if sizes is None else dims_of(*sizes)
    return ArrayValue(dims, dtype_argument(call, call["dtype"])[0], False, frozenset())
