"""Reductions, scans along an axis, sorting, softmax and norms."""

from __future__ import annotations

from shardlint import messages
from shardlint.ops.arrays import (
    ONE,
    UNKNOWN_ARRAY,
    Dims,
    array,
    as_array,
    axes_argument,
    broadcast_dims,
    checked_axis,
    cleared,
    dims_of,
    dtype_argument,
    elementwise,
    product,
    to_inexact,
    with_dtype,
)
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    model,
    names,
    static_bool,
)
from shardlint.values import ArrayValue, Dimension, Literal, SequenceValue, Value
from shardtypes.lang import dtypes


def reduced_dims(
    call: Call, value: ArrayValue, axis: Value, keepdims: Value
) -> Dims | None:
    """The dimensions left by a reduction; None where the rank is not known."""
    keep = static_bool(keepdims)
    try:
        axes = axes_argument(call, axis, value)
    except UnknownArgument:
        return (
            value.dims and tuple(Dimension(None) for _ in value.dims) if keep else None
        )
    if keep is None:
        return None
    if axes is None:
        if keep:
            return None if value.dims is None else dims_of(*(1 for _ in value.dims))
        return ()
    assert value.dims is not None
    if keep:
        return tuple(
            Dimension(ONE, ()) if i in axes else dim for i, dim in enumerate(value.dims)
        )
    return tuple(dim for i, dim in enumerate(value.dims) if i not in axes)


def accumulator(name: str | None, x64: bool) -> str | None:
    """The dtype in which ``sum`` adds: bools and small ints widen to 32 bits, or 64 with x64."""
    if name in _TINY:  # JAX 0.10 to 0.12 refuse them, others do not
        return None
    return dtypes.each(name, lambda member: _accumulator_of(member, x64))


_TINY = frozenset({"int2", "int4", "uint2", "uint4"})


def _accumulator_of(name: str, x64: bool) -> str | None:
    kind = dtypes.KIND_OF.get(name)
    if name in _TINY:
        return dtypes.any_of((name, _accumulator_of(name[:-1] + "8", x64)))
    if kind == "bool":
        return "int64" if x64 else "int32"
    if kind == "unsigned":
        return "uint64" if x64 else "uint32"
    if kind == "signed":
        return "int64" if x64 else "int32"
    return name


_WHERE = "initial=None, where=None"


_FALSE = Literal(False)


@model(
    f"a, axis=None, dtype=None, out=None, keepdims=False, {_WHERE}, promote_integers=True",
    *names("jax.numpy", "sum prod"),
)
@model(
    "a, axis=None, dtype=None, out=None, keepdims=False, initial=None, where=None",
    "jax.numpy.nansum",
    "jax.numpy.nanprod",
)
@model(
    "a, axis=None, dtype=None, out=None, keepdims=False, *, where=None",
    "jax.numpy.mean",
    "jax.numpy.nanmean",
)
@model(
    "a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=None, correction=None, mean=None",
    *names("jax.numpy", "std var"),
)
@model(
    "a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, where=None",
    *names("jax.numpy", "nanstd nanvar"),
)
@model(
    f"a, axis=None, out=None, keepdims=False, {_WHERE}",
    *names("jax.numpy", "max min amax amin nanmax nanmin"),
)
@model(
    "a, axis=None, out=None, keepdims=False, *, where=None",
    *names("jax.numpy", "all any"),
)
@model(
    "a, axis=None, out=None, overwrite_input=False, keepdims=False",
    *names("jax.numpy", "median nanmedian"),
)
@model("a, axis=None, keepdims=False", "jax.numpy.count_nonzero")
@model("a, axis=None, out=None, keepdims=False", "jax.numpy.ptp")
def reduce(call: Call) -> Value:
    value = array(call, "a")
    dims = reduced_dims(call, value, call["axis"], call["keepdims"])
    where = as_array(call.get("where"))
    _require_bool(call, where)
    if not is_none(call.get("where")) and value.dims is not None:
        full = broadcast_dims(call.name, [value, where or UNKNOWN_ARRAY], call.ctx)
        if full is None or [dim.size for dim in full] != [
            dim.size for dim in value.dims
        ]:
            dims = None  # a mask may widen the array
    if call.last in ("median", "nanmedian") and (
        not value.dims or any(dim.size == 0 for dim in value.dims)
    ):
        dims = None
    _refuse_empty(call, value, dims)
    name, given = dtype_argument(call, call.get("dtype"))
    linear = call.last in ("sum", "mean")
    out = value if linear else cleared(value)
    dtype = name if given else _result_dtype(call, value.dtype)
    return with_dtype(ArrayValue(dims, None, pending=out.pending), dtype)


def _require_bool(call: Call, where: ArrayValue | None) -> None:
    """Raises OpError for a mask that JAX does not take: of numbers."""
    if where is None or call.ctx.numpy or call.qualname.startswith("numpy."):
        return
    if dtypes.is_kind(where.dtype, "signed", "unsigned", "floating", "complex"):
        dtype = dtypes.written(where.dtype)
        raise OpError("ST212", messages.where_of_other_dtype(call.name, dtype))


def _result_dtype(call: Call, dtype: str | None) -> str | None:
    """What a reduction gives where no dtype is asked for; None where that is not known."""
    match call.last:
        case "sum" | "prod" | "nansum" | "nanprod":
            promotes = "promote_integers" not in call.args or static_bool(
                call["promote_integers"]
            )
            return accumulator(dtype, call.ctx.x64) if promotes else None
        case "all" | "any":
            return "bool"
        case "count_nonzero":
            return index_dtype(call)
        case "mean" | "nanmean":
            return dtypes.inexact(dtype, x64=call.ctx.x64)
        case "median" | "nanmedian" | "std" | "var" | "nanstd" | "nanvar":
            inexact = dtypes.inexact(dtype, x64=call.ctx.x64)
            is_real = dtypes.is_kind(inexact, "complex") is False
            return inexact if is_real else None
        case "ptp":
            return dtype if dtypes.is_kind(dtype, "bool") is False else None
        case _:
            return dtype if is_none(call["initial"]) else None


_NO_IDENTITY = frozenset(
    "max min amax amin nanmax nanmin ptp argmax argmin nanargmax nanargmin".split()
)


def _refuse_empty(call: Call, value: ArrayValue, dims: Dims | None) -> None:
    """``max`` of no elements has no answer."""
    if call.last not in _NO_IDENTITY or value.dims is None or dims is None:
        return
    if not is_none(call.get("initial")) or not any(dim.size == 0 for dim in value.dims):
        return
    reduced = axes_argument(call, call["axis"], value)
    if any(
        dim.size == 0
        for i, dim in enumerate(value.dims)
        if reduced is None or i in reduced
    ):
        raise OpError(
            "ST204",
            f"{call.name}: no elements along the reduced axis, and no initial value",
        )


@model(
    "a, axis=None, out=None, keepdims=None",
    *names("jax.numpy", "argmax argmin nanargmax nanargmin"),
)
def arg_reduce(call: Call) -> Value:
    value = array(call, "a")
    if isinstance(call["axis"], SequenceValue):
        return UNKNOWN_ARRAY
    keep = call["keepdims"]
    from_none = reduced_dims(
        call, value, call["axis"], keep if not is_none(keep) else _FALSE
    )
    _refuse_empty(call, value, from_none)
    return with_dtype(
        ArrayValue(from_none, None, False, cleared(value).pending), index_dtype(call)
    )


def index_dtype(call: Call) -> str:
    return "int64" if call.ctx.x64 else "int32"


@model(
    "a, axis=None, b=None, keepdims=False, return_sign=False, where=None",
    "jax.nn.logsumexp",
    "jax.scipy.special.logsumexp",
)
def logsumexp(call: Call) -> Value:
    value = array(call, "a")
    weights = as_array(call["b"])
    if not is_none(call["b"]):
        value = elementwise(call.name, [value, weights or UNKNOWN_ARRAY], call.ctx)
    dims = reduced_dims(call, value, call["axis"], call["keepdims"])
    out = to_inexact(
        ArrayValue(dims, value.dtype, value.weak, cleared(value).pending), call.ctx
    )
    signed = static_bool(call["return_sign"])
    if signed is None:
        raise UnknownArgument
    out = with_dtype(out, out.dtype)
    return SequenceValue((out, with_dtype(out, None))) if signed else out


@model("x, axis=-1, where=None, initial=None", "jax.nn.softmax", "jax.nn.log_softmax")
@model(
    "x, axis=-1, mean=None, variance=None, epsilon=1e-05, where=None",
    "jax.nn.standardize",
)
def softmax(call: Call) -> Value:
    """Keeps the shape; the axis must exist."""
    value = array(call, "x")
    try:
        axes_argument(call, call["axis"], value)
    except UnknownArgument:
        pass  # the shape does not depend on it
    out = with_dtype(cleared(value), dtypes.inexact(value.dtype, x64=call.ctx.x64))
    if (
        not dtypes.is_kind(value.dtype, "floating")
        or value.dtype in dtypes.SMALL_FLOATS
    ):
        out = with_dtype(out, None)
    mask = as_array(call["where"])
    if is_none(call["where"]):
        return out
    return with_dtype(
        elementwise(call.name, [out, mask or UNKNOWN_ARRAY], call.ctx), None
    )


@model(
    "a, axis=None, dtype=None, out=None",
    *names("jax.numpy", "cumsum cumprod nancumsum nancumprod"),
)
@model(
    "x, /, *, axis=None, dtype=None, include_initial=False",
    "jax.numpy.cumulative_sum",
    "jax.numpy.cumulative_prod",
)
def cumulate(call: Call) -> Value:
    """``axis=None`` flattens."""
    value = array(call, "a" if "a" in call.args else "x")
    if static_bool(call.get("include_initial")) or "include_initial" in call.args:
        raise UnknownArgument
    name, given = dtype_argument(call, call["dtype"])
    dtype = name if given else value.dtype
    if not given and dtypes.is_kind(dtype, "bool") is not False:
        dtype = index_dtype(call) if value.dtype == "bool" else None
    pending = value.pending if call.last == "cumsum" else cleared(value).pending
    dims = value.dims
    if is_none(call["axis"]):
        dims = flattened(value)
    elif value.dims == ():
        raise UnknownArgument  # releases differ on whether a scalar has an axis 0
    else:
        checked_axis(call, value, call["axis"])
    return with_dtype(ArrayValue(dims, None, pending=pending), dtype)


def flattened(value: ArrayValue) -> Dims | None:
    """The one dimension of a flattened array, its size unknown where one of its factors is."""
    if value.dims is None:
        return (Dimension(None),)
    sizes = [dim.size for dim in value.dims]
    known = [size for size in sizes if size is not None]
    if len(value.dims) == 1:
        return value.dims
    return (Dimension(None if len(known) < len(sizes) else product(known)),)


@model(
    "a, axis=-1, *, kind=None, order=None, stable=True, descending=False",
    "jax.numpy.sort",
    "jax.numpy.argsort",
)
def sort(call: Call) -> Value:
    value = array(call, "a")
    out = cleared(value)
    if is_none(call["axis"]) or (call.ctx.numpy and value.dims == ()):
        out = ArrayValue(flattened(value), out.dtype, out.weak, out.pending)
    else:
        checked_axis(call, value, call["axis"])
    return with_dtype(out, index_dtype(call)) if call.last == "argsort" else out
