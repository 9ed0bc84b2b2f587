"""Functions of ``jax.lax`` that have no lowering yet."""

from __future__ import annotations

from shardlint.ops.arrays import (
    array,
    cleared,
    dims_of,
    dtype_argument,
    seen_size,
    shown,
    sizes_argument,
    with_dims,
    with_dtype,
)
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    model,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from shardtypes.lang import Size, dtypes


@model("operand, new_dtype", "jax.lax.bitcast_convert_type")
def bitcast_convert_type(call: Call) -> Value:
    """A wider dtype takes the last dimension in, a narrower one adds it."""
    value = array(call, "operand")
    name, _ = dtype_argument(call, call["new_dtype"])
    old, new = (
        dtypes.bits(dtype) if dtype in dtypes.CONCRETE else None
        for dtype in (value.dtype, name)
    )
    out = with_dtype(cleared(value), None if value.weak else name)
    if (
        value.dims is None
        or old is None
        or new is None
        or name is None
        or min(old, new) < 8
    ):
        return with_dims(out, None)
    if "bool" in (value.dtype, name) or "complex" in f"{value.dtype} {name}":
        return with_dims(with_dtype(out, None), None)
    if old == new:
        return out
    if old > new:
        return with_dims(out, (*value.dims, Dimension(Size.const(old // new), ())))
    last = seen_size(value, len(value.dims) - 1) if value.dims else None
    if value.dims and last is None:
        raise UnknownArgument
    if last is None or last.constant != new // old:
        if last is not None and last.constant is None:
            raise UnknownArgument
        what = f"{value.dtype} to {name} needs a last dimension of {new // old}, got shape {shown(value)}"
        raise OpError("ST206", f"{call.name}: {what}")
    return with_dims(out, value.dims[:-1])


@model("self, dtype=None", "jax.Array.view")
def view(call: Call) -> Value:
    """The same bytes under another dtype: the last dimension changes with the width."""
    value = array(call, "self")
    name, given = dtype_argument(call, call["dtype"])
    old, new = (
        dtypes.bits(dtype) if dtype in dtypes.CONCRETE else None
        for dtype in (value.dtype, name)
    )
    if not given or (
        old is not None and old == new and "complex" not in f"{value.dtype} {name}"
    ):
        return with_dtype(value, None if value.weak else name) if given else value
    return with_dtype(with_dims(value, None), None)


@model("a, b, shape", "jax.lax.rng_uniform")
def rng_uniform(call: Call) -> Value:
    sizes = (
        sizes_argument(call["shape"])
        if isinstance(call["shape"], SequenceValue)
        else None
    )
    if sizes is None or any(
        (size.constant or 0) < 0 for size in sizes if size is not None
    ):
        raise UnknownArgument
    return ArrayValue(dims_of(*sizes), None)
