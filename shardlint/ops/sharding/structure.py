"""Functions that move, join and split dimensions: linear in their operand, axes follow the dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.ops.arrays import ONE, SCALARS, same
from shardlint.ops.registry import Call, is_none, static_int
from shardlint.ops.sharding.base import (
    Op,
    computed,
    is_zero,
    items_of,
    made,
    names,
    rule,
    unknown,
    with_numbers,
)
from shardlint.ops.sharding.combining import combined
from shardlint.ops.sharding.elementwise import aligned, cast, clash, explain
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.reductions import split_text
from shardlint.ops.sharding.state import (
    FACTORED,
    LOCAL,
    Axes,
    DimAxes,
    axes_along,
    choosing,
    clean,
    placing,
    sharded,
    state,
)
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    IntValue,
    Literal,
    SequenceValue,
)
from shardtypes.lang import Size


def followed(op: Op, out: ArrayValue, origins: Origins) -> DimAxes:
    """Axes by origin; a changed dimension is unsharded if no sharded one is missing, else it is not known."""
    result: DimAxes = []
    kept = {origin for origin in origins if origin is not None}
    plain = all(
        dim.axes == () or (i, k) in kept
        for i, o in enumerate(op.operands)
        for k, dim in enumerate(o.dims or ())
    )
    for dim, origin in zip(out.dims or (), origins, strict=True):
        if origin is not None:
            source = op.operands[origin[0]].dims
            result.append(source[origin[1]].axes if source is not None else None)
        else:
            result.append(() if plain or dim.size == ONE else None)
    return result


def moved(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """Dimensions are rearranged, dropped where their size is 1, or added with size 1."""
    if out.dims is None or not op.operands:
        return unknown(out)
    return combined(op, out, followed(op, out, origins), "linear", op.operands[:1])


def padded(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``pad`` with zeros."""
    plain = op.call.get("mode") == Literal("constant") and op.call.get(
        "kwargs"
    ) == DictValue(())
    if plain:
        return moved(op, out, origins)
    return unknown(out)


def whole(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """Rearranges along dimensions: right on every device's part only where those are not split."""
    source = op.first
    if source is None or source.dims is None or out.dims is None:
        return unknown(out)
    if all(dim.axes == () for dim in source.dims):
        return combined(op, out, [() for _ in out.dims], "linear", [source])
    touched = _touched(op, source)
    if touched is None or len(source.dims) != len(out.dims):
        return unknown(out)
    shifts = op.call.get("shift")
    amounts = [static_int(one) for one in items_of(shifts)]
    moves = (
        op.last == "rev"
        or op.last.startswith("flip")
        or (op.last == "roll" and not {0, None} & {*amounts})
    )
    return rearranged(op, out, touched, moves=moves, flips=op.last != "roll")


def rearranged(
    op: Op, out: ArrayValue, touched: Sequence[int], moves: bool, flips: bool
) -> ArrayValue:
    """The operand with its entries in another order along these dimensions. Where it ``moves`` them, that of each
    device's part is no part of the whole; one that ``flips`` them undoes another."""
    source = op.operands[0]
    dims = source.dims or ()
    result = combined(op, out, [dim.axes for dim in dims], "linear", [source])
    split = axes_along(source, touched)
    # examples of a batch may be paired on purpose
    far = axes_along(source, [k for k in touched if k])
    if split is None or far is None:
        return unknown(out)
    again = {axis for axis in split if flips and (axis, "flipped") in source.marks}
    sound = set[str]()
    if moves:
        alike = {axis for axis, mark in source.marks if mark == "alike"}
        sound = {axis for axis in far if clean(source, axis)} - alike
    marks = {
        mark for mark in result.marks if mark[0] not in again or mark[1] not in LOCAL
    }
    if flips:
        kinds = ["local", "scan", "flipped"]
    else:
        kinds = ["local", "scan"]
    marks |= {(axis, mark) for axis in sound for mark in kinds}
    notes = [op.note(axis, split_text(op, source, touched, axis)) for axis in sound]
    return replace(
        result,
        varying=(result.varying - again) | sound,
        unclear=result.unclear.plus(set(split) - sound - again),
        marks=frozenset(marks),
        notes=(*result.notes, *notes),
    )


def _touched(op: Op, source: ArrayValue) -> list[int] | None:
    """The dimensions along which entries move."""
    rank = len(source.dims or ())
    if op.last in ("tril", "triu"):
        return [rank - 2, rank - 1]
    if op.last in ("flipud", "fliplr"):
        return [0 if op.last == "flipud" else 1]
    if "axis" in op.call.args:
        axis = op.call.get("axis")
    else:
        axis = op.call.get("dimensions")
    if is_none(axis):
        return list(range(rank))
    found = [static_int(item) for item in items_of(axis)]
    if None in found:
        return None
    return [k % rank for k in found if k is not None]


def reshaped(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """Dimensions that stay keep their axes; of joined ones the first may be split, of split ones the first gets it.

    ``'B/d L'`` to ``'B*L'`` is split over d, as is ``'H/t D'`` from ``'(H*D)/t'``; anything else is not known. Nor is
    what comes of a number: ``reshape(3, -1)`` may be three parts on every device of a layout that interleaves them.
    """
    source = op.first
    if source is None or source.dims is None or out.dims is None:
        return unknown(out)
    return combined(
        op, out, _regrouped(op.call, source.dims, out.dims), "linear", [source]
    )


def _regrouped(
    call: Call, old: tuple[Dimension, ...], new: tuple[Dimension, ...]
) -> DimAxes:
    """Match runs of old and new dimensions whose (local) products are equal."""
    if any(dim.axes is None for dim in old):
        return [None for _ in new]
    if all(dim.axes == () for dim in old):
        return [() for _ in new]
    has_ones = any(dim.size == ONE for dim in (*old, *new))
    if has_ones and not any(dim.axes for dim in old if dim.size == ONE):
        longer = [tuple(dim for dim in dims if dim.size != ONE) for dims in (old, new)]
        rest = iter(_regrouped(call, *longer))
        # a dimension of 1 is never one of the parts
        return [() if dim.size == ONE else next(rest) for dim in new]
    result: DimAxes = []
    start = at = 0
    while at < len(new):
        ends = _run_ends(call, old, start, new, at)
        if ends is None:
            return [*result, *([None] * (len(new) - len(result)))]
        result.extend(_run_axes(old[start : ends[0]], new[at : ends[1]]))
        start, at = ends
    if any(dim.axes for dim in old[start:]):
        return [None for _ in new]
    return result


def _run_ends(
    call: Call,
    old: tuple[Dimension, ...],
    i: int,
    new: tuple[Dimension, ...],
    k: int,
) -> tuple[int, int] | None:
    """Where the shortest runs end, from old dimension ``i`` and new dimension ``k`` on, whose products are equal; None
    where there are none, or that is not known."""
    left = _size(old, i)
    right = _size(new, k)
    i = i + 1
    k = k + 1
    while left is not None and right is not None:
        if same(call.ctx, left, right):
            return i, k
        if right.divides_exactly(left) is not None and i < len(old):
            left = _times(left, _size(old, i))
            i += 1
        elif k < len(new):
            right = _times(right, _size(new, k))
            k += 1
        else:
            return None
    return None


def _run_axes(old: tuple[Dimension, ...], new: tuple[Dimension, ...]) -> DimAxes:
    """The axes of a run of dimensions that is made of another: those of the major one stay with the major one."""
    major = old[0].axes
    parted = major and len(new) > 1 and old[0].size != new[0].size
    unclear = parted and (len(old) > 1 or _is_number(new[0]))
    if unclear or any(dim.axes for dim in old[1:]):
        return [None] * len(new)
    return [major, *([()] * (len(new) - 1))]


def _is_number(dim: Dimension) -> bool:
    return dim.size is not None and dim.size.constant is not None


def _size(dims: tuple[Dimension, ...], at: int) -> Size | None:
    if at < len(dims):
        return dims[at].size
    return None


def _times(a: Size, b: Size | None) -> Size | None:
    if b is None:
        return None
    return a * b


def spread(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``broadcast_to``: old dimensions line up on the right."""
    if out.dims is None or not op.operands:
        return unknown(out)
    source = op.operands[0]
    if source.dims is None:
        return unknown(out)
    return combined(op, out, aligned(op, out, [source]), "linear", [source])


def joined(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``concatenate``: all operands are split alike, and not along the joined dimension."""
    operands = list(op.operands)
    axis = _joined_axis(op, out)
    if out.dims is None or axis is None or not operands:
        return computed(op, out, origins)
    rank = len(out.dims)
    if any(o.dims is None or len(o.dims) != rank for o in operands):
        return computed(op, out, origins)
    axis %= rank
    result: DimAxes = []
    for k in range(rank):
        # one operand for each way in which the dimension is split
        by_axes: dict[Axes, ArrayValue] = {}
        for operand in operands:
            by_axes.setdefault((operand.dims or ())[k].axes, operand)
        split = [axes for axes in by_axes if axes]
        if None in by_axes:
            result.append(None)
        elif k == axis:
            result.append(None if split else ())
        elif len(split) > 1:
            raise clash(op, by_axes[split[0]], by_axes[split[1]])
        else:
            result.append(split[0] if split else ())
    return combined(op, out, result, "add" if len(operands) > 1 else "linear", operands)


def joining_axis(call: Call) -> int | None:
    """The dimension along which ``concatenate`` and ``stack`` of ``numpy`` or ``lax`` join."""
    if "axis" in call.args:
        return static_int(call.get("axis"))
    return static_int(call.get("dimension"))


def _joined_axis(op: Op, out: ArrayValue) -> int | None:
    rank = len(out.dims or ())
    match op.last:
        case "hstack":
            if rank == 1:
                return 0
            return 1
        case "vstack":
            return 0
        case "column_stack":
            return 1
        case "dstack":
            return 2
        case _:
            return joining_axis(op.call)


def repeated(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``repeat``: every entry comes several times, on the device that has it."""
    if len(op.operands) != 1 or op.operands[0].dims is None:
        return computed(op, out, origins)
    source = op.operands[0]
    along_one = static_int(op.call.get("axis")) is not None
    evenly = isinstance(op.call.get("repeats"), IntValue)
    if not along_one or not evenly or not is_none(op.call.get("total_repeat_length")):
        return computed(op, out, origins)
    return combined(
        op, out, [dim.axes for dim in source.dims or ()], "linear", [source]
    )


def overwritten(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``dynamic_update_slice``: right where a split dimension is overwritten as a whole."""
    if len(op.operands) < 2 or out.dims is None:
        return computed(op, out, origins)
    target, update = op.operands[:2]
    if target.dims is None or update.dims is None:
        return computed(op, out, origins)
    rank = len(target.dims)
    axis = static_int(op.call.get("axis"))
    written = update.dims
    is_entry = op.last == "dynamic_update_index_in_dim" and len(written) == rank - 1
    if is_entry and axis is not None:
        axis %= rank
        # one entry of the dimension that it lacks
        written = (*written[:axis], Dimension(ONE, ()), *written[axis:])
        update = replace(update, dims=written)
    if len(written) != rank:
        return computed(op, out, origins)
    for old, new in zip(target.dims, written, strict=True):
        if old.axes != new.axes or (old.axes != () and old.size != new.size):
            return computed(op, out, origins)
    axes = [dim.axes for dim in target.dims]
    parts = replace(op, operands=op.operands[:2], positions=op.positions[:2])
    result = combined(parts, out, axes, "add", [target, update])
    starts = [placing(one) for one in op.operands[2:]]
    if not starts:
        return result
    return combined(op, result, axes, "multiply", [result, *starts])


def stacked(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``stack`` and arrays made of sequences: the new dimension is unsharded."""
    operands = with_numbers(op)
    if "axis" in op.call.args:
        axis = static_int(op.call.get("axis"))
    else:
        axis = 0
    if out.dims is None or axis is None or not operands:
        return unknown(out)
    rank = len(out.dims)
    if any(o.dims is None or len(o.dims) != rank - 1 for o in operands):
        if out.dims:
            return unknown(out)
        return combined(op, out, None, "add", operands)
    result: DimAxes = []
    for k in range(rank - 1):
        met = {(o.dims or ())[k].axes for o in operands}
        split = [one for one in met if one]
        if None in met or len(split) > 1:
            result.append(None)
        else:
            result.append(split[0] if split else ())
    result.insert(axis % rank, ())
    return combined(op, out, result, "add", operands)


def array_of(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``jnp.array(x)`` of an array, or of a sequence of them."""
    source = next(
        op.call.get(name) for name in ("object", "a", "x") if name in op.call.args
    )
    if isinstance(source, SequenceValue):
        if any(isinstance(item, SequenceValue) for item in source.items):
            if op.operands:
                return unknown(out)
            return made(op, out, origins)
        return stacked(op, out, origins)
    if op.operands:
        return moved(op, out, origins)
    return made(op, out, origins)


def constructed(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``jnp.float32(x)``: a cast of an array, an array of a sequence."""
    if isinstance(op.call.get("x"), SequenceValue):
        return array_of(op, out, origins)
    if op.operands:
        return cast(op, out, origins)
    return made(op, out, origins)


def selected(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``where(condition, x, y)``: as a sum of x and y; a condition that varies makes the result vary."""
    if is_none(op.call.get("x")):
        return unknown(out)
    operands = with_numbers(op)
    if len(operands) != 3:  # one of them is not known
        return unknown(out)
    condition = operands[0]
    values = operands[1:]
    axes = aligned(op, out, operands)
    # a condition is no addend
    own = [(o, at) for o, at in zip(op.operands, op.positions, strict=True) if at > 0]
    parts = replace(
        op, operands=tuple(o for o, _ in own), positions=tuple(at for _, at in own)
    )
    chosen = combined(parts, out, axes, "add", values)
    result = combined(op, chosen, axes, "multiply", [choosing(condition), chosen])
    return _masked(op, result, condition, values[0])


def _masked(
    op: Op, result: ArrayValue, condition: ArrayValue, value: ArrayValue
) -> ArrayValue:
    """The result, where all devices but one have zeros: it differs between them, whatever the value was."""
    if not is_zero(op.call.get("y")) or value.dims is None:
        return result
    if any(dim.axes is None for dim in value.dims):
        return result
    left = sharded(value) | (value.pending or frozenset())
    axes = {
        axis for axis, mark in condition.marks if mark == "chosen" and axis not in left
    }
    # and so may be its factors
    hidden = any(state(value, axis) == "unclear" for axis in axes)
    kept = {m for m in result.marks if m[0] not in axes} | (
        {FACTORED} if hidden else set()
    )
    return replace(
        result,
        varying=result.varying | axes,
        unclear=result.unclear.minus(axes),
        marks=frozenset(kept) | {(axis, "lone") for axis in axes},
    )


_JNP, _LAX = "jax.numpy", "jax.lax"

rule(
    [
        *names(
            _JNP,
            "transpose permute_dims matrix_transpose swapaxes moveaxis squeeze expand_dims split array_split "
            "hsplit vsplit dsplit atleast_1d atleast_2d atleast_3d",
        ),
        *names(_JNP, "tile rollaxis unstack"),
        *names(_LAX, "transpose expand_dims squeeze broadcast split"),
        "jax.Array.transpose",
        "einops.rearrange",
        "einops.repeat",
    ],
    moved,
)
rule([f"{_JNP}.repeat"], repeated)
rule(
    names(
        _LAX,
        "dynamic_update_slice dynamic_update_slice_in_dim dynamic_update_index_in_dim",
    ),
    overwritten,
)
rule([f"{_JNP}.pad"], padded)
rule([*names(_JNP, "flip flipud fliplr roll tril triu"), "jax.lax.rev"], whole)
rule(
    [
        *names(_JNP, "reshape ravel"),
        "jax.lax.reshape",
        "jax.lax.collapse",
        *names("jax.Array", "reshape ravel flatten"),
    ],
    reshaped,
)
rule([f"{_JNP}.broadcast_to"], spread)
rule(
    [
        *names(_JNP, "concatenate concat hstack vstack dstack column_stack append"),
        f"{_LAX}.concatenate",
    ],
    joined,
    explain,
)
rule([f"{_JNP}.stack"], stacked, explain)
rule([f"{_JNP}.array", f"{_JNP}.asarray"], array_of)
rule(names(_JNP, " ".join(SCALARS)), constructed)
rule([f"{_JNP}.where", f"{_LAX}.select"], selected, explain)
rule(
    [
        *names(_JNP, "zeros ones empty full arange linspace eye identity tri"),
        *names(_LAX, "iota broadcasted_iota full"),
    ],
    made,
)
