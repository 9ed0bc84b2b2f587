"""Functions that cut an array into several along a dimension."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    array,
    one_axis,
    seen_size,
    shown,
    sizes_argument,
    with_dims,
)
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    model,
    names,
    static_int,
)
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size


@model("ary, indices_or_sections, axis=0", "jax.numpy.split", "jax.numpy.array_split")
@model("ary, indices_or_sections", *names("jax.numpy", "hsplit vsplit dsplit"))
def split(call: Call) -> Value:
    value = array(call, "ary")
    if value.dims is None:
        count = static_int(call["indices_or_sections"])
        return (
            SequenceValue((value,) * count, "list")
            if count and 0 < count <= 64
            else UNKNOWN_ARRAY
        )
    axis_value = (
        call["axis"]
        if "axis" in call.args
        else IntValue(Size.const(_split_axis(call, value)))
    )
    axis = one_axis(call, axis_value, len(value.dims), value)
    size = value.dims[axis].size
    parts = _parts(call, value, axis, size)
    dims = value.dims
    return SequenceValue(
        tuple(
            with_dims(value, (*dims[:axis], Dimension(part, ()), *dims[axis + 1 :]))
            for part in parts
        ),
        "list",
    )


def _split_axis(call: Call, value: ArrayValue) -> int:
    rank = len(value.dims or ())
    axis = {"vsplit": 0, "dsplit": 2}.get(call.last, 0 if rank == 1 else 1)
    if axis >= rank:
        raise OpError("ST208", f"{call.name}: {shown(value)} has too few dimensions")
    return axis


def _parts(
    call: Call, value: ArrayValue, axis: int, size: Size | None
) -> list[Size | None]:
    where = call["indices_or_sections"]
    count = static_int(where)
    if count is not None:
        if not 0 < count <= 256:
            raise UnknownArgument
        if size is None:
            return [None] * count
        if call.last == "array_split":
            return [(size - i + count - 1) // count for i in range(count)]
        exact = size.divides_exactly(Size.const(count))
        if exact is not None:
            return [exact] * count
        if size.constant is not None:
            message = f"{call.name}: dimension {axis} of {shown(value)} is {size.constant}, not divisible by {count}"
            raise OpError("ST206", message)
        call.ctx.facts = call.ctx.facts.divides(count, size)
        return [size // count] * count
    bounds = sizes_argument(where) if isinstance(where, SequenceValue) else None
    if bounds is None:
        raise UnknownArgument
    known = [
        edge.constant
        for edge in bounds
        if edge is not None and edge.constant is not None
    ]
    end = None if size is None else size.constant
    ordered = [0, *known, *([] if end is None else [end])]
    if len(known) < len(bounds) or ordered != sorted(ordered):
        return [None] * (len(bounds) + 1)
    parts: list[Size | None] = [
        Size.const(high - low) for low, high in zip([0, *known], known, strict=False)
    ]
    return [*parts, None if size is None else size - ([0, *known][-1])]


@model("x, *, axis=0", "jax.numpy.unstack")
@model("x, /, *, axis=0", "numpy.unstack")
def unstack(call: Call) -> Value:
    """The slices along an axis, a tuple as long as its size."""
    value = array(call, "x")
    if value.dims is None:
        return Unknown("unstacks an array of unknown rank")
    if not value.dims:
        raise OpError("ST208", f"{call.name}: a scalar cannot be unstacked")
    axis = one_axis(call, call["axis"], len(value.dims), value)
    size = seen_size(value, axis)
    count = None if size is None else size.constant
    if count is None or count > 256:
        return Unknown(f"unstacks dimension {axis} of {shown(value)}, of unknown size")
    return SequenceValue(
        (with_dims(value, value.dims[:axis] + value.dims[axis + 1 :]),) * count
    )
