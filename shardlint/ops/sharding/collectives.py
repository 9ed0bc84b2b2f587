"""Collectives of ``jax.lax`` on one array: its local shape and what it is over the axes afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shardlint.axis_set import EVERY_AXIS, NO_AXIS
from shardlint.ops.sharding import peaks
from shardlint.ops.sharding.base import ShardingError
from shardlint.ops.sharding.elementwise import shape_text
from shardlint.ops.sharding.magnitudes import refuse_summed
from shardlint.ops.sharding.state import (
    FACTORED,
    LASTING,
    LOCAL,
    SCALES,
    Axes,
    clean,
    kept_notes,
    marks,
    notes_about,
    sharded,
    state,
    without,
)
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Dimension, Note
from shardtypes.lang import Size
from shardtypes.lang.messages import (
    axes_text,
    device_mean,
    partial_sum,
    reduce_first,
    reordered_rows,
)

_SUMS = ("lax.psum", "lax.psum_scatter")
#: Marks of values that are where they were made.
_OF_PLACES = LOCAL | {
    "mapped",
    "index",
    "chosen",
    "lone",
    "starts",
    "within",
    "least",
    "below",
}


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective over ``axes``; ``place`` is (module, node) of the call."""

    name: str
    axes: tuple[str, ...]
    view: View
    place: tuple[str, int]
    grouped: bool = False
    among: bool = False  # the value is one of several in a tree

    def counts(self, axis: str) -> bool:
        """Whether there may be more devices than one along an axis: over one nothing is added, or divided."""
        return self.view.size(axis).constant != 1


class ReplicatedSum(ShardingError):
    """A sum over devices that all hold the same: a mistake unless the program divides by their number."""


def _dimension(value: ArrayValue, one: Collective, number: int, count: int) -> int:
    """A dimension number, made non-negative. Raises ShardingError where it is none of ``count``."""
    if not -count <= number < count:
        if count:
            least = f"{-count} to {count - 1}"
        else:
            least = "it has none"
        text = f"{one.name}: dimension {number} is out of range for {_shown(one, value)} ({least})"
        raise ShardingError("ST208", text)
    return number % count


def _shown(one: Collective, value: ArrayValue) -> str:
    return shape_text(one.view, value)


def _axes(value: ArrayValue, gone: Sequence[str]) -> ArrayValue:
    """The array without these axes on any dimension; local sizes stay."""
    if value.dims is None:
        return value
    kept = (
        None if d.axes is None else tuple(a for a in d.axes if a not in gone)
        for d in value.dims
    )
    return replace(
        value,
        dims=tuple(
            Dimension(d.size, axes) for d, axes in zip(value.dims, kept, strict=True)
        ),
    )


def same_everywhere(value: ArrayValue, one: Collective) -> list[str]:
    """The axes over which the value is known to be the same on all devices, and made of more than constants."""
    if value.constant:
        return []
    return [
        axis
        for axis in one.axes
        if state(value, axis) == "replicated" and one.view.has_several(axis)
    ]


def summed(value: ArrayValue, one: Collective) -> ArrayValue:
    """``psum``, ``pmean``, ``pmax``, ``pmin``."""
    if one.grouped:
        return blurred(value, one)
    refuse_weighed(value, one)
    if one.name in _SUMS:
        refuse_summed(value, one.axes, one.place)
    exact = {"lax.psum": _is_partial_sum, "lax.pmean": _is_partial_mean}.get(
        one.name, _same
    )
    odd = [axis for axis in one.axes if one.counts(axis) and not exact(value, axis)]
    result = scaled(
        replace(without(_axes(value, one.axes), one.axes), constant=False), odd
    )
    if value.constant:
        # the number of devices itself, perhaps
        result = replace(result, marks=result.marks | {FACTORED})
    return miscounted(result, value, one)


def _is_partial_sum(value: ArrayValue, axis: str) -> bool:
    return state(value, axis) == "pending" and not marks(value, axis) & {
        "mean",
        "offset",
    }


def _is_partial_mean(value: ArrayValue, axis: str) -> bool:
    return _same(value, axis) or (
        state(value, axis) == "pending" and "mean" in marks(value, axis)
    )


def _same(value: ArrayValue, axis: str) -> bool:
    return state(value, axis) == "replicated"


def scaled(value: ArrayValue, axes: Iterable[str]) -> ArrayValue:
    """The value with the mark that over these axes it is not what one device alone would compute."""
    return replace(value, marks=value.marks | {(axis, "scaled") for axis in axes})


def miscounted(result: ArrayValue, value: ArrayValue, one: Collective) -> ArrayValue:
    """What a collective made of the value, with the marks of what it certainly did not complete.

    Nothing is said of a value that had a factor before, nor of averages over devices of what a program may well
    average: one of several values of a tree, or a plain total where no annotation says how its terms are split.
    """
    if one.name in _SUMS:
        whole = {axis for axis in one.axes if "shared" in marks(value, axis)}
        result = replace(
            result,
            marks=result.marks
            - {(axis, mark) for axis in whole for mark in LASTING - {"scaled"}},
        )
    if SCALES & value.marks:
        return result
    found = {
        axis: wrong
        for axis in one.axes
        if (wrong := _wrong_count(value, axis, one)) is not None
    }
    notes = [Note(axis, text, *one.place, code) for axis, (code, text) in found.items()]
    kept = frozenset((axis, "miscounted") for axis in found)
    kept |= frozenset(
        (axis, "shifted") for axis in found if "lognormed" in marks(value, axis)
    )
    return replace(
        result, marks=result.marks | kept, notes=kept_notes((*notes, *result.notes))
    )


def _wrong_count(
    value: ArrayValue, axis: str, one: Collective
) -> tuple[str, str] | None:
    """The code of the finding that a reduction over the axis may become, and its text."""
    kinds = marks(value, axis)
    sums = one.name in _SUMS
    over = f"{one.name} over {axis!r}"
    devices = f"the number of devices along {axis!r}"
    if kinds & {"shared", "scattered"} or not one.counts(axis):
        return None
    if state(value, axis) == "replicated" and sums and not value.constant:
        return "ST303", _replicated_sum(one, [axis], devices)
    if state(value, axis) == "varying" and "lone" in kinds and one.name == "lax.pmean":
        return (
            "ST304",
            f"{over} of a value that is zero on all devices but one divides it by {devices}: use lax.psum",
        )
    bare = one.among or not (value.dims or one.view.declares)
    if state(value, axis) != "pending":
        if sums and not bare:
            text = peaks.wrongly_summed(value, axis)
        else:
            text = None
        if text is None:
            return None
        return "ST302", f"{over} {text}: reduce before it, not after"
    if "mean" in kinds and sums:
        return (
            "ST304",
            f"{over} of {device_mean([axis])} multiplies the mean by {devices}: use lax.pmean",
        )
    if "biased" in kinds and sums:
        return (
            "ST304",
            f"{over} counts the term added to the partial sum once per device: add it after {one.name}",
        )
    if "mean" in kinds or one.name != "lax.pmean":
        return None
    if "reduction" in kinds and bare:
        return None
    return (
        "ST304",
        f"{over} of {partial_sum([axis])} divides the sum by {devices}: use lax.psum",
    )


def refuse_replicated(value: ArrayValue, one: Collective) -> None:
    """Raises ReplicatedSum where every device has the whole value already."""
    if one.grouped:
        again = []
    else:
        again = same_everywhere(value, one)
    again = [
        axis
        for axis in again
        if one.counts(axis) and "shared" not in marks(value, axis)
    ]
    if again and not SCALES & value.marks:
        times = " times ".join(str(one.view.size(axis)).strip("|") for axis in again)
        numbered = all(one.view.size(axis).constant is not None for axis in again)
        if numbered:
            factor = times
        else:
            factor = f"the number of devices along {axes_text(again)}"
        raise ReplicatedSum(
            "ST303", _replicated_sum(one, again, factor), 0, notes_about(value, again)
        )


def _replicated_sum(one: Collective, axes: Sequence[str], factor: str) -> str:
    remedy = "slice it instead" if one.name == "lax.psum_scatter" else "remove it"
    return f"{one.name} over {axes_text(axes)} of a replicated value multiplies it by {factor}: {remedy}"


def refuse_weighed(value: ArrayValue, one: Collective) -> None:
    """Raises ShardingError for a sum of exponentials that each device lowered by a maximum of its own part."""
    found = [axis for axis in one.axes if "weighed" in marks(value, axis)]
    if found and one.name in (*_SUMS, "lax.pmean"):
        peak = peaks.place(value, found[0])
        text = (
            f"{one.name} over {axes_text(found)} adds up exponentials that each device shifted by the maximum of its "
            f"own shard: {reduce_first('pmax', found[0])}"
        )
        if peak is None:
            where = None
        else:
            where = (peak.module, peak.at)
        raise ShardingError("ST302", text, 0, ((*one.place, "summed here"),), where)


def blurred(value: ArrayValue, one: Collective) -> ArrayValue:
    """The array, of which nothing is known over the axes."""
    dims = value.dims
    if dims is not None:
        dims = tuple(
            Dimension(d.size, None if set(d.axes or ()) & set(one.axes) else d.axes)
            for d in dims
        )
    cleared = without(value, one.axes)
    return replace(
        cleared, dims=dims, unclear=cleared.unclear.plus(one.axes), constant=False
    )


def gathered(value: ArrayValue, one: Collective, dim: int, tiled: bool) -> ArrayValue:
    """``all_gather``. Raises ShardingError where the pieces would be put together along the wrong dimension."""
    if one.grouped:
        return replace(blurred(value, one), dims=None)
    if value.dims is None:
        return replace(scaled(without(value, one.axes), one.axes), constant=False)
    rank = len(value.dims)
    count = one.view.count(one.axes)
    if not tiled:
        result = scaled(without(_axes(value, one.axes), one.axes), one.axes)
        at = _dimension(value, one, dim, rank + 1)
        assert result.dims is not None
        return replace(
            result,
            dims=(*result.dims[:at], Dimension(count, ()), *result.dims[at:]),
            constant=False,
        )
    dim = _dimension(value, one, dim, rank)
    _check_gathered(value, one, dim)
    old = value.dims[dim]
    result = without(_axes(value, one.axes), one.axes)
    assert result.dims is not None
    whole = (
        old.axes is not None and old.axes[len(old.axes) - len(one.axes) :] == one.axes
    )
    kept = result.dims[dim].axes
    if not whole and set(old.axes or ()) & set(one.axes):
        kept = None  # no shard over the minor axes: its rows are not next to each other
        result = _reordered(result, one)
    new = Dimension(one.view.global_size(old.size, one.axes), kept)
    odd = not whole or not all(clean(value, axis) for axis in one.axes)
    result = scaled(result, one.axes if odd else ())
    assert result.dims is not None
    return replace(
        result, dims=(*result.dims[:dim], new, *result.dims[dim + 1 :]), constant=False
    )


def _reordered(result: ArrayValue, one: Collective) -> ArrayValue:
    """What was gathered over a major axis: every so many rows, as a matrix in blocks has them along its columns. It is
    a mistake only where the dimension is declared to be in order."""
    notes = [Note(axis, reordered_rows(axis), *one.place) for axis in one.axes]
    return replace(
        result,
        marks=result.marks | {(axis, "reordered") for axis in one.axes},
        notes=kept_notes((*result.notes, *notes)),
    )


def _check_gathered(value: ArrayValue, one: Collective, dim: int) -> None:
    assert value.dims is not None
    axes = value.dims[dim].axes
    if axes is None or any(
        not clean(value, axis) and state(value, axis) != "replicated"
        for axis in one.axes
    ):
        return
    if axes[len(axes) - len(one.axes) :] == one.axes:
        return
    elsewhere = [
        k
        for k, d in enumerate(value.dims)
        if k != dim and set(d.axes or ()) & set(one.axes)
    ]
    related = notes_about(value, one.axes)
    over = f"{one.name} over {axes_text(one.axes)}"
    shape = _shown(one, value)
    if elsewhere:
        message = f"{over} along dimension {dim} of {shape}, which is sharded along {elsewhere[0]}: gather that"
        raise ShardingError("ST304", message, 0, related)
    if set(one.axes) & set(axes):
        return  # see _reordered
    if same_everywhere(value, one) == list(one.axes):
        message = f"{over} of {shape}, which is replicated: remove it"
        raise ShardingError("ST304", message, 0, related)


def scattered(value: ArrayValue, one: Collective, dim: int, tiled: bool) -> ArrayValue:
    """``psum_scatter``."""
    if one.grouped:
        return replace(blurred(value, one), dims=None)
    refuse_weighed(value, one)
    if one.name in _SUMS:
        refuse_summed(value, one.axes, one.place)
    if value.dims is None:
        gone = without(value, one.axes)
        return replace(
            scaled(gone, one.axes), varying=gone.varying.union(one.axes), constant=False
        )
    dim = _dimension(value, one, dim, len(value.dims))
    odd = [axis for axis in one.axes if not _is_partial_sum(value, axis)]
    result = miscounted(
        scaled(without(_axes(value, one.axes), one.axes), odd), value, one
    )
    assert result.dims is not None
    old = result.dims[dim]
    if not tiled:
        rest = replace(
            result, dims=(*result.dims[:dim], *result.dims[dim + 1 :]), constant=False
        )
        return replace(rest, varying=rest.varying.union(one.axes))
    mixed = set(value.dims[dim].axes or ()) & set(one.axes)
    if old.axes is None or mixed:
        axes: Axes = None
    else:
        axes = (*old.axes, *one.axes)
    if old.size is None:
        size = None
    else:
        size = old.size // one.view.count(one.axes)
    changed = replace(
        result,
        dims=(*result.dims[:dim], Dimension(size, axes), *result.dims[dim + 1 :]),
        constant=False,
    )
    if axes is not None:
        return changed
    return replace(changed, unclear=changed.unclear.plus(one.axes))


def exchanged(
    value: ArrayValue, one: Collective, split: int, joined: int, tiled: bool
) -> ArrayValue:
    """``all_to_all``. Raises ShardingError where it joins a dimension that is not the split one."""
    lost = blurred(value, one)
    # what a negative one means where it is not tiled differs between releases of JAX
    if value.dims is None or one.grouped or (not tiled and joined < 0):
        return replace(lost, dims=None)
    rank = len(value.dims)
    split = _dimension(value, one, split, rank)
    joined = _dimension(value, one, joined, rank)
    if not tiled:
        dims = list(lost.dims or ())
        dims.pop(split)
        dims.insert(joined, Dimension(one.view.count(one.axes)))
        return replace(lost, dims=tuple(dims), unclear=EVERY_AXIS)
    dims = list(value.dims)
    before = dims[joined].axes
    there = dims[split].axes
    size = dims[split].size
    if size is None:
        smaller = None
    else:
        smaller = size // one.view.count(one.axes)
    larger = one.view.global_size(dims[joined].size, one.axes)
    sound = all(clean(value, axis) for axis in one.axes)
    if before is not None and there is not None and sound:
        major = before[: len(before) - len(one.axes)]
        if (*major, *one.axes) != before:
            _check_joined(value, one, joined)
        elif split != joined:
            dims[joined] = Dimension(larger, major)
            dims[split] = Dimension(smaller, (*there, *one.axes))
            return replace(value, dims=tuple(dims), constant=False)
    dims = list(lost.dims or ())
    if split != joined:
        dims[joined], dims[split] = Dimension(larger, None), Dimension(smaller, None)
    rest = sharded(value) - frozenset(axis for d in dims for axis in d.axes or ())
    return replace(lost, dims=tuple(dims), unclear=lost.unclear.plus(rest))


def _check_joined(value: ArrayValue, one: Collective, joined: int) -> None:
    """Raises ShardingError where another dimension is sharded over the axes of the collective."""
    where = [
        k for k, d in enumerate(value.dims or ()) if set(d.axes or ()) & set(one.axes)
    ]
    if where and where[0] != joined:
        message = (
            f"{one.name} over {axes_text(one.axes)} concatenates dimension {joined} of {_shown(one, value)}, "
            f"which is sharded along dimension {where[0]}: exchange split_axis and concat_axis"
        )
        raise ShardingError("ST304", message, 0, notes_about(value, one.axes))


def permuted(
    value: ArrayValue, one: Collective, pairs: tuple[tuple[int, int], ...] = ()
) -> ArrayValue:
    """``ppermute``: every device gets another one's value. Raises ShardingError where a device is none of them, or
    would send or get two values.

    Where no dimension says how it is split, nothing is known: what is passed around and summed up ends the same on all.
    """
    devices = count(one).constant
    over = f"{one.name} over {axes_text(one.axes)}"
    for what, ends in zip(
        ("source", "destination"), zip(*pairs, strict=True), strict=False
    ):
        for k, number in enumerate(ends):
            if devices is not None and number >= devices:
                text = f"{over}: {what} {number} is out of range for the {devices} devices along {axes_text(one.axes)}"
                raise ShardingError("ST304", text)
            if number in ends[:k]:
                raise ShardingError("ST304", f"{over}: {what} {number} occurs twice")
    same = [axis for axis in one.axes if state(value, axis) != "sharded"]
    moved = frozenset(one.axes) - frozenset(same)
    return replace(
        value,
        varying=value.varying | moved,
        unclear=value.unclear.plus(same),
        constant=False,
        pending=(value.pending or frozenset()) - frozenset(same),
        marks=frozenset(
            m
            for m in value.marks
            if m[0] not in one.axes or m[1].partition(" ")[0] not in _OF_PLACES
        ),
    )


def index(one: Collective) -> ArrayValue:
    """``axis_index``."""
    own = [
        axis for axis in one.axes if len(one.axes) == 1 and axis not in one.view.mapped
    ]
    tracked = one.view.tracked(one.axes)
    return ArrayValue(
        (),
        "int32",
        manual=True,
        pending=frozenset(),
        varying=frozenset(tracked),
        unclear=NO_AXIS,
        marks=frozenset((axis, "index") for axis in own),
    )


def count(one: Collective) -> Size:
    return one.view.count(one.axes)
