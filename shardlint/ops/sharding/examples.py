"""``vmap`` in the manual view: one example of an array, and the array that the results of all examples make up.

Over the axes of a mapped dimension an example is varying: each device has other ones. With the mark ``mapped`` that is
all that varies, so the results are the parts of one array again.
"""

from __future__ import annotations

from dataclasses import replace

from shardlint.ops.sharding.state import Axes, clean, marks, sharded, split_marks, state
from shardlint.values import ArrayValue, Dimension


def example(value: ArrayValue, axis: int) -> ArrayValue:
    """The array without a dimension that is mapped over."""
    assert value.dims is not None
    left = replace(value, dims=value.dims[:axis] + value.dims[axis + 1 :])
    gone = value.dims[axis].axes
    if not value.manual or not gone or not all(clean(value, one) for one in gone):
        return left
    kept = value.marks - split_marks(gone)
    return replace(
        left,
        varying=value.varying.union(gone),
        marks=kept | {(one, "mapped") for one in gone},
    )


def stacked(value: ArrayValue, axis: int, dim: Dimension, axes: Axes) -> ArrayValue:
    """The results of all examples; ``axes`` are those of the dimensions that were mapped over, if they had the same."""
    assert value.dims is not None
    before = value.dims[:axis]
    after = value.dims[axis:]
    if not value.manual:
        others = {one for other in value.dims for one in other.axes or ()}
        if value.mesh is None or others.intersection(dim.axes or ()):
            dim = replace(dim, axes=None)
        return replace(value, dims=(*before, dim, *after), weak=False)
    own = frozenset(name for name, mark in value.marks if mark == "mapped")
    whole = axes is not None and all(
        state(value, one) == "varying"
        and "mapped" in marks(value, one)
        and one not in sharded(value)
        for one in axes
    )
    if not whole or not own <= frozenset(axes or ()):
        return replace(
            value,
            dims=(*before, replace(dim, axes=None), *after),
            weak=False,
            varying=value.varying - own,
            unclear=value.unclear.plus(own),
            marks=frozenset(mark for mark in value.marks if mark[1] != "mapped"),
        )
    kept = frozenset(mark for mark in value.marks if mark[1] != "mapped") | split_marks(
        axes or ()
    )
    return replace(
        value,
        dims=(*before, replace(dim, axes=axes), *after),
        weak=False,
        varying=value.varying - own,
        marks=kept,
    )
