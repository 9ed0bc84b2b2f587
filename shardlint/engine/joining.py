"""The value of a name after two paths meet."""

from __future__ import annotations

from dataclasses import replace

from shardlint import dtypes
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

_APART = Unknown("different on two paths")


def join(a: Value, b: Value) -> Value:
    """What holds of both values."""
    if a is b or a == b:
        return a
    match a, b:
        case ArrayValue(), ArrayValue():
            dims = None
            if a.dims is not None and b.dims is not None and len(a.dims) == len(b.dims):
                dims = tuple(
                    Dimension(x.size if x.size == y.size else None, x.axes if x.axes == y.axes else None)
                    for x, y in zip(a.dims, b.dims, strict=True)
                )
            if a.manual and b.manual:
                dtype = dtypes.either(a.dtype, a.weak, b.dtype, b.weak)
                return states.joined(replace(a, dims=dims, dtype=dtype, weak=a.weak and b.weak), b)
            return ArrayValue(
                dims,
                dtypes.either(a.dtype, a.weak, b.dtype, b.weak),
                a.weak and b.weak,
                a.pending if a.pending == b.pending else None,
                a.manual and b.manual,
                a.numpy or b.numpy,
                marks=frozenset() if a.mesh is None else a.marks | b.marks,
                mesh=a.mesh if a.mesh == b.mesh else None,
            )
        case IntValue(), IntValue():
            return IntValue(None)
        case SequenceValue(), SequenceValue() if len(a.items) == len(b.items) and a.kind == b.kind:
            return SequenceValue(tuple(map(join, a.items, b.items)), a.kind, a.names)
        case InstanceValue(), InstanceValue() if a.cls is b.cls:
            other = dict(b.fields)
            fields = tuple((name, join(value, other.get(name, _APART))) for name, value in a.fields)
            return InstanceValue(a.cls, fields, a.prefix if a.prefix == b.prefix else (), a.exact and b.exact)
        case DictValue(items=pairs), DictValue(items=others) if [k for k, _ in pairs] == [k for k, _ in others]:
            return DictValue(tuple((key, join(x, y)) for (key, x), (_, y) in zip(pairs, others, strict=True)))
        case MaybeValue(), MaybeValue():
            return MaybeValue(join(a.value, b.value))
        case ((Constant(value=bool()) | ScalarValue(kind="bool")), (Constant(value=bool()) | ScalarValue(kind="bool"))):
            return ScalarValue("bool")
        case (
            (Constant(value=float()) | ScalarValue(kind="float")),
            (Constant(value=float()) | ScalarValue(kind="float")),
        ):
            return ScalarValue("float")
        case ((Constant(value=str()) | StringValue()), (Constant(value=str()) | StringValue())):
            return StringValue()
        case Constant(value=None), _ if not isinstance(b, Unknown):
            return MaybeValue(b.value) if isinstance(b, MaybeValue) else MaybeValue(b)
        case _, Constant(value=None) if not isinstance(a, Unknown):
            return join(b, a)
        case _:
            return _APART


def join_all(values: list[Value]) -> Value:
    result = values[0]
    for value in values[1:]:
        result = join(result, value)
    return result


def join_variables(a: dict[str, Value], b: dict[str, Value]) -> dict[str, Value]:
    """Two environments; a name that only one of them has may be missing."""
    return {name: join(a[name], b[name]) if name in a and name in b else _APART for name in {**a, **b}}
