"""Statistics and numerical calculus of ``jax.numpy``: quantiles, histograms, covariance, differences, interpolation."""

from __future__ import annotations

from shardlint.ops.arrays import (
    ONE,
    UNKNOWN_ARRAY,
    array,
    arrays,
    as_array,
    checked_axis,
    cleared,
    common_float,
    different,
    elementwise,
    number_kind,
    one_axis,
    same,
    seen_size,
    shown,
    size_of,
    with_dims,
    with_dtype,
)
from shardlint.ops.joining import agree
from shardlint.ops.reductions import reduced_dims
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
    static_str,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from shardtypes.lang import Size, dtypes


def _vector(call: Call, name: str) -> ArrayValue:
    """An argument that has to be a vector."""
    value = array(call, name)
    if value.dims is not None and len(value.dims) != 1:
        raise OpError(
            "ST208", f"{call.name}: {name} has shape {shown(value)}; it is a vector"
        )
    return value


def _same_length(call: Call, a: ArrayValue, b: ArrayValue) -> None:
    if a.dims and b.dims:
        witness = different(call.ctx, a.dims[0].size, b.dims[0].size)
        if witness is not None:
            raise OpError(
                "ST204",
                f"{call.name}: lengths of {shown(a)} and {shown(b)} differ",
                witness,
            )


def _floating(value: ArrayValue, source: ArrayValue) -> ArrayValue:
    """The dtype where it is certain: floats keep theirs."""
    usual = (
        dtypes.is_kind(source.dtype, "floating")
        and source.dtype not in dtypes.SMALL_FLOATS
    )
    return with_dtype(value, source.dtype if usual else None)


_QUANTILE = "axis=None, out=None, overwrite_input=False, method='linear', keepdims=False, *, weights=None"


@model(
    f"a, q, {_QUANTILE}",
    *names("jax.numpy", "quantile percentile nanquantile nanpercentile"),
)
def quantile(call: Call) -> Value:
    """The dimensions of ``q`` come first."""
    value, q = array(call, "a"), array(call, "q")
    if (
        not is_none(call["weights"])
        or value.dims == ()
        or value.dims is None
        or q.dims is None
    ):
        return UNKNOWN_ARRAY
    if any(dim.size == 0 for dim in value.dims):
        return UNKNOWN_ARRAY
    if len(q.dims) > 1:
        raise OpError(
            "ST208", f"{call.name}: q has shape {shown(q)}; it is a scalar or a vector"
        )
    dims = reduced_dims(call, value, call["axis"], call["keepdims"])
    if dims is not None:
        dims = tuple(Dimension(dim.size, ()) for dim in q.dims) + dims
    out = _floating(with_dims(cleared(value), dims), value)
    return (
        out
        if number_kind(call["q"]) == "float" or q.dtype == value.dtype
        else with_dtype(out, None)
    )


@model(
    "a, axis=None, weights=None, returned=False, keepdims=False", "jax.numpy.average"
)
def average(call: Call) -> Value:
    value = array(call, "a")
    if static_bool(call["returned"]) is not False or isinstance(
        call["axis"], SequenceValue
    ):
        raise UnknownArgument
    weights = as_array(call["weights"])
    dims = reduced_dims(call, value, call["axis"], call["keepdims"])
    if not is_none(call["weights"]):
        if weights is None or weights.dims is None or value.dims is None:
            return UNKNOWN_ARRAY
        if len(weights.dims) == len(value.dims):
            agree(call, [value, weights], None)
        elif len(weights.dims) != 1 or is_none(call["axis"]):
            raise OpError(
                "ST204",
                f"{call.name}: {shown(value)} has weights of shape {shown(weights)}",
            )
        else:
            axis = one_axis(call, call["axis"], len(value.dims), value)
            _same_length(call, with_dims(value, (value.dims[axis],)), weights)
        return with_dims(with_dtype(cleared(value), None), dims)
    return _floating(with_dims(value, dims), value)


@model("a, bins=10, range=None, weights=None, density=None", "jax.numpy.histogram")
def histogram(call: Call) -> Value:
    """Counts, and the edges between them."""
    bins = size_of(call["bins"])
    if bins is None or not is_none(call["weights"]):
        raise UnknownArgument
    if bins.constant is not None and bins.constant < 1:
        raise UnknownArgument
    counts, edges = (
        ArrayValue((Dimension(size, ()),), None) for size in (bins, bins + 1)
    )
    return SequenceValue((counts, edges))


@model("x, weights=None, minlength=0, *, length=None", "jax.numpy.bincount")
def bincount(call: Call) -> Value:
    """``length`` bins if given; else as many as the largest value wants."""
    value = _vector(call, "x")
    if dtypes.is_kind(value.dtype, "floating", "complex"):
        raise OpError("ST212", f"{call.name}: counts integers, got {value.dtype}")
    length = None if is_none(call["length"]) else size_of(call["length"])
    return ArrayValue((Dimension(length, ()),), None, pending=cleared(value).pending)


@model(
    "m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, dtype=None",
    "jax.numpy.cov",
)
@model("x, y=None, rowvar=True, dtype=None", "jax.numpy.corrcoef")
def covariance(call: Call) -> Value:
    """Rows are variables, columns observations, unless ``rowvar`` says otherwise."""
    value = array(call, "m" if "m" in call.args else "x")
    rows = static_bool(call["rowvar"])
    if value.dims is None or rows is None or not is_none(call["y"]):
        return UNKNOWN_ARRAY
    name = common_float(value) if is_none(call["dtype"]) else None
    if len(value.dims) > 2:
        raise OpError(
            "ST208", f"{call.name}: {shown(value)} has more than 2 dimensions"
        )
    if len(value.dims) < 2:
        return ArrayValue((), name) if value.dims else UNKNOWN_ARRAY
    count = seen_size(value, 0 if rows else 1)
    if count == 1:
        return ArrayValue((), name)
    if (
        count is None
        or count.constant is None
        or any(dim.size == 0 for dim in value.dims)
    ):
        return UNKNOWN_ARRAY  # a single variable gives a scalar
    return ArrayValue((Dimension(count, ()), Dimension(count, ())), name)


@model("a, n=1, axis=-1, prepend=None, append=None", "jax.numpy.diff")
def diff(call: Call) -> Value:
    """One element less for each time that differences are taken."""
    value = array(call, "a")
    times = static_int(call["n"])
    if times == 0:
        return with_dtype(value, None)  # whatever the axis
    if value.dims == ():
        raise OpError("ST208", f"{call.name}: a scalar has no differences")
    axis = checked_axis(call, value, call["axis"])
    if value.dims is None or axis is None:
        return with_dims(with_dtype(value, None), None)
    size = seen_size(value, axis)
    plain = is_none(call["prepend"]) and is_none(call["append"])
    length: Size | None = None
    if plain and size is not None and times is not None:
        if times < 0:
            raise OpError("ST206", f"{call.name}: n is {times}")
        length = size - times
        length = (
            length if length.is_nonnegative else Size.maximum(length, Size.const(0))
        )
    dims = value.dims
    out = with_dims(value, (*dims[:axis], Dimension(length, ()), *dims[axis + 1 :]))
    return with_dtype(
        out,
        value.dtype if plain and dtypes.is_kind(value.dtype, "bool") is False else None,
        value.weak,
    )


@model("ary, to_end=None, to_begin=None", "jax.numpy.ediff1d")
def ediff1d(call: Call) -> Value:
    return ArrayValue((Dimension(None),), None)


@model("f, *varargs, axis=None, edge_order=None", "jax.numpy.gradient")
def gradient(call: Call) -> Value:
    """An array of the same shape for each axis; alone where there is one."""
    value = array(call, "f")
    axis = call["axis"]
    if value.dims is None or call["varargs"] != SequenceValue(()):
        raise UnknownArgument
    if is_none(axis):
        axes = list(range(len(value.dims)))
    elif isinstance(axis, SequenceValue):
        raise UnknownArgument
    else:
        axes = [one_axis(call, axis, len(value.dims), value)]
    for one in axes:
        size = seen_size(value, one)
        if size is not None and size.constant is not None and size.constant < 2:
            what = f"dimension {one} of {shown(value)} has less than 2 elements"
            raise OpError("ST206", f"{call.name}: {what}")
    if not axes:
        raise UnknownArgument
    out = with_dtype(cleared(value), common_float(value))
    return out if len(axes) == 1 else SequenceValue((out,) * len(axes), "list")


@model("y, x=None, dx=1.0, axis=-1", "jax.numpy.trapezoid")
def trapezoid(call: Call) -> Value:
    value = array(call, "y")
    axis = checked_axis(call, value, call["axis"])
    if (
        value.dims is None
        or axis is None
        or not is_none(call["x"])
        or not is_number(call["dx"])
    ):
        return UNKNOWN_ARRAY
    if seen_size(value, axis) == 0:
        raise UnknownArgument
    return with_dtype(
        with_dims(value, value.dims[:axis] + value.dims[axis + 1 :]),
        common_float(value),
    )


@model("x, xp, fp, left=None, right=None, period=None", "jax.numpy.interp")
def interp(call: Call) -> Value:
    """A value for each element of ``x``."""
    xp, fp = array(call, "xp"), array(call, "fp")
    if xp.dims is not None and fp.dims is not None:
        if len(xp.dims) != 1 or len(fp.dims) != 1:
            raise OpError(
                "ST208",
                f"{call.name}: xp and fp have shapes {shown(xp)} and {shown(fp)}; they are vectors",
            )
        _same_length(call, xp, fp)
    value = array(call, "x")
    if any(not is_none(call[name]) for name in ("left", "right", "period")) or (
        xp.dims and xp.dims[0].size == 0
    ):
        return UNKNOWN_ARRAY
    usual = common_float(value, xp, fp) == "float32"
    return with_dtype(cleared(value), "float32" if usual else None)


@model("p, x, *, unroll=16", "jax.numpy.polyval")
def polyval(call: Call) -> Value:
    p, x = arrays(call, "p", "x")
    if not p.dims or p.dims[0].size == 0:
        return UNKNOWN_ARRAY
    shape = with_dims(p, tuple(dim for dim in p.dims[1:]))
    out = elementwise(call.name, [shape, x], call.ctx)
    usual = (
        p.dtype == x.dtype
        and dtypes.is_kind(p.dtype, "floating")
        and not (p.weak or x.weak)
    )
    return with_dtype(out, p.dtype if usual else None)


@model("x, y, deg, rcond=None, full=False, w=None, cov=False", "jax.numpy.polyfit")
def polyfit(call: Call) -> Value:
    """One coefficient more than the degree, for each column of ``y``."""
    x, y, degree = _vector(call, "x"), array(call, "y"), size_of(call["deg"])
    if (
        any(static_bool(call[name]) is not False for name in ("full", "cov"))
        or degree is None
        or y.dims is None
    ):
        raise UnknownArgument
    if len(y.dims) not in (1, 2) or (degree.constant or 0) < 0:
        raise UnknownArgument
    _same_length(call, x, y)
    usual = common_float(x, y) == "float32"
    return ArrayValue(
        (Dimension(degree + 1, ()), *y.dims[1:]), "float32" if usual else None
    )


_CONVOLVE = "*, precision=None, preferred_element_type=None"


@model(f"a, v, mode='full', {_CONVOLVE}", "jax.numpy.convolve")
@model(f"a, v, mode='valid', {_CONVOLVE}", "jax.numpy.correlate")
def convolve(call: Call) -> Value:
    """Vectors; the result has ``N+M-1`` elements (``full``), the longer length (``same``), or what overlaps."""
    a, v = _vector(call, "a"), _vector(call, "v")
    mode = static_str(call["mode"])
    if a.dims is None or v.dims is None:
        return with_dims(UNKNOWN_ARRAY, (Dimension(None),))
    n, m = seen_size(a, 0), seen_size(v, 0)
    if n is not None and m is not None and (n == 0 or m == 0):
        raise OpError(
            "ST206", f"{call.name}: an empty vector, of {shown(a)} and {shown(v)}"
        )
    length: Size | None = None
    if n is not None and m is not None and mode in ("full", "same", "valid"):
        if mode == "full":
            length = n + m - 1
        elif mode == "same":
            length = Size.maximum(n, m)
        elif same(call.ctx, n, m):
            length = ONE
        else:
            length = Size.maximum(n, m) - Size.minimum(n, m) + 1
    return ArrayValue(
        (Dimension(length, ()),),
        common_float(a, v) if is_none(call["preferred_element_type"]) else None,
    )


@model("p, discont=None, axis=-1, period=6.283185307179586", "jax.numpy.unwrap")
def unwrap(call: Call) -> Value:
    value = array(call, "p")
    checked_axis(call, value, call["axis"])
    return (
        UNKNOWN_ARRAY
        if value.dims == ()
        else with_dtype(cleared(value), common_float(value))
    )
