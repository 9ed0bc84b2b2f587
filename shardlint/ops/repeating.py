"""Functions that lengthen dimensions: ``tile``, ``repeat``, ``pad``."""

from __future__ import annotations

from shardlint.ops.arrays import (
    ONE,
    array,
    one_axis,
    shown,
    size_of,
    sizes_argument,
    with_dims,
)
from shardlint.ops.reductions import flattened
from shardlint.ops.registry import Call, OpError, UnknownArgument, is_none, model
from shardlint.values import Dimension, IntValue, SequenceValue, Value
from shardtypes.lang import Size


@model("A, reps", "jax.numpy.tile")
def tile(call: Call) -> Value:
    value = array(call, "A")
    reps = sizes_argument(call["reps"])
    if reps is None or value.dims is None:
        return with_dims(value, None)
    rank = max(len(reps), len(value.dims))
    dims = tuple(Dimension(ONE, ()) for _ in range(rank - len(value.dims))) + value.dims
    times = [ONE] * (rank - len(reps)) + reps
    return with_dims(
        value, tuple(_times(dim, count) for dim, count in zip(dims, times, strict=True))
    )


def _times(dim: Dimension, count: Size | None) -> Dimension:
    if count == 1:
        return dim
    return Dimension(None if dim.size is None or count is None else dim.size * count)


@model(
    "a, repeats, axis=None, *, total_repeat_length=None, out_sharding=None",
    "jax.numpy.repeat",
)
def repeat(call: Call) -> Value:
    value = array(call, "a")
    if value.dims is None:
        return (
            value if not is_none(call["axis"]) else with_dims(value, (Dimension(None),))
        )
    if is_none(call["axis"]):
        dims, axis = list(flattened(value) or ()), 0
    else:
        if not value.dims:
            raise UnknownArgument
        dims, axis = (
            list(value.dims),
            one_axis(call, call["axis"], len(value.dims), value),
        )
    total = call["total_repeat_length"]
    if not is_none(total):
        dims[axis] = Dimension(size_of(total))
    elif isinstance(call["repeats"], IntValue):
        dims[axis] = _times(dims[axis], call["repeats"].size)
    else:
        dims[axis] = Dimension(None)
    return with_dims(value, tuple(dims))


@model("array, pad_width, mode='constant', **kwargs", "jax.numpy.pad")
def pad(call: Call) -> Value:
    value = array(call, "array")
    if value.dims is None:
        return value
    if not value.dims:
        raise UnknownArgument
    widths = _pad_widths(call["pad_width"], len(value.dims))
    if widths is None:
        return with_dims(value, tuple(Dimension(None) for _ in value.dims))
    if len(widths) != len(value.dims):
        raise OpError(
            "ST208",
            f"{call.name}: {len(widths)} pairs of widths for shape {shown(value)}",
        )
    dims = []
    for dim, (low, high) in zip(value.dims, widths, strict=True):
        if low == 0 and high == 0:
            dims.append(dim)
        elif low is None or high is None or dim.size is None:
            dims.append(Dimension(None))
        else:
            dims.append(Dimension(low + dim.size + high))
    return with_dims(value, tuple(dims))


def _pad_widths(
    value: Value, rank: int
) -> list[tuple[Size | None, Size | None]] | None:
    if isinstance(value, IntValue):
        return [(value.size, value.size)] * rank
    if not isinstance(value, SequenceValue):
        return None
    rows = [
        sizes_argument(item) if isinstance(item, SequenceValue) else None
        for item in value.items
    ]
    if all(isinstance(item, IntValue) for item in value.items):
        flat = [size_of(item) for item in value.items]
        if len(flat) == 2:
            return [(flat[0], flat[1])] * rank
        return [(flat[0], flat[0])] * rank if len(flat) == 1 else None
    out: list[tuple[Size | None, Size | None]] = []
    for row in rows:
        if row is None or len(row) not in (1, 2):
            return None
        out.append((row[0], row[-1]))
    return out * rank if len(out) == 1 else out
