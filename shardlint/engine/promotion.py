"""flax's ``promote_dtype``, with which its layers bring their arrays to one dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from shardlint.values import ArrayValue, DTypeValue, Literal, SequenceValue, Value

#: Calls a function of JAX, by its name.
Apply: TypeAlias = Callable[[str, list[Value]], Value]

_OF_ARGUMENTS = frozenset({"flax.linen.dtypes.promote_dtype"})
_OF_A_TUPLE = frozenset({"flax.nnx.nn.dtypes.promote_dtype"})
PROMOTING = _OF_ARGUMENTS | _OF_A_TUPLE
_NONE = Literal(None)


def call(
    apply: Apply, qualname: str, args: list[Value], kwargs: dict[str, Value]
) -> Value | None:
    """The arrays in their common dtype, or in the given one; None for any other function."""
    dtype = kwargs.get("dtype", _NONE)
    if qualname in _OF_ARGUMENTS:
        return SequenceValue(tuple(_cast(apply, args, dtype)), "list")
    if qualname not in _OF_A_TUPLE or len(args) != 1:
        return None
    (given,) = args
    if not isinstance(given, SequenceValue):
        return None
    return replace(given, items=tuple(_cast(apply, given.items, dtype)))


def _cast(apply: Apply, values: Sequence[Value], dtype: Value) -> list[Value]:
    if dtype == _NONE:
        some = [value for value in values if value != _NONE]
        dtype = apply("jax.numpy.result_type", some)
        if not _is_inexact(dtype):
            dtype = DTypeValue(None)  # a float unless ``inexact`` is off
    return [
        apply("jax.numpy.asarray", [value, dtype])
        if isinstance(value, ArrayValue)
        else value
        for value in values
    ]


def _is_inexact(dtype: Value) -> bool:
    name = dtype.name if isinstance(dtype, DTypeValue) else None
    return name is not None and name.startswith(("float", "bfloat", "complex"))
