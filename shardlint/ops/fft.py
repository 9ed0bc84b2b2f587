"""``jnp.fft``: transforms keep the shape, but for the lengths asked for and the half spectra of real input."""

from __future__ import annotations

from shardlint.ops.arrays import (
    array,
    axes_argument,
    dims_of,
    dtype_argument,
    one_axis,
    seen_size,
    shown,
    size_of,
    sizes_argument,
    with_dims,
    with_dtype,
)
from shardlint.ops.creation import default_float
from shardlint.ops.elementwise import cleared, names
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    is_number,
    model,
)
from shardlint.values import ArrayValue, Dimension, IntValue, SequenceValue, Value
from shardtypes.lang import Size, dtypes

FFT = "jax.numpy.fft"


def _dtype(call: Call, value: ArrayValue) -> str | None:
    """Complex, but for the inverse transforms to real signals."""
    if value.dtype is None or value.dtype in (
        "float16",
        "bfloat16",
        *dtypes.SMALL_FLOATS,
    ):
        return None
    real_input = call.last.startswith(("rfft", "ihfft"))
    if real_input and dtypes.is_kind(value.dtype, "complex") is not False:
        return None
    wide = dtypes.canonical(value.dtype, call.ctx.x64) in ("float64", "complex128") or (
        call.ctx.x64 and dtypes.is_kind(value.dtype, "floating", "complex") is False
    )
    if call.last.startswith(("irfft", "hfft")):
        return "float64" if wide else "float32"
    return "complex128" if wide else "complex64"


def _length(call: Call, given: Size | None, last: bool) -> Size | None:
    """What a transform along one axis leaves of the length asked for, or that of the input."""
    if given is None:
        return None
    if call.last.startswith(("rfft", "ihfft")) and last:
        return given // 2 + 1
    return given


def _check(call: Call, value: ArrayValue, size: Size | None, asked: bool) -> None:
    """No points asked for is an error; what becomes of an empty spectrum differs."""
    if size is not None and size.constant is not None and size.constant < 1:
        if asked:
            raise OpError(
                "ST206",
                f"{call.name}: {size.constant} points along a dimension of {shown(value)}",
            )
        raise UnknownArgument


@model("a, n=None, axis=-1, norm=None", *names(FFT, "fft ifft rfft irfft hfft ihfft"))
def one_dimensional(call: Call) -> Value:
    value = array(call, "a")
    out = with_dtype(cleared(value), _dtype(call, value))
    if value.dims is None:
        return out
    if not value.dims:
        raise UnknownArgument
    if not isinstance(call["axis"], IntValue):
        raise UnknownArgument
    axis = one_axis(call, call["axis"], len(value.dims), value)
    given = seen_size(value, axis) if is_none(call["n"]) else size_of(call["n"])
    if is_none(call["n"]) and call.last in ("irfft", "hfft") and given is not None:
        given = 2 * (given - 1)
    _check(call, value, given, not is_none(call["n"]))
    if any(dim.size == 0 for dim in value.dims):
        raise UnknownArgument
    kept = (
        given is not None
        and given == value.dims[axis].size
        and call.last in ("fft", "ifft")
    )
    middle = (
        value.dims[axis] if kept else Dimension(_length(call, given, last=True), ())
    )
    return with_dims(out, (*value.dims[:axis], middle, *value.dims[axis + 1 :]))


@model("a, s=None, axes=None, norm=None", *names(FFT, "fftn ifftn rfftn irfftn"))
@model("a, s=None, axes=(-2, -1), norm=None", *names(FFT, "fft2 ifft2 rfft2 irfft2"))
def several_dimensional(call: Call) -> Value:
    value = array(call, "a")
    out = with_dtype(cleared(value), _dtype(call, value))
    if value.dims is None:
        return out
    axes = axes_argument(call, call["axes"], value)
    if call.last.endswith("2") and (axes is None or len(axes) != 2):
        raise UnknownArgument
    if axes is None:
        axes = tuple(range(len(value.dims)))
        if not is_none(call["s"]):
            count = sizes_argument(call["s"])
            axes = axes[len(axes) - len(count) :] if count is not None else ()
    given = (
        [seen_size(value, axis) for axis in axes]
        if is_none(call["s"])
        else sizes_argument(call["s"])
    )
    if (
        not axes
        or given is None
        or len(given) != len(axes)
        or any(dim.size == 0 for dim in value.dims)
    ):
        raise UnknownArgument
    if len(axes) > 3:
        raise UnknownArgument  # some releases refuse, some do several transforms
    dims = list(value.dims)
    for i, (axis, size) in enumerate(zip(axes, given, strict=True)):
        last = i == len(axes) - 1
        if (
            last
            and is_none(call["s"])
            and call.last.startswith("irfft")
            and size is not None
        ):
            size = 2 * (size - 1)
        _check(call, value, size, not is_none(call["s"]))
        if (
            size is None
            or size != dims[axis].size
            or (last and call.last.startswith("rfft"))
        ):
            dims[axis] = Dimension(_length(call, size, last), ())
    return with_dims(out, tuple(dims))


@model("n, d=1.0, *, dtype=None, device=None", *names(FFT, "fftfreq rfftfreq"))
def frequencies(call: Call) -> Value:
    n = size_of(call["n"])
    name, given = dtype_argument(call, call["dtype"])
    if n is not None and n.constant is not None and n.constant < 1:
        raise UnknownArgument
    length = n // 2 + 1 if n is not None and call.last == "rfftfreq" else n
    dtype = name if given else (default_float(call) if is_number(call["d"]) else None)
    return ArrayValue(dims_of(length), dtype, False, frozenset())


@model("x, axes=None", *names(FFT, "fftshift ifftshift"))
def shift(call: Call) -> Value:
    """Keeps the shape; an axis may be given twice."""
    value, axes = array(call, "x"), call["axes"]
    if value.dims is not None and not is_none(axes):
        for item in axes.items if isinstance(axes, SequenceValue) else (axes,):
            one_axis(call, item, len(value.dims), value)
    return value
