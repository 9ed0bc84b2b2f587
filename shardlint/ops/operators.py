"""Python's operators on abstract values: arrays, symbolic integers, numbers, strings, sequences."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
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
    match left, right:
        case (ArrayValue(), _) | (_, ArrayValue()):
            return _array_binary(op, left, right, ctx)
        case IntValue(), IntValue():
            return _int_binary(op, left, right)
        case (SequenceValue(), _) | (_, SequenceValue()):
            return _sequence_binary(op, left, right)
        case Literal(value=str() | bytes()), Literal():
            return _joined_texts(op, left.value, right.value)
        case (StringValue(), _) | (Literal(value=str()), _) if op in ("+", "%", "*"):
            return StringValue()
        case DictValue(), DictValue() if op == "|":
            return DictValue(tuple({**dict(left.items), **dict(right.items)}.items()))
    if number_kind(left) and number_kind(right):
        return _number_binary(op, left, right)
    return Unknown(f"operand of {op} is unknown")


def _joined_texts(op: str, left: Any, right: Any) -> Value:
    if op == "+" and type(left) is type(right):
        return Literal(left + right)
    return StringValue()


def _array_binary(op: str, left: Value, right: Value, ctx: OpContext) -> Value:
    if as_array(left, ctx.x64) is None or as_array(right, ctx.x64) is None:
        _no_tuple_of_arrays(op, left, right)
        if isinstance(left, Unknown) or isinstance(right, Unknown):
            return _of_unknown(op, ctx)
        return Unknown(f"operand of {op} is unknown")
    if op == "@" and (number_kind(left) or number_kind(right)):
        return Unknown("matmul with a number")
    is_power = op == "**" and isinstance(right, IntValue)
    if is_power and isinstance(left, ArrayValue) and not left.numpy and left.dtype:
        # an integer exponent keeps the dtype
        call = Call("jax.lax.integer_pow", {"x": left, "y": right}, ctx)
        return _named(op, lambda: viewed(call, _integer_power))
    return _applied(op, BINARY_FUNCTIONS[op], [left, right], ctx)


def _applied(
    op: str, function: str, operands: Sequence[Value], ctx: OpContext
) -> Value:
    """What the function gives that an operator stands for: NumPy's where all arrays are its own."""
    arrays = [value for value in operands if isinstance(value, ArrayValue)]
    module = "numpy" if all(value.numpy for value in arrays) else "jax.numpy"
    return _named(op, lambda: apply(f"{module}.{function}", [*operands], {}, ctx))


def _of_unknown(op: str, ctx: OpContext) -> Value:
    """What an array gives with something unknown: an array, where nothing depends on how it lies on devices."""
    if ctx.view is not None:
        return Unknown(f"operand of {op} is unknown")
    return ArrayValue(None)


def _no_tuple_of_arrays(op: str, left: Value, right: Value) -> None:
    """NumPy makes an array of a tuple; JAX refuses."""
    for index, (one, other) in enumerate(((left, right), (right, left))):
        match one, other:
            case SequenceValue(items, "tuple"), ArrayValue(numpy=False):
                if any(map(_is_of_jax, items)):
                    count = len(items)
                    message = (
                        f"{op}: one operand is an array, the other a tuple of {count}"
                    )
                    raise OpError("ST204", message, {}, index)


def _is_of_jax(value: Value) -> bool:
    return isinstance(value, ArrayValue) and not value.numpy


def _integer_power(call: Call) -> Value:
    base = call["x"]
    assert isinstance(base, ArrayValue)
    dtype = None if base.dtype == "bool" else base.dtype
    return ArrayValue(base.dims, dtype, base.weak)


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
    if devices and isinstance(result, IntValue):
        return replace(result, devices=devices)
    return result


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
    if op not in _ARITHMETIC:
        return
    for index, (one, other) in enumerate(((left, right), (right, left))):
        match one, other:
            case SequenceValue([_, *_] as sizes, "tuple", None), IntValue():
                if all(isinstance(item, IntValue) for item in sizes):
                    count = len(sizes)
                    message = (
                        f"{op}: one operand is a number, the other a tuple of {count}"
                    )
                    raise OpError("ST204", message, {}, index)


def _sequence_binary(op: str, left: Value, right: Value) -> Value:
    _no_arithmetic(op, left, right)
    match op, left, right:
        case _, SequenceValue(kind="set"), SequenceValue(kind="set"):
            return _set_binary(op, left, right)
        case "+", SequenceValue(), SequenceValue():
            return _joined(left, right)
        case "*", SequenceValue(), _:
            return _repeated(left, static_int(right))
        case "*", _, SequenceValue():
            return _repeated(right, static_int(left))
    return Unknown(_OPEN)


_OPEN = "a sequence of unknown length"


def _joined(left: SequenceValue, right: SequenceValue) -> Value:
    if left.kind != right.kind or left.kind == "keys":
        return Unknown("no sequences of one kind")
    if len(left.items) + len(right.items) > MAX_ITEMS:
        return Unknown(_OPEN)
    return SequenceValue(left.items + right.items, left.kind)


def _repeated(sequence: SequenceValue, count: int | None) -> Value:
    if count is None or len(sequence.items) * max(count, 0) > MAX_ITEMS:
        return Unknown(_OPEN)
    return SequenceValue(sequence.items * count, sequence.kind)


def unary(op: str, value: Value, ctx: OpContext) -> Value:
    """``- + ~ not`` applied to a value."""
    if op == "not":
        truth = truth_of(value)
        return ScalarValue("bool") if truth is None else Literal(not truth)
    match value:
        case ArrayValue():
            name = {"-": "negative", "+": "positive", "~": "bitwise_not"}[op]
            return _applied(op, name, [value], ctx)
        case SequenceValue(items) if any(isinstance(one, ArrayValue) for one in items):
            message = f"{op}: the operand is a {value.kind} of {len(items)}"
            raise OpError("ST204", message)
        case IntValue(size=None):
            return value
        case IntValue(size=Size() as size):
            return IntValue({"-": -size, "+": size, "~": -size - 1}[op])
        case Literal(value=bool() | float() | complex() as known) if op != "~":
            return _number(-known if op == "-" else +known)
        case ScalarValue() if value.kind != "bool":
            return value
    return Unknown(f"operand of {op} is unknown")


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
        return _array_comparison(op, left, right, ctx)
    answer = _decide(op, left, right, ctx)
    if answer is not None:
        return Literal(answer)
    may_be_array = isinstance(left, Unknown) or isinstance(right, Unknown)
    if may_be_array and op not in ("in", "not in"):
        return Unknown("comparison")
    return ScalarValue("bool")


def _array_comparison(op: str, left: Value, right: Value, ctx: OpContext) -> Value:
    if op in ("in", "not in"):
        return ScalarValue("bool")
    if as_array(left, ctx.x64) is None or as_array(right, ctx.x64) is None:
        return Unknown(f"operand of {op} is unknown")
    return _applied(op, _COMPARISONS[op], [left, right], ctx)


def _identity(op: str, left: Value, right: Value) -> Value:
    for a, b in ((left, right), (right, left)):
        if isinstance(b, Literal) and b.value is None:
            if isinstance(a, Literal):
                return Literal((a.value is None) == (op == "is"))
            if not isinstance(a, Unknown):
                return Literal(op == "is not")
    return ScalarValue("bool")


def _decide(op: str, left: Value, right: Value, ctx: OpContext) -> bool | None:
    is_identity = op in ("==", "!=")
    match left, right:
        case _ if op in ("in", "not in"):
            found = _contains(left, right, ctx)
            return None if found is None else found == (op == "in")
        case IntValue(), IntValue():
            return _decide_sizes(op, left.size, right.size, ctx)
        case SequenceValue(), SequenceValue() if is_identity:
            equal = _are_equal(left.items, right.items, ctx)
            return None if equal is None else equal == (op == "==")
        case DTypeValue(), DTypeValue() if is_identity:
            equal = dtypes.equal(left.name, right.name)
            return None if equal is None else equal == (op == "==")
    a, b = _known(left), _known(right)
    with_none = Literal(None) in (left, right)
    are_literals = isinstance(left, Literal) and isinstance(right, Literal)
    if (a is None or b is None) and not (with_none and are_literals):
        return None
    if op not in _PYTHON:
        return None
    try:
        return bool(_PYTHON[op](a, b))
    except TypeError:
        return None


def _are_equal(
    items: Sequence[Value], others: Sequence[Value], ctx: OpContext
) -> bool | None:
    if len(items) != len(others):
        return False
    pairs = zip(items, others, strict=True)
    return all_hold([_decide("==", one, other, ctx) for one, other in pairs])


def _contains(left: Value, right: Value, ctx: OpContext) -> bool | None:
    items: Sequence[Value]
    match left, right:
        case Literal(value=str() as text), Literal(value=str() as whole):
            return text in whole
        case _, SequenceValue():
            items = right.items
        case _, DictValue():
            items = [_number(key) for key, _ in right.items]
        case _:
            return None
    return any_holds([_decide("==", left, item, ctx) for item in items])


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
    if op not in results:
        return Unknown("an operator on sets")
    return SequenceValue(results[op], "set")
