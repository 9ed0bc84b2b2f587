"""Which names of a function were chosen together.

The names of a signature are independent sizes: some call tells them apart. The fields of a class are named where the
class is written; a function that takes an instance, and uses none of these names itself, may well call the same size
something else. So each class brings a vocabulary of its own, and those that share a name are one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from shardlint.engine.annotations import resolve
from shardlint.engine.types import ArrayType, ClassType, MappingType, RepeatedType, SequenceType, Type, UnionType

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def vocabularies(it: Interpreter, types: Iterable[Type]) -> list[frozenset[str]]:
    """The names that the annotations of one signature say themselves, then those of each class that they mention."""
    classes: dict[int, frozenset[str]] = {}
    return [_names(it, types, classes), *classes.values()]


def _names(it: Interpreter, types: Iterable[Type], classes: dict[int, frozenset[str]]) -> frozenset[str]:
    """The names that annotations say themselves; those of the classes that they mention go to ``classes``."""
    names: set[str] = set()
    for type_ in types:
        for found in _leaves(type_):
            if isinstance(found, ArrayType):
                names |= found.shape.names if found.shape is not None else frozenset()
            else:
                names |= {name for dim in found.prefix if dim.size is not None for name in dim.size.symbols}
                if id(found.cls) not in classes:
                    classes[id(found.cls)] = frozenset()  # a class may mention itself
                    fields = [resolve(it, node.annotation, module) for node, module in it.fields(found.cls).values()]
                    classes[id(found.cls)] = _names(it, fields, classes)
    return frozenset(names)


def _leaves(type_: Type) -> Iterator[ArrayType | ClassType]:
    match type_:
        case ArrayType() | ClassType():
            yield type_
        case SequenceType(items=items) | UnionType(items=items):
            for item in items:
                yield from _leaves(item)
        case RepeatedType(item=item) | MappingType(value=item):
            yield from _leaves(item)
