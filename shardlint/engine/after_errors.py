"""What is certain of a result when an operation was refused, or an argument: what holds whichever part is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from shardlint.axis_set import EVERY_AXIS
from shardlint.engine.joining import join_all
from shardlint.engine.types import (
    ArrayType,
    MappingType,
    RepeatedType,
    SequenceType,
    Type,
    UnionType,
)
from shardlint.ops import OpError
from shardlint.ops.sharding.base import ShardingError
from shardlint.values import ArrayValue, Dimension, SequenceValue, Unknown, Value

Again: TypeAlias = Callable[[list[Value]], Value]

_PATTERNS = frozenset({"ST205", "ST215"})
"""Errors of equations and patterns, which say themselves what the result is."""


_CONTRACTIONS = frozenset(
    "@ matmul dot inner outer vdot vecdot matvec vecmat tensordot dot_general batch_matmul multi_dot".split()
)


def left_over(
    name: str, error: OpError, values: Sequence[Value], again: Again
) -> Value:
    """What is known of the result of an operation on ``values`` in spite of an error. ``again`` gives the result of the
    operation on others, or raises OpError.

    A contraction has a rank by the ranks of its operands. Elsewhere one of them may lack a dimension, as in ``x + y``
    for ``x[:, None] + y``.
    """
    has_rank = name.rpartition(".")[2] in _CONTRACTIONS
    found = (
        []
        if not isinstance(error, ShardingError)
        else _results(again, [_of_any_sharding(values)])
    )
    arrays = [array for value in values for array in _arrays(value)]
    if not found and (len(arrays) > 1 or error.code in _PATTERNS):
        for index, value in enumerate(values):
            for others in _softened(value, has_rank):
                found += _results(
                    again,
                    (
                        [*values[:index], other, *values[index + 1 :]]
                        for other in others
                    ),
                )
    return join_all(found) if found else Unknown("an error was reported here")


def still_promised(
    promise: Type, names: Collection[str], dtypes: Collection[str | None]
) -> Type:
    """What the annotation of a result says although arguments do not fit those of their parameters, which may be what
    is wrong. An annotation of ``names`` that lacks a dimension lacks it in the result, too, where that has dimensions
    of the same names; one with the wrong dtype, of ``dtypes``, has it there, too."""

    def kept(type_: Type) -> Type:
        match type_:
            case ArrayType(dtype=dtype, shape=shape):
                follows = shape is not None and not shape.names.isdisjoint(names)
                return replace(
                    type_,
                    dtype=None if dtype in dtypes else dtype,
                    shape=None if follows else shape,
                )
            case SequenceType(items=items) | UnionType(items=items):
                return replace(type_, items=tuple(map(kept, items)))
            case RepeatedType(item=item):
                return replace(type_, item=kept(item))
            case MappingType(value=value):
                return replace(type_, value=kept(value))
            case _:
                return type_

    return kept(promise)


def _results(
    again: Again, tried: Iterator[list[Value]] | Sequence[list[Value]]
) -> list[Value]:
    """The result for the first values that the operation takes; empty where there are none."""
    for values in tried:
        try:
            result = again(values)
        except OpError:
            continue
        return [result]
    return []


def _arrays(value: Value) -> list[ArrayValue]:
    if isinstance(value, SequenceValue):
        return [item for item in value.items if isinstance(item, ArrayValue)]
    return [value] if isinstance(value, ArrayValue) else []


def _softened(value: Value, has_rank: bool) -> Iterator[Iterator[Value]]:
    """For each array of an argument, the argument with less and less known of it."""
    if isinstance(value, ArrayValue):
        yield _weaker(value, has_rank)
    elif isinstance(value, SequenceValue):
        for index, item in enumerate(value.items):
            if isinstance(item, ArrayValue):
                before, after = value.items[:index], value.items[index + 1 :]
                yield (
                    replace(value, items=(*before, one, *after))
                    for one in _weaker(item, has_rank)
                )


def _weaker(array: ArrayValue, has_rank: bool) -> Iterator[Value]:
    """An array without its dtype; without its sizes, any of which a transpose may move; and without its rank."""
    yield replace(array, dtype=None, weak=False)
    bare = ArrayValue(
        tuple(Dimension(None) for _ in array.dims or ()),
        manual=array.manual,
        numpy=array.numpy,
    )
    if has_rank:
        yield bare
    yield replace(bare, dims=None)


def _of_any_sharding(values: Sequence[Value]) -> list[Value]:
    """Values of manual code of which only the local sizes are known."""
    return [_unsharded(value) for value in values]


def _unsharded(value: Value) -> Value:
    if isinstance(value, SequenceValue):
        return replace(value, items=tuple(map(_unsharded, value.items)))
    if not isinstance(value, ArrayValue) or not value.manual:
        return value
    dims = (
        None if value.dims is None else tuple(Dimension(dim.size) for dim in value.dims)
    )
    return ArrayValue(
        dims, value.dtype, value.weak, frozenset(), manual=True, unclear=EVERY_AXIS
    )
