"""Indexing: ints, slices, None, Ellipsis, integer and boolean arrays, and ``.at[…]`` updates."""

from __future__ import annotations

from dataclasses import dataclass

from shardlint.ops.arrays import (
    ONE,
    UNKNOWN_ARRAY,
    Dims,
    array,
    as_array,
    broadcast_dims,
    different,
    shown,
    size_of,
    with_dims,
)
from shardlint.ops.dimensions import broadcast_onto
from shardlint.ops.registry import (
    Call,
    OpContext,
    OpError,
    is_none,
    model,
    names,
    static_int,
)
from shardlint.ops.slices import ZERO, index_items, slice_length
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    Literal,
    SliceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size, dtypes

AT = "jax.Array.at"


@dataclass(slots=True)
class _Result:
    """Dimensions built so far; advanced indices gather in one place, ``at`` (None: none met)."""

    dims: list[Dimension]
    advanced: list[ArrayValue]
    at: int | None = None
    apart: bool = False
    closed: bool = False

    def add_advanced(self, value: ArrayValue) -> None:
        if self.at is None:
            self.at = len(self.dims)
        elif self.closed:
            self.apart = True
        self.advanced.append(value)

    def add(self, dim: Dimension) -> None:
        self.dims.append(dim)
        self.closed = self.at is not None


def _consumed(item: Value) -> int:
    if is_none(item) or _is_ellipsis(item):
        return 0
    if isinstance(item, ArrayValue) and dtypes.is_kind(item.dtype, "bool"):
        return len(item.dims or ())
    return 1


def _is_ellipsis(item: Value) -> bool:
    return isinstance(item, Literal) and item.value is Ellipsis


def index_array(value: ArrayValue, index_value: Value, ctx: OpContext) -> Value:
    """The array that an index selects; rank unknown where an index is of unknown kind."""
    items = list(index_items(index_value))
    if not all(_understood(item) for item in items):
        return with_dims(value, None)
    if any(
        isinstance(item, ArrayValue)
        and dtypes.is_kind(item.dtype, "floating", "complex")
        for item in items
    ):
        raise OpError(
            "ST214",
            f"an array of floats cannot index {shown(value)}; use integers or booleans",
        )
    if value.dims is None:
        return with_dims(value, None)
    needed = sum(_consumed(item) for item in items)
    ellipses = sum(_is_ellipsis(item) for item in items)
    if ellipses > 1:
        raise OpError("ST214", "an index has two ellipses")
    if needed and not value.dims and value.numpy and value.dtype is None:
        return Unknown("a field of a record, or an item of an object")
    if needed > len(value.dims):
        message = f"too many indices: {needed} for an array of shape {shown(value)}, which has rank {len(value.dims)}"
        raise OpError("ST214", message)
    if not ellipses:
        items.append(Literal(Ellipsis))
    return with_dims(value, _select(value, items, needed, ctx))


def _understood(item: Value) -> bool:
    if isinstance(item, ArrayValue):
        return item.dims is not None and dtypes.is_kind(item.dtype, "bool") is not None
    if isinstance(item, Literal):
        return item.value is None or item.value is Ellipsis
    return isinstance(item, (IntValue, SliceValue))


def _select(value: ArrayValue, items: list[Value], needed: int, ctx: OpContext) -> Dims:
    assert value.dims is not None
    has_arrays = any(isinstance(item, ArrayValue) for item in items)
    result = _Result([], [])
    position = 0
    for item in items:
        if is_none(item):
            result.add(Dimension(ONE, ()))
        elif _is_ellipsis(item):
            for _ in range(len(value.dims) - needed):
                result.add(value.dims[position])
                position += 1
            result.closed = result.at is not None
        elif isinstance(item, SliceValue):
            result.add(_sliced(value.dims[position], item))
            position += 1
        elif isinstance(item, ArrayValue):
            position += _advance(value, position, item, result, ctx)
        else:
            if has_arrays:
                result.add_advanced(ArrayValue((), "int32"))
            position += 1
    if not result.advanced:
        return tuple(result.dims)
    gathered = broadcast_dims("indexing", result.advanced, ctx, "ST214")
    assert gathered is not None
    at = 0 if result.apart else (result.at or 0)
    gathered = tuple(Dimension(dim.size) for dim in gathered)
    return (*result.dims[:at], *gathered, *result.dims[at:])


def _advance(
    value: ArrayValue, position: int, item: ArrayValue, result: _Result, ctx: OpContext
) -> int:
    """Take in one index array; a mask stands for as many index arrays as it has dimensions."""
    assert value.dims is not None and item.dims is not None
    if not dtypes.is_kind(item.dtype, "bool"):
        result.add_advanced(item)
        return 1
    for k, mask in enumerate(item.dims):
        dim = value.dims[position + k]
        witness = different(ctx, dim.size, mask.size)
        if witness is not None:
            raise OpError(
                "ST214",
                f"a mask of shape {shown(item)} does not fit {shown(value)}",
                witness,
            )
    result.add_advanced(ArrayValue((Dimension(None),), "int32"))
    return len(item.dims)


def _sliced(dim: Dimension, item: SliceValue) -> Dimension:
    if all(is_none(part) for part in (item.lower, item.upper, item.step)):
        return dim
    exact = _exact_length(dim, item)
    if exact is not None:
        return Dimension(Size.const(exact), () if dim.axes == () else None)
    step = 1 if is_none(item.step) else static_int(item.step)
    if step == -1 and is_none(item.lower) and is_none(item.upper):
        return dim
    if step is None or step < 1:
        return Dimension(None)
    lower = ZERO if is_none(item.lower) else size_of(item.lower)
    upper = dim.size if is_none(item.upper) else size_of(item.upper)
    axes = () if dim.axes == () else None
    return Dimension(slice_length(dim.size, lower, upper, step), axes)


def _exact_length(dim: Dimension, item: SliceValue) -> int | None:
    """The length where size and bounds are all known ints, steps of either sign included."""
    parts = (item.lower, item.upper, item.step)
    bounds = [static_int(part) for part in parts]
    if dim.size is None or dim.size.constant is None or bounds[2] == 0:
        return None
    if any(
        bound is None and not is_none(part)
        for bound, part in zip(bounds, parts, strict=True)
    ):
        return None
    return len(range(*slice(*bounds).indices(dim.size.constant)))


# --- .at[…] ------------------------------------------------------------------------------------------------------

_OPTIONS = "indices_are_sorted=False, unique_indices=False, mode=None, out_sharding=None, wrap_negative_indices=True"


@model(
    f"array, index, values, {_OPTIONS}",
    *names(AT, "set add subtract multiply mul divide power min max"),
)
def at_update(call: Call) -> Value:
    """The array as it was; what is written must broadcast to what is indexed."""
    value = array(call, "array")
    selected = index_array(value, call["index"], call.ctx)
    written = as_array(call["values"], call.ctx.x64)
    if (
        isinstance(selected, ArrayValue)
        and selected.dims is not None
        and written is not None
    ):
        if written.dims is not None and not any(
            dim.size in (None, 0) for dim in selected.dims
        ):
            try:
                broadcast_onto(call, written, [dim.size for dim in selected.dims])
            except OpError as error:
                names = {
                    name
                    for dim in selected.dims
                    if dim.size is not None
                    for name in dim.size.symbols
                }
                witness = {**dict.fromkeys(names, 3), **error.witness}
                if any(
                    dim.size is not None and dim.size.evaluate(witness) == 0
                    for dim in selected.dims
                ):
                    return value  # where nothing is selected anything fits
                message = f"{call.name}: {shown(written)} does not broadcast to the indexed shape {shown(selected)}"
                raise OpError("ST214", message, witness) from None
    pending = (
        value.pending
        if written is not None and value.pending == written.pending
        else None
    )
    divides = (
        call.last in ("divide", "power")
        and dtypes.is_kind(value.dtype, "floating") is not True
    )
    if divides or (
        call.last != "set" and dtypes.is_kind(value.dtype, "bool") is not False
    ):
        return ArrayValue(value.dims, None, False, pending)
    return ArrayValue(value.dims, value.dtype, value.weak, pending)


@model(f"array, index, func, {_OPTIONS}", f"{AT}.apply")
def at_apply(call: Call) -> Value:
    value = array(call, "array")
    index_array(value, call["index"], call.ctx)
    return value


@model(f"array, index, *, fill_value=None, {_OPTIONS}", f"{AT}.get")
def at_get(call: Call) -> Value:
    return index_array(array(call, "array"), call["index"], call.ctx)


# --- functions ---------------------------------------------------------------------------------------------------


@model("func1d, axis, arr, *args, **kwargs", "jax.numpy.apply_along_axis")
def open_result(call: Call) -> Value:
    return UNKNOWN_ARRAY
