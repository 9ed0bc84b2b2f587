"""The annotated fields of classes, with the dimensions that a stacked type prepends to them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint.engine.annotations import resolve, variables_of, with_prefix
from shardlint.engine.types import (
    ArrayType,
    ClassType,
    MappingType,
    RepeatedType,
    SequenceType,
    Type,
    UnionType,
    VariableType,
)
from shardlint.values import ClassValue
from shardtypes.lang import Dim

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def field_types(
    it: Interpreter,
    cls: ClassValue,
    prefix: tuple[Dim, ...] = (),
    args: tuple[Type, ...] = (),
) -> Mapping[str, Type]:
    """The annotated fields of a class, those of its bases first; of a generic class, with these arguments."""
    known = it.fields_of.get((cls, prefix, args))
    if known is None:
        fields = it.fields(cls).items()
        given = dict(zip(variables_of(it, cls), args, strict=False)) if args else {}
        known = {
            name: _stack(_filled(resolve(it, node.annotation, module), given), prefix)
            for name, (node, module) in fields
        }
        it.fields_of[cls, prefix, args] = known
    return known


def of_instance(it: Interpreter, type_: ClassType) -> Mapping[str, Type]:
    """The annotated fields of what an annotation says is an instance."""
    return field_types(it, type_.cls, type_.prefix, type_.args)


def is_given(it: Interpreter, type_: ClassType, name: str) -> bool:
    """Whether the annotation itself says what a field of a generic class is."""
    if not type_.args:
        return False
    general = field_types(it, type_.cls, type_.prefix)[name]
    return general != of_instance(it, type_)[name]


def _filled(type_: Type, given: Mapping[str, Type]) -> Type:
    """A type of which the type variables are known."""
    if not given:
        return type_
    match type_:
        case VariableType(name=name):
            return given.get(name, type_)
        case RepeatedType(kind=kind, item=item):
            return RepeatedType(kind, _filled(item, given))
        case MappingType(value=item):
            return MappingType(_filled(item, given))
        case SequenceType(items=items):
            return SequenceType(tuple(_filled(item, given) for item in items))
        case UnionType(items=items):
            return UnionType(tuple(_filled(item, given) for item in items))
        case ClassType(args=args):
            return replace(type_, args=tuple(_filled(item, given) for item in args))
        case _:
            return type_


def _stack(type_: Type, prefix: tuple[Dim, ...]) -> Type:
    if not prefix:
        return type_
    if isinstance(type_, ArrayType):
        return with_prefix(type_, prefix)
    if isinstance(type_, ClassType):
        return replace(type_, prefix=(*prefix, *type_.prefix))
    return type_
