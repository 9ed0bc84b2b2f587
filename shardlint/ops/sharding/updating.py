"""``x.at[index].set(y)``, its relatives and sums over segments: which device writes what, and where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from shardlint.axis_set import AxisSet
from shardlint.ops.arrays import ONE, as_array
from shardlint.ops.indexing import index_array
from shardlint.ops.registry import is_none, static_int
from shardlint.ops.sharding.base import Op, constant, names, rule, unknown
from shardlint.ops.sharding.origins import Origin
from shardlint.ops.sharding.state import (
    FACTORED,
    LASTING,
    LOCAL,
    SCALES,
    Axes,
    axes_met,
    clean,
    marks,
    settled,
    state,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, SliceValue, Value

_ADDING = frozenset({"add", "subtract", "segment_sum"})
_SCALING = frozenset({"multiply", "mul", "divide", "power"})


@dataclass(frozen=True, slots=True)
class Write:
    """``values`` written into ``target``. ``places`` has, for every dimension of what is written, the dimension of the
    target that it covers as a whole, or None and the axes of the index arrays that pick its positions."""

    target: ArrayValue
    values: ArrayValue
    indices: Sequence[ArrayValue]
    places: Sequence[tuple[int | None, tuple[str, ...]]]
    how: str

    @property
    def others(self) -> list[ArrayValue]:
        return [self.values, *self.indices]

    @property
    def picked(self) -> frozenset[str]:
        """The axes of the target's dimensions of which positions are picked: on every device those of its own part."""
        kept = {k for k, _ in self.places}
        dims = enumerate(self.target.dims or ())
        return frozenset(
            axis for k, dim in dims if k not in kept for axis in dim.axes or ()
        )

    @property
    def counted(self) -> bool:
        """Whether the positions are those of a whole array: as many as a dimension that no device has but a part of."""
        kept = {k for k, _ in self.places}
        sizes = [
            dim.size for k, dim in enumerate(self.target.dims or ()) if k not in kept
        ]
        return all(
            s is not None and s.constant is None and not set("/|?") & set(str(s))
            for s in sizes
        )


def updated(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``x.at[index].add(y)``. What is added at positions that are split over an axis is a pending sum."""
    target = op.operands[0]
    number = as_array(op.call["values"]) if "values" in op.call.args else None
    own = [
        o
        for o, position in zip(op.operands, op.positions, strict=True)
        if position == 2
    ]
    values = own[0] if own else constant(number) if number is not None else None
    indices = [
        o
        for o, position in zip(op.operands, op.positions, strict=True)
        if position == 1
    ]
    if target.dims is None or out.dims is None:
        return unknown(out)
    places = None if values is None else _places(op, target, indices)
    if values is None or places is None:
        return replace(unknown(out), dims=target.dims)
    return written(op, out, Write(target, values, indices, places, op.last)) or replace(
        unknown(out), dims=target.dims
    )


def _places(
    op: Op, target: ArrayValue, indices: Sequence[ArrayValue]
) -> list[tuple[int | None, tuple[str, ...]]] | None:
    """See ``Write``; None where that is not known."""
    index = op.call["index"]
    items = (
        index.items
        if isinstance(index, SequenceValue) and index.kind == "tuple"
        else (index,)
    )
    slices = [item for item in items if isinstance(item, SliceValue)]
    if any(static_int(item.step) == -1 for item in slices) or any(
        o.dims is None or o.dtype == "bool" for o in indices
    ):
        return None
    marked = tuple(
        Dimension(dim.size, (f"{k}",), dim.label)
        for k, dim in enumerate(target.dims or ())
    )
    selected = index_array(ArrayValue(marked, target.dtype), index, op.call.ctx)
    if not isinstance(selected, ArrayValue) or selected.dims is None:
        return None
    kept = [int(dim.axes[0]) if dim.axes else None for dim in selected.dims]
    fresh = [at for at, k in enumerate(kept) if k is None]
    if not indices:
        return [(k, ()) for k in kept]
    axes = index_axes(indices)
    if (
        axes is None
        or len(axes) != len(fresh)
        or any(map(is_none, items))
        or not all(map(is_full, slices))
    ):
        return None
    if fresh and fresh != list(range(fresh[0], fresh[0] + len(fresh))):
        return None
    return [
        (k, () if k is not None else axes[at - fresh[0]]) for at, k in enumerate(kept)
    ]


def is_full(item: SliceValue) -> bool:
    return is_none(item.lower) and is_none(item.upper) and is_none(item.step)


def index_axes(indices: Sequence[ArrayValue]) -> list[tuple[str, ...]] | None:
    """The axes of what index arrays broadcast to; None where they are not known, or differ."""
    rank = max((len(o.dims or ()) for o in indices), default=0)
    result: list[tuple[str, ...]] = []
    for k in range(rank, 0, -1):
        dims = [
            o.dims[-k]
            for o in indices
            if o.dims is not None and len(o.dims) >= k and o.dims[-k].size != ONE
        ]
        met: set[Axes] = {dim.axes for dim in dims if dim.axes != ()}
        if None in met or len(met) > 1:
            return None
        result.append(next((one for one in met if one), ()))
    return result


def written(op: Op, out: ArrayValue, write: Write) -> ArrayValue | None:
    """The target afterwards; None where nothing can be said but its shape."""
    target, values = write.target, write.values
    axes: list[Axes] = [dim.axes for dim in target.dims or ()]
    if None in axes or values.dims is None:
        return None
    joint, strange = set[str](), set[str]()
    for at, (k, picking) in enumerate(write.places):
        place = at - len(write.places) + len(values.dims)
        dim = (
            values.dims[place]
            if place >= 0 and values.dims[place].size != ONE
            else Dimension(ONE, ())
        )
        if dim.axes is None:
            return None
        if k is None:
            (joint if dim.axes in (picking, ()) else strange).update(
                (*picking, *dim.axes)
            )
        elif dim.axes and axes[k] == () and target.constant:
            axes[k] = dim.axes
        elif dim.axes not in (axes[k], ()):
            strange |= {*dim.axes, *(axes[k] or ())}
    inside = {axis for one in axes for axis in one or ()}
    found: dict[str, set[str]] = {
        "pending": set(),
        "varying": set(),
        "unclear": set(strange),
    }
    kept: set[tuple[str, str]] = set()
    met = axes_met([target, *write.others])
    notes = [note for operand in (target, *write.others) for note in operand.notes]
    for axis in sorted(met - strange):
        kept |= {(axis, mark) for mark in _marks(write, axis)}
        outcome = (
            _jointly(write, axis, axis in inside)
            if axis in joint
            else _apart(write, axis, axis in inside)
        )
        found.setdefault(outcome, set()).add(axis)
        if outcome == "pending" and axis in joint:
            kept |= {
                (axis, "reduction"),
                *([] if target.constant else [(axis, "offset")]),
            }
            kept |= set() if write.counted else {(axis, "scattered")}
            notes.append(
                op.note(axis, f"{op.name} adds up a dimension sharded over {axis!r}")
            )
        elif outcome == "pending":
            kept |= {
                (axis, mark)
                for mark in marks(target, axis)
                & {"mean", "reduction", "scattered", "offset", "biased"}
            }
    every = any(o.unclear.all_but for o in (target, *write.others))
    rest = (
        AxisSet(frozenset(met - found["unclear"]), True)
        if every
        else AxisSet(frozenset(found["unclear"]))
    )
    kept |= ({FACTORED} if write.how in _SCALING else set()) | (
        SCALES & (target.marks | values.marks)
    )
    return settled(
        out,
        axes,
        pending=found["pending"],
        varying=found["varying"],
        unclear=rest,
        marks=kept,
        constant=target.constant and all(o.constant for o in write.others),
        notes=notes,
    )


def _jointly(write: Write, axis: str, inside: bool) -> str:
    """The state over an axis that splits what is written together with its positions."""
    if not all(
        clean(o, axis) or state(o, axis) in ("replicated", "varying")
        for o in write.others
    ):
        return "unclear"
    target = write.target
    if inside:  # every device writes at positions of its own part
        return (
            "unclear"
            if target.constant
            or "alike" in marks(target, axis)
            or not clean(target, axis)
            else "varying"
        )
    adds = write.how in _ADDING and not any(
        state(o, axis) == "varying" for o in write.others
    )
    match state(target, axis):
        case "replicated":
            return "pending" if adds else "varying"
        case "pending" if adds and "mean" not in marks(target, axis):
            return "pending"
        case "varying":
            return "varying"
    return "unclear"


def _apart(write: Write, axis: str, inside: bool) -> str:
    """The state over any other axis."""
    target, states = write.target, [state(o, axis) for o in write.others]
    if (
        any(axis in o.unclear for o in write.others)
        or "unclear" in states
        or (inside and "pending" in states)
    ):
        return "unclear"
    if inside:
        own = axis in write.picked
        if (
            own and (target.constant or "alike" in marks(target, axis))
        ) or axis in target.unclear:
            return "unclear"
        tainted = axis in target.varying or any(axis in o.varying for o in write.others)
        return "varying" if own or tainted else "sharded"
    if "sharded" in states:
        return "unclear"
    match state(target, axis):
        case "replicated" if "pending" not in states:
            return "varying" if "varying" in states else "replicated"
        case "varying" if "pending" not in states:
            return "varying"
        case "pending":
            together = states[0] == "pending" and write.how in (
                "set",
                "add",
                "subtract",
            )
            alike = marks(target, axis) & {"mean", "lone"} == marks(
                write.values, axis
            ) & {"mean"}
            scaled = states[0] == "replicated" and write.how in (
                "multiply",
                "mul",
                "divide",
            )
            still = scaled or (together and alike)
            return (
                "pending"
                if still and all(one == "replicated" for one in states[1:])
                else "unclear"
            )
    return "unclear"


def _marks(write: Write, axis: str) -> frozenset[str]:
    """The marks that stay."""
    target, found = write.target, marks(write.target, axis)
    kept = frozenset[str]().union(
        *(marks(o, axis) for o in (target, *write.others))
    ) & {"scaled"}
    same = write.values.constant or "miscounted" in marks(write.values, axis)
    if same and write.how not in _SCALING:
        kept |= found & LASTING
    if (
        all(state(o, axis) == "replicated" for o in write.others)
        and axis not in write.picked
    ):
        kept |= found & (LOCAL | {"alike"})
    if all(_only_mapped(o, axis) for o in write.others):
        kept |= found & {"mapped"}
    return kept


def _only_mapped(value: ArrayValue, axis: str) -> bool:
    return state(value, axis) == "replicated" or (axis, "mapped") in value.marks


def applied(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``x.at[index].apply(f)``: what the function does is not followed."""
    index: Value = op.call["index"]
    items = index.items if isinstance(index, SequenceValue) else (index,)
    whole = all(isinstance(item, SliceValue) and is_full(item) for item in items)
    return replace(unknown(out), dims=op.operands[0].dims) if whole else unknown(out)


def segments(op: Op, out: ArrayValue, origins: list[Origin]) -> ArrayValue:
    """``segment_sum`` and its relatives: rows of the data, written into an array of as many rows as segments."""
    data, ids = op.operands[:2] if len(op.operands) > 1 else (None, None)
    if (
        data is None
        or ids is None
        or data.dims is None
        or ids.dims is None
        or out.dims is None
    ):
        return unknown(out)
    split = ids.dims[0].axes if len(ids.dims) == 1 else None
    if split is None or len(out.dims) != len(data.dims):
        return unknown(out)
    target = constant(
        replace(out, dims=tuple(Dimension(dim.size, ()) for dim in out.dims))
    )
    places = [(None, split), *((k, ()) for k in range(1, len(out.dims)))]
    return written(op, out, Write(target, data, (ids,), places, op.last)) or unknown(
        out
    )


rule(
    names("jax.Array.at", "set add subtract multiply mul divide power min max"), updated
)
rule(["jax.Array.at.apply"], applied)
rule(names("jax.ops", "segment_sum segment_prod segment_max segment_min"), segments)
