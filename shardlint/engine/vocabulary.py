"""Which names of a function were chosen together.

The names of a signature are independent sizes: some call tells them apart. The fields of a class are named where the
class is written; a function that takes an instance, and uses none of these names itself, may well call the same size
something else. So each class brings a vocabulary of its own, and those that share a name are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from shardlint.engine.annotations import resolve
from shardlint.engine.types import (
    ArrayType,
    ClassType,
    MappingType,
    RepeatedType,
    SequenceType,
    Type,
    UnionType,
)
from shardtypes.lang import Size

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def vocabularies(it: Interpreter, types: Iterable[Type]) -> list[frozenset[str]]:
    """The names that the annotations of one signature say themselves, then those of each class that they mention."""
    classes: dict[int, frozenset[str]] = {}
    return [_names(it, types, classes), *classes.values()]


def written(
    it: Interpreter, parameters: Iterable[Type], others: Iterable[Type]
) -> tuple[Counter[str], frozenset[int]]:
    """How often the annotations of one signature, and the classes that they mention, write each name; and the numbers
    that they write. Two parameters of one shape, as a sine and a cosine, write its names once."""
    names: Counter[str] = Counter()
    numbers: set[int] = set()
    seen: set[int] = set()
    for shape in (
        *dict.fromkeys(_shapes(it, parameters, seen)),
        *_shapes(it, others, seen),
    ):
        for size in shape:
            names.update(size.symbols)
            numbers.update(abs(coefficient) for _, coefficient in size.terms)
    return names, frozenset(numbers)


def _shapes(
    it: Interpreter, types: Iterable[Type], seen: set[int]
) -> Iterator[tuple[Size, ...]]:
    for type_ in types:
        for found in _leaves(type_):
            dims = (
                found.prefix
                if isinstance(found, ClassType)
                else found.shape.dims
                if found.shape is not None
                else ()
            )
            yield tuple(dim.size for dim in dims if dim.size is not None)
            if isinstance(found, ClassType) and id(found.cls) not in seen:
                seen.add(id(found.cls))
                yield from _shapes(it, _fields(it, found), seen)


def _fields(it: Interpreter, type_: ClassType) -> list[Type]:
    return [
        resolve(it, node.annotation, module)
        for node, module in it.fields(type_.cls).values()
    ]


def _names(
    it: Interpreter, types: Iterable[Type], classes: dict[int, frozenset[str]]
) -> frozenset[str]:
    """The names that annotations say themselves; those of the classes that they mention go to ``classes``."""
    names: set[str] = set()
    for type_ in types:
        for found in _leaves(type_):
            if isinstance(found, ArrayType):
                names |= found.shape.names if found.shape is not None else frozenset()
            else:
                names |= {
                    name
                    for dim in found.prefix
                    if dim.size is not None
                    for name in dim.size.symbols
                }
                if id(found.cls) not in classes:
                    classes[id(found.cls)] = frozenset()  # a class may mention itself
                    classes[id(found.cls)] = _names(it, _fields(it, found), classes)
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
