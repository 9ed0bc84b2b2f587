"""``jax.nn`` functions that are neither elementwise nor reductions, and ``jnp.linalg``."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    array,
    as_array,
    dtype_argument,
    shown,
    size_of,
    with_dims,
    with_dtype,
)
from shardlint.ops.elementwise import cleared, to_inexact
from shardlint.ops.registry import Call, OpError, model, static_int
from shardlint.values import ArrayValue, Dimension, Value


@model("x, num_classes, *, dtype=None, axis=-1", "jax.nn.one_hot")
def one_hot(call: Call) -> Value:
    """A new dimension of ``num_classes``, last unless ``axis`` says otherwise."""
    value = as_array(call["x"]) or UNKNOWN_ARRAY
    name, given = dtype_argument(call, call["dtype"])
    dtype = name if given else ("float64" if call.ctx.x64 else "float32")
    axis = static_int(call["axis"])
    if value.dims is None or axis is None:
        return ArrayValue(None, dtype)
    rank = len(value.dims) + 1
    if not -rank <= axis < rank:
        raise OpError("ST208", f"{call.name}: axis {axis} is out of range for the result of {shown(value)}")
    at = axis % rank
    pending = cleared(value).pending
    dims = (*value.dims[:at], Dimension(size_of(call["num_classes"])), *value.dims[at:])
    return ArrayValue(dims, dtype, False, pending, value.manual)


@model("x, axis=-1", "jax.nn.glu")
def glu(call: Call) -> Value:
    from shardlint.ops.arrays import one_axis

    value = to_inexact(cleared(array(call, "x")), call.ctx)
    if value.dims is None:
        return value
    axis = one_axis(call, call["axis"], len(value.dims), value)
    size = value.dims[axis].size
    if size is not None and size.constant is not None and size.constant % 2:
        raise OpError("ST206", f"{call.name}: dimension {axis} of {shown(value)} is odd")
    half = Dimension(None if size is None or value.manual else size // 2)
    return with_dtype(with_dims(value, (*value.dims[:axis], half, *value.dims[axis + 1 :])), None)


@model("query, key, value, bias=None, mask=None, *, scale=None, is_causal=False, query_seq_lengths=None, "
       "key_value_seq_lengths=None, local_window_size=None, implementation=None, return_residual=False",
       "jax.nn.dot_product_attention")
def attention(call: Call) -> Value:
    """The result has the query's shape and dtype."""
    query = array(call, "query")
    return cleared(query) if static_int(call["return_residual"]) == 0 else UNKNOWN_ARRAY
