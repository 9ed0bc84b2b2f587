"""The value of a name after two paths meet."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import TypeAlias

from shardlint.ops.sharding import state as states
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    InstanceValue,
    IntValue,
    MaybeValue,
    ScalarValue,
    SequenceValue,
    StringValue,
    Unknown,
    Value,
)
from shardlint.values import Literal as Constant
from shardtypes.lang import dtypes

_APART = Unknown("different on two paths")


_OBJECTS = (SequenceValue, DictValue, InstanceValue)
_Done: TypeAlias = dict[tuple[int, int], Value]
_MOST = 8  # objects that one may be
_FIXED = frozenset({"tuple", "keys"})  # sequences that nothing changes


def join(a: Value, b: Value, done: _Done | None = None) -> Value:
    """What holds of both values. ``done`` keeps shared parts shared."""
    if a is b:
        return a
    if not (isinstance(a, _OBJECTS) and isinstance(b, _OBJECTS)):
        return a if a == b else _join(a, b, {} if done is None else done)
    done = {} if done is None else done
    known = done.get((id(a), id(b)))
    if known is not None:
        return known
    result = _join(a, b, done)
    if isinstance(result, (*_OBJECTS, Unknown)) and not (
        isinstance(result, SequenceValue) and result.kind in _FIXED
    ):
        parts = {id(one): one for one in (a, b, *a.either, *b.either)}
        result = replace(result, either=tuple(parts.values())[:_MOST])
    done[id(a), id(b)] = result
    return result


def _join(a: Value, b: Value, done: _Done) -> Value:
    def both(one: Value, other: Value) -> Value:
        return join(one, other, done)

    match a, b:
        case ArrayValue(), ArrayValue():
            return _join_arrays(a, b)
        case IntValue(), IntValue():
            return IntValue(a.size if a.size == b.size else None)
        case SequenceValue(), SequenceValue() if (
            len(a.items) == len(b.items) and a.kind == b.kind
        ):
            items = tuple(map(both, a.items, b.items))
            same = a.kind in _FIXED and all(map(operator.is_, items, a.items))
            return a if same else SequenceValue(items, a.kind, a.names)
        case InstanceValue(), InstanceValue() if a.cls is b.cls:
            first, other = dict(a.fields), dict(b.fields)
            names = first if first.keys() == other.keys() else {**first, **other}
            fields = tuple(
                (name, both(first.get(name, _APART), other.get(name, _APART)))
                for name in names
            )
            return InstanceValue(
                a.cls,
                fields,
                a.prefix if a.prefix == b.prefix else (),
                a.exact and b.exact,
            )
        case DictValue(items=pairs), DictValue(items=others) if [
            k for k, _ in pairs
        ] == [k for k, _ in others]:
            return DictValue(
                tuple(
                    (key, both(x, y))
                    for (key, x), (_, y) in zip(pairs, others, strict=True)
                )
            )
        case MaybeValue(), MaybeValue():
            return MaybeValue(both(a.value, b.value))
        case (
            (Constant(value=bool()) | ScalarValue(kind="bool")),
            (Constant(value=bool()) | ScalarValue(kind="bool")),
        ):
            return ScalarValue("bool")
        case (
            (Constant(value=float()) | ScalarValue(kind="float")),
            (Constant(value=float()) | ScalarValue(kind="float")),
        ):
            return ScalarValue("float")
        case (
            (Constant(value=str()) | StringValue()),
            (Constant(value=str()) | StringValue()),
        ):
            return StringValue()
        case Constant(value=None), _ if not isinstance(b, Unknown):
            return MaybeValue(b.value) if isinstance(b, MaybeValue) else MaybeValue(b)
        case _, Constant(value=None) if not isinstance(a, Unknown):
            return both(b, a)
        case _:
            return _APART


def _join_arrays(a: ArrayValue, b: ArrayValue) -> ArrayValue:
    """What both arrays have: sizes and axes of single dimensions, and the dtype that either may be."""
    dims = None
    if a.dims is not None and b.dims is not None and len(a.dims) == len(b.dims):
        dims = tuple(
            _join_dimensions(x, y) for x, y in zip(a.dims, b.dims, strict=True)
        )
    dtype = dtypes.either(a.dtype, a.weak, b.dtype, b.weak)
    weak = a.weak and b.weak
    if a.manual and b.manual:
        return states.joined(replace(a, dims=dims, dtype=dtype, weak=weak), b)
    return ArrayValue(
        dims,
        dtype,
        weak,
        pending=a.pending if a.pending == b.pending else None,
        manual=False,
        numpy=a.numpy or b.numpy,
        marks=frozenset() if a.mesh is None else a.marks | b.marks,
        mesh=a.mesh if a.mesh == b.mesh else None,
    )


def _join_dimensions(x: Dimension, y: Dimension) -> Dimension:
    size = x.size if x.size == y.size else None
    axes = x.axes if x.axes == y.axes else None
    return Dimension(size, axes)


def join_all(values: list[Value]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result


def join_variables(a: dict[str, Value], b: dict[str, Value]) -> dict[str, Value]:
    """Two environments; a name that only one of them has may be missing."""
    done: _Done = {}
    result: dict[str, Value] = {}
    for name, one in a.items():
        other = b.get(name, _APART)
        result[name] = (
            one if one is other else join(one, other, done) if name in b else _APART
        )
    for name in b:
        if name not in a:
            result[name] = _APART
    return result
