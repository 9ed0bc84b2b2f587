"""Indexing, lookups and updates: right on every device's part only along dimensions that are not split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.axis_set import EVERY_AXIS
from shardlint.ops.arrays import ONE
from shardlint.ops.registry import is_none, static_int
from shardlint.ops.sharding.base import Op, names, rule, unknown, with_numbers
from shardlint.ops.sharding.combining import combined
from shardlint.ops.sharding.elementwise import aligned
from shardlint.ops.sharding.origins import Origin
from shardlint.ops.sharding.state import FACTORED, Axes, clean, sharded, state
from shardlint.ops.sharding.structure import followed
from shardlint.values import ArrayValue, IntValue, SequenceValue, SliceValue, Value

INDEX = "index"
"""The name under which ``x[…]`` is registered: Python's operator has no qualified name."""


def indexed(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``x[index]``."""
    if out.dims is None or not op.operands:
        return unknown(out)
    index = op.call.get("index")
    items = index.items if isinstance(index, SequenceValue) and index.kind == "tuple" else (index,)
    if len(op.operands) == 2:
        return _looked_up(op, out, origins, op.operands[0], op.operands[1])
    if len(op.operands) > 2:
        return unknown(out)
    if any(isinstance(item, SliceValue) and static_int(item.step) == -1 for item in items):
        source = op.operands[0]
        return unknown(out) if sharded(source) else combined(op, out, followed(op, out, origins), "linear", [source])
    return _partly(op, out, origins)


def _partly(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """Part of an array: what is taken along a split dimension is each device's own."""
    source = op.operands[0]
    if source.dims is None or out.dims is None or any(dim.axes is None for dim in source.dims):
        return unknown(out)
    kept = {origin[1] for origin in origins if origin is not None}
    cut = {axis for k, dim in enumerate(source.dims) if k not in kept for axis in dim.axes or ()}
    axes: list[Axes] = []
    for dim, origin in zip(out.dims, origins, strict=True):
        if origin is not None:
            axes.append(source.dims[origin[1]].axes)
        else:
            axes.append(() if dim.size == ONE or not cut else None)
    return combined(op, out, axes, "linear", [source])


def _looked_up(op: Op, out: ArrayValue, origins: list[Origin], table: ArrayValue, index: ArrayValue) -> ArrayValue:
    """``table[index]`` with one integer array: its dimensions come in the place of the one it selects from."""
    if table.dims is None or index.dims is None or out.dims is None or index.pending or index.dtype == "bool":
        return unknown(out)
    kept = {origin[1] for origin in origins if origin is not None and origin[0] == 0}
    gone = [dim for k, dim in enumerate(table.dims) if k not in kept]
    if any(dim.axes != () for dim in gone):
        return unknown(out)
    fresh = [k for k, origin in enumerate(origins) if origin is None]
    if len(fresh) != len(index.dims) or fresh != list(range(fresh[0], fresh[0] + len(fresh)) if fresh else []):
        return unknown(out)
    axes: list[Axes] = []
    for k, origin in enumerate(origins):
        axes.append(table.dims[origin[1]].axes if origin is not None else index.dims[k - fresh[0]].axes)
    return combined(op, out, axes, "multiply", [table, index])


def taken(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``take`` along one dimension."""
    if len(op.operands) == 1:
        return _partly(op, out, origins)
    if len(op.operands) != 2 or is_none(op.call.get("axis")):
        return unknown(out)
    return _looked_up(op, out, origins, op.operands[0], op.operands[1])


def taken_along(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``take_along_axis``: the other dimensions line up."""
    axis = static_int(op.call.get("axis"))
    if axis is None or out.dims is None or len(op.operands) != 2 or op.operands[1].pending:
        return unknown(out)
    axis %= max(len(out.dims), 1)
    for operand in op.operands:
        if operand.dims is None or len(operand.dims) != len(out.dims) or operand.dims[axis].axes != ():
            return unknown(out)
    return combined(op, out, aligned(op, out, op.operands), "multiply", op.operands)


def sliced(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``dynamic_slice``: from a place that may differ between devices."""
    result = _partly(op, out, origins) if op.operands else unknown(out)
    starts = [*op.operands[1:]]
    args = op.call.args
    given = next((args[name] for name in ("start_indices", "start_index", "index") if name in args), None)
    if not starts and not _plain(given):
        return unknown(out)
    if not starts:
        return result
    return combined(op, result, [dim.axes for dim in result.dims or ()], "multiply", [result, *starts])


def _plain(value: Value | None) -> bool:
    items = value.items if isinstance(value, SequenceValue) else (value,)
    return all(isinstance(item, (IntValue, ArrayValue)) for item in items)


def updated(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``x.at[index].set(y)`` and its relatives. What is added at split places is a pending sum."""
    target = op.operands[0]
    if target.dims is None or out.dims is None:
        return unknown(out)
    axes = [dim.axes for dim in target.dims]
    values = with_numbers(op)[1:]
    indices = [o for o, position in zip(op.operands, op.positions, strict=True) if position == 1]
    values = [o for o in values if not any(o is i for i in indices)]
    split = frozenset[str]().union(*(sharded(o) for o in [*indices, *values]))
    if sharded(target) or any(o.pending or o.unclear for o in [*indices, *values]) or op.last == "apply":
        return replace(unknown(out), dims=target.dims) if _plain_index(op.call.get("index")) else unknown(out)
    result = combined(op, out, axes, "linear", [target])
    awaited = result.pending or frozenset()
    if awaited and op.last not in ("multiply", "mul", "divide"):  # what is written counts once for every device
        result = replace(result, pending=frozenset(), unclear=result.unclear.plus(awaited))
    result = replace(result, marks=_written(op, result, [*indices, *values]))
    if not split and not any(o.varying for o in [*indices, *values]):
        return replace(result, constant=target.constant and all(o.constant for o in [*indices, *values]))
    varying = frozenset[str]().union(*(o.varying for o in [*indices, *values]))
    pending, marks, notes = set(result.pending or ()), set(result.marks), list(result.notes)
    unclear = result.unclear
    for axis in split:
        sound = all(clean(o, axis) or state(o, axis) == "replicated" for o in [*indices, *values])
        if op.last == "add" and sound and state(target, axis) == "replicated" and indices:
            pending.add(axis)
            marks |= {(axis, "reduction"), *([] if target.constant else [(axis, "offset")])}
            notes.append(op.note(axis, f"{op.name} adds up what is split over {axis}"))
        else:
            unclear = unclear.plus([axis])
    return replace(
        result, pending=frozenset(pending), varying=result.varying | (varying - split), marks=frozenset(marks),
        unclear=unclear, notes=tuple(notes), constant=False,
    )  # fmt: skip


def _written(op: Op, result: ArrayValue, others: Sequence[ArrayValue]) -> frozenset[tuple[str, str]]:
    """The marks of an array into which others were written."""
    kept = {mark for mark in result.marks if mark[1] != "mapped" or all(_only_mapped(o, mark[0]) for o in others)}
    scales = op.last in ("multiply", "mul", "divide", "power") or any(FACTORED in o.marks for o in others)
    return frozenset(kept | {FACTORED} if scales else kept)


def _only_mapped(value: ArrayValue, axis: str) -> bool:
    return state(value, axis) == "replicated" or (axis, "mapped") in value.marks


def _plain_index(value: Value) -> bool:
    """Whether an index is made of full slices and the like, which select alike on every device."""
    items = value.items if isinstance(value, SequenceValue) else (value,)
    return all(isinstance(item, SliceValue) and is_none(item.lower) and is_none(item.upper) for item in items)


def drawn(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """Random numbers: the same on all devices that have the same key."""
    if out.dims is None:
        return unknown(out)
    if not op.operands or op.operands[0].dims is None:
        return replace(unknown(out), unclear=EVERY_AXIS)
    keys = [o for o in op.operands if not sharded(o)]
    if len(keys) < len(op.operands):
        return unknown(out)
    return replace(combined(op, out, [() for _ in out.dims], "nonlinear", keys), constant=False)


def expanded(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``one_hot``: a new unsharded dimension."""
    if out.dims is None or not op.operands:
        return unknown(out)
    return combined(op, out, followed(op, out, origins), "test", op.operands[:1])


def alike(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``zeros_like``: constants, which may count as split like their model."""
    source = op.operands[0] if op.operands else None
    if source is None or source.dims is None or out.dims is None or len(op.operands) > 1:
        return unknown(out)
    plain = replace(source, pending=frozenset(), varying=frozenset(), marks=frozenset(), constant=True, notes=())
    plain = replace(plain, unclear=plain.unclear.minus(sharded(source)) if None in [d.axes for d in source.dims]
                    else type(source.unclear)())  # fmt: skip
    return combined(op, out, followed(op, out, origins), "linear", [plain])


_JNP, _LAX, _AT = "jax.numpy", "jax.lax", "jax.Array.at"
rule([INDEX, f"{_AT}.get"], indexed)
rule([f"{_JNP}.take"], taken)
rule([f"{_JNP}.take_along_axis"], taken_along)
rule(names(_LAX, "dynamic_slice dynamic_slice_in_dim dynamic_index_in_dim index_in_dim slice slice_in_dim"), sliced)
rule(names(_AT, "set add subtract multiply mul divide power min max apply"), updated)
rule(names("jax.random", "normal uniform truncated_normal randint bits rademacher bernoulli split fold_in key PRNGKey "
                         "gumbel exponential laplace logistic cauchy maxwell categorical"), drawn)  # fmt: skip
rule(["jax.nn.one_hot"], expanded)
rule([*names(_JNP, "zeros_like ones_like empty_like full_like"), f"{_LAX}.full_like"], alike)
