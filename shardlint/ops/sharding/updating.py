"""``x.at[index].set(y)``, its relatives and sums over segments: which device writes what, and where."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace

from shardlint.ops.arrays import ONE, as_array
from shardlint.ops.indexing import index_array
from shardlint.ops.registry import is_none, static_int
from shardlint.ops.sharding.base import Op, constant, items_of, names, rule, unknown
from shardlint.ops.sharding.origins import Origins
from shardlint.ops.sharding.state import (
    FACTORED,
    LASTING,
    LOCAL,
    SCALES,
    Arrays,
    Axes,
    DimAxes,
    axes_met,
    clean,
    marks,
    settled,
    state,
    unclear_axes,
)
from shardlint.ops.slices import index_items
from shardlint.values import ArrayValue, Dimension, SliceValue, Value

_ADDING = frozenset({"add", "subtract", "segment_sum"})
_OF_SUMS = frozenset({"mean", "reduction", "scattered", "offset", "biased"})
_SCALING = frozenset({"multiply", "mul", "divide", "power"})


@dataclass(frozen=True, slots=True)
class Write:
    """``values`` written into ``target``. ``places`` has, for every dimension of what is written, the dimension of the
    target that it covers as a whole, or None and the axes of the index arrays that pick its positions."""

    target: ArrayValue
    values: ArrayValue
    indices: Arrays
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


def updated(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``x.at[index].add(y)``. What is added at positions that are split over an axis is a pending sum."""
    target = op.operands[0]
    if target.dims is None or out.dims is None:
        return unknown(out)
    shape_only = replace(unknown(out), dims=target.dims)
    values = _values(op)
    if values is None:
        return shape_only
    indices = op.given(1)
    places = _places(op, target, indices)
    if places is None:
        return shape_only
    write = Write(target, values, indices, places, op.last)
    return written(op, out, write) or shape_only


def _values(op: Op) -> ArrayValue | None:
    """What is written: an array, or a number."""
    arrays = op.given(2)
    if arrays:
        return arrays[0]
    number = as_array(op.call.get("values"))
    if number is None:
        return None
    return constant(number)


def _places(
    op: Op, target: ArrayValue, indices: Arrays
) -> list[tuple[int | None, tuple[str, ...]]] | None:
    """See ``Write``; None where that is not known."""
    index = op.call["index"]
    items = index_items(index)
    slices = [item for item in items if isinstance(item, SliceValue)]
    if any(static_int(item.step) == -1 for item in slices):
        return None
    if any(o.dims is None or o.dtype == "bool" for o in indices):
        return None
    marked = tuple(
        Dimension(dim.size, (f"{k}",), dim.label)
        for k, dim in enumerate(target.dims or ())
    )
    selected = index_array(ArrayValue(marked, target.dtype), index, op.call.ctx)
    if not isinstance(selected, ArrayValue) or selected.dims is None:
        return None
    kept = [int(dim.axes[0]) if dim.axes else None for dim in selected.dims]
    if not indices:
        return [(k, ()) for k in kept]
    axes = index_axes(indices)
    fresh = [at for at, k in enumerate(kept) if k is None]
    if axes is None or len(axes) != len(fresh) or not is_run(fresh):
        return None
    if any(map(is_none, items)) or not all(map(is_full, slices)):
        return None
    return [
        (k, () if k is not None else axes[at - fresh[0]]) for at, k in enumerate(kept)
    ]


def is_run(places: Sequence[int]) -> bool:
    """Whether the places follow one another."""
    return not places or list(places) == list(range(places[0], places[-1] + 1))


def is_full(item: SliceValue) -> bool:
    return is_none(item.lower) and is_none(item.upper) and is_none(item.step)


def index_axes(indices: Arrays) -> list[tuple[str, ...]] | None:
    """The axes of what index arrays broadcast to; None where they are not known, or differ."""
    rank = max((len(o.dims or ()) for o in indices), default=0)
    result: list[tuple[str, ...]] = []
    for k in range(rank, 0, -1):
        met: set[Axes] = set()
        for index in indices:
            dims = index.dims or ()
            if len(dims) >= k and dims[-k].size != ONE:
                met.add(dims[-k].axes)
        met.discard(())
        if None in met or len(met) > 1:
            return None
        result.append(next((one for one in met if one), ()))
    return result


def written(op: Op, out: ArrayValue, write: Write) -> ArrayValue | None:
    """The target afterwards; None where nothing can be said but its shape."""
    target = write.target
    operands = (write.target, *write.others)
    split = _split(write)
    if split is None:
        return None
    axes, joint, strange = split
    inside = {axis for one in axes for axis in one or ()}
    states: defaultdict[str, set[str]] = defaultdict(set, unclear=set(strange))
    kept = SCALES & (target.marks | write.values.marks)
    if write.how in _SCALING:
        kept |= {FACTORED}
    met = axes_met(operands)
    notes = [note for operand in operands for note in operand.notes]
    for axis in sorted(met - strange):
        together = axis in joint
        over = _jointly if together else _apart
        outcome = over(write, axis, axis in inside)
        states[outcome].add(axis)
        found = _marks(write, axis)
        if outcome == "pending":
            found |= _marks_of_sum(write, axis, together)
        if outcome == "pending" and together:
            text = f"{op.name} adds up a dimension sharded over {axis!r}"
            notes.append(op.note(axis, text))
        kept |= {(axis, mark) for mark in found}
    return settled(
        out,
        axes,
        pending=states["pending"],
        varying=states["varying"],
        unclear=unclear_axes(operands, met, states["unclear"]),
        marks=kept,
        constant=all(operand.constant for operand in operands),
        notes=notes,
    )


def _split(write: Write) -> tuple[DimAxes, set[str], set[str]] | None:
    """The axes of the target's dimensions afterwards; those that split what is written together with its positions; and
    those that split the two in different ways. None where it is not known how a dimension is split."""
    target = write.target
    values = write.values
    axes: DimAxes = [dim.axes for dim in target.dims or ()]
    if None in axes or values.dims is None:
        return None
    joint = set[str]()
    strange = set[str]()
    first = len(write.places) - len(values.dims)
    for at, (k, picking) in enumerate(write.places):
        if at >= first:
            dim = values.dims[at - first]
        else:
            dim = None
        own: Axes = ()
        if dim is not None and dim.size != ONE:
            own = dim.axes
        if own is None:
            return None
        if k is None:
            (joint if own in (picking, ()) else strange).update(picking, own)
        elif own and axes[k] == () and target.constant:
            axes[k] = own
        elif own not in (axes[k], ()):
            strange.update(own, axes[k] or ())
    return axes, joint, strange


def _marks_of_sum(write: Write, axis: str, together: bool) -> Set[str]:
    """The marks of a sum that is pending after the write: as before, or over positions that the axis splits
    ``together`` with what is written there."""
    if not together:
        return marks(write.target, axis) & _OF_SUMS
    found = {"reduction"}
    if not write.target.constant:
        found.add("offset")
    if not write.counted:
        found.add("scattered")
    return found


def _jointly(write: Write, axis: str, inside: bool) -> str:
    """The state over an axis that splits what is written together with its positions."""
    if not all(
        clean(o, axis) or state(o, axis) in ("replicated", "varying")
        for o in write.others
    ):
        return "unclear"
    target = write.target
    if inside:  # every device writes at positions of its own part
        if target.constant or "alike" in marks(target, axis) or not clean(target, axis):
            return "unclear"
        return "varying"
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
    target = write.target
    states = [state(o, axis) for o in write.others]
    if "unclear" in states or any(axis in o.unclear for o in write.others):
        return "unclear"
    if inside:
        if "pending" in states:
            return "unclear"
        return _over_own_part(write, axis)
    if "sharded" in states:
        return "unclear"
    match state(target, axis):
        case "replicated" if "pending" not in states:
            if "varying" in states:
                return "varying"
            return "replicated"
        case "varying" if "pending" not in states:
            return "varying"
        case "pending" if _still_pending(write, axis, states):
            return "pending"
    return "unclear"


def _over_own_part(write: Write, axis: str) -> str:
    """The state over an axis that splits the target."""
    target = write.target
    own = axis in write.picked
    if axis in target.unclear:
        return "unclear"
    if own and (target.constant or "alike" in marks(target, axis)):
        return "unclear"
    tainted = axis in target.varying or any(axis in o.varying for o in write.others)
    if own or tainted:
        return "varying"
    return "sharded"


def _still_pending(write: Write, axis: str, states: Sequence[str]) -> bool:
    """Whether a pending sum is one after the write: with parts of its own kind, or scaled the same on all devices."""
    if any(one != "replicated" for one in states[1:]):
        return False
    if states[0] == "replicated":
        return write.how in ("multiply", "mul", "divide")
    own = marks(write.target, axis) & {"mean", "lone"}
    alike = own == marks(write.values, axis) & {"mean"}
    together = states[0] == "pending" and write.how in ("set", "add", "subtract")
    return together and alike


def _marks(write: Write, axis: str) -> frozenset[str]:
    """The marks that stay."""
    target = write.target
    found = marks(write.target, axis)
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


def applied(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``x.at[index].apply(f)``: what the function does is not followed."""
    index: Value = op.call["index"]
    cuts = (isinstance(one, SliceValue) and is_full(one) for one in items_of(index))
    if all(cuts):
        return replace(unknown(out), dims=op.operands[0].dims)
    return unknown(out)


def segments(op: Op, out: ArrayValue, origins: Origins) -> ArrayValue:
    """``segment_sum`` and its relatives: rows of the data, written into an array of as many rows as segments."""
    if len(op.operands) < 2 or out.dims is None:
        return unknown(out)
    data, ids = op.operands[:2]
    if ids.dims is not None and len(ids.dims) == 1:
        split = ids.dims[0].axes
    else:
        split = None
    if split is None or data.dims is None or len(out.dims) != len(data.dims):
        return unknown(out)
    dims = tuple(Dimension(dim.size, ()) for dim in out.dims)
    target = constant(replace(out, dims=dims))
    whole = [(k, ()) for k in range(1, len(dims))]
    write = Write(target, data, (ids,), [(None, split), *whole], op.last)
    return written(op, out, write) or unknown(out)


rule(
    names("jax.Array.at", "set add subtract multiply mul divide power min max"), updated
)
rule(["jax.Array.at.apply"], applied)
rule(names("jax.ops", "segment_sum segment_prod segment_max segment_min"), segments)
