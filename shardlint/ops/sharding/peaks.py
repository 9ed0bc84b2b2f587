"""Maxima that each device took of its own part, what is lowered by one, and the exponentials of that.

A sum over the devices of such exponentials adds up numbers of different scales: each device lowered its own by another
maximum, so that no factor makes the sum right. Multiplied before by what differs between devices, they may be.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.ops.sharding.base import Op
from shardlint.ops.sharding.state import clean, marks, state
from shardlint.values import ArrayValue, Note

MAXIMA = frozenset({"max", "amax", "nanmax", "reduce_max"})
"""The last parts of the names of functions that take a maximum along dimensions."""
_MARKS = frozenset({"peak", "lowered", "weighed"})


def followed(op: Op, axis: str, kind: str, operands: Sequence[ArrayValue]) -> frozenset[str]:
    """The marks ``peak``, ``lowered`` and ``weighed`` of a result over the axis."""
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
        same = all(state(o, axis) == "replicated" or clean(o, axis) for o in rest) and not any(own[1:])
        return frozenset({"weighed"} if same else ())
    return frozenset()


def place(value: ArrayValue, axis: str) -> Note | None:
    """Where the maximum was taken."""
    names = [f"{name} over " for name in MAXIMA]
    return next((n for n in value.notes if n.axis == axis and any(f".{name}" in n.text for name in names)), None)
