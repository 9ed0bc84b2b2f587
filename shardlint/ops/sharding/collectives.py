"""Collectives of ``jax.lax`` on one array: its local shape and what it is over the axes afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shardlint.axis_set import EVERY_AXIS, NO_AXIS
from shardlint.ops.sharding.base import ShardingError
from shardlint.ops.sharding.elementwise import shape_text
from shardlint.ops.sharding.state import Axes, clean, marks, notes_about, sharded, state, without
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Dimension, Note
from shardtypes.lang import Size


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective over ``axes``; ``place`` is (module, node) of the call."""

    name: str
    axes: tuple[str, ...]
    view: View
    place: tuple[str, int]
    grouped: bool = False

    def note(self, text: str) -> list[Note]:
        return [Note(axis, text, *self.place) for axis in self.axes]


class ReplicatedSum(ShardingError):
    """A sum over devices that all hold the same: a mistake unless the program divides by their number."""


def _shown(one: Collective, value: ArrayValue) -> str:
    return shape_text(one.view, value)


def _over(axes: Sequence[str]) -> str:
    return "/".join(axes)


def _axes(value: ArrayValue, gone: Sequence[str]) -> ArrayValue:
    """The array without these axes on any dimension; local sizes stay."""
    if value.dims is None:
        return value
    kept = (None if d.axes is None else tuple(a for a in d.axes if a not in gone) for d in value.dims)
    return replace(value, dims=tuple(Dimension(d.size, axes) for d, axes in zip(value.dims, kept, strict=True)))


def same_everywhere(value: ArrayValue, one: Collective) -> list[str]:
    """The axes over which the value is known to be the same on all devices, and made of more than constants."""
    if value.constant:
        return []
    return [axis for axis in one.axes if state(value, axis) == "replicated"]


def summed(value: ArrayValue, one: Collective) -> ArrayValue:
    """``psum``, ``pmean``, ``pmax``, ``pmin``."""
    if one.grouped:
        return blurred(value, one)
    exact = {"lax.psum": _awaits_sum, "lax.pmean": _awaits_mean}.get(one.name, _same)
    odd = [axis for axis in one.axes if not exact(value, axis)]
    return scaled(replace(without(_axes(value, one.axes), one.axes), constant=False), odd)


def _awaits_sum(value: ArrayValue, axis: str) -> bool:
    return state(value, axis) == "pending" and not marks(value, axis) & {"mean", "offset"}


def _awaits_mean(value: ArrayValue, axis: str) -> bool:
    return _same(value, axis) or (state(value, axis) == "pending" and "mean" in marks(value, axis))


def _same(value: ArrayValue, axis: str) -> bool:
    return state(value, axis) == "replicated"


def scaled(value: ArrayValue, axes: Iterable[str]) -> ArrayValue:
    """The value with the mark that over these axes it is not what one device alone would compute."""
    return replace(value, marks=value.marks | {(axis, "scaled") for axis in axes})


def refuse_replicated(value: ArrayValue, one: Collective) -> None:
    """Raises ReplicatedSum where every device has the whole value already."""
    again = [] if one.grouped else same_everywhere(value, one)
    if again:
        times = " times ".join(str(one.view.size(axis)).strip("|") for axis in again)
        numbered = all(one.view.size(axis).constant is not None for axis in again)
        factor = times if numbered else f"the size of {_over(again)}"
        message = f"{one.name} over {_over(again)} of a value that is the same on all of them multiplies by {factor}"
        raise ReplicatedSum("ST303", message, 0, notes_about(value, again))


def blurred(value: ArrayValue, one: Collective) -> ArrayValue:
    """The array, of which nothing is known over the axes."""
    dims = value.dims
    if dims is not None:
        dims = tuple(Dimension(d.size, None if set(d.axes or ()) & set(one.axes) else d.axes) for d in dims)
    cleared = without(value, one.axes)
    return replace(cleared, dims=dims, unclear=cleared.unclear.plus(one.axes), constant=False)


def gathered(value: ArrayValue, one: Collective, dim: int, tiled: bool) -> ArrayValue:
    """``all_gather``. Raises ShardingError where the pieces would be put together along the wrong dimension."""
    if value.dims is None or one.grouped:
        return replace(blurred(value, one), dims=None)
    rank = len(value.dims)
    count = one.view.count(one.axes)
    if not tiled:
        result = scaled(without(_axes(value, one.axes), one.axes), one.axes)
        at = dim % (rank + 1)
        assert result.dims is not None
        return replace(result, dims=(*result.dims[:at], Dimension(count, ()), *result.dims[at:]), constant=False)
    if not -rank <= dim < rank:
        return replace(blurred(value, one), dims=None)
    dim %= rank
    _check_gathered(value, one, dim)
    old = value.dims[dim]
    result = without(_axes(value, one.axes), one.axes)
    assert result.dims is not None
    new = Dimension(one.view.global_size(old.size, one.axes), result.dims[dim].axes)
    whole = old.axes is not None and old.axes[len(old.axes) - len(one.axes) :] == one.axes
    odd = not whole or not all(clean(value, axis) for axis in one.axes)
    result = scaled(result, one.axes if odd else ())
    assert result.dims is not None
    return replace(result, dims=(*result.dims[:dim], new, *result.dims[dim + 1 :]), constant=False)


def _check_gathered(value: ArrayValue, one: Collective, dim: int) -> None:
    assert value.dims is not None
    axes = value.dims[dim].axes
    if axes is None or any(not clean(value, axis) and state(value, axis) != "replicated" for axis in one.axes):
        return
    if axes[len(axes) - len(one.axes) :] == one.axes:
        return
    elsewhere = [k for k, d in enumerate(value.dims) if k != dim and set(d.axes or ()) & set(one.axes)]
    related = notes_about(value, one.axes)
    if elsewhere:
        message = f"{one.name} over {_over(one.axes)} along dimension {dim} of {_shown(one, value)}: it splits dimension {elsewhere[0]}"  # noqa: E501 - one sentence
        raise ShardingError("ST304", message, 0, related)
    if set(one.axes) & set(axes):
        message = f"{one.name} over {_over(one.axes)} of dimension {dim} of {_shown(one, value)}: its minor axes are gathered first"  # noqa: E501 - one sentence
        raise ShardingError("ST304", message, 0, related)
    if same_everywhere(value, one) == list(one.axes):
        message = f"{one.name} over {_over(one.axes)} of {_shown(one, value)}, which is not split over it: every device has the same already"  # noqa: E501 - one sentence
        raise ShardingError("ST304", message, 0, related)


def scattered(value: ArrayValue, one: Collective, dim: int, tiled: bool) -> ArrayValue:
    """``psum_scatter``."""
    if value.dims is None or one.grouped or not -len(value.dims) <= dim < len(value.dims):
        return replace(blurred(value, one), dims=None)
    dim %= len(value.dims)
    odd = [axis for axis in one.axes if not _awaits_sum(value, axis)]
    result = scaled(without(_axes(value, one.axes), one.axes), odd)
    assert result.dims is not None
    old = result.dims[dim]
    if not tiled:
        rest = replace(result, dims=(*result.dims[:dim], *result.dims[dim + 1 :]), constant=False)
        return replace(rest, varying=rest.varying.union(one.axes))
    mixed = set(value.dims[dim].axes or ()) & set(one.axes)
    axes: Axes = None if old.axes is None or mixed else (*old.axes, *one.axes)
    size = None if old.size is None else old.size // one.view.count(one.axes)
    changed = replace(result, dims=(*result.dims[:dim], Dimension(size, axes), *result.dims[dim + 1 :]), constant=False)
    return changed if axes is not None else replace(changed, unclear=changed.unclear.plus(one.axes))


def exchanged(value: ArrayValue, one: Collective, split: int, joined: int, tiled: bool) -> ArrayValue:
    """``all_to_all``. Raises ShardingError where it joins a dimension that is not the split one."""
    rank = len(value.dims or ())
    if value.dims is None or one.grouped or not (-rank <= split < rank and -rank <= joined < rank):
        return replace(blurred(value, one), dims=None)
    split, joined = split % rank, joined % rank
    if not tiled:
        dims = list(blurred(value, one).dims or ())
        dims.pop(split)
        dims.insert(joined, Dimension(one.view.count(one.axes)))
        return replace(blurred(value, one), dims=tuple(dims), unclear=EVERY_AXIS)
    before = value.dims[joined].axes
    known = before is not None and value.dims[split].axes is not None
    sound = all(clean(value, axis) for axis in one.axes)
    if known and sound and before is not None and before[len(before) - len(one.axes) :] != one.axes:
        where = [k for k, d in enumerate(value.dims) if set(d.axes or ()) & set(one.axes)]
        if where and where[0] != joined:
            message = f"{one.name} over {_over(one.axes)} joins dimension {joined} of {_shown(one, value)}: it splits dimension {where[0]}"  # noqa: E501 - one sentence
            raise ShardingError("ST304", message, 0, notes_about(value, one.axes))
    dims = list(value.dims)
    size = dims[split].size
    smaller = None if size is None else size // one.view.count(one.axes)
    larger = one.view.global_size(dims[joined].size, one.axes)
    if known and sound and before is not None and before[len(before) - len(one.axes) :] == one.axes and split != joined:
        dims[joined] = Dimension(larger, before[: len(before) - len(one.axes)])
        dims[split] = Dimension(smaller, (*(dims[split].axes or ()), *one.axes))
        return replace(value, dims=tuple(dims), constant=False)
    lost = blurred(value, one)
    dims = list(lost.dims or ())
    if split != joined:
        dims[joined], dims[split] = Dimension(larger, None), Dimension(smaller, None)
    rest = sharded(value) - frozenset(axis for d in dims for axis in d.axes or ())
    return replace(lost, dims=tuple(dims), unclear=lost.unclear.plus(rest))


def permuted(value: ArrayValue, one: Collective) -> ArrayValue:
    """``ppermute``: every device gets another one's value."""
    same = [axis for axis in one.axes if state(value, axis) in ("replicated", "pending", "unclear")]
    moved = frozenset(one.axes) - frozenset(same)
    return replace(
        value, varying=value.varying | moved, unclear=value.unclear.plus(same), constant=False,
        pending=(value.pending or frozenset()) - frozenset(same),
    )  # fmt: skip


def index(one: Collective) -> ArrayValue:
    """``axis_index``."""
    return ArrayValue((), "int32", manual=True, pending=frozenset(), varying=frozenset(one.axes), unclear=NO_AXIS)


def count(one: Collective) -> Size:
    return one.view.count(one.axes)
