"""What ``type(x)`` gives, what types are called, and whether two of them are one."""

from __future__ import annotations

from collections.abc import Iterable

from shardlint.engine.class_index import ClassIndex
from shardlint.values import (
    ArrayValue,
    ClassValue,
    EitherValue,
    ExternalValue,
    InstanceValue,
    Literal,
    SequenceValue,
    Unknown,
    Value,
)

#: The classes that arrays of JAX are of, outside of transformations and inside of one or another.
ARRAY_TYPES = tuple(
    ExternalValue(name)
    for name in """jaxlib._jax.ArrayImpl jax._src.interpreters.partial_eval.DynamicJaxprTracer
    jax._src.interpreters.partial_eval.JaxprTracer jax._src.interpreters.partial_eval.JitTracer
    jax._src.interpreters.batching.BatchTracer jax._src.interpreters.ad.JVPTracer
    jax._src.interpreters.ad.LinearizeTracer jax._src.shard_map.ShardMapTracer""".split()
)
_BUILTIN = "builtins."
_CONSTANTS = (bool, float, complex, str, bytes)
_NAMES = frozenset({"__name__", "__qualname__"})
_SAME = {"is": True, "==": True, "is not": False, "!=": False}


def of(value: Value, classes: ClassIndex) -> Value:
    """``type(value)``."""
    match value:
        case InstanceValue(cls=cls, exact=exact):
            if exact or not classes.has_subclasses(cls):
                return cls
            return Unknown("a type")
        case ArrayValue(numpy=False):
            return EitherValue(ARRAY_TYPES)
        case SequenceValue(kind="list" | "tuple" | "set" as kind):
            return ExternalValue(_BUILTIN + kind)
        case Literal(value=constant) if type(constant) in _CONSTANTS:
            return ExternalValue(_BUILTIN + type(constant).__name__)
        case _:
            return Unknown("a type")


def attribute(value: Value, name: str) -> Value | None:
    """``value.name`` of a type, or of one of several; None where it is another attribute."""
    match value:
        case EitherValue(options=options):
            found = [attribute(one, name) for one in options]
            known = [one for one in found if one is not None]
            return EitherValue(tuple(known)) if len(known) == len(found) else None
        case ClassValue(closure=None) if name in _NAMES:
            return Literal(value.name)
        case ClassValue(module=module) if name == "__module__":
            return Literal(module)
        case ExternalValue(qualname=qualname) if _is_type(value):
            module, _, own = qualname.rpartition(".")
            if name in _NAMES:
                return Literal(own)
            if name == "__module__":
                return Literal(module)
    return None


def compare(op: str, left: Value, right: Value) -> bool | None:
    """Whether a comparison of types, or of what they are called, holds; None where that is not certain."""
    if op not in _SAME:
        return None
    verdicts = {
        _are_one(one, other) for one in _options(left) for other in _options(right)
    }
    if len(verdicts) != 1:
        return None
    found = verdicts.pop()
    if found is None:
        return None
    return found == _SAME[op]


def _options(value: Value) -> Iterable[Value]:
    return value.options if isinstance(value, EitherValue) else (value,)


def _are_one(one: Value, other: Value) -> bool | None:
    match one, other:
        case ClassValue(), ClassValue():
            return one.node is other.node and one.module == other.module
        case ClassValue(), ExternalValue():
            return False if _is_type(other) else None
        case ExternalValue(), ClassValue():
            return False if _is_type(one) else None
        case ExternalValue(), ExternalValue() if _is_type(one) and _is_type(other):
            return one == other
        case Literal(value=str()), Literal(value=str()):
            return one == other
    return None


def _is_type(value: ExternalValue) -> bool:
    """Whether it is a type that nothing else is, under no other name."""
    return value in ARRAY_TYPES or value.qualname in _BUILTIN_TYPES


_BUILTIN_TYPES = frozenset(
    f"{_BUILTIN}{name}"
    for name in "bool int float complex str bytes list tuple dict set frozenset".split()
)
