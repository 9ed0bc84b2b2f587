"""Slices of ``jax.lax``: static and dynamic ones, updates, and the padding that is their opposite."""

from __future__ import annotations

from shardlint.ops.arrays import (
    ONE,
    Dims,
    array,
    different,
    one_axis,
    seen_size,
    shown,
    shown_size,
    shown_sizes,
    size_of,
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
    static_int,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from shardtypes.lang import Size


def always_less(a: Size, b: Size) -> bool:
    """Whether ``a < b`` for all sizes. That it fails for some is no error: who writes ``[:128]`` knows it fits."""
    return (b - a - 1).is_nonnegative


def _bounds(call: Call, name: str, rank: int, operand: ArrayValue) -> list[Size | None]:
    """A sequence with one int per dimension."""
    sizes = (
        sizes_argument(call[name]) if isinstance(call[name], SequenceValue) else None
    )
    if sizes is None:
        raise UnknownArgument
    if len(sizes) != rank:
        raise OpError(
            "ST214", f"{call.name}: {len(sizes)} {name} for shape {shown(operand)}"
        )
    return sizes


@model("operand, start_indices, limit_indices, strides=None", "jax.lax.slice")
def static_slice(call: Call) -> Value:
    """Unlike Python's slices, nothing is clamped: the limits lie within the array."""
    value = array(call, "operand")
    if value.dims is None:
        return value
    rank = len(value.dims)
    starts, limits = (
        _bounds(call, name, rank, value) for name in ("start_indices", "limit_indices")
    )
    strides: list[Size | None] = (
        [ONE] * rank
        if is_none(call["strides"])
        else _bounds(call, "strides", rank, value)
    )
    dims = [
        _cut(call, value, i, *bounds)
        for i, bounds in enumerate(zip(starts, limits, strides, strict=True))
    ]
    return with_dims(value, tuple(dims))


@model("operand, start_index, limit_index, stride=1, axis=0", "jax.lax.slice_in_dim")
def static_slice_in_dim(call: Call) -> Value:
    value = array(call, "operand")
    if value.dims is None:
        return value
    axis = one_axis(call, call["axis"], len(value.dims), value)
    size = seen_size(value, axis)
    bounds: list[Size | None] = []
    for name, default in (("start_index", Size.const(0)), ("limit_index", size)):
        bound = default if is_none(call[name]) else size_of(call[name])
        if bound is not None and not bound.is_nonnegative:
            bound = (
                None if size is None or not (-bound).is_nonnegative else size + bound
            )
        bounds.append(bound)
    middle = _cut(call, value, axis, bounds[0], bounds[1], size_of(call["stride"]))
    return with_dims(value, (*value.dims[:axis], middle, *value.dims[axis + 1 :]))


def _cut(
    call: Call,
    value: ArrayValue,
    i: int,
    start: Size | None,
    limit: Size | None,
    stride: Size | None,
) -> Dimension:
    """The dimension that ``[start:limit:stride]`` leaves. Raises OpError where it lies outside."""
    assert value.dims is not None
    size = seen_size(value, i)
    if (
        start is not None
        and limit is not None
        and size is not None
        and start == 0
        and limit == size
        and stride == 1
    ):
        return value.dims[i]
    for low, high in ((limit, size), (start, limit), (start, None)):
        if low is None or (low.constant or 0) < 0:
            continue
        if high is not None and always_less(high, low):
            what = f"[{shown_size(start)}:{shown_size(limit)}] is out of bounds for dimension {i} of {shown(value)}"
            raise OpError("ST214", f"{call.name}: {what}")
    by = None if stride is None else stride.constant
    if start is None or limit is None or by is None:
        return Dimension(None)
    if by <= 0 or (start.constant or 0) < 0 or (limit.constant or 0) < 0:
        raise UnknownArgument
    length = limit - start
    return Dimension(length if by == 1 else (length + (by - 1)) // by, ())


@model(
    "operand, padding_value, padding_config",
    "jax.lax.pad",
    alike="operand padding_value",
)
def pad(call: Call) -> Value:
    """(low, high, interior) per dimension; negative ones cut."""
    value, fill = array(call, "operand"), array(call, "padding_value")
    if fill.dims is not None and fill.dims:
        raise OpError(
            "ST204",
            f"{call.name}: the padding value has shape {shown(fill)}; it is a scalar",
            operand=1,
        )
    config = call["padding_config"]
    if value.dims is None or not isinstance(config, SequenceValue):
        return with_dims(value, None)
    if len(config.items) != len(value.dims):
        raise OpError(
            "ST208",
            f"{call.name}: {len(config.items)} paddings for shape {shown(value)}",
        )
    dims = []
    for i, item in enumerate(config.items):
        widths = sizes_argument(item) if isinstance(item, SequenceValue) else None
        size = seen_size(value, i)
        if widths is None or len(widths) != 3:
            raise UnknownArgument
        low, high, interior = widths
        if low == 0 and high == 0 and interior == 0:
            dims.append(value.dims[i])
        elif (
            size is None
            or low is None
            or high is None
            or interior is None
            or interior.constant is None
        ):
            dims.append(Dimension(None))
        elif interior.constant < 0:
            raise OpError(
                "ST206", f"{call.name}: interior padding of {interior.constant}"
            )
        else:
            between = interior * (size - 1) if interior != 0 else Size.const(0)
            if interior != 0 and not (size - 1).is_nonnegative:
                raise UnknownArgument
            dims.append(
                Dimension(_padded_size(call, value, low + size + high + between), ())
            )
    dtype = value.dtype if fill.dtype == value.dtype or fill.weak else None
    return with_dtype(with_dims(value, tuple(dims)), dtype, value.weak)


def _padded_size(call: Call, value: ArrayValue, size: Size) -> Size:
    if size.is_nonnegative:
        return size
    if size.constant is not None:
        raise OpError(
            "ST206",
            f"{call.name}: the padding leaves a size of {size.constant} of {shown(value)}",
        )
    raise UnknownArgument


@model("operand, sizes, axis=0", "jax.lax.split")
def split(call: Call) -> Value:
    """Parts of the sizes given, which add up to the dimension."""
    value, parts = array(call, "operand"), sizes_argument(call["sizes"])
    if (
        value.dims is None
        or parts is None
        or not isinstance(call["sizes"], SequenceValue)
    ):
        raise UnknownArgument
    axis = one_axis(call, call["axis"], len(value.dims), value)
    size, known = seen_size(value, axis), [part for part in parts if part is not None]
    if any((part.constant or 0) < 0 for part in known):
        raise OpError("ST206", f"{call.name}: a negative size")
    if size is not None and len(known) == len(parts):
        total = sum(known, Size.const(0))
        witness = different(call.ctx, size, total)
        if witness is not None:
            what = f"parts of {shown_size(total)} in all for dimension {axis} of {shown(value)}"
            raise OpError("ST206", f"{call.name}: {what}", witness)
    before, after = value.dims[:axis], value.dims[axis + 1 :]
    return SequenceValue(
        tuple(
            with_dims(value, (*before, Dimension(part, ()), *after)) for part in parts
        ),
        "list",
    )


@model("operand, start_indices, slice_sizes", "jax.lax.dynamic_slice")
def dynamic_slice(call: Call) -> Value:
    value = array(call, "operand")
    sizes = sizes_argument(call["slice_sizes"])
    if sizes is None:
        return with_dims(value, None)
    starts = call["start_indices"]
    if value.dims is not None:
        if len(sizes) != len(value.dims):
            raise OpError(
                "ST214",
                f"{call.name}: {len(sizes)} slice sizes for shape {shown(value)}",
            )
        if isinstance(starts, SequenceValue) and len(starts.items) != len(value.dims):
            raise OpError(
                "ST214",
                f"{call.name}: {len(starts.items)} start indices for shape {shown(value)}",
            )
        for dim, size in zip(value.dims, sizes, strict=True):
            if dim.size is None or size is None:
                continue
            if always_less(dim.size, size):
                message = (
                    f"{call.name}: a slice of {shown_sizes(sizes)} from {shown(value)}"
                )
                raise OpError("ST214", message)
    kept = value.dims or ()
    return with_dims(
        value,
        tuple(
            kept[i]
            if i < len(kept) and size is not None and kept[i].size == size
            else Dimension(size)
            for i, size in enumerate(sizes)
        ),
    )


@model("operand, start_index, slice_size, axis=0", "jax.lax.dynamic_slice_in_dim")
@model(
    "operand, index, axis=0, keepdims=True",
    "jax.lax.dynamic_index_in_dim",
    "jax.lax.index_in_dim",
)
def slice_in_dim(call: Call) -> Value:
    value = array(call, "operand")
    if value.dims is None:
        return value
    axis = one_axis(call, call["axis"], len(value.dims), value)
    size = seen_size(value, axis)
    if "slice_size" in call.args:
        part = size_of(call["slice_size"])
        if (
            size is not None
            and part is not None
            and (always_less(size, part) or (part.constant or 0) < 0)
        ):
            what = (
                f"a slice of {shown_size(part)} from dimension {axis} of {shown(value)}"
            )
            raise OpError("ST214", f"{call.name}: {what}")
        middle: Dims = (
            value.dims[axis] if part is not None and part == size else Dimension(part),
        )
    else:
        position = static_int(call["index"])
        if (
            call.last == "index_in_dim"
            and position is not None
            and size is not None
            and size.constant is not None
        ):
            if not -size.constant <= position < size.constant:
                what = f"index {position} is out of bounds for dimension {axis} of {shown(value)}"
                raise OpError("ST214", f"{call.name}: {what}")
        keep = static_int(call["keepdims"])
        if keep is None:
            raise UnknownArgument
        middle = (Dimension(ONE, ()),) if keep else ()
    return with_dims(value, value.dims[:axis] + middle + value.dims[axis + 1 :])


@model(
    "operand, update, start_indices",
    "jax.lax.dynamic_update_slice",
    alike="operand update",
)
@model(
    "operand, update, start_index, axis",
    "jax.lax.dynamic_update_slice_in_dim",
    alike="operand update",
)
@model(
    "operand, update, index, axis",
    "jax.lax.dynamic_update_index_in_dim",
    alike="operand update",
)
def dynamic_update(call: Call) -> Value:
    """The operand as it was; the update fits into it."""
    value, update = array(call, "operand"), array(call, "update")
    if value.dims is None or update.dims is None:
        return value
    if call.last == "dynamic_update_index_in_dim":
        axis = one_axis(call, call["axis"], len(value.dims), value)
        if len(update.dims) == len(value.dims) - 1:
            update = with_dims(
                update, (*update.dims[:axis], Dimension(ONE, ()), *update.dims[axis:])
            )
    elif "axis" in call.args:
        one_axis(call, call["axis"], len(value.dims), value)
    assert update.dims is not None
    starts = call.args.get("start_indices")
    if (
        isinstance(starts, SequenceValue)
        and value.dims
        and len(starts.items) != len(value.dims)
    ):
        count = len(starts.items)
        raise OpError(
            "ST214",
            f"{call.name}: {count} start indices for an array of shape {shown(value)}",
        )
    if len(value.dims) != len(update.dims):
        raise OpError(
            "ST214",
            f"{call.name}: an update of shape {shown(update)} in {shown(value)}: ranks differ",
        )
    for i in range(len(value.dims)):
        size, part = seen_size(value, i), seen_size(update, i)
        if size is None or part is None:
            continue
        if always_less(size, part):
            raise OpError(
                "ST214",
                f"{call.name}: an update of shape {shown(update)} does not fit in {shown(value)}",
            )
    if not value.dims:  # a scalar is replaced as it is
        return (
            value
            if (value.dtype, value.weak) == (update.dtype, update.weak)
            else with_dtype(value, None)
        )
    return with_dtype(value, value.dtype if value.dtype == update.dtype else None)
