"""Indexing, lookups and updates: right on every device's part only along dimensions that are not split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.axis_set import EVERY_AXIS
from shardlint.ops.arrays import ONE
from shardlint.ops.registry import NONE, is_none, static_int
from shardlint.ops.sharding.base import INDEX, Op, names, rule, unknown
from shardlint.ops.sharding.combining import combined
from shardlint.ops.sharding.elementwise import aligned
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.state import (
    HOT,
    LOCAL,
    ZERO,
    Arrays,
    DimAxes,
    choosing,
    marks,
    placing,
    settled,
    sharded,
)
from shardlint.ops.sharding.structure import followed, rearranged
from shardlint.ops.sharding.updating import index_axes, is_full, is_run
from shardlint.ops.slices import index_items
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    SequenceValue,
    SliceValue,
    Value,
)


def may_pick_a_copy(op: Op) -> bool:
    """Whether this is ``x[…]`` of one entry where JAX does not track what varies: of a dimension that is split, devices
    may have been given copies, one after another."""
    if op.call.qualname != INDEX or op.view.transposes is not False:
        return False
    items = index_items(op.call.get("index"))
    return any(isinstance(item, IntValue) for item in items)


def indexed(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``x[index]``."""
    if out.dims is None or not op.operands:
        return unknown(out)
    items = index_items(op.call.get("index"))
    if len(op.operands) > 1:
        partly = any(
            is_none(item)
            or not (is_full(item) if isinstance(item, SliceValue) else True)
            for item in items
        )
        if partly:
            return unknown(out)
        return _looked_up(op, out, origins, op.operands[0], op.operands[1:])
    if any(
        isinstance(item, SliceValue) and static_int(item.step) == -1 for item in items
    ):
        return _reversed(op, out, origins, items)
    return _partly(op, out, origins)


def _reversed(
    op: Op, out: ArrayValue, origins: Origins, items: Sequence[Value]
) -> ArrayValue:
    """``x[::-1]``, and parts of it."""
    source = op.operands[0]
    if not sharded(source):
        return combined(op, out, followed(op, out, origins), "linear", [source])
    full = [
        isinstance(item, SliceValue) and is_full(replace(item, step=NONE))
        for item in items
    ]
    if source.dims is None or len(source.dims) != len(out.dims or ()) or not all(full):
        return unknown(out)
    touched = [
        k
        for k, item in enumerate(items)
        if isinstance(item, SliceValue) and static_int(item.step) == -1
    ]
    return rearranged(op, out, touched, moves=True, flips=True)


def _partly(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """Part of an array: what is taken along a split dimension is each device's own."""
    source = op.operands[0]
    if (
        source.dims is None
        or out.dims is None
        or any(dim.axes is None for dim in source.dims)
    ):
        return unknown(out)
    kept = {origin[1] for origin in origins if origin is not None}
    cut = {
        axis
        for k, dim in enumerate(source.dims)
        if k not in kept
        for axis in dim.axes or ()
    }
    axes: DimAxes = []
    for dim, origin in zip(out.dims, origins, strict=True):
        if origin is not None:
            axes.append(source.dims[origin[1]].axes)
        else:
            axes.append(() if dim.size == ONE or not cut else None)
    chosen = frozenset((axis, mark) for axis, mark in source.marks if mark == "chosen")
    result = combined(op, out, axes, "linear", [source])
    result = replace(result, marks=result.marks | chosen)
    if may_pick_a_copy(op):
        return replace(result, unclear=result.unclear.plus(cut))
    return result


def _of_the_table(origins: Origins) -> Origins:
    """Dimensions of the result that are those of the first operand; those of indices are new ones."""
    return [one if one is not None and one[0] == 0 else None for one in origins]


def _looked_up(
    op: Op,
    out: ArrayValue,
    origins: Origins,
    table: ArrayValue,
    indices: Arrays,
) -> ArrayValue:
    """``table[index]`` with integer arrays: their dimensions come in the place of those that they select from.

    In a dimension that is split every device looks up in its own part, so that the results differ.
    """
    if table.dims is None or out.dims is None:
        return unknown(out)
    if any(o.pending or o.dims is None or o.dtype == "bool" for o in indices):
        return unknown(out)
    axes = index_axes(indices)
    origins = _of_the_table(origins)
    fresh = [k for k, origin in enumerate(origins) if origin is None]
    if axes is None or len(fresh) != len(axes) or not is_run(fresh):
        return unknown(out)
    own = [
        table.dims[origin[1]].axes if origin is not None else axes[k - fresh[0]]
        for k, origin in enumerate(origins)
    ]
    kept = {origin[1] for origin in origins if origin is not None and origin[0] == 0}
    picked = [dim for k, dim in enumerate(table.dims) if k not in kept]
    if any(dim.axes is None for dim in picked):
        return unknown(out)
    gone = [(dim, axis) for dim in picked for axis in dim.axes or ()]
    factors = [table, *(choosing(one) for one in indices)]
    return _of_parts(op, combined(op, out, own, "multiply", factors), table, gone)


def _of_parts(
    op: Op, result: ArrayValue, table: ArrayValue, gone: Sequence[tuple[Dimension, str]]
) -> ArrayValue:
    """What was looked up in dimensions that are split over these axes, each device in its own part."""
    notes = [
        op.note(
            axis,
            f"{op.name} looks up in {op.size_text(dim)}, which is sharded over {axis!r}",
        )
        for dim, axis in gone
    ]
    axes = {axis for _, axis in gone if axis not in result.unclear}
    same = {axis for axis in axes if table.constant or "alike" in marks(table, axis)}
    kept = frozenset(
        mark for mark in result.marks if mark[0] not in axes or mark[1] not in LOCAL
    )
    return replace(
        result,
        varying=result.varying | (axes - same),
        unclear=result.unclear.plus(same),
        marks=kept,
        notes=(*result.notes, *notes),
    )


def taken(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``take`` along one dimension."""
    if len(op.operands) == 1:
        return _partly(op, out, origins)
    if len(op.operands) != 2 or is_none(op.call.get("axis")):
        return unknown(out)
    return _looked_up(op, out, origins, op.operands[0], op.operands[1:])


def taken_along(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``take_along_axis``: the other dimensions line up."""
    axis = static_int(op.call.get("axis"))
    if (
        axis is None
        or out.dims is None
        or len(op.operands) != 2
        or op.operands[1].pending
    ):
        return unknown(out)
    axis %= max(len(out.dims), 1)
    if any(
        o.dims is None or len(o.dims) != len(out.dims) or o.dims[axis].axes is None
        for o in op.operands
    ):
        return unknown(out)
    table, index = op.operands
    assert table.dims is not None and index.dims is not None
    rest = [
        replace(
            o,
            dims=(
                *(o.dims or ())[:axis],
                Dimension(ONE, ()),
                *(o.dims or ())[axis + 1 :],
            ),
        )
        for o in op.operands
    ]
    own = aligned(op, out, rest)
    if own is not None:
        own[axis] = index.dims[axis].axes
    gone = [(table.dims[axis], one) for one in table.dims[axis].axes or ()]
    return _of_parts(
        op, combined(op, out, own, "multiply", [table, choosing(index)]), table, gone
    )


def sliced(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``dynamic_slice``: from a place that may differ between devices."""
    if op.operands:
        result = _partly(op, out, origins)
    else:
        result = unknown(out)
    starts = [*op.operands[1:]]
    args = op.call.args
    given = next(
        (
            args[name]
            for name in ("start_indices", "start_index", "index")
            if name in args
        ),
        None,
    )
    if not starts and not _plain(given):
        return unknown(out)
    if not starts:
        return result
    return combined(
        op,
        result,
        [dim.axes for dim in result.dims or ()],
        "multiply",
        [result, *map(placing, starts)],
    )


def _plain(value: Value | None) -> bool:
    items: Sequence[Value | None] = (value,)
    if isinstance(value, SequenceValue):
        items = value.items
    return all(isinstance(item, (IntValue, ArrayValue)) for item in items)


def drawn(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """Random numbers: the same on all devices that have the same key."""
    if out.dims is None:
        return unknown(out)
    if not op.operands or op.operands[0].dims is None:
        return replace(unknown(out), unclear=EVERY_AXIS)
    keys = [o for o in op.operands if not sharded(o)]
    if len(keys) < len(op.operands):
        return unknown(out)
    return replace(
        combined(op, out, [() for _ in out.dims], "nonlinear", keys), constant=False
    )


def expanded(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``one_hot``: a new unsharded dimension."""
    if out.dims is None or not op.operands:
        return unknown(out)
    result = combined(op, out, followed(op, out, origins), "test", op.operands[:1])
    if static_int(op.call.get("axis")) == -1:
        return replace(result, marks=result.marks | {HOT})
    return result


def alike(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``zeros_like``: constants, which may count as split like their model."""
    source = op.first
    if source is not None and source.dims is None and len(op.operands) == 1:
        return settled(out, None, constant=True)
    if (
        source is None
        or source.dims is None
        or out.dims is None
        or len(op.operands) > 1
    ):
        return unknown(out)
    same = frozenset((axis, "alike") for axis in sharded(source))
    plain = replace(
        source,
        pending=frozenset(),
        varying=frozenset(),
        marks=same,
        constant=True,
        notes=(),
    )
    plain = replace(
        plain,
        unclear=plain.unclear.minus(sharded(source))
        if None in [d.axes for d in source.dims]
        else type(source.unclear)(),
    )
    result = combined(op, out, followed(op, out, origins), "linear", [plain])
    if op.last == "zeros_like":
        return replace(result, marks=result.marks | {ZERO})
    return result


_JNP, _LAX, _AT = "jax.numpy", "jax.lax", "jax.Array.at"
rule([INDEX, f"{_AT}.get"], indexed)
rule([f"{_JNP}.take"], taken)
rule([f"{_JNP}.take_along_axis"], taken_along)
rule(
    names(
        _LAX,
        "dynamic_slice dynamic_slice_in_dim dynamic_index_in_dim index_in_dim slice slice_in_dim",
    ),
    sliced,
)
rule(
    names(
        "jax.random",
        "normal uniform truncated_normal randint bits rademacher bernoulli split fold_in key PRNGKey "
        "gumbel exponential laplace logistic cauchy maxwell categorical",
    ),
    drawn,
)
rule(["jax.nn.one_hot"], expanded)
rule(
    [*names(_JNP, "zeros_like ones_like empty_like full_like"), f"{_LAX}.full_like"],
    alike,
)
