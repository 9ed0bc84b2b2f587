"""What programs make of the index of the device: masks that are true on one device at most, for it or for its part of
a range, and the positions of its part of a dimension."""

from __future__ import annotations

from dataclasses import replace

from shardlint.ops.sharding.base import Op
from shardlint.ops.sharding.counts import parts_over
from shardlint.ops.sharding.state import COUNTING, Arrays, split_marks, state
from shardlint.values import ArrayValue, Dimension, IntValue
from shardtypes.lang import Size


def followed(op: Op, result: ArrayValue, operands: Arrays) -> ArrayValue:
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
    if len(numbers) == 1:
        number = numbers[0]
    else:
        number = None
    if op.last == "add":
        return _positions(op, result, operands)
    found = {mark for one in operands for mark in _of(op, one, operands, number)}
    if found:
        return replace(result, marks=result.marks | found)
    return result


def _positions(op: Op, result: ArrayValue, operands: Arrays) -> ArrayValue:
    """``index * n + arange(n)``, where n is one device's part of a dimension that is split over just this axis: all
    positions of that dimension, split as it is."""
    for start, counting in (operands, operands[::-1]):
        if counting.dims is not None and len(counting.dims) == 1:
            size = counting.dims[0].size
        else:
            size = None
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
    op: Op, one: ArrayValue, operands: Arrays, number: Size | None
) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for axis, mark in one.marks:
        new = _made_of(op, one, operands, number, axis, mark)
        if new is not None:
            found.append((axis, new))
    return found


def _made_of(
    op: Op,
    one: ArrayValue,
    operands: Arrays,
    number: Size | None,
    axis: str,
    mark: str,
) -> str | None:
    """The mark of the result that one of an operand leads to."""
    first, second = operands
    other = second if one is first else first
    kind, _, rest = mark.partition(" ")
    same = state(other, axis) == "replicated"
    match kind, op.last:
        case "index", "equal" | "eq" if same:
            return "chosen"
        case "index", "multiply" | "mul" if number is not None:
            return f"starts {number}"
        case "chosen", "logical_and" | "bitwise_and":
            return "chosen"
        case "least", "logical_and" | "bitwise_and":
            if (axis, f"below {rest}") in other.marks:
                return "chosen"
            return None
        case "starts", "subtract" | "sub" if one is second and same:
            return f"within {op.call.ctx.place[1]} {rest}"
        case "within", "greater_equal" | "ge" if one is first and number == 0:
            return f"least {rest}"
        case "within", "less" | "lt" if one is first and number is not None:
            own = rest.partition(" ")[2] == str(number)
            if own:
                return f"below {rest}"
            return None
        case _:
            return None
