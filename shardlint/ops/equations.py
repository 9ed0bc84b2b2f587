"""Which dimensions a product contracts, as its arguments say."""

from __future__ import annotations

from dataclasses import dataclass

from shardlint.ops.arrays import one_axis, shown
from shardlint.ops.registry import Call, OpError, UnknownArgument, static_int
from shardlint.values import ArrayValue, SequenceValue, Value


def tensordot_pairs(call: Call, a: ArrayValue, b: ArrayValue) -> list[list[int]]:
    """The dimensions of ``a`` that are contracted, and those of ``b``; their ranks are known. Raises OpError where they
    have no such dimensions, UnknownArgument where ``axes`` is not known."""
    assert a.dims is not None and b.dims is not None
    axes = call["axes"]
    if isinstance(axes, SequenceValue) and len(axes.items) == 2:
        pairs = []
        for value, operand in ((axes.items[0], a), (axes.items[1], b)):
            items = value.items if isinstance(value, SequenceValue) else (value,)
            assert operand.dims is not None
            pairs.append(
                [one_axis(call, item, len(operand.dims), operand) for item in items]
            )
        if len(pairs[0]) != len(pairs[1]):
            raise OpError(
                "ST204", f"{call.name}: {len(pairs[0])} axes against {len(pairs[1])}"
            )
    else:
        count = static_int(axes)
        if count is None:
            raise UnknownArgument
        if count > min(len(a.dims), len(b.dims)) or count < 0:
            raise OpError(
                "ST208",
                f"{call.name}: axes={count} for shapes {shown(a)} and {shown(b)}",
            )
        pairs = [list(range(len(a.dims) - count, len(a.dims))), list(range(count))]
    return pairs


@dataclass(frozen=True, slots=True)
class Equation:
    """An einsum equation: letters per operand, ``...`` as one of them."""

    inputs: tuple[tuple[str, ...], ...]
    output: tuple[str, ...]


def _two_ellipses(call: Call, text: str) -> OpError:
    return OpError("ST205", f"{call.name}: two ellipses in one term of '{text}'")


def _letters(
    call: Call, text: str, part: str, may_repeat: bool = False
) -> tuple[str, ...]:
    """The letters of a term. An ellipsis ``may_repeat`` in the output of JAX's own einsum, if it stands for nothing."""
    out: list[str] = []
    i = 0
    while i < len(part):
        if part.startswith("...", i):
            if "..." in out and not may_repeat:
                raise _two_ellipses(call, text)
            out.append("...")
            i += 3
        elif part[i].isalnum():  # JAX takes digits for letters
            out.append(part[i])
            i += 1
        else:
            raise OpError(
                "ST205", f"{call.name}: '{part[i]}' in '{text}' is not a letter"
            )
    return tuple(out)


def parse_equation(call: Call, text: str) -> Equation:
    """``'bij,bjk->bik'``. Without an arrow the output is every letter met once, in alphabetical order."""
    compact = text.replace(" ", "")
    left, arrow, right = compact.partition("->")
    inputs = tuple(_letters(call, text, part) for part in left.split(","))
    if arrow:
        output = _letters(call, text, right, may_repeat=not call.ctx.numpy)
    else:
        every = [letter for letters in inputs for letter in letters]
        output = tuple(
            sorted(
                letter
                for letter in set(every)
                if letter != "..." and every.count(letter) == 1
            )
        )
        output = (("...",) if "..." in every else ()) + output
    known = {letter for letters in inputs for letter in letters}
    for letter in output:
        if letter not in known and letter != "...":
            raise OpError(
                "ST205",
                f"{call.name}: '{letter}' of the output is in no input of '{text}'",
            )
        if letter != "..." and output.count(letter) > 1:
            raise OpError(
                "ST205", f"{call.name}: '{letter}' is twice in the output of '{text}'"
            )
    return Equation(inputs, output)


def dimension_numbers(
    value: Value,
) -> tuple[tuple[list[int], list[int]], tuple[list[int], list[int]]] | None:
    """((contracted of x, of y), (batch of x, of y)); None where they are not known."""
    if not isinstance(value, SequenceValue) or len(value.items) != 2:
        return None
    out = []
    for pair in value.items:
        if not isinstance(pair, SequenceValue) or len(pair.items) != 2:
            return None
        sides = []
        for side in pair.items:
            if not isinstance(side, SequenceValue):
                return None
            numbers = [static_int(item) for item in side.items]
            known = [number for number in numbers if number is not None]
            if len(known) < len(numbers):
                return None
            sides.append(known)
        out.append((sides[0], sides[1]))
    return out[0], out[1]
