"""Sorting and searching: ``lax.sort`` and ``top_k``, partitions, ``searchsorted``; running totals of ``jax.lax``."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    array,
    as_array,
    checked_axis,
    cleared,
    dtype_argument,
    seen_size,
    shown,
    shown_size,
    size_of,
    with_dims,
    with_dtype,
)
from shardlint.ops.joining import agree
from shardlint.ops.reductions import flattened, index_dtype
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    model,
    names,
    static_bool,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from shardtypes.lang import Size, dtypes


@model("operand, dimension=-1, is_stable=True, num_keys=1", "jax.lax.sort")
def sort(call: Call) -> Value:
    """One array, or several of one shape that are sorted together."""
    operand = call["operand"]
    if not isinstance(operand, SequenceValue):
        value = array(call, "operand")
        checked_axis(call, value, call["dimension"])
        return cleared(value)
    if operand.kind == "list" or not operand.items:
        raise UnknownArgument
    parts = [as_array(item, call.ctx.x64) or UNKNOWN_ARRAY for item in operand.items]
    checked_axis(call, parts[0], call["dimension"])
    agree(call, parts, None)
    return SequenceValue(tuple(cleared(part) for part in parts))


@model("keys, values, dimension=-1, is_stable=True", "jax.lax.sort_key_val")
def sort_key_val(call: Call) -> Value:
    parts = [array(call, "keys"), array(call, "values")]
    checked_axis(call, parts[0], call["dimension"])
    agree(call, parts, None)
    return SequenceValue(tuple(cleared(part) for part in parts))


@model("operand, k, *, axis=-1", "jax.lax.top_k")
@model(
    "operand, k, reduction_dimension=-1, recall_target=0.95, reduction_input_size_override=-1, aggregate_to_topk=True",
    "jax.lax.approx_max_k",
    "jax.lax.approx_min_k",
)
def top_k(call: Call) -> Value:
    """Values and their positions; the dimension shrinks to ``k``."""
    value = array(call, "operand")
    if value.dims == ():
        raise OpError("ST208", f"{call.name}: a scalar has no dimension to choose from")
    axis_value = call["axis"] if "axis" in call.args else call["reduction_dimension"]
    axis = checked_axis(call, value, axis_value)
    k = size_of(call["k"])
    out = cleared(value)
    if (
        axis is None
        or value.dims is None
        or ("axis" not in call.args and not static_bool(call["aggregate_to_topk"]))
    ):
        out = with_dims(out, None)
    else:
        size = seen_size(value, axis)
        if k is not None and k.constant is not None and k.constant < 0:
            raise OpError("ST206", f"{call.name}: k is {k.constant}")
        if k is not None and size is not None and (k - size - 1).is_nonnegative:
            what = f"k is {shown_size(k)}, dimension {axis} of {shown(value)} has {shown_size(size)}"
            raise OpError("ST206", f"{call.name}: {what}")
        out = with_dims(
            out, (*value.dims[:axis], Dimension(k, ()), *value.dims[axis + 1 :])
        )
    if call.last != "top_k" and not dtypes.is_kind(value.dtype, "floating"):
        out = with_dtype(out, None)
    return SequenceValue(
        (out, with_dtype(out, None if value.weak else "int32")), "list"
    )


@model(
    "operand, axis=0, reverse=False",
    *names("jax.lax", "cumsum cumprod cummax cummin cumlogsumexp"),
)
def cumulate(call: Call) -> Value:
    value = array(call, "operand")
    checked_axis(call, value, call["axis"], negative=False)
    out = value if call.last == "cumsum" else cleared(value)
    kinds = (
        ("floating",)
        if call.last == "cumlogsumexp"
        else ("floating", "signed", "unsigned")
    )
    usual = dtypes.is_kind(value.dtype, *kinds) and not value.weak
    return with_dtype(out, value.dtype if usual else None)


@model("operand, axis, index_dtype", "jax.lax.argmax", "jax.lax.argmin")
def arg_extremum(call: Call) -> Value:
    value = array(call, "operand")
    axis = checked_axis(call, value, call["axis"], negative=False)
    name, _ = dtype_argument(call, call["index_dtype"])
    if axis is None or value.dims is None:
        return with_dims(with_dtype(cleared(value), name), None)
    if seen_size(value, axis) == 0:
        raise OpError(
            "ST206",
            f"{call.name}: no elements along dimension {axis} of {shown(value)}",
        )
    return with_dtype(
        with_dims(cleared(value), value.dims[:axis] + value.dims[axis + 1 :]), name
    )


@model("a, kth, axis=-1", "jax.numpy.partition", "jax.numpy.argpartition")
def partition(call: Call) -> Value:
    value = array(call, "a")
    if call.ctx.numpy and (is_none(call["axis"]) or value.dims == ()):
        value = with_dims(value, flattened(value))
    else:
        checked_axis(call, value, call["axis"])
    if value.weak or (
        call.last == "partition" and dtypes.is_kind(value.dtype, "floating") is not True
    ):
        return with_dtype(cleared(value), None)
    return with_dtype(
        cleared(value), value.dtype if call.last == "partition" else index_dtype(call)
    )


@model("a, v, side='left', sorter=None, *, method='scan'", "jax.numpy.searchsorted")
@model("x, bins, right=False, *, method=None", "jax.numpy.digitize")
def searchsorted(call: Call) -> Value:
    """A position in a sorted vector for each element."""
    vector = array(call, "a" if "a" in call.args else "bins")
    value = array(call, "v" if "v" in call.args else "x")
    if vector.dims is not None and len(vector.dims) != 1:
        raise OpError(
            "ST208",
            f"{call.name}: the sorted array has shape {shown(vector)}; it is a vector",
        )
    if value.dtype is None or vector.dtype is None or not is_none(call.get("sorter")):
        return with_dtype(cleared(value), None)
    size = None if vector.dims is None else vector.dims[0].size
    small = size is not None and (size.constant or 0) < 2**31 - 1
    return with_dtype(
        cleared(value),
        index_dtype(call) if small and vector.dtype == value.dtype else None,
    )


@model("keys, axis=-1", "jax.numpy.lexsort")
def lexsort(call: Call) -> Value:
    """Keys of one shape, the last one first."""
    keys = call["keys"]
    if not isinstance(keys, SequenceValue) or not keys.items or keys.kind == "list":
        raise UnknownArgument
    parts = [as_array(item, call.ctx.x64) or UNKNOWN_ARRAY for item in keys.items]
    agree(call, parts, None)
    if not parts[0].dims:
        raise UnknownArgument
    checked_axis(call, parts[0], call["axis"])
    return with_dtype(cleared(parts[0]), index_dtype(call))


@model(
    "element, test_elements, assume_unique=False, invert=False, *, method='auto'",
    "jax.numpy.isin",
)
def isin(call: Call) -> Value:
    return with_dtype(cleared(array(call, "element")), "bool")


def _found(call: Call) -> Size | None:
    """The number of elements asked for with ``size=``; otherwise it depends on values."""
    return None if is_none(call["size"]) else size_of(call["size"])


@model(
    "a, *, size=None, fill_value=None",
    *names("jax.numpy", "nonzero argwhere flatnonzero"),
)
def nonzero(call: Call) -> Value:
    """Positions of what is not zero: as many as ``size`` says, or as there happen to be."""
    value = array(call, "a")
    rank = None if value.dims is None else len(value.dims)
    count = Dimension(_found(call), ())
    vector = ArrayValue((count,), index_dtype(call), pending=cleared(value).pending)
    if call.last == "flatnonzero":
        return vector
    if rank is None or rank == 0:
        raise UnknownArgument
    if call.last == "argwhere":
        return with_dims(vector, (count, Dimension(Size.const(rank), ())))
    return SequenceValue((vector,) * rank)


@model(
    "ar, return_index=False, return_inverse=False, return_counts=False, axis=None, *, equal_nan=True, size=None, "
    "fill_value=None, sorted=True",
    "jax.numpy.unique",
)
def unique(call: Call) -> Value:
    value = array(call, "ar")
    plain = all(
        static_bool(call[name]) is False
        for name in ("return_index", "return_inverse", "return_counts")
    )
    empty = value.dims is None or any(dim.size == 0 for dim in value.dims)
    if not plain or empty or not is_none(call["axis"]):
        raise UnknownArgument
    out = ArrayValue(
        (Dimension(_found(call), ()),), None, pending=cleared(value).pending
    )
    return with_dtype(out, None if value.weak else value.dtype)


@model("ar1, ar2, *, size=None, fill_value=None", "jax.numpy.union1d")
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
