"""Functions of linear algebra that have no lowering yet."""

from __future__ import annotations

from shardlint.ops.arrays import array, cleared, seen_size, with_dims, with_dtype
from shardlint.ops.registry import Call, UnknownArgument, model, static_bool
from shardlint.values import Dimension, SequenceValue, Value
from shardtypes.lang import Size


@model(
    "a, permute_l=False, overwrite_a=False, check_finite=True", "jax.scipy.linalg.lu"
)
def lu(call: Call) -> Value:
    """P, L and U, or PL and U."""
    value = array(call, "a")
    joined = static_bool(call["permute_l"])
    if joined is None or value.dims is None or len(value.dims) < 2:
        raise UnknownArgument
    made = with_dtype(cleared(value), None)
    batch = value.dims[:-2]
    rows = Dimension(seen_size(value, -2), ())
    columns = Dimension(seen_size(value, -1), ())
    inner = _smaller(rows, columns)
    lower = with_dims(made, (*batch, rows, inner))
    upper = with_dims(made, (*batch, inner, columns))
    if joined:
        return SequenceValue((lower, upper))
    order = with_dims(made, (*batch, rows, rows))
    return SequenceValue((order, lower, upper))


def _smaller(rows: Dimension, columns: Dimension) -> Dimension:
    if rows.size is None or columns.size is None:
        return Dimension(None, ())
    return Dimension(Size.minimum(rows.size, columns.size), ())
