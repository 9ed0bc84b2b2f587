"""How large partial sums are, and sums of rounded ones.

Absolute values and maxima of the parts do not add up to those of the whole. But how large the parts are at most is a
scale by which they may be divided before they are added up, and multiplied afterwards: whatever it is, it cancels. Then
they may be rounded too, as closely as the program wants.
"""

from __future__ import annotations

from collections.abc import Sequence

from shardlint.ops.sharding.base import Op, ShardingError
from shardlint.ops.sharding.state import Arrays, marks, notes_about, state
from shardlint.values import ArrayValue, Note

#: ``bent``: each entry is how large that of a partial sum is; ``measured``: a number for several, or made of one.
MARKS = frozenset({"bent", "measured"})
_OF_ENTRIES = frozenset({"abs", "absolute", "fabs", "square"})
_REDUCTIONS = frozenset(
    "max amax nanmax reduce_max min amin nanmin reduce_min norm vector_norm matrix_norm ptp".split()
)
_SUMS = frozenset({"sum", "nansum", "mean", "nanmean", "average", "reduce_sum"})
_ROUNDING = frozenset({"round", "around", "rint", "floor", "ceil", "trunc", "fix"})


def taken(op: Op, found: frozenset[str]) -> frozenset[str]:
    """The marks of how large a partial sum is; none if the function does not tell."""
    if "mean" in found:
        return frozenset()
    if op.last in _OF_ENTRIES:
        return frozenset({"bent"})
    return frozenset({"measured"} if op.last in _REDUCTIONS else ())


def rounded(op: Op, kind: str, found: frozenset[str]) -> frozenset[str]:
    """The marks of a partial sum that was rounded or cut off after it was scaled; none if it was not."""
    if op.last in _ROUNDING and "rescaled" in found:
        return found | {"rounded"}
    if kind == "choose" and found & {"rounded", "bounded"}:
        return found
    return frozenset()


def rescaled(
    axis: str, kind: str, others: Arrays, found: frozenset[str]
) -> frozenset[str]:
    """The marks of a partial sum times or by what is the same on all devices."""
    by_scale = kind == "divide" and any("scaled" in marks(o, axis) for o in others)
    return found | {"rescaled"} | ({"bounded"} if by_scale else set())


def followed(op: Op, axis: str, kind: str, operands: Arrays) -> frozenset[str]:
    """The marks of this kind that a result has over the axis: those of one operand, if the others are the same on all
    devices."""
    own = [marks(o, axis) & MARKS for o in operands]
    if kind == "add" and len(operands) > 1:
        _refuse_added(op, axis, operands)
    others = [o for o, one in zip(operands, own, strict=True) if not one]
    alike = all(state(o, axis) == "replicated" for o in others)
    if kind == "test" or len(others) != len(operands) - 1 or not alike:
        return frozenset()
    reduces = op.last in _REDUCTIONS | _SUMS
    if reduces:
        return frozenset({"measured"})
    return frozenset[str]().union(*own)


def said(value: ArrayValue, axis: str) -> Note | None:
    """What is to be said of a value that is how large the parts of a sum over the axis are; None of any other."""
    if not marks(value, axis) & MARKS:
        return None
    return next((n for n in value.notes if n.code and n.axis == axis), None)


def _refuse_added(op: Op, axis: str, operands: Arrays) -> None:
    """Raises ShardingError where an array is added to one of such entries. A number may be, so that no scale is 0."""
    numbers = [o for o in operands if o.constant and not o.dims]
    if numbers:
        return
    for operand in operands:
        if "bent" in marks(operand, axis):
            refuse_summed(operand, [axis], op.call.ctx.place, "added here")


def refuse_summed(
    value: ArrayValue,
    axes: Sequence[str],
    place: tuple[str, int],
    what: str = "summed here",
) -> None:
    """Raises ShardingError for a sum of how large the parts of a sum are."""
    for axis in axes:
        note = said(value, axis)
        if note is not None:
            related = (*notes_about(value, [axis]), (*place, what))
            where = (note.module, note.at)
            raise ShardingError(note.code, note.text, 0, related, where)
