"""Convolutions and windowed reductions: ``conv_general_dilated`` and its relatives, ``reduce_window``."""

from __future__ import annotations

from dataclasses import dataclass, replace

from shardlint.ops.arrays import (
    ONE,
    array,
    cleared,
    different,
    dtype_argument,
    product,
    seen_size,
    shown,
    shown_size,
    sizes_argument,
    with_dims,
    with_dtype,
)
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    model,
    static_bool,
    static_int,
    static_str,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from shardtypes.lang import Size, dtypes

Sizes = list[Size | None]
ZERO = Size.const(0)


def _dilated(size: Size | None, by: Size | None) -> Size | None:
    """The extent of ``size`` elements with ``by - 1`` holes between neighbours."""
    if size is None or by is None:
        return None
    if by == 1:
        return size
    return (
        None
        if size.constant == 0 or not (size - 1).is_nonnegative
        else (size - 1) * by + 1
    )


def window_count(
    size: Size | None, window: Size | None, stride: Size | None
) -> Size | None:
    """How many windows fit in a padded dimension."""
    if (
        size is None
        or window is None
        or stride is None
        or stride.constant is None
        or stride.constant < 1
    ):
        return None
    room = size - window
    if room.constant is None and not room.is_nonnegative:
        room = Size.maximum(room, Size.const(-stride.constant))
    return Size.maximum((room + stride) // stride, ZERO)


def same_count(size: Size | None, stride: Size | None) -> Size | None:
    """How many windows ``SAME`` padding makes: one for each stride begun."""
    if size is None or stride is None or stride.constant is None or stride.constant < 1:
        return None
    return size if stride == 1 else (size + stride - 1) // stride


def _numbers(call: Call, name: str, count: int, default: Size = ONE) -> Sizes:
    """An argument with one int per spatial dimension."""
    if is_none(call[name]):
        return [default] * count
    sizes = (
        sizes_argument(call[name]) if isinstance(call[name], SequenceValue) else None
    )
    if sizes is None:
        raise UnknownArgument
    if len(sizes) != count:
        plural = "s" if count != 1 else ""
        raise OpError(
            "ST208", f"{call.name}: {len(sizes)} {name} for {count} dimension{plural}"
        )
    return sizes


def _paddings(call: Call, count: int) -> list[tuple[Size | None, Size | None]] | str:
    """Pairs of widths, or ``SAME`` or ``VALID``."""
    text = static_str(call["padding"])
    if text is not None:
        if text.upper() not in ("SAME", "VALID"):
            raise UnknownArgument  # SAME_LOWER, CAUSAL of some libraries
        return text.upper()
    if not isinstance(call["padding"], SequenceValue):
        raise UnknownArgument
    pairs = []
    for item in call["padding"].items:
        widths = sizes_argument(item) if isinstance(item, SequenceValue) else None
        if widths is None or len(widths) != 2:
            raise UnknownArgument
        pairs.append((widths[0], widths[1]))
    if len(pairs) != count:
        raise OpError(
            "ST208",
            f"{call.name}: {len(pairs)} pairs of padding for {count} dimensions",
        )
    return pairs


@dataclass(frozen=True, slots=True)
class Layout:
    """Where batch, features and space are: positions in the input, the kernel and the output."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    out: tuple[int, ...]


def layout_of(call: Call, rank: int) -> Layout:
    """``('NHWC', 'HWIO', 'NHWC')``; None: batch and features first."""
    value = call.get("dimension_numbers")
    if is_none(value):
        return Layout(*[tuple(range(rank))] * 3)
    texts = (
        [static_str(item) for item in value.items]
        if isinstance(value, SequenceValue)
        else []
    )
    known = [text for text in texts if text is not None]
    if len(known) != 3 or len(texts) != 3:
        raise UnknownArgument
    for text, needed in zip(known, ("NC", "OI", "NC"), strict=True):
        if len(text) != rank:
            raise OpError(
                "ST208",
                f"{call.name}: '{text}' names {len(text)} dimensions, but the arrays have {rank}",
            )
        if len(set(text)) != rank or any(letter not in text for letter in needed):
            raise UnknownArgument
    left, kernel, out = known
    space = [letter for letter in left if letter not in "NC"]
    if any(letter not in kernel for letter in space) or any(
        letter not in out for letter in space
    ):
        raise UnknownArgument
    # the order of the spatial dimensions is that of the kernel
    space = [letter for letter in kernel if letter not in "OI"]
    return Layout(
        tuple(left.index(letter) for letter in ["N", "C", *space]),
        tuple(kernel.index(letter) for letter in ["O", "I", *space]),
        tuple(out.index(letter) for letter in ["N", "C", *space]),
    )


def transposed_layout(call: Call, rank: int, flipped: bool) -> Layout:
    """The same for ``conv_transpose``, whose features come last unless ``dimension_numbers`` say otherwise."""
    space = tuple(range(rank - 2))
    last = (0, rank - 1, *(i + 1 for i in space))
    given = not is_none(call["dimension_numbers"])
    layout = (
        layout_of(call, rank)
        if given
        else Layout(last, (rank - 1, rank - 2, *space), last)
    )
    return (
        replace(layout, rhs=(layout.rhs[1], layout.rhs[0], *layout.rhs[2:]))
        if flipped
        else layout
    )


_DILATED = (
    "lhs, rhs, window_strides, padding, lhs_dilation=None, rhs_dilation=None, dimension_numbers=None, "
    "feature_group_count=1, batch_group_count=1, precision=None, preferred_element_type=None"
)


@model(_DILATED, "jax.lax.conv_general_dilated", alike="lhs rhs")
@model(
    "lhs, rhs, window_strides, padding, precision=None, preferred_element_type=None",
    "jax.lax.conv",
    alike="lhs rhs",
)
@model(
    "lhs, rhs, window_strides, padding, lhs_dilation, rhs_dilation, precision=None, preferred_element_type=None",
    "jax.lax.conv_with_general_padding",
    alike="lhs rhs",
)
def convolution(call: Call) -> Value:
    """Input (batch, features, space…), kernel (out, in, space…) in the order that ``dimension_numbers`` says."""
    lhs, rhs = array(call, "lhs"), array(call, "rhs")
    unknown = with_dims(_result(call, lhs, rhs), None)
    if lhs.dims is None or rhs.dims is None:
        return unknown
    rank = len(lhs.dims)
    if rank != len(rhs.dims):
        raise OpError(
            "ST204",
            f"{call.name}: input {shown(lhs)} and kernel {shown(rhs)} differ in rank",
        )
    if rank < 2:
        raise UnknownArgument
    layout, count = layout_of(call, rank), rank - 2
    groups = (
        static_int(call.get("feature_group_count"))
        if "feature_group_count" in call.args
        else 1
    )
    batches = (
        static_int(call.get("batch_group_count"))
        if "batch_group_count" in call.args
        else 1
    )
    if groups is None or batches != 1 or groups < 1:
        return unknown
    _check_features(call, lhs, rhs, layout, groups)
    windows = [seen_size(rhs, layout.rhs[i + 2]) for i in range(count)]
    return with_dims(
        _result(call, lhs, rhs),
        _slid(call, lhs, layout, windows, rhs.dims[layout.rhs[0]]),
    )


def _slid(
    call: Call, lhs: ArrayValue, layout: Layout, windows: Sizes, features: Dimension
) -> tuple[Dimension, ...]:
    """The dimensions after windows of these sizes went over the input."""
    assert lhs.dims is not None
    count = len(windows)
    strides = _numbers(call, "window_strides", count)
    stretched = (
        _numbers(call, "lhs_dilation", count)
        if "lhs_dilation" in call.args
        else [ONE] * count
    )
    spread = (
        _numbers(call, "rhs_dilation", count)
        if "rhs_dilation" in call.args
        else [ONE] * count
    )
    padding = _paddings(call, count)
    dims = list(lhs.dims)
    dims[layout.out[0]] = lhs.dims[layout.lhs[0]]
    dims[layout.out[1]] = features
    for i, window in enumerate(windows):
        size = _dilated(seen_size(lhs, layout.lhs[i + 2]), stretched[i])
        dims[layout.out[i + 2]] = _space(
            size, _dilated(window, spread[i]), strides[i], padding, i
        )
    return tuple(dims)


def _space(
    size: Size | None,
    window: Size | None,
    stride: Size | None,
    padding: list[tuple[Size | None, Size | None]] | str,
    i: int,
) -> Dimension:
    if window is not None and window.constant == 0:
        raise UnknownArgument
    if padding == "SAME":
        return Dimension(same_count(size, stride), ())
    if not isinstance(padding, str):
        low, high = padding[i]
        size = (
            None if size is None or low is None or high is None else size + low + high
        )
    if size is not None and size.constant is not None and size.constant < 0:
        raise UnknownArgument
    return Dimension(window_count(size, window, stride), ())


def _result(call: Call, lhs: ArrayValue, rhs: ArrayValue) -> ArrayValue:
    name, given = dtype_argument(call, call.get("preferred_element_type"))
    usual = (
        lhs.dtype == rhs.dtype
        and dtypes.is_kind(lhs.dtype, "floating")
        and not (lhs.weak or rhs.weak)
    )
    out = cleared(lhs) if rhs.pending == frozenset() else ArrayValue(lhs.dims)
    return with_dtype(
        out, (name if usual else None) if given else (lhs.dtype if usual else None)
    )


def _check_features(
    call: Call, lhs: ArrayValue, rhs: ArrayValue, layout: Layout, groups: int
) -> None:
    """The input has as many features as the kernel takes, times the groups."""
    features, taken = seen_size(lhs, layout.lhs[1]), seen_size(rhs, layout.rhs[1])
    if features is None or taken is None:
        return
    witness = different(call.ctx, features, taken * groups)
    if witness is not None:
        times = f" in each of {groups} groups" if groups != 1 else ""
        what = f"{shown(lhs)} has {shown_size(features)} features, but {shown(rhs)} takes {shown_size(taken)}{times}"
        raise OpError("ST204", f"{call.name}: {what}", witness)
    out = seen_size(rhs, layout.rhs[0])
    if out is not None and out.constant is not None and out.constant % groups:
        raise OpError(
            "ST206",
            f"{call.name}: {out.constant} output features are not divisible by {groups} groups",
        )


@model(
    "lhs, rhs, strides, padding, rhs_dilation=None, dimension_numbers=None, transpose_kernel=False, precision=None, "
    "preferred_element_type=None, use_consistent_padding=False",
    "jax.lax.conv_transpose",
    alike="lhs rhs",
)
def convolution_transpose(call: Call) -> Value:
    """Input (batch, space…, features), kernel (space…, in, out) unless ``dimension_numbers`` say otherwise."""
    lhs, rhs = array(call, "lhs"), array(call, "rhs")
    out = _result(call, lhs, rhs)
    flipped, text = static_bool(call["transpose_kernel"]), static_str(call["padding"])
    if (
        lhs.dims is None
        or rhs.dims is None
        or flipped is None
        or text not in (None, "SAME", "VALID")
    ):
        return with_dims(out, None)
    rank = len(lhs.dims)
    if rank != len(rhs.dims):
        raise OpError(
            "ST204",
            f"{call.name}: input {shown(lhs)} and kernel {shown(rhs)} differ in rank",
        )
    if rank < 2 or (rank > 5 and is_none(call["dimension_numbers"])):
        raise UnknownArgument
    layout = transposed_layout(call, rank, flipped)
    _check_features(call, lhs, rhs, layout, 1)
    strides, spread = (
        _numbers(call, "strides", rank - 2),
        _numbers(call, "rhs_dilation", rank - 2),
    )
    padding = _paddings(call, rank - 2)
    if text is None and static_bool(call["use_consistent_padding"]) is not False:
        return with_dims(out, None)
    dims = list(lhs.dims)
    dims[layout.out[0]] = lhs.dims[layout.lhs[0]]
    dims[layout.out[1]] = rhs.dims[layout.rhs[0]]
    for i in range(rank - 2):
        size, stride = seen_size(lhs, layout.lhs[i + 2]), strides[i]
        window = _dilated(seen_size(rhs, layout.rhs[i + 2]), spread[i])
        known = None
        if (
            size is not None
            and stride is not None
            and size.constant != 0
            and (stride.constant or 0) > 0
        ):
            known = _transposed(size, stride, window, padding, i)
        dims[layout.out[i + 2]] = Dimension(known, ())
    return with_dims(out, tuple(dims))


def _transposed(
    size: Size,
    stride: Size,
    window: Size | None,
    padding: list[tuple[Size | None, Size | None]] | str,
    i: int,
) -> Size | None:
    """How many windows there are when ``stride - 1`` holes are between the elements."""
    if padding == "SAME":
        return size * stride
    if window is None or window.constant == 0:
        return None
    if padding == "VALID":
        return size * stride + Size.maximum(window - stride, ZERO)
    assert not isinstance(padding, str)
    low, high = padding[i]
    if low is None or high is None:
        return None
    return Size.maximum((size - 1) * stride + low + high - window + 2, ZERO)


@model(
    "lhs, filter_shape, window_strides, padding, lhs_dilation=None, rhs_dilation=None, dimension_numbers=None, "
    "precision=None, preferred_element_type=None",
    "jax.lax.conv_general_dilated_patches",
)
def patches(call: Call) -> Value:
    """Every window as features of one place."""
    lhs = array(call, "lhs")
    usual = (
        dtypes.is_kind(lhs.dtype, "floating")
        and not lhs.weak
        and is_none(call["preferred_element_type"])
    )
    out = with_dtype(cleared(lhs), lhs.dtype if usual else None)
    windows = (
        sizes_argument(call["filter_shape"])
        if isinstance(call["filter_shape"], SequenceValue)
        else None
    )
    if lhs.dims is None or windows is None or len(lhs.dims) < 2:
        return with_dims(out, None)
    layout = layout_of(call, len(lhs.dims))
    if len(windows) != len(lhs.dims) - 2:
        raise OpError(
            "ST208",
            f"{call.name}: a window of {len(windows)} dimensions for shape {shown(lhs)}",
        )
    counted = [seen_size(lhs, layout.lhs[1]), *windows]
    known = [size for size in counted if size is not None]
    features = Dimension(product(known) if len(known) == len(counted) else None)
    return with_dims(out, _slid(call, lhs, layout, windows, features))


@model(
    "operand, init_value, computation, window_dimensions, window_strides=None, padding='VALID', base_dilation=None, "
    "window_dilation=None",
    "jax.lax.reduce_window",
    alike="operand init_value",
)
def reduce_window(call: Call) -> Value:
    """One result for each window; window dimensions and strides name every dimension of the array."""
    if isinstance(call["operand"], SequenceValue):
        raise UnknownArgument
    value = array(call, "operand")
    if value.dims is None:
        return value
    count = len(value.dims)
    windows, strides = (
        _numbers(call, "window_dimensions", count),
        _numbers(call, "window_strides", count),
    )
    base, spread = (
        _numbers(call, "base_dilation", count),
        _numbers(call, "window_dilation", count),
    )
    padding = _paddings(call, count)
    if padding == "SAME" and is_none(call["window_strides"]):
        return with_dims(value, None)  # releases differ
    dims = []
    for i in range(count):
        untouched = (
            windows[i] == 1
            and strides[i] == 1
            and base[i] == 1
            and isinstance(padding, str)
        )
        size = _dilated(seen_size(value, i), base[i])
        window = _dilated(windows[i], spread[i])
        dims.append(
            value.dims[i] if untouched else _space(size, window, strides[i], padding, i)
        )
    return with_dtype(
        with_dims(cleared(value), tuple(dims)), None if value.weak else value.dtype
    )
