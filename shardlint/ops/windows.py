"""NumPy's views of an array by windows."""

from __future__ import annotations

from shardlint.ops.arrays import array, one_axis, sizes_argument
from shardlint.ops.registry import Call, UnknownArgument, is_none, model
from shardlint.ops.sharding.base import items_of
from shardlint.values import ArrayValue, Dimension, Value
from shardtypes.lang import Size


@model(
    "x, window_shape, axis=None, *, subok=False, writeable=False",
    "numpy.lib.stride_tricks.sliding_window_view",
)
def windows(call: Call) -> Value:
    """The positions of a window along its axes, and the dimensions of the window behind all others."""
    value = array(call, "x")
    lengths = sizes_argument(call["window_shape"])
    if value.dims is None or lengths is None:
        raise UnknownArgument
    axes = _axes(call, value, len(lengths))
    sizes = [dim.size for dim in value.dims]
    for axis, length in zip(axes, lengths, strict=True):
        sizes[axis] = _positions(sizes[axis], length)
    return ArrayValue(tuple(map(Dimension, [*sizes, *lengths])), None, numpy=True)


def _axes(call: Call, value: ArrayValue, count: int) -> list[int]:
    """Along which axes a window of so many dimensions moves, one of them several times perhaps."""
    rank = len(value.dims or ())
    if is_none(call["axis"]):
        axes = list(range(rank))
    else:
        axes = [one_axis(call, item, rank, value) for item in items_of(call["axis"])]
    if len(axes) != count:
        raise UnknownArgument
    return axes


def _positions(size: Size | None, length: Size | None) -> Size | None:
    """How many windows of a length a dimension has."""
    if size is None or length is None:
        return None
    return size - length + 1
