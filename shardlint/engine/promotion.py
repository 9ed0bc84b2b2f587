"""flax's ``promote_dtype``, with which its layers bring their arrays to one dtype."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.values import ArrayValue, DTypeValue, Literal, SequenceValue, Value

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_OF_ARGUMENTS = frozenset({"flax.linen.dtypes.promote_dtype"})
_OF_A_TUPLE = frozenset({"flax.nnx.nn.dtypes.promote_dtype"})
_NONE = Literal(None)


def call(
    it: Interpreter,
    frame: Frame,
    qualname: str,
    args: list[Value],
    kwargs: dict[str, Value],
    at: int,
) -> Value | None:
    """The arrays in their common dtype, or in the given one; None for any other function."""
    if qualname in _OF_ARGUMENTS:
        return SequenceValue(tuple(_cast(it, frame, args, kwargs, at)), "list")
    if qualname not in _OF_A_TUPLE or len(args) != 1:
        return None
    (given,) = args
    if not isinstance(given, SequenceValue):
        return None
    return replace(given, items=tuple(_cast(it, frame, given.items, kwargs, at)))


def _cast(
    it: Interpreter,
    frame: Frame,
    values: Sequence[Value],
    kwargs: dict[str, Value],
    at: int,
) -> list[Value]:
    dtype = kwargs.get("dtype", _NONE)
    if dtype == _NONE:
        some = [value for value in values if value != _NONE]
        dtype = it.apply(frame, "jax.numpy.result_type", some, {}, at)
        if not _is_inexact(dtype):
            dtype = DTypeValue(None)  # a float unless ``inexact`` is off
    return [
        it.apply(frame, "jax.numpy.asarray", [value, dtype], {}, at)
        if isinstance(value, ArrayValue)
        else value
        for value in values
    ]


def _is_inexact(dtype: Value) -> bool:
    name = dtype.name if isinstance(dtype, DTypeValue) else None
    return name is not None and name.startswith(("float", "bfloat", "complex"))
