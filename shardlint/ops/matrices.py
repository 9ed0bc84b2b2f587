"""Diagonals and triangles of matrices."""

from __future__ import annotations

from shardlint.ops.arrays import (
    array,
    dims_of,
    shown,
)
from shardlint.ops.elementwise import names
from shardlint.ops.registry import Call, OpError, UnknownArgument, model, static_int
from shardlint.values import ArrayValue, Dimension, Value


@model("m, k=0", *names("jax.numpy", "tril triu"))
def triangle(call: Call) -> Value:
    value = array(call, "m")
    if value.dims is not None and len(value.dims) < 2:
        raise OpError("ST208", f"{call.name}: needs at least 2 dimensions, got {shown(value)}")
    return value


@model("v, k=0", "jax.numpy.diag")
def diag(call: Call) -> Value:
    value, k = array(call, "v"), static_int(call["k"])
    if value.dims is None or k is None:
        raise UnknownArgument
    if len(value.dims) == 1:
        size = value.dims[0].size
        total = None if size is None or value.manual else size + abs(k)
        return ArrayValue(dims_of(total, total), value.dtype, value.weak, value.pending, value.manual)
    if len(value.dims) != 2:
        raise OpError("ST208", f"{call.name}: needs 1 or 2 dimensions, got {shown(value)}")
    rows, columns = (dim.size for dim in value.dims)
    same = rows is not None and rows == columns and k == 0 and not value.manual
    return ArrayValue((Dimension(rows if same else None),), value.dtype, value.weak, value.pending, value.manual)
