"""Python's operators on abstract values: arrays, symbolic integers, numbers, strings, sequences."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from shardlint.ops.application import apply, viewed
from shardlint.ops.arrays import as_array, number_kind
from shardlint.ops.registry import Call, OpContext, OpError, static_int
from shardlint.values import (
    ArrayValue,
    DictValue,
    DTypeValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    StringValue,
    Unknown,
    Value,
)
from shardlint.verdicts import all_hold, any_holds
from shardtypes.lang import Different, Equal, Size, dtypes
from shardtypes.lang import compare as compare_sizes
from shardtypes.lang.messages import APPLIED

BINARY_FUNCTIONS = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "//": "floor_divide",
    "%": "remainder",
    "**": "power",
    "@": "matmul",
    "&": "bitwise_and",
    "|": "bitwise_or",
    "^": "bitwise_xor",
    "<<": "left_shift",
    ">>": "right_shift",
}
_COMPARISONS = {
    "==": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}
_PYTHON: dict[str, Callable[[Any, Any], object]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "&": operator.and_, "|": operator.or_, "^": operator.xor,
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
#: How a message names the function that an operator stands for.
_FUNCTION = re.compile(r"^(?:jnp|np|lax)\.\w+")
#: What no tuple has with a number.
_ARITHMETIC = frozenset({"-", "/", "//", "%", "**", "@"})


def binary(op: str, left: Value, right: Value, ctx: OpContext) -> Value:
    """``left op right``. Raises OpError for a certain mismatch of arrays."""
    if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
        return _array_binary(op, left, right, ctx)
    if isinstance(left, IntValue) and isinstance(right, IntValue):
        return _int_binary(op, left, right)
    if number_kind(left) and number_kind(right):
        return _number_binary(op, left, right)
    if isinstance(left, SequenceValue) or isinstance(right, SequenceValue):
        return _sequence_binary(op, left, right)
    if (
        isinstance(left, Literal)
        and isinstance(right, Literal)
        and isinstance(left.value, (str, bytes))
    ):
        if op == "+" and type(left.value) is type(right.value):
            return Literal(left.value + right.value)  # type: ignore[operator]  # both str or both bytes
        return StringValue()
    if isinstance(left, StringValue) or (
        isinstance(left, Literal) and isinstance(left.value, str)
    ):
        return (
            StringValue()
            if op in ("+", "%", "*")
            else Unknown("an operator on strings")
        )
    if op == "|" and isinstance(left, DictValue) and isinstance(right, DictValue):
        return DictValue(tuple({**dict(left.items), **dict(right.items)}.items()))
    return Unknown(f"operand of {op} is unknown")


def _array_binary(op: str, left: Value, right: Value, ctx: OpContext) -> Value:
    operands = [as_array(left, ctx.x64), as_array(right, ctx.x64)]
    if operands[0] is None or operands[1] is None:
        _no_tuple_of_arrays(op, left, right)
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return _of_unknown(op, ctx)
        return Unknown(f"operand of {op} is unknown")
    function = BINARY_FUNCTIONS[op]
    both_numpy = all(not isinstance(v, ArrayValue) or v.numpy for v in (left, right))
    if op == "@" and (number_kind(left) or number_kind(right)):
        return Unknown("matmul with a number")
    if (
        op == "**"
        and isinstance(right, IntValue)
        and isinstance(left, ArrayValue)
        and not both_numpy
    ):
        if left.dtype is not None:  # an integer exponent keeps the dtype
            return _named(
                op,
                lambda: viewed(
                    Call("jax.lax.integer_pow", {"x": left, "y": right}, ctx),
                    _integer_power,
                ),
            )
    return _named(
        op,
        lambda: apply(
            ("numpy." if both_numpy else "jax.numpy.") + function,
            [left, right],
            {},
            ctx,
        ),
    )


def _of_unknown(op: str, ctx: OpContext) -> Value:
    """What an array gives with something unknown: an array, where nothing depends on how it lies on devices."""
    return (
        Unknown(f"operand of {op} is unknown")
        if ctx.view is not None
        else ArrayValue(None)
    )


def _no_tuple_of_arrays(op: str, left: Value, right: Value) -> None:
    """NumPy makes an array of a tuple; JAX refuses."""
    for index, (one, other) in enumerate(((left, right), (right, left))):
        if (
            isinstance(one, SequenceValue)
            and one.kind == "tuple"
            and isinstance(other, ArrayValue)
            and not other.numpy
        ):
            if any(
                isinstance(item, ArrayValue) and not item.numpy for item in one.items
            ):
                message = f"{op}: one operand is an array, the other a tuple of {len(one.items)}"
                raise OpError("ST204", message, {}, index)


def _integer_power(call: Call) -> Value:
    base = call["x"]
    assert isinstance(base, ArrayValue)
    return ArrayValue(
        base.dims, base.dtype if base.dtype != "bool" else None, base.weak
    )


def _named(op: str, apply: Callable[[], Value]) -> Value:
    """What a function gives that stands for an operator; what it says begins with the operator."""
    try:
        return apply()
    except OpError as error:
        name = f"`{op}`" if APPLIED in error.message else op
        error.message = _FUNCTION.sub(lambda _: name, error.message)
        raise


def _int_binary(op: str, left: IntValue, right: IntValue) -> Value:
    result = _int_result(op, left.size, right.size)
    devices = left.devices | right.devices
    return (
        replace(result, devices=devices)
        if devices and isinstance(result, IntValue)
        else result
    )


def _int_result(op: str, a: Size | None, b: Size | None) -> Value:
    if op == "/":
        return ScalarValue("float")
    if a is None or b is None:
        return IntValue(None)
    match op:
        case "+":
            return IntValue(a + b)
        case "-":
            return IntValue(a - b)
        case "*":
            return IntValue(a * b)
        case "//" | "%":
            if b.constant == 0 or (b.constant is None and not b.is_nonnegative):
                return IntValue(None)
            return IntValue(a // b if op == "//" else a % b)
        case "**":
            return _power(a, b)
        case _:
            return IntValue(_of_bits(op, a.constant, b.constant))


def _power(base: Size, exponent: Size) -> Value:
    x, y = base.constant, exponent.constant
    if y is None:
        return IntValue(None)
    if 0 <= y <= 8:
        result = Size.const(1)
        for _ in range(y):
            result = result * base
        return IntValue(result)
    if x is None:
        return IntValue(None)
    if y < 0:
        return ScalarValue("float")
    too_large = y > 64 or abs(x) > 64
    return IntValue(None if too_large else Size.const(x**y))


def _of_bits(op: str, x: int | None, y: int | None) -> Size | None:
    if x is None or y is None:
        return None
    if op in ("<<", ">>"):
        if not 0 <= y < 64:
            return None
        return Size.const(x << y if op == "<<" else x >> y)
    results = {"&": x & y, "|": x | y, "^": x ^ y}
    return Size.const(results[op]) if op in results else None


def _known(value: Value) -> object:
    if isinstance(value, Literal):
        return value.value
    return static_int(value)


def _number_binary(op: str, left: Value, right: Value) -> Value:
    a, b = _known(left), _known(right)
    if a is not None and b is not None and op in _PYTHON:
        try:
            return _number(_PYTHON[op](a, b))
        except (ArithmeticError, TypeError):
            return Unknown(f"the program's {op} fails")
    kinds = [number_kind(left) or "", number_kind(right) or ""]
    for kind in ("complex", "float"):
        if kind in kinds:
            return ScalarValue(kind)
    return ScalarValue("float") if op == "/" else IntValue(None)


def _number(value: object) -> Value:
    if isinstance(value, int) and not isinstance(value, bool):
        return IntValue(Size.const(value))
    return Literal(value)


#: Of a sequence that is followed: one that doubles itself grows beyond all memory.
MAX_ITEMS = 1000


def _no_arithmetic(op: str, left: Value, right: Value) -> None:
    """A tuple of sizes has neither a half nor a difference: one of them was meant."""
    for index, (one, other) in enumerate(((left, right), (right, left))):
        sizes = (
            isinstance(one, SequenceValue)
            and one.kind == "tuple"
            and one.names is None
            and one.items
        )
        if sizes and isinstance(other, IntValue) and op in _ARITHMETIC:
            if all(isinstance(item, IntValue) for item in sizes):
                message = (
                    f"{op}: one operand is a number, the other a tuple of {len(sizes)}"
                )
                raise OpError("ST204", message, {}, index)


def _sequence_binary(op: str, left: Value, right: Value) -> Value:
    _no_arithmetic(op, left, right)
    if (
        isinstance(left, SequenceValue)
        and isinstance(right, SequenceValue)
        and left.kind == right.kind == "set"
    ):
        return _set_binary(op, left, right)
    if (
        op == "+"
        and isinstance(left, SequenceValue)
        and isinstance(right, SequenceValue)
    ):
        if left.kind != right.kind or left.kind == "keys":
            return Unknown("no sequences of one kind")
        if len(left.items) + len(right.items) <= MAX_ITEMS:
            return SequenceValue(left.items + right.items, left.kind)
    if op == "*":
        sequence, times = (
            (left, right) if isinstance(left, SequenceValue) else (right, left)
        )
        count = static_int(times)
        if isinstance(sequence, SequenceValue) and count is not None:
            if len(sequence.items) * max(count, 0) <= MAX_ITEMS:
                return SequenceValue(sequence.items * count, sequence.kind)
    return Unknown("a sequence of unknown length")


def unary(op: str, value: Value, ctx: OpContext) -> Value:
    """``- + ~ not`` applied to a value."""
    if op == "not":
        truth = truth_of(value)
        return ScalarValue("bool") if truth is None else Literal(not truth)
    if isinstance(value, ArrayValue):
        name = {"-": "negative", "+": "positive", "~": "bitwise_not"}[op]
        return _named(
            op,
            lambda: apply(
                ("numpy." if value.numpy else "jax.numpy.") + name, [value], {}, ctx
            ),
        )
    if isinstance(value, SequenceValue) and any(
        isinstance(item, ArrayValue) for item in value.items
    ):
        raise OpError(
            "ST204", f"{op}: the operand is a {value.kind} of {len(value.items)}"
        )
    if isinstance(value, IntValue):
        if value.size is None:
            return value
        return IntValue({"-": -value.size, "+": value.size, "~": -value.size - 1}[op])
    if (
        isinstance(value, Literal)
        and isinstance(value.value, (bool, float, complex))
        and op != "~"
    ):
        return _number(-value.value if op == "-" else +value.value)
    return (
        value
        if isinstance(value, ScalarValue) and value.kind != "bool"
        else Unknown(f"operand of {op} is unknown")
    )


def truth_of(value: Value) -> bool | None:
    """Whether a value counts as true, where that is known."""
    if isinstance(value, Literal):
        return bool(value.value)
    if isinstance(value, IntValue):
        if value.size is None:
            return None
        if value.size.constant is not None:
            return bool(value.size.constant)
        return None
    if isinstance(value, (SequenceValue, DictValue)):
        return bool(value.items)
    return None


def compare(op: str, left: Value, right: Value, ctx: OpContext) -> Value:
    """One comparison: a known bool, a bool array, or a bool of unknown value."""
    if op in ("is", "is not"):
        return _identity(op, left, right)
    if isinstance(left, ArrayValue) or isinstance(right, ArrayValue):
        a, b = as_array(left, ctx.x64), as_array(right, ctx.x64)
        if op not in _COMPARISONS or a is None or b is None:
            return (
                ScalarValue("bool")
                if op in ("in", "not in")
                else Unknown(f"operand of {op} is unknown")
            )
        both_numpy = all(
            not isinstance(v, ArrayValue) or v.numpy for v in (left, right)
        )
        function = _COMPARISONS[op]
        return _named(
            op,
            lambda: apply(
                ("numpy." if both_numpy else "jax.numpy.") + function,
                [left, right],
                {},
                ctx,
            ),
        )
    answer = _decide(op, left, right, ctx)
    if answer is None:
        # which may be an array
        either = isinstance(left, Unknown) or isinstance(right, Unknown)
        return (
            Unknown("comparison")
            if either and op not in ("in", "not in")
            else ScalarValue("bool")
        )
    return Literal(answer)


def _identity(op: str, left: Value, right: Value) -> Value:
    for a, b in ((left, right), (right, left)):
        if isinstance(b, Literal) and b.value is None:
            if isinstance(a, Literal):
                return Literal((a.value is None) == (op == "is"))
            if not isinstance(a, Unknown):
                return Literal(op == "is not")
    return ScalarValue("bool")


def _decide(op: str, left: Value, right: Value, ctx: OpContext) -> bool | None:
    if op in ("in", "not in"):
        return _contains(op, left, right, ctx)
    if isinstance(left, IntValue) and isinstance(right, IntValue):
        return _decide_sizes(op, left.size, right.size, ctx)
    if (
        isinstance(left, SequenceValue)
        and isinstance(right, SequenceValue)
        and op in ("==", "!=")
    ):
        if len(left.items) != len(right.items):
            return op == "!="
        parts = [
            _decide("==", a, b, ctx)
            for a, b in zip(left.items, right.items, strict=True)
        ]
        equal = all_hold(parts)
        return None if equal is None else equal == (op == "==")
    if (
        isinstance(left, DTypeValue)
        and isinstance(right, DTypeValue)
        and op in ("==", "!=")
    ):
        equal = dtypes.equal(left.name, right.name)
        return None if equal is None else equal == (op == "==")
    a, b = _known(left), _known(right)
    none = Literal(None) in (left, right)
    if (a is None or b is None) and not (
        none and isinstance(left, Literal) and isinstance(right, Literal)
    ):
        return None
    if op not in _PYTHON:
        return None
    try:
        return bool(_PYTHON[op](a, b))
    except TypeError:
        return None


def _contains(op: str, left: Value, right: Value, ctx: OpContext) -> bool | None:
    items: list[Value]
    if (
        isinstance(left, Literal)
        and isinstance(left.value, str)
        and isinstance(right, Literal)
    ):
        return (
            (left.value in right.value) == (op == "in")
            if isinstance(right.value, str)
            else None
        )
    if isinstance(right, SequenceValue):
        items = list(right.items)
    elif isinstance(right, DictValue):
        items = [_number(key) for key, _ in right.items]
    else:
        return None
    parts = [_decide("==", left, item, ctx) for item in items]
    found = any_holds(parts)
    return None if found is None else found == (op == "in")


def _decide_sizes(
    op: str, a: Size | None, b: Size | None, ctx: OpContext
) -> bool | None:
    """Only what holds for all sizes is an answer."""
    if a is None or b is None:
        return None
    if op in ("==", "!="):
        verdict = compare_sizes(a, b, ctx.facts)
        if isinstance(verdict, Equal):
            return op == "=="
        if isinstance(verdict, Different) and (a - b).constant is not None:
            return op == "!="
        return None
    difference = (a - b).constant
    if difference is not None:
        return {
            "<": difference < 0,
            "<=": difference <= 0,
            ">": difference > 0,
            ">=": difference >= 0,
        }[op]
    return None


def _set_binary(op: str, left: SequenceValue, right: SequenceValue) -> Value:
    common = tuple(item for item in left.items if item in right.items)
    mine = tuple(item for item in left.items if item not in right.items)
    others = tuple(item for item in right.items if item not in left.items)
    results = {
        "-": mine,
        "&": common,
        "|": (*left.items, *others),
        "^": (*mine, *others),
    }
    return (
        SequenceValue(results[op], "set")
        if op in results
        else Unknown("an operator on sets")
    )
