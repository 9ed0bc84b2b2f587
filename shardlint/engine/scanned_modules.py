"""``flax.linen.scan`` of a module: layers one after another, as a loop."""

from __future__ import annotations

from shardlint.values import (
    ClassValue,
    FunctionValue,
    SequenceValue,
    Unknown,
    Value,
    WrappedValue,
)

SCAN = "flax.linen.scan"
#: An instance of a class that is scanned.
LAYERS_OF = "flax.linen.scan.<layers>"


def make(args: list[Value], kwargs: dict[str, Value]) -> Value:
    """What scanning a class or a function gives."""
    if not args or not isinstance(args[0], (ClassValue, FunctionValue)):
        return Unknown("a transformation of something unknown")
    return WrappedValue(SCAN, args[0], tuple(kwargs.items()))


def call(scanned: WrappedValue, args: list[Value]) -> Value:
    """The layers that a scanned class makes; what comes out of them: a carry as the one that went in."""
    if scanned.kind == SCAN and isinstance(scanned.func, ClassValue):
        return WrappedValue(LAYERS_OF, scanned.func)
    # functions take their module first
    carried = args[:1] if scanned.kind == LAYERS_OF else args[1:2]
    if not carried:
        return Unknown("a scan without a carry")
    return SequenceValue((carried[0], Unknown("what a scan collects")))
