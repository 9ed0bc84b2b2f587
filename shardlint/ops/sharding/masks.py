"""What programs make of the index of the device: masks that are true on one device at most, for it or for its part of
a range, and the positions of its part of a dimension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.ops.sharding.base import Op
from shardlint.ops.sharding.counts import parts_over
from shardlint.ops.sharding.state import COUNTING, split_marks, state
from shardlint.values import ArrayValue, Dimension, IntValue
from shardtypes.lang import Size

_EQUAL = ("equal", "eq")
_BOTH = ("logical_and", "bitwise_and")


def followed(op: Op, result: ArrayValue, operands: Sequence[ArrayValue]) -> ArrayValue:
    """The result of an elementwise function, with the marks that tell of such a mask.

    ``index * n`` is where a device's part of a range ``starts``; a position is ``within`` it once that is subtracted,
    and belongs to the device that finds it ``least`` 0 and ``below`` n. Which range, and which positions, is in the
    mark: masks of others do not make one together.
    """
    if len(operands) != 2 or not any(one.marks for one in operands):
        return result
    numbers = [
        value.size for value in op.call.args.values() if isinstance(value, IntValue)
    ]
    number = numbers[0] if len(numbers) == 1 else None
    if op.last == "add":
        return _positions(op, result, operands)
    found = {mark for one in operands for mark in _of(op, one, operands, number)}
    return replace(result, marks=result.marks | found) if found else result


def _positions(
    op: Op, result: ArrayValue, operands: Sequence[ArrayValue]
) -> ArrayValue:
    """``index * n + arange(n)``, where n is one device's part of a dimension that is split over just this axis: all
    positions of that dimension, split as it is."""
    for start, counting in (operands, operands[::-1]):
        size = (
            counting.dims[0].size
            if counting.dims is not None and len(counting.dims) == 1
            else None
        )
        axis = next(
            (
                axis
                for axis, mark in start.marks
                if size is not None and mark == f"starts {size}"
            ),
            None,
        )
        if (
            axis is not None
            and start.dims == ()
            and COUNTING in counting.marks
            and parts_over(size, op.view) == {axis}
        ):
            dims = (Dimension(size, (axis,)),)
            return replace(
                result,
                dims=dims,
                varying=result.varying - {axis},
                marks=split_marks([axis]),
            )
    return result


def _of(
    op: Op, one: ArrayValue, operands: Sequence[ArrayValue], number: Size | None
) -> list[tuple[str, str]]:
    other = operands[1] if one is operands[0] else operands[0]
    found: list[tuple[str, str]] = []
    for axis, mark in one.marks:
        kind, _, rest = mark.partition(" ")
        same = state(other, axis) == "replicated"
        if op.last in _EQUAL and kind == "index" and same:
            found.append((axis, "chosen"))
        elif op.last in _BOTH and kind == "chosen":
            found.append((axis, "chosen"))
        elif (
            op.last in _BOTH
            and kind == "least"
            and (axis, f"below {rest}") in other.marks
        ):
            found.append((axis, "chosen"))
        elif op.last in ("multiply", "mul") and kind == "index" and number is not None:
            found.append((axis, f"starts {number}"))
        elif (
            op.last in ("subtract", "sub")
            and kind == "starts"
            and one is operands[1]
            and same
        ):
            found.append((axis, f"within {op.call.ctx.place[1]} {rest}"))
        elif (
            op.last in ("greater_equal", "ge")
            and kind == "within"
            and one is operands[0]
            and number == 0
        ):
            found.append((axis, f"least {rest}"))
        elif (
            op.last in ("less", "lt")
            and kind == "within"
            and one is operands[0]
            and number is not None
        ):
            if rest.partition(" ")[2] == str(number):
                found.append((axis, f"below {rest}"))
    return found
