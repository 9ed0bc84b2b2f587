"""``jax.nn`` functions that are neither elementwise nor plain reductions."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    arrays,
    as_array,
    broadcast_dims,
    cleared,
    different,
    dtype_argument,
    shown,
    size_of,
    with_dims,
    with_dtype,
)
from shardlint.ops.joining import agree
from shardlint.ops.registry import Call, OpError, is_none, model, static_int
from shardlint.values import (
    ArrayValue,
    Dimension,
    Value,
)
from shardtypes.lang import dtypes


@model("x, num_classes, *, dtype=None, axis=-1", "jax.nn.one_hot")
def one_hot(call: Call) -> Value:
    """A new dimension of ``num_classes``, last unless ``axis`` says otherwise."""
    value = as_array(call["x"]) or UNKNOWN_ARRAY
    if dtypes.is_kind(value.dtype, "floating", "complex") and not value.weak:
        value = with_dtype(value, None)  # deprecated; some releases refuse
    name, given = dtype_argument(call, call["dtype"])
    dtype = name if given else ("float64" if call.ctx.x64 else "float32")
    axis = static_int(call["axis"])
    if value.dims is None or axis is None:
        return ArrayValue(None, dtype)
    rank = len(value.dims) + 1
    if not -rank <= axis < rank:
        raise OpError(
            "ST208",
            f"{call.name}: axis {axis} is out of range for the result of {shown(value)}",
        )
    at = axis % rank
    pending = cleared(value).pending
    dims = (*value.dims[:at], Dimension(size_of(call["num_classes"])), *value.dims[at:])
    return ArrayValue(dims, dtype, False, pending)


@model(
    "query, key, value, bias=None, mask=None, *, scale=None, is_causal=False, query_seq_lengths=None, "
    "key_value_seq_lengths=None, local_window_size=None, implementation=None, return_residual=False",
    "jax.nn.dot_product_attention",
)
def attention(call: Call) -> Value:
    """(batch, length, heads, head size), the batch may be missing; the result has the query's shape and dtype.

    Key and value have one shape; the number of query heads is a multiple of theirs.
    """
    query, key, value = arrays(call, "query", "key", "value")
    if static_int(call["return_residual"]) != 0:
        return UNKNOWN_ARRAY
    out = with_dtype(
        cleared(query), query.dtype if query.dtype == key.dtype == value.dtype else None
    )
    if any(
        operand.dims is not None and len(operand.dims) not in (3, 4)
        for operand in (query, key, value)
    ):
        return UNKNOWN_ARRAY
    if query.dims is None or key.dims is None or value.dims is None:
        return out
    agree(call, [key, value], None)
    if len(query.dims) != len(key.dims):
        raise OpError(
            "ST204",
            f"{call.name}: query {shown(query)} and key {shown(key)} differ in rank",
        )
    for i, what in (
        (-1, "head size"),
        *([(-4, "batch")] if len(query.dims) == 4 else []),
    ):
        witness = different(call.ctx, query.dims[i].size, key.dims[i].size)
        if witness is not None:
            both = f"query {shown(query)} and key {shown(key)}"
            raise OpError(
                "ST204", f"{call.name}: the {what} of {both} differs", witness
            )
    heads, shared = ((x.dims or ())[-2].size for x in (query, key))
    if (
        heads is not None
        and shared is not None
        and heads.constant is not None
        and shared.constant
    ):
        if heads.constant % shared.constant:
            what = f"{heads.constant} query heads for {shared.constant} of the keys; a multiple is needed"
            raise OpError("ST206", f"{call.name}: {what}")
    return (
        out
        if is_none(call["bias"]) and is_none(call["mask"]) and out.dims is not None
        else _if_fits(call, out, key)
    )


def _if_fits(call: Call, out: ArrayValue, key: ArrayValue) -> ArrayValue:
    """The result, where the mask and the bias broadcast to (batch, heads, query length, key length)."""
    assert out.dims is not None and key.dims is not None
    dims, keys = out.dims, key.dims
    full = with_dims(
        out, (*dims[:-3], dims[-2], dims[-3], Dimension(keys[-3].size, keys[-3].axes))
    )
    for name in ("bias", "mask"):
        given = as_array(call[name])
        if is_none(call[name]) or given is None or given.dims is None:
            continue
        if len(given.dims) == 4 and len(dims) == 4:
            broadcast_dims(f"{call.name}: {name} and logits", [full, given], call.ctx)
    return out
