"""Functions that make arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    array,
    as_array,
    broadcast_dims,
    different,
    dims_of,
    dtype_argument,
    merge_dims,
    number_kind,
    result_dtype,
    shown,
    size_of,
    sizes_argument,
    with_dtype,
)
from shardlint.ops.dimensions import broadcast_onto
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    is_number,
    model,
    names,
    static_bool,
    static_int,
)
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    Literal,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes


def made(
    call: Call, sizes: list[Size | None] | None, dtype: str | None, weak: bool = False
) -> ArrayValue:
    """A new array: nothing pending, on no axes that we know of."""
    if sizes is not None and any(
        (size.constant or 0) < 0 for size in sizes if size is not None
    ):
        if call.last == "empty":
            raise UnknownArgument  # some releases let it through
        raise OpError("ST206", f"{call.name}: a negative size")
    dims = None if sizes is None else dims_of(*sizes)
    return ArrayValue(dims, dtype, weak and dtype is not None, frozenset())


def default_float(call: Call) -> str:
    return "float64" if call.ctx.x64 else "float32"


def default_int(call: Call) -> str:
    return "int64" if call.ctx.x64 else "int32"


@model(
    "shape, dtype=None, *, device=None, out_sharding=None",
    *names("jax.numpy", "zeros ones empty"),
)
def filled(call: Call) -> Value:
    name, given = dtype_argument(call, call["dtype"])
    return made(
        call, sizes_argument(call["shape"]), name if given else default_float(call)
    )


@model(
    "shape, fill_value, dtype=None, *, device=None, out_sharding=None", "jax.numpy.full"
)
@model("shape, fill_value, dtype=None, *, sharding=None", "jax.lax.full")
def full(call: Call) -> Value:
    name, given = dtype_argument(call, call["dtype"])
    fill = as_array(call["fill_value"], call.ctx.x64) or UNKNOWN_ARRAY
    sizes = sizes_argument(call["shape"])
    if call.qualname == "jax.lax.full" and fill.dims:
        raise OpError(
            "ST204",
            f"{call.name} takes a scalar fill value, got shape {shown(fill)}",
            operand=1,
        )
    if sizes is not None and fill.dims:
        broadcast_onto(call, fill, sizes)
    return (
        made(call, sizes, name, False)
        if given
        else made(call, sizes, fill.dtype, fill.weak)
    )


@model(
    "a, dtype=None, shape=None, *, device=None, out_sharding=None",
    *names("jax.numpy", "zeros_like ones_like empty_like"),
)
@model("a, fill_value, dtype=None, shape=None, *, device=None", "jax.numpy.full_like")
@model("x, fill_value, dtype=None, shape=None, *, sharding=None", "jax.lax.full_like")
def like(call: Call) -> Value:
    value = array(call, "a" if "a" in call.args else "x")
    name, given = dtype_argument(call, call["dtype"])
    weak = value.weak and not given
    dims = value.dims if is_none(call["shape"]) else None
    if not is_none(call["shape"]):
        sizes = sizes_argument(call["shape"])
        dims = None if sizes is None else dims_of(*sizes)
    return ArrayValue(dims, name if given else value.dtype, weak, frozenset())


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


@model(
    "start, stop=None, step=None, dtype=None, *, device=None, out_sharding=None",
    "jax.numpy.arange",
)
def arange(call: Call) -> Value:
    given = [
        call[name] for name in ("start", "stop", "step") if not is_none(call[name])
    ]
    name, has_dtype = dtype_argument(call, call["dtype"])
    if not has_dtype:
        kinds = {number_kind(value) for value in given}
        name = (
            default_int(call)
            if kinds == {"int"}
            else (default_float(call) if kinds <= {"int", "float"} else None)
        )
        if None in kinds:
            name = None
    length: Size | None = None
    if all(isinstance(value, IntValue) for value in given):
        start, stop, step = (size_of(call[part]) for part in ("start", "stop", "step"))
        if is_none(call["stop"]):
            start, stop = Size.const(0), start
        length = _range_length(
            start, stop, Size.const(1) if is_none(call["step"]) else step
        )
    elif all(
        isinstance(value, Literal) or static_int(value) is not None for value in given
    ):
        length = _float_range_length([call[part] for part in ("start", "stop", "step")])
    return made(call, [length], name)


def _float_range_length(parts: list[Value]) -> Size | None:
    """``jnp.arange(0, 1, 0.1)``: a step begun counts."""
    numbers = [
        part.value if isinstance(part, Literal) else static_int(part) for part in parts
    ]
    start, stop, step = (
        float(n) if isinstance(n, (int, float)) else None for n in numbers
    )
    if stop is None:
        start, stop = 0.0, start
    step = 1.0 if step is None else step
    if start is None or stop is None or not step:
        return None
    count = (stop - start) / step
    return Size.const(max(0, math.ceil(count))) if math.isfinite(count) else None


def _range_length(
    start: Size | None, stop: Size | None, step: Size | None
) -> Size | None:
    if start is None or stop is None or step is None or step.constant == 0:
        return None
    by = step.constant
    if by is None:
        return None
    length = stop - start if by > 0 else start - stop
    if not length.is_nonnegative:
        length = Size.maximum(length, Size.const(0))
    return length if abs(by) == 1 else (length + abs(by) - 1) // abs(by)


@model(
    "start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None",
    "jax.numpy.linspace",
)
@model(
    "start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0",
    "jax.numpy.logspace",
)
@model("start, stop, num=50, endpoint=True, dtype=None, axis=0", "jax.numpy.geomspace")
def linspace(call: Call) -> Value:
    start, stop = array(call, "start"), array(call, "stop")
    if static_bool(call.get("retstep")) is True:
        raise UnknownArgument
    if "retstep" in call.args and static_bool(call["retstep"]) is None:
        return Unknown("retstep is not known")
    name, given = dtype_argument(call, call["dtype"])
    if not given:
        promoted, weak = result_dtype(call.name, [start, stop], call.ctx)
        name = promoted if not weak and dtypes.is_kind(promoted, "floating") else None
        if (
            start.dims == () == stop.dims
            and weak
            and dtypes.is_kind(promoted, "bool", "complex") is False
        ):
            name = default_float(call)
    result = made(call, [size_of(call["num"])], name)
    dims = broadcast_dims(call.name, [start, stop], call.ctx)
    if dims is None or result.dims is None:
        return ArrayValue(None, name)
    axis = static_int(call["axis"])
    if axis is None or not -len(dims) - 1 <= axis <= len(dims):
        # whether it is refused depends on the function and on how many points there are
        raise UnknownArgument
    at = axis % (len(dims) + 1)
    return ArrayValue((*dims[:at], *result.dims, *dims[at:]), name) if dims else result


@model("N, M=None, k=0, dtype=None, *, device=None", "jax.numpy.eye")
@model("n, dtype=None", "jax.numpy.identity")
@model("N, M=None, k=0, dtype=None", "jax.numpy.tri")
def eye(call: Call) -> Value:
    first = size_of(call["N"] if "N" in call.args else call["n"])
    other = first if is_none(call.get("M")) else size_of(call["M"])
    name, given = dtype_argument(call, call["dtype"])
    return made(call, [first, other], name if given else default_float(call))


@model("*xi, copy=True, sparse=False, indexing='xy'", "jax.numpy.meshgrid")
def meshgrid(call: Call) -> Value:
    xi = call["xi"]
    if not isinstance(xi, SequenceValue) or static_bool(call["sparse"]) is not False:
        raise UnknownArgument
    operands = [as_array(item, call.ctx.x64) or UNKNOWN_ARRAY for item in xi.items]
    sizes: list[Size | None] = []
    for operand in operands:
        if operand.dims is not None and len(operand.dims) > 1:
            raise OpError("ST208", f"{call.name}: needs vectors, got {shown(operand)}")
        sizes.append(
            operand.dims[0].size
            if operand.dims
            else (Size.const(1) if operand.dims == () else None)
        )
    from shardlint.ops.registry import static_str

    order = static_str(call["indexing"])
    if order not in ("xy", "ij") or any(operand.dims == () for operand in operands):
        raise UnknownArgument
    if order == "xy" and len(sizes) >= 2:
        sizes[0], sizes[1] = sizes[1], sizes[0]
    grids = [ArrayValue(dims_of(*sizes), o.dtype, o.weak, o.pending) for o in operands]
    return SequenceValue(tuple(grids), "list")


@model("dimensions, dtype=None, sparse=False", "jax.numpy.indices")
def indices(call: Call) -> Value:
    """One grid of positions for each dimension, stacked."""
    sizes = (
        sizes_argument(call["dimensions"])
        if isinstance(call["dimensions"], SequenceValue)
        else None
    )
    name, given = dtype_argument(call, call["dtype"])
    if sizes is None or static_bool(call["sparse"]) is not False:
        raise UnknownArgument
    return made(
        call, [Size.const(len(sizes)), *sizes], name if given else default_int(call)
    )


@model("M", *names("jax.numpy", "hamming hanning bartlett blackman"))
@model("M, beta", "jax.numpy.kaiser")
def window_function(call: Call) -> Value:
    return made(
        call,
        [size_of(call["M"])],
        default_float(call) if is_number(call["M"]) else None,
    )


@model("n", "jax.scipy.special.bernoulli")
def bernoulli(call: Call) -> Value:
    """The Bernoulli numbers up to the n-th."""
    count = size_of(call["n"])
    return made(call, [None if count is None else count + 1], default_float(call))


@model("a, order=None", "jax.numpy.copy")
def copy(call: Call) -> Value:
    value = nested(call, call["a"])
    return with_dtype(
        value, value.dtype, value.weak and not isinstance(call["a"], SequenceValue)
    )


@model("indices, shape", "jax.numpy.unravel_index")
def unravel_index(call: Call) -> Value:
    """A position for each dimension of the shape, of the shape of the indices."""
    value, shape = array(call, "indices"), sizes_argument(call["shape"])
    if shape is None:
        raise UnknownArgument
    return SequenceValue((with_dtype(value, None),) * len(shape))
