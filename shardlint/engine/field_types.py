"""The annotated fields of classes, with the dimensions that a stacked type prepends to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from shardlint.engine.annotations import resolve, with_prefix
from shardlint.engine.types import ArrayType, ClassType, Type
from shardlint.values import ClassValue
from shardtypes.lang import Dim

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def field_types(
    it: Interpreter, cls: ClassValue, prefix: tuple[Dim, ...] = ()
) -> Mapping[str, Type]:
    """The annotated fields of a class, those of its bases first."""
    known = it.fields_of.get((cls, prefix))
    if known is None:
        fields = it.fields(cls).items()
        known = {
            name: _stack(resolve(it, node.annotation, module), prefix)
            for name, (node, module) in fields
        }
        it.fields_of[cls, prefix] = known
    return known


def _stack(type_: Type, prefix: tuple[Dim, ...]) -> Type:
    if not prefix:
        return type_
    if isinstance(type_, ArrayType):
        return with_prefix(type_, prefix)
    if isinstance(type_, ClassType):
        return ClassType(type_.cls, (*prefix, *type_.prefix))
    return type_
