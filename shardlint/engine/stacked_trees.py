"""Parameters that are trees: a stack of what the class says, or one of the stack that it says.

``vmap``, ``scan``, ``shard_map`` and ``tree.map`` put dimensions in front of all arrays of a tree, or take one off.
Nothing holds the new tree against jaxtyping's annotations of its class: programs have ``State`` for the state of one
environment, of many, and of many at each of many steps. This package's annotations are checked, and there is
``Array['B', State]`` for a stack; but of what is no ``pytree_dataclass`` a stack may be annotated as one, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.field_types import field_types
from shardlint.engine.scopes import shares_scope
from shardlint.engine.trees import is_tree
from shardlint.engine.typed_dicts import is_typed_dict
from shardlint.engine.types import (
    ArrayType,
    ClassType,
    MappingType,
    RepeatedType,
    SequenceType,
    Type,
    UnionType,
    shape_dialects,
)
from shardlint.values import (
    ArrayValue,
    ClassValue,
    CollectionValue,
    DictValue,
    Dimension,
    EitherValue,
    InstanceValue,
    MaybeValue,
    SequenceValue,
    Value,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

STACKED = (1, 2, -1)
"""Dimensions that all arrays of a tree may have in front, more than its class says."""


def may_be(it: Interpreter, type_: Type) -> bool:
    """Whether an argument of this type is or holds a tree that may be stacked."""
    match type_:
        case ClassType(cls=cls, prefix=(), own=False):
            return _may_be_restacked(it, cls, 1)
        case SequenceType(items=items) | UnionType(items=items):
            return any(may_be(it, item) for item in items)
        case RepeatedType(item=item) | MappingType(value=item):
            return may_be(it, item)
        case _:
            return False


def restacked(it: Interpreter, type_: Type, value: Value, more: int) -> Value:
    """The argument of this type with its trees stacked so many times more; an object whose method it is stays one."""
    if not isinstance(type_, ClassType):
        return _restacked(it, value, more)
    if type_.own:
        return value
    return _restacked(it, value, more, is_typed_dict(type_.cls))


def without_ranks(it: Interpreter, value: Value) -> Value:
    """What an annotation promises, but for the ranks of arrays in trees that may be stacked."""
    return _restacked(it, value, None)


def _restacked(
    it: Interpreter, value: Value, more: int | None, inside: bool = False
) -> Value:
    """An argument with its trees stacked once more, or more often; less than 0: with one of each stack; None: either.
    Arrays that are in no tree stay what they are; ``inside`` is of what a tree holds."""

    def part(item: Value) -> Value:
        return _restacked(it, item, more, inside)

    match value:
        case ArrayValue(dims=dims) if inside and dims is not None:
            return replace(value, dims=_restacked_dims(dims, more))
        case InstanceValue(cls=cls, fields=fields):
            inside = inside or _may_be_restacked(it, cls, more)
            return replace(value, fields=tuple((name, part(v)) for name, v in fields))
        case SequenceValue(items=items):
            return replace(value, items=tuple(map(part, items)))
        case DictValue(items=pairs):
            return DictValue(tuple((key, part(item)) for key, item in pairs))
        case CollectionValue(item=item):
            return replace(value, item=part(item))
        case MaybeValue(value=item):
            return MaybeValue(part(item))
        case EitherValue(options=options):
            return EitherValue(tuple(map(part, options)))
    return value


def _restacked_dims(
    dims: tuple[Dimension, ...], more: int | None
) -> tuple[Dimension, ...] | None:
    if more is None:
        return None
    if more < 0:
        return dims[-more:]
    return (*[Dimension(None)] * more, *dims)


def _may_be_restacked(it: Interpreter, cls: ClassValue, more: int | None) -> bool:
    """Whether it is a tree with arrays, whose shapes nothing checks once it is made; and, to be one of a stack, one
    that the class says to be a stack: all of its arrays have one first dimension, by name."""
    if not (is_tree(cls) or is_typed_dict(cls)):
        return False
    types = field_types(it, cls).values()
    dialects = frozenset[str]().union(*map(shape_dialects, types))
    if not dialects:
        return False
    if "shardtypes" in dialects:
        return not shares_scope(cls) and (more is None or more > 0)
    return more is None or more > 0 or _have_one_first_name(types)


def _have_one_first_name(types: Iterable[Type]) -> bool:
    names = set()
    for type_ in types:
        if isinstance(type_, ArrayType) and type_.shape is not None:
            first = type_.shape.dims[:1]
            names.add(first[0].name if first else None)
    return len(names) == 1 and None not in names
