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
    made,
    names,
    rule,
    unknown,
    with_numbers,
)
from shardlint.ops.sharding.combining import combined
from shardlint.ops.sharding.elementwise import aligned, cast, clash, explain
from shardlint.ops.sharding.origins import Origin
from shardlint.ops.sharding.reductions import split_text
from shardlint.ops.sharding.state import (
    FACTORED,
    LOCAL,
    Axes,
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


def followed(op: Op, out: ArrayValue, origins: list[Origin]) -> list[Axes]:
    """Axes by origin; a changed dimension is unsharded if no sharded one is missing, else it is not known."""
    result: list[Axes] = []
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


def moved(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """Dimensions are rearranged, dropped where their size is 1, or added with size 1."""
    if out.dims is None or not op.operands:
        return unknown(out)
    return combined(op, out, followed(op, out, origins), "linear", op.operands[:1])


def padded(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``pad`` with zeros."""
    plain = op.call.get("mode") == Literal("constant") and op.call.get(
        "kwargs"
    ) == DictValue(())
    return moved(op, out, origins) if plain else unknown(out)


def whole(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """Rearranges along dimensions: right on every device's part only where those are not split."""
    source = op.operands[0] if op.operands else None
    if source is None or source.dims is None or out.dims is None:
        return unknown(out)
    if all(dim.axes == () for dim in source.dims):
        return combined(op, out, [() for _ in out.dims], "linear", [source])
    touched = _touched(op, source)
    if touched is None or len(source.dims) != len(out.dims):
        return unknown(out)
    shifts = op.call.get("shift")
    amounts = [
        static_int(one)
        for one in (shifts.items if isinstance(shifts, SequenceValue) else (shifts,))
    ]
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
    if any(dims[k].axes is None for k in touched):
        return unknown(out)
    split = {axis for k in touched for axis in dims[k].axes or ()}
    again = {axis for axis in split if flips and (axis, "flipped") in source.marks}
    # examples of a batch may be paired on purpose
    far = {axis for k in touched if k for axis in dims[k].axes or ()}
    sound = {
        axis
        for axis in far
        if moves and clean(source, axis) and (axis, "alike") not in source.marks
    }
    marks = frozenset(
        mark for mark in result.marks if mark[0] not in again or mark[1] not in LOCAL
    )
    marks |= {
        (axis, mark)
        for axis in sound
        for mark in ("local", "scan", *(["flipped"] if flips else []))
    }
    return replace(
        result,
        varying=(result.varying - again) | sound,
        unclear=result.unclear.plus(split - sound - again),
        marks=marks,
        notes=(
            *result.notes,
            *(op.note(axis, split_text(op, source, touched, axis)) for axis in sound),
        ),
    )


def _touched(op: Op, source: ArrayValue) -> list[int] | None:
    """The dimensions along which entries move."""
    rank = len(source.dims or ())
    if op.last in ("tril", "triu"):
        return [rank - 2, rank - 1]
    if op.last in ("flipud", "fliplr"):
        return [0 if op.last == "flipud" else 1]
    axis = op.call.get("axis") if "axis" in op.call.args else op.call.get("dimensions")
    if is_none(axis):
        return list(range(rank))
    found = [
        static_int(item)
        for item in (axis.items if isinstance(axis, SequenceValue) else (axis,))
    ]
    return None if None in found else [k % rank for k in found if k is not None]


def reshaped(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """Dimensions that stay keep their axes; of joined ones the first may be split, of split ones the first gets it.

    ``'B/d L'`` to ``'B*L'`` is split over d, as is ``'H/t D'`` from ``'(H*D)/t'``; anything else is not known. Nor is
    what comes of a number: ``reshape(3, -1)`` may be three parts on every device of a layout that interleaves them.
    """
    source = op.operands[0] if op.operands else None
    if source is None or source.dims is None or out.dims is None:
        return unknown(out)
    return combined(
        op, out, _regrouped(op.call, source.dims, out.dims), "linear", [source]
    )


def _regrouped(
    call: Call, old: tuple[Dimension, ...], new: tuple[Dimension, ...]
) -> list[Axes]:
    """Match runs of old and new dimensions whose (local) products are equal."""
    if any(dim.axes is None for dim in old):
        return [None for _ in new]
    if all(dim.axes == () for dim in old):
        return [() for _ in new]
    if any(dim.size == ONE for dim in (*old, *new)) and all(
        dim.axes == () for dim in old if dim.size == ONE
    ):
        rest = iter(
            _regrouped(
                call,
                *(tuple(dim for dim in dims if dim.size != ONE) for dims in (old, new)),
            )
        )
        # a dimension of 1 is never one of the parts
        return [() if dim.size == ONE else next(rest) for dim in new]
    result: list[Axes] = []
    i = k = 0
    while k < len(new):
        a, b = [i], [k]
        left, right = _size(old, i), _size(new, k)
        while left is None or right is None or not same(call.ctx, left, right):
            if left is None or right is None:
                return [*result, *([None] * (len(new) - len(result)))]
            if right.divides_exactly(left) is not None and a[-1] + 1 < len(old):
                a.append(a[-1] + 1)
                left = _times(left, _size(old, a[-1]))
            elif b[-1] + 1 < len(new):
                b.append(b[-1] + 1)
                right = _times(right, _size(new, b[-1]))
            else:
                return [*result, *([None] * (len(new) - len(result)))]
        axes = [old[n].axes for n in a]
        first = axes[0]
        parted = first and len(b) > 1 and old[a[0]].size != new[b[0]].size
        if any(axes[1:]) or (parted and (len(a) > 1 or _is_number(new[b[0]]))):
            result.extend([None] * len(b))
        else:
            result.extend([first, *([()] * (len(b) - 1))])
        i, k = a[-1] + 1, b[-1] + 1
    if any(dim.axes for dim in old[i:]):
        return [None for _ in new]
    return result


def _is_number(dim: Dimension) -> bool:
    return dim.size is not None and dim.size.constant is not None


def _size(dims: tuple[Dimension, ...], at: int) -> Size | None:
    return dims[at].size if at < len(dims) else None


def _times(a: Size, b: Size | None) -> Size | None:
    return None if b is None else a * b


def spread(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``broadcast_to``: old dimensions line up on the right."""
    if out.dims is None or not op.operands:
        return unknown(out)
    source = op.operands[0]
    if source.dims is None:
        return unknown(out)
    return combined(op, out, aligned(op, out, [source]), "linear", [source])


def joined(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``concatenate``: all operands are split alike, and not along the joined dimension."""
    operands = list(op.operands)
    axis = _joined_axis(op, out)
    if out.dims is None or axis is None or not operands:
        return computed(op, out, origins)
    if any(o.dims is None or len(o.dims) != len(out.dims) for o in operands):
        return computed(op, out, origins)
    axis %= len(out.dims)
    result: list[Axes] = []
    for k in range(len(out.dims)):
        met = {
            o.dims[k].axes
            for o in operands
            if o.dims is not None and len(o.dims) == len(out.dims)
        }
        split = [one for one in met if one]
        if None in met:
            result.append(None)
        elif k == axis:
            result.append(None if split else ())
        elif len(split) > 1:
            a, b = (
                next(
                    o for o in operands if o.dims is not None and o.dims[k].axes == one
                )
                for one in split[:2]
            )
            raise clash(op, a, b)
        else:
            result.append(split[0] if split else ())
    return combined(op, out, result, "add" if len(operands) > 1 else "linear", operands)


def _joined_axis(op: Op, out: ArrayValue) -> int | None:
    rank = len(out.dims or ())
    match op.last:
        case "hstack":
            return 0 if rank == 1 else 1
        case "vstack":
            return 0
        case "column_stack":
            return 1
        case "dstack":
            return 2
        case _:
            return static_int(
                op.call.get("axis")
                if "axis" in op.call.args
                else op.call.get("dimension")
            )


def repeated(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``repeat``: every entry comes several times, on the device that has it."""
    source = op.operands[0] if len(op.operands) == 1 else None
    plain = static_int(op.call.get("axis")) is not None and is_none(
        op.call.get("total_repeat_length")
    )
    if (
        source is None
        or source.dims is None
        or not plain
        or not isinstance(op.call.get("repeats"), IntValue)
    ):
        return computed(op, out, origins)
    return combined(op, out, [dim.axes for dim in source.dims], "linear", [source])


def overwritten(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``dynamic_update_slice``: right where a split dimension is overwritten as a whole."""
    target, update = op.operands[:2] if len(op.operands) > 1 else (None, None)
    if (
        target is None
        or update is None
        or target.dims is None
        or update.dims is None
        or out.dims is None
    ):
        return computed(op, out, origins)
    axis, written = static_int(op.call.get("axis")), update.dims
    if (
        op.last == "dynamic_update_index_in_dim"
        and axis is not None
        and len(update.dims) == len(target.dims) - 1
    ):
        axis %= len(target.dims)
        # one entry of the dimension that it lacks
        written = (*written[:axis], Dimension(ONE, ()), *written[axis:])
        update = replace(update, dims=written)
    pairs = list(zip(target.dims, written, strict=False))
    whole = all(
        a.axes == b.axes and (a.axes == () or a.size == b.size) for a, b in pairs
    )
    if len(target.dims) != len(written) or not whole:
        return computed(op, out, origins)
    axes = [dim.axes for dim in target.dims]
    parts = replace(op, operands=op.operands[:2], positions=op.positions[:2])
    result = combined(parts, out, axes, "add", [target, update])
    starts = [placing(one) for one in op.operands[2:]]
    return (
        combined(op, result, axes, "multiply", [result, *starts]) if starts else result
    )


def stacked(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``stack`` and arrays made of sequences: the new dimension is unsharded."""
    operands = with_numbers(op)
    axis = static_int(op.call.get("axis")) if "axis" in op.call.args else 0
    if out.dims is None or axis is None or not operands:
        return unknown(out)
    if any(o.dims is None or len(o.dims) != len(out.dims) - 1 for o in operands):
        return (
            combined(op, out, None, "add", operands) if not out.dims else unknown(out)
        )
    axis %= len(out.dims)
    result: list[Axes] = [()]
    for k in range(len(out.dims) - 1):
        met = {o.dims[k].axes for o in operands if o.dims is not None}
        split = [one for one in met if one]
        result.append(
            None if None in met or len(split) > 1 else (split[0] if split else ())
        )
    return combined(
        op,
        out,
        [*result[1 : axis + 1], result[0], *result[axis + 1 :]],
        "add",
        operands,
    )


def array_of(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``jnp.array(x)`` of an array, or of a sequence of them."""
    source = next(
        op.call.get(name) for name in ("object", "a", "x") if name in op.call.args
    )
    if isinstance(source, SequenceValue):
        if any(isinstance(item, SequenceValue) for item in source.items):
            return unknown(out) if op.operands else made(op, out, origins)
        return stacked(op, out, origins)
    return moved(op, out, origins) if op.operands else made(op, out, origins)


def constructed(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``jnp.float32(x)``: a cast of an array, an array of a sequence."""
    if isinstance(op.call.get("x"), SequenceValue):
        return array_of(op, out, origins)
    return cast(op, out, origins) if op.operands else made(op, out, origins)


def selected(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``where(condition, x, y)``: as a sum of x and y; a condition that varies makes the result vary."""
    if is_none(op.call.get("x")):
        return unknown(out)
    operands = with_numbers(op)
    if len(operands) != 3:  # one of them is not known
        return unknown(out)
    condition, values = operands[0], operands[1:]
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
