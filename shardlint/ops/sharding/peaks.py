"""What each device measured or normalised of its own part, and what becomes of that before devices are summed over.

Maxima are one kind, what is lowered by one, and the exponentials of that.

A sum over the devices of such exponentials adds up numbers of different scales: each device lowered its own by another
maximum, so that no factor makes the sum right. Multiplied before by what differs between devices, they may be.
"""

from __future__ import annotations

from shardlint.ops.arrays import ONE
from shardlint.ops.sharding.base import Op
from shardlint.ops.sharding.state import Arrays, clean, marks, state
from shardlint.values import ArrayValue, Note

MAXIMA = frozenset({"max", "amax", "nanmax", "reduce_max"})
"""The last parts of the names of functions that take a maximum along dimensions."""
_MARKS = frozenset({"peak", "lowered", "weighed"})
_MEASURED = frozenset({"own", "normed", "lognormed"})


def followed(op: Op, axis: str, kind: str, operands: Arrays) -> frozenset[str]:
    """The marks of this kind that a result has over the axis."""
    return _measured(axis, kind, operands) | _lowered(op, axis, kind, operands)


def _measured(axis: str, kind: str, operands: Arrays) -> frozenset[str]:
    """``own``, ``normed`` and ``lognormed`` last through linear functions, and factors that leave them as they are."""
    own = [marks(o, axis) & _MEASURED for o in operands]
    holders = [n for n, one in enumerate(own) if one]
    if (
        len(holders) != 1
        or kind not in ("linear", "multiply", "divide")
        or (kind == "divide" and holders[0])
    ):
        return frozenset()
    others = [o for n, o in enumerate(operands) if n != holders[0]]
    same = all(
        state(o, axis) == "replicated" or (clean(o, axis) and _parted(o, axis))
        for o in others
    )
    if same:
        return own[holders[0]]
    return frozenset()


def _parted(value: ArrayValue, axis: str) -> bool:
    """Whether what is split over the axis has more than one entry on a device, which may be a factor of its own."""
    return all(dim.size != ONE for dim in value.dims or () if axis in (dim.axes or ()))


def _lowered(op: Op, axis: str, kind: str, operands: Arrays) -> frozenset[str]:
    own = [marks(o, axis) & _MARKS for o in operands]
    if not any(own):
        return frozenset()
    if kind == "linear":
        return own[0]
    if op.last in ("subtract", "sub") and len(operands) == 2:
        lowered = own[1] == {"peak"} and not own[0] and clean(operands[0], axis)
        return frozenset({"lowered"} if lowered else ())
    if op.last in ("exp", "exp2"):
        return frozenset({"weighed"} if own[0] == {"lowered"} else ())
    if kind in ("multiply", "divide") and own[0] == {"weighed"}:
        rest = operands[1:]
        same = all(
            state(o, axis) == "replicated" or clean(o, axis) for o in rest
        ) and not any(own[1:])
        return frozenset({"weighed"} if same else ())
    return frozenset()


def wrongly_summed(value: ArrayValue, axis: str) -> str | None:
    """What a sum over the devices adds up though it is no partial sum; None where it may."""
    kinds = marks(value, axis) & _MEASURED
    if state(value, axis) != "varying" or not kinds:
        return None
    how = "per-device results"
    name = " over "
    if "own" not in kinds:
        how = "values that each device normalised on its own"
        name = "softmax over "
    made = next(
        (
            f" ({n.text})"
            for n in reversed(value.notes)
            if n.axis == axis and name in n.text
        ),
        "",
    )
    return f"adds up {how}{made}"


def place(value: ArrayValue, axis: str) -> Note | None:
    """Where the maximum was taken."""
    names = [f"{name} over " for name in MAXIMA]
    return next(
        (
            n
            for n in value.notes
            if n.axis == axis and any(f".{name}" in n.text for name in names)
        ),
        None,
    )
