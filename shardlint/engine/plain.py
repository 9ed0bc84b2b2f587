"""Questions about single values that need no environment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.engine.trees import named_items
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    EitherValue,
    ExternalValue,
    FunctionValue,
    IntValue,
    Literal,
    MaybeValue,
    ModuleValue,
    PartialValue,
    SequenceValue,
    Unknown,
    Value,
    number_in,
)
from shardtypes.lang import Size

MAX_ITEMS = 64
_MAX_NESTED = 10_000


def constant(value: object) -> Value:
    if isinstance(value, int) and not isinstance(value, bool):
        return IntValue(Size.const(value))
    return Literal(value)


def known(value: Value) -> Value:
    """As op models take it: they do not know values that may be one thing or another, nor any number of values."""
    if isinstance(value, MaybeValue):
        return Unknown("may be None")
    if isinstance(value, EitherValue):
        return Unknown("one of several types")
    return (
        Unknown("a collection of unknown length")
        if isinstance(value, CollectionValue)
        else value
    )


def listed(value: Value) -> Value:
    """As Python's own functions take it."""
    return value if isinstance(value, CollectionValue) else known(value)


def operand(value: Value) -> Value:
    """As functions of arrays take it: what may be an array or a tree is one array there."""
    return (
        value.leaf
        if isinstance(value, Unknown) and value.leaf is not None
        else known(value)
    )


def innermost(func: Value) -> Value:
    """The function that ``functools.partial`` was applied to, however often."""
    while isinstance(func, PartialValue):
        func = func.func
    return func


def is_vast(values: Sequence[Value]) -> bool:
    """Whether tuples and lists hold more than can be followed, as ``t = (t, t)`` does after a few lines."""
    pending, count = list(values), 0
    while pending and count <= _MAX_NESTED:
        value = pending.pop()
        count += 1
        if isinstance(value, SequenceValue):
            pending.extend(value.items)
    return count > _MAX_NESTED


def truth(value: Value) -> bool | None:
    """Whether a value is true, where that is certain."""
    match value:
        case Literal(value=constant_):
            return bool(constant_)
        case IntValue(size=size) if size is not None and size.constant is not None:
            return size.constant != 0
        case SequenceValue(items=items):
            return bool(items) or value.kind == "iterator"
        case DictValue(items=items):
            return bool(items)
        case (
            FunctionValue()
            | ClassValue()
            | ModuleValue()
            | ExternalValue()
            | PartialValue()
        ):
            return True
        case _:
            return None


def plain_key(value: Value) -> object | None:
    if isinstance(value, Literal):
        return value.value
    return number_in(value)


def iterate(value: Value) -> list[Value] | None:
    """The items of an iterable of known, small length."""
    value = named_items(value)
    if isinstance(value, SequenceValue) and len(value.items) <= MAX_ITEMS:
        return list(value.items)
    if isinstance(value, DictValue) and len(value.items) <= MAX_ITEMS:
        return [constant(key) for key, _ in value.items]
    return None


def element(value: Value) -> Value:
    """What iterating over a value of unknown length yields."""
    if isinstance(value, ArrayValue) and value.dims:
        if value.dims[0].axes == ():  # each lies as the whole does
            return replace(value, dims=value.dims[1:])
        return ArrayValue(
            value.dims[1:],
            value.dtype,
            value.weak,
            value.pending,
            value.manual,
            value.numpy,
        )
    if isinstance(value, CollectionValue) and value.kind != "dict":
        return value.item
    if isinstance(value, Unknown) and value.leaf is not None:
        return value
    return Unknown("an item of something of unknown length")
