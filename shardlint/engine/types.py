"""What annotations mean: frozen types, resolved once per place."""

from __future__ import annotations

from typing import TypeAlias

from shardlint import ir
from shardlint.values import ClassValue
from shardtypes.lang import Dim, Shape
from shardtypes.lang.frozen import frozen
from shardtypes.lang.messages import array_text


@frozen
class AnyType:
    """An annotation that says nothing here."""

    reason: str = ""


@frozen
class VariableType(AnyType):
    """A type variable: what it is, the use of a generic class says."""

    name: str = ""


@frozen
class FunctionType(AnyType):
    """``Callable[[A], B]`` that tells the shape of an array: what is called is like a function without a body."""

    node: ir.Function | None = None
    module: str = ""


@frozen
class ArrayType:
    """``f32['B L']``: ``at`` is the string's node, in ``module``. ``prefix`` are stacked dimensions in front."""

    dtype: str | None
    shape: Shape | None
    module: str
    at: int
    text: str

    @property
    def written(self) -> str:
        """As annotations write it."""
        return array_text(self.dtype, None if self.shape is None else self.text.strip())

    @property
    def declared(self) -> tuple[str, int, str]:
        """The related place of a finding about it."""
        return self.module, self.at, f"declared {self.written} here"


@frozen
class ScalarType:
    """int, float, bool, str, None or complex."""

    kind: str


@frozen
class ClassType:
    """An instance of a project class, with the dimensions that are stacked in front of each of its arrays.

    ``own`` marks ``self``: the names of its fields are the method's names. ``args`` are what is written in brackets
    behind a generic class.
    """

    cls: ClassValue
    prefix: tuple[Dim, ...] = ()
    own: bool = False
    args: tuple[Type, ...] = ()


@frozen
class SequenceType:
    """``tuple[A, B]``."""

    items: tuple[Type, ...]


@frozen
class RepeatedType:
    """``list[A]`` or ``tuple[A, ...]``."""

    kind: str
    item: Type


@frozen
class MappingType:
    value: Type


@frozen
class UnionType:
    items: tuple[Type, ...]


Type: TypeAlias = (
    AnyType
    | ArrayType
    | ScalarType
    | ClassType
    | SequenceType
    | RepeatedType
    | MappingType
    | UnionType
)


def says_something(type_: Type) -> bool:
    """Whether the type tells the shape of an array somewhere."""
    match type_:
        case ArrayType():
            return type_.shape is not None
        case ClassType():
            return True
        case SequenceType():
            return any(says_something(item) for item in type_.items)
        case RepeatedType():
            return says_something(type_.item)
        case MappingType():
            return says_something(type_.value)
        case UnionType():
            return any(says_something(item) for item in type_.items)
        case _:
            return False


def shape_dialects(type_: Type) -> frozenset[str]:
    """The dialects of the shape strings that it writes itself, those of fields of classes aside."""
    match type_:
        case ArrayType(shape=shape):
            return frozenset() if shape is None else frozenset({shape.dialect})
        case SequenceType(items=items) | UnionType(items=items):
            return frozenset().union(*map(shape_dialects, items))
        case RepeatedType(item=item) | MappingType(value=item):
            return shape_dialects(item)
        case _:
            return frozenset()


def has_own_scope(type_: Type) -> bool:
    """Whether a field of this type is checked where its instance is made, and not in the scope of a function that is
    given the instance: jaxtyping's arrays, which no function looks for in an instance."""
    match type_:
        case ArrayType(shape=shape):
            return shape is None or shape.dialect != "shardtypes"
        case SequenceType(items=items) | UnionType(items=items):
            return any(has_own_scope(item) for item in items)
        case RepeatedType(item=item) | MappingType(value=item):
            return has_own_scope(item)
        case _:
            return False
