"""``receiver[index]``, whatever is indexed."""

from __future__ import annotations

from dataclasses import replace

from shardlint.ops.application import viewed
from shardlint.ops.arrays import array
from shardlint.ops.indexing import AT, index_array
from shardlint.ops.registry import Call, OpContext, OpError, is_none, static_int
from shardlint.values import (
    ArrayValue,
    DictValue,
    ExternalValue,
    IntValue,
    Literal,
    PartialValue,
    SequenceValue,
    SliceValue,
    StringValue,
    Unknown,
    Value,
)


def index(receiver: Value, index_value: Value, ctx: OpContext) -> Value:
    """``receiver[index]``. Raises OpError where it certainly fails."""
    if isinstance(receiver, ArrayValue):
        found = viewed(
            Call("index", {"array": receiver, "index": index_value}, ctx), _indexed
        )
        return (
            replace(found, numpy=True)
            if receiver.numpy and isinstance(found, ArrayValue)
            else found
        )
    if isinstance(receiver, PartialValue) and receiver.func == ExternalValue(AT):
        return PartialValue(receiver.func, (*receiver.args, index_value))
    if isinstance(receiver, SequenceValue):
        return _index_sequence(receiver, index_value)
    if isinstance(receiver, DictValue):
        return _index_dict(receiver, index_value)
    if isinstance(receiver, Literal) and isinstance(receiver.value, str):
        position = static_int(index_value)
        if position is not None and -len(receiver.value) <= position < len(
            receiver.value
        ):
            return Literal(receiver.value[position])
        return StringValue()
    return Unknown("an item of something unknown")


def _indexed(call: Call) -> Value:
    return index_array(array(call, "array"), call["index"], call.ctx)


def _index_sequence(receiver: SequenceValue, index_value: Value) -> Value:
    position = static_int(index_value)
    if position is not None:
        if -len(receiver.items) <= position < len(receiver.items):
            return receiver.items[position]
        if receiver.kind != "tuple":
            return Unknown("an item of a list that may have grown, or of an array")
        count = len(receiver.items)
        raise OpError(
            "ST214",
            f"index {position} is out of range for a {receiver.kind} of {count}",
        )
    if isinstance(index_value, SliceValue):
        parts = [index_value.lower, index_value.upper, index_value.step]
        if all(is_none(part) or static_int(part) is not None for part in parts):
            low, high, step = (static_int(part) for part in parts)
            if step != 0:
                return SequenceValue(
                    receiver.items[slice(low, high, step)], receiver.kind
                )
    return Unknown("an item at an unknown position")


def _index_dict(receiver: DictValue, index_value: Value) -> Value:
    key = static_int(index_value) if isinstance(index_value, IntValue) else None
    if isinstance(index_value, Literal):
        key = index_value.value  # type: ignore[assignment]  # any constant is a key
    elif key is None:
        return Unknown("an item under an unknown key")
    for known, value in receiver.items:
        if known == key and isinstance(known, bool) == isinstance(key, bool):
            return value
    return Unknown("no such key in the dict as known")
