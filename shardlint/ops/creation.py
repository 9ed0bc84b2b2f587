"""Functions that make arrays."""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    as_array,
    different,
    dims_of,
    dtype_argument,
    merge_dims,
    result_dtype,
    shown,
    with_dtype,
)
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    model,
    static_int,
)
from shardlint.values import (
    ArrayValue,
    Dimension,
    SequenceValue,
    Value,
)
from shardtypes.lang import Size


def default_float(call: Call) -> str:
    return "float64" if call.ctx.x64 else "float32"


@model(
    "object, dtype=None, copy=True, order='K', ndmin=0, *, device=None, out_sharding=None",
    "jax.numpy.array",
)
@model(
    "a, dtype=None, order=None, *, copy=None, device=None, out_sharding=None",
    "jax.numpy.asarray",
)
def asarray(call: Call) -> Value:
    source = call["object"] if "object" in call.args else call["a"]
    name, given = dtype_argument(call, call["dtype"])
    value = (
        _of_objects(call, source)
        if given and name is None and call.ctx.numpy
        else nested(call, source)
    )
    if "ndmin" in call.args and static_int(call["ndmin"]) != 0:
        return with_dtype(UNKNOWN_ARRAY, name)
    if given:
        return with_dtype(value, name)
    return with_dtype(
        value, value.dtype, value.weak and not isinstance(source, SequenceValue)
    )


def _of_objects(call: Call, value: Value) -> ArrayValue:
    """NumPy's array of a dtype that is none of JAX's: rows of any lengths may be its objects, and tuples its records.

    Raises UnknownArgument where its shape depends on that.
    """
    if _has_tuples(value):
        raise UnknownArgument
    try:
        return nested(call, value)
    except OpError:
        raise UnknownArgument from None


def _has_tuples(value: Value) -> bool:
    return isinstance(value, SequenceValue) and (
        value.kind == "tuple" or any(map(_has_tuples, value.items))
    )


def nested(call: Call, value: Value) -> ArrayValue:
    """The array of a nested sequence of numbers and arrays."""
    if not isinstance(value, SequenceValue) or value.kind in ("set", "iterator"):
        return as_array(value, call.ctx.x64) or UNKNOWN_ARRAY
    parts = [nested(call, item) for item in value.items]
    if not parts:
        return ArrayValue(dims_of(0), default_float(call), pending=frozenset())
    dtype, weak = result_dtype(call.name, parts, call.ctx)
    common = parts[0].dims
    for part in parts:
        if part.dims is None or common is None:
            _check_lengths(call, value.items)
            return ArrayValue(None, dtype, weak)
        clash = len(part.dims) != len(common) or any(
            different(call.ctx, a.size, b.size) is not None
            for a, b in zip(common, part.dims, strict=True)
        )
        if clash:
            witness = {}
            if len(part.dims) == len(common):
                pairs = zip(common, part.dims, strict=True)
                witness = next(
                    w
                    for a, b in pairs
                    if (w := different(call.ctx, a.size, b.size)) is not None
                )
            raise OpError(
                "ST209",
                f"{call.name}: rows of shapes {shown(parts[0])} and {shown(part)}",
                witness,
            )
        common = tuple(
            merge_dims(call.ctx, a, b) for a, b in zip(common, part.dims, strict=True)
        )
    assert common is not None
    return ArrayValue(
        (Dimension(Size.const(len(parts)), ()), *common), dtype, weak, frozenset()
    )


def _check_lengths(call: Call, rows: Sequence[Value]) -> None:
    """Rows of different lengths make no array, whatever is in them; NumPy may be told to make one of objects."""
    lengths = [
        len(row.items)
        for row in rows
        if isinstance(row, SequenceValue) and row.kind in ("tuple", "list")
    ]
    if len(lengths) == len(rows) and not call.ctx.numpy:
        other = next((length for length in lengths if length != lengths[0]), None)
        if other is not None:
            raise OpError(
                "ST209", f"{call.name}: rows of {lengths[0]} and {other} items"
            )


@model("a, order=None", "jax.numpy.copy")
def copy(call: Call) -> Value:
    value = nested(call, call["a"])
    return with_dtype(
        value, value.dtype, value.weak and not isinstance(call["a"], SequenceValue)
    )
