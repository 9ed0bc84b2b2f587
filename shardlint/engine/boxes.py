"""Variables of ``flax.nnx``: each is followed as the array that it holds, and can be given another one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine import objects
from shardlint.engine.frames import Frame
from shardlint.values import ArrayValue, Literal, Value

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

VARIABLES = frozenset(
    f"flax.nnx.{name}"
    for name in "Variable Param BatchStat Cache Intermediate Perturbation LoRAParam".split()
)
_CONTENTS = frozenset({"value", "raw_value"})
_GETTERS = frozenset({"get_value", "get_raw_value"})
_SETTERS = frozenset({"set_value", "set_raw_value"})


def made(array: ArrayValue) -> ArrayValue:
    """A variable that holds an array: another object, which is told from the array by its identity."""
    return replace(array)


def attribute(variable: ArrayValue, name: str) -> ArrayValue | None:
    """``variable.value``: what it holds now, whatever it is given later."""
    return replace(variable) if name in _CONTENTS else None


def assigned(
    it: Interpreter, frame: Frame, variable: Value, name: str, value: Value
) -> None:
    """``variable.value = value``."""
    if name in _CONTENTS:
        _put(it, frame, variable, value)


def called(
    it: Interpreter, frame: Frame, variable: Value, name: str, args: list[Value]
) -> Value | None:
    """What ``variable.get_value()`` gives, and ``variable.set_value(value)``; None for other methods."""
    if not isinstance(variable, ArrayValue) or variable.numpy:
        return None
    if name in _GETTERS and not args:
        return replace(variable)
    if name in _SETTERS and len(args) == 1:
        _put(it, frame, variable, args[0])
        return Literal(None)
    return None


def _put(it: Interpreter, frame: Frame, variable: Value, value: Value) -> None:
    if not isinstance(variable, ArrayValue) or variable.numpy:
        return
    held = made(value) if isinstance(value, ArrayValue) else value
    objects.replaced(it, frame, [(variable, held)])
