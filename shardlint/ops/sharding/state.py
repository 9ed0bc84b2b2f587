"""What a value is over one mesh axis in the manual view, and how results are put together from that.

Marks refine the state over an axis:

- ``mean``: what is pending is an average, to be averaged over the devices (``pmean``);
- ``lone``: at most one device's value is non-zero at each place, as after a lookup in a split table, or where all but
  one are masked out;
- ``index``: the index of the device; ``chosen``: true on one device at most at each place, by comparisons of that
  index; on the way to such ones of a range ``starts``, ``within``, ``least`` and ``below``, see ``masks``;
- ``offset``: something replicated was added to a pending sum, which reducing will count once for every device;
- ``reduction``: pending by a reduction that the program writes out (``jnp.sum``), not by a contraction;
- ``scattered``: pending by what was added at positions of its own, which may be all that a device's rows are about;
- ``biased``: an ``offset`` that is neither a constant nor was divided before;
- ``scaled``: over this axis the value is what a collective made of something other than a sum or an average that
  awaited it; it may be the same on all devices, but not what one device alone would compute;
- ``miscounted``: a collective that does not complete what was pending made the value wrong by a factor, or counted one
  term for every device; a note says which. Multiplied by a factor it may be right again;
- ``peak``: a maximum of each device's own part; ``lowered``: by one of these; ``weighed``: the exponential of that;
- ``own``: a norm, a maximum or the like of each device's own part; ``normed``, ``lognormed``: a softmax of it, or the
  logarithm of one; no sum over the devices makes them whole;
- ``curved``: a miscounted value after a non-linear function; a product with it may be right, as after a norm;
- ``shared``: the wrong count is that of a divisor, so that one more sum over the axis makes up for it;
- ``mixed``: a sum of something miscounted and something that is not; no such product is right;
- ``alike``: split because a constant was made like an array that is: the same along that dimension, on all devices;
- ``derived``: varying, because it was made of gradients of each device's own part, and for no other reason;
- ``mapped``: varying, because a dimension with this axis is mapped over by ``vmap``, and for no other reason;
- ``split``: a dimension has the axis; where that dimension is gone without a model saying what became of the axis,
  nothing is known;
- ``local``: an operation that needs a whole dimension was done on every device's part, with nothing since that could
  have made up for it; ``softmax`` or ``scan`` (``cumsum``, ``sort``, ``roll``) if it was one of these;
- ``bent``, ``measured``: how large a partial sum is, or a number for it; a note says what is wrong with adding that up;
- ``rescaled``, ``rounded``, ``bounded``: a partial sum that was multiplied by what is the same on all devices, and then
  rounded; or divided by what a collective made, such as the largest of all entries;
- ``reordered``: gathered over this axis before the minor axes of the dimension, with nothing since: its rows are not in
  order;
- ``flipped``: nothing but a ``flip`` of every device's part, which another one undoes.

- ``shifted``: a miscounted value that a term may make right again;
- ``logged``: a miscounted value after a logarithm, where no factor makes it right.

Seven marks are about no axis: ``FACTORED``, a factor was multiplied in that may be a number of devices; ``ADDED``, a
term that may be the logarithm of one; ``WHOLE``, on an operand of one operation, it is no such factor; ``ZERO``, every
entry is zero; ``UNIFORM``, all entries are one constant; ``HOT``, ``one_hot`` along the last dimension; ``COUNTING``,
they count from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import Literal, TypeAlias

from shardlint.axis_set import NO_AXIS, AxisSet
from shardlint.values import ArrayValue, Dimension, Note

State: TypeAlias = Literal["sharded", "replicated", "pending", "varying", "unclear"]
Axes: TypeAlias = "tuple[str, ...] | None"
DimAxes: TypeAlias = list[Axes]
"""Of each dimension."""

Arrays: TypeAlias = Sequence[ArrayValue]

LASTING = frozenset(
    {"scaled", "miscounted", "curved", "mixed", "shared", "logged", "shifted"}
)
"""Marks that a reduction over their axis leaves as they are."""

LOCAL = frozenset({"local", "softmax", "scan"})
"""Marks of what was done on each device's part, until something that knows which device this is may correct it."""

FACTORED = ("", "factored")
ADDED = ("", "added")
SCALES = frozenset({FACTORED, ADDED})
WHOLE = ("", "whole")
ZERO = ("", "zero")
UNIFORM = ("", "uniform")
HOT = ("", "hot")
COUNTING = ("", "counting")


def state(value: ArrayValue, axis: str) -> State:
    """What the value is over the axis. A sharded one may be unclear or varying besides: see ``clean``."""
    if axis in sharded(value):
        return "sharded"
    if axis in value.unclear or not value.manual or (axis, "split") in value.marks:
        return "unclear"
    if axis in (value.pending or ()):
        return "pending"
    if axis in value.varying:
        return "varying"
    return "replicated"


def clean(value: ArrayValue, axis: str) -> bool:
    """Whether the shards over the axis are the parts of one array."""
    return (
        axis in sharded(value)
        and axis not in value.unclear
        and axis not in value.varying
    )


def sharded(value: ArrayValue) -> frozenset[str]:
    """The axes over which some dimension is known to be split."""
    return frozenset(axis for dim in value.dims or () for axis in dim.axes or ())


def axes_met(values: Iterable[ArrayValue]) -> set[str]:
    """Every axis that is mentioned in a value."""
    met: set[str] = set()
    for value in values:
        met |= (
            sharded(value)
            | (value.pending or frozenset())
            | value.varying
            | value.unclear.names
        )
        met |= {axis for axis, _ in value.marks}
    return met - {FACTORED[0]}


def axes_along(value: ArrayValue, places: Iterable[int]) -> list[str] | None:
    """The axes over which these dimensions are split; None where that is not known of one."""
    found: list[str] = []
    for place in places:
        axes = (value.dims or ())[place].axes
        if axes is None:
            return None
        found.extend(axes)
    return found


def unclear_axes(
    operands: Iterable[ArrayValue], met: Set[str], unclear: Set[str]
) -> AxisSet:
    """Those of the axes met that are unclear, and where an operand is unclear over axes that it does not mention, all
    that are not met."""
    if any(operand.unclear.all_but for operand in operands):
        return AxisSet(frozenset(met - unclear), True)
    return AxisSet(frozenset(unclear))


def marks(value: ArrayValue, axis: str) -> frozenset[str]:
    return frozenset(kind for name, kind in value.marks if name == axis)


def notes_about(
    value: ArrayValue, axes: Iterable[str]
) -> tuple[tuple[str, int, str], ...]:
    """Related places of a finding about these axes, as events carry them."""
    wanted = frozenset(axes)
    found = (n for n in value.notes if n.axis in wanted and n.at >= 0 and not n.code)
    return tuple(dict.fromkeys((n.module, n.at, n.text) for n in found))


def settled(
    value: ArrayValue,
    axes: Sequence[Axes] | None,
    *,
    pending: Iterable[str] = (),
    varying: Iterable[str] = (),
    unclear: AxisSet = NO_AXIS,
    marks: Iterable[tuple[str, str]] = (),
    constant: bool = False,
    notes: Iterable[Note] = (),
) -> ArrayValue:
    """The array as a value of the manual view: ``axes`` are those of its dimensions.

    An axis of two dimensions says nothing about either: no global array is split like that.
    """
    dims = value.dims
    if dims is not None and axes is not None:
        named = [axis for one in axes for axis in one or ()]
        twice = {axis for axis in named if named.count(axis) > 1}
        unclear = unclear.plus(twice)
        clear = [
            None if one is None or twice.intersection(one) else one for one in axes
        ]
        dims = tuple(
            Dimension(dim.size, one, dim.label)
            for dim, one in zip(dims, clear, strict=True)
        )
    found = frozenset(axis for dim in dims or () for axis in dim.axes or ())
    left = frozenset(pending) - found
    kept = frozenset(mark for mark in marks if mark[1] != "split") | split_marks(found)
    return replace(
        value,
        dims=dims,
        manual=True,
        numpy=False,
        pending=left,
        varying=frozenset(varying) - left,
        unclear=unclear,
        marks=kept,
        constant=constant,
        notes=kept_notes(notes),
    )


def kept_notes(notes: Iterable[Note]) -> tuple[Note, ...]:
    """A dozen of the notes at most; those that may become findings come first."""
    return tuple(sorted(dict.fromkeys(notes), key=lambda note: not note.code)[:12])


def split_marks(axes: Iterable[str]) -> frozenset[tuple[str, str]]:
    return frozenset((axis, "split") for axis in axes)


def choosing(value: ArrayValue) -> ArrayValue:
    """What picks or masks values, and is no factor of them: if it differs between devices, that is what the numbers in
    it are for."""
    if value.varying or sharded(value):
        kept = value.marks - SCALES
    else:
        kept = value.marks
    return replace(value, marks=kept | {WHOLE})


def placing(value: ArrayValue) -> ArrayValue:
    """What says where a slice begins, and is no factor of what is in it."""
    return replace(value, marks=(value.marks - SCALES) | {WHOLE})


def joined(a: ArrayValue, b: ArrayValue) -> ArrayValue:
    """What holds of both values of the manual view, which have the same shape as far as ``a`` goes."""
    met = axes_met([a, b])
    same = {
        axis
        for axis in met
        if state(a, axis) == state(b, axis) and marks(a, axis) == marks(b, axis)
    }
    same = {axis for axis in same if (axis in a.varying) == (axis in b.varying)}
    lost = {axis for axis in met - same if axis not in sharded(a)}
    return replace(
        a,
        pending=(a.pending or frozenset()) & frozenset(same),
        varying=a.varying & frozenset(same),
        unclear=(a.unclear | b.unclear).plus(met - same),
        constant=a.constant and b.constant,
        marks=frozenset(m for m in a.marks if m[0] in same)
        | split_marks(lost & sharded(b))
        | (SCALES & (a.marks | b.marks)),
        notes=kept_notes((*a.notes, *b.notes)),
    )


def without(value: ArrayValue, axes: Iterable[str]) -> ArrayValue:
    """The value once it is the same on all devices along the axes: after a reduction, say."""
    gone = frozenset(axes)
    return replace(
        value,
        pending=(value.pending or frozenset()) - gone,
        varying=value.varying - gone,
        unclear=value.unclear.minus(gone),
        marks=frozenset(m for m in value.marks if m[0] not in gone or m[1] in LASTING),
        notes=tuple(n for n in value.notes if n.axis not in gone or n.code),
    )
