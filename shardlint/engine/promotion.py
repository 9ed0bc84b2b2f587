"""flax's ``promote_dtype``, with which its layers bring their arrays to one dtype."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from shardlint.engine.libraries import knows
from shardlint.engine.sharding.site import Site
from shardlint.values import ArrayValue, DTypeValue, Literal, SequenceValue, Value

#: Calls a function of JAX, by its name.
Apply: TypeAlias = Callable[[str, list[Value]], Value]

_OF_ARGUMENTS = frozenset({"flax.linen.dtypes.promote_dtype"})
_OF_A_TUPLE = frozenset({"flax.nnx.nn.dtypes.promote_dtype"})
_NONE = Literal(None)


@knows(_OF_ARGUMENTS)
def of_arguments(site: Site) -> Value:
    """The arrays, as a list, in their common dtype or in the given one."""
    dtype = site.kwargs.get("dtype", _NONE)
    return SequenceValue(tuple(_cast(_applied(site), site.args, dtype)), "list")


@knows(_OF_A_TUPLE)
def of_a_tuple(site: Site) -> Value | None:
    """The arrays of a tuple in their common dtype, or in the given one."""
    given = site.args[0] if len(site.args) == 1 else None
    if not isinstance(given, SequenceValue):
        return None
    dtype = site.kwargs.get("dtype", _NONE)
    return replace(given, items=tuple(_cast(_applied(site), given.items, dtype)))


def _applied(site: Site) -> Apply:
    return lambda name, values: site.it.apply(site.frame, name, values, {}, site.at)


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
