"""Which annotations hold arrays, and what an annotation stands for: aliases, strings and qualifiers looked through."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from shardtypes.accepted_dtypes import DTypeClass
from shardtypes.dtypes import ArrayType
from shardtypes.fields import (
    are_resolved,
    class_annotations,
    default_of,
    generic_bases,
    is_pytree_dataclass,
    own_annotations,
    replacements,
    substituted,
)
from shardtypes.strings_in_types import NameInItself, Resolved, resolved, with_args

# What may stand around the type of a variable, a field or a key, and says nothing of its values.
_QUALIFIERS = {"Final", "ClassVar", "Required", "NotRequired", "ReadOnly"}


def array_annotation(annotation: Any) -> ArrayType | None:
    """The array type that an annotation stands for: ``f32['…']``, or ``Annotated[jax.Array, f32['…']]``."""
    if isinstance(annotation, ArrayType):
        return annotation
    if typing.get_origin(annotation) is typing.Annotated:
        base, *extras = typing.get_args(annotation)
        return next(
            (extra for extra in extras if isinstance(extra, ArrayType)),
            array_annotation(base),
        )
    return None


def meaning(annotation: Any) -> Any:
    """The type beneath names for it: of ``type X = T``, ``NewType``, ``Final[T]``, ``Annotated[T, 'note']``, T."""
    while array_annotation(annotation) is None:
        if alias_of(annotation) is not None:
            annotation = meaning_of_alias(annotation)
            continue
        beneath = without_qualifiers(annotation)
        if beneath is annotation:
            break
        annotation = beneath
    return annotation


def without_qualifiers(annotation: Any) -> Any:
    """The type beneath ``NewType``, ``Final[T]``, ``Annotated[T, 'note']`` and their like; aliases stay as they are."""
    while array_annotation(annotation) is None:
        origin = typing.get_origin(annotation)
        if isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif isinstance(annotation, dataclasses.InitVar):
            annotation = annotation.type
        elif (
            origin is typing.Annotated or getattr(origin, "_name", None) in _QUALIFIERS
        ):
            annotation = typing.get_args(annotation)[0]
        else:
            break
    return annotation


def alias_of(annotation: Any) -> Any:
    """The alias that an annotation is, ``X`` for ``X[T]`` too: ``type X = …``, or a name that stands for itself."""
    origin = typing.get_origin(annotation)
    return next((part for part in (annotation, origin) if _is_alias(part)), None)


def meaning_of_alias(annotation: Any) -> Any:
    """What an alias stands for, its type variables replaced."""
    if _is_alias(annotation):
        return annotation.__value__
    alias, args = typing.get_origin(annotation), typing.get_args(annotation)
    return substituted(alias.__value__, replacements(alias.__type_params__, args))


def holds_itself(annotation: Any, inside: tuple[Any, ...] = ()) -> bool:
    """Whether an alias is met again inside of what it stands for."""
    annotation = without_qualifiers(annotation)
    alias = alias_of(annotation)
    if alias is None:
        parts = typing.get_args(annotation)
    elif any(alias is other for other in inside):
        return True
    else:
        parts, inside = (meaning_of_alias(annotation),), (*inside, alias)
    return any(holds_itself(part, inside) for part in parts)


def _is_alias(annotation: Any) -> bool:
    if isinstance(annotation, NameInItself):
        return True
    return type(annotation).__name__ == "TypeAliasType" and hasattr(
        annotation, "__value__"
    )


def is_unpacked(annotation: Any) -> bool:
    """Whether this is ``*tuple[…]``, ``*Ts`` or ``Unpack[…]``, as parameters of any number have it."""
    return (
        typing.get_origin(annotation) is typing.Unpack
        or getattr(annotation, "__unpacked__", False) is True
    )


def class_of(function: Any) -> type | None:
    """The class in whose body a function stands; None for one that is not found by its name."""
    inner = inspect.unwrap(function)
    holder = getattr(inner, "__qualname__", "").rpartition(".")[0]
    found: Any = sys.modules.get(getattr(inner, "__module__", None) or "")
    for part in holder.split("."):
        found = getattr(found, part, None)
    return found if holder and isinstance(found, type) else None


def with_self(annotation: Any, cls: type | None) -> Any:
    """An annotation with the class in the place of ``Self``; ``Any`` where that is not known."""
    if not _has_self(annotation):
        return annotation
    if cls is None:
        return Any
    if annotation is typing.Self:
        return cls
    return with_args(
        annotation, tuple(with_self(part, cls) for part in typing.get_args(annotation))
    )


def _has_self(annotation: Any) -> bool:
    return annotation is typing.Self or any(
        _has_self(part) for part in typing.get_args(annotation)
    )


def holds_arrays(annotation: Any) -> bool:
    """Whether a value of this type holds annotated arrays: itself, its items or its fields."""
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return class_holds_arrays(annotation)
    return _holds(annotation, None)


_holding: WeakKeyDictionary[type, bool] = WeakKeyDictionary()


def class_holds_arrays(base: type) -> bool:
    """Whether a ``pytree_dataclass``, or a class whose fields, attributes or items are said to have arrays in them."""
    found = _holding.get(base)
    if found is None:
        seen: set[type] = set()
        found = _class_holds(base, seen)
        # else it may hold what is defined later
        if found or all(are_resolved(part) for part in seen):
            _holding[base] = found
    return found


def never_holds_arrays(base: type) -> bool:
    """Whether a class holds no annotated arrays, and nothing that it names is left to be defined."""
    return not class_holds_arrays(base) and base in _holding


def has_array_fields(base: type) -> bool:
    """Whether a field or an attribute that a class annotates holds arrays."""
    return class_holds_arrays(base) and any(
        _holds(part, {base}) for part in class_annotations(base).values()
    )


def _holds(
    annotation: Any, seen: set[type] | None, aliases: tuple[Any, ...] = ()
) -> bool:
    """As ``holds_arrays``; ``seen`` are the classes that are being looked into, and ``aliases`` what else may hold
    itself."""
    if isinstance(annotation, list):  # the parameters of a Callable
        return any(_holds(part, seen, aliases) for part in annotation)
    if isinstance(annotation, str):  # not evaluated yet, or naming nothing
        return "[" in annotation and ("'" in annotation or '"' in annotation)
    annotation = without_qualifiers(annotation)
    if array_annotation(annotation) is not None:
        return True
    alias = alias_of(annotation)
    if alias is not None:
        return _alias_holds(annotation, alias, seen, aliases)
    if isinstance(annotation, typing.TypeVar):
        # Its default is what it stands for where a class is written without arguments.
        default = () if seen is None else (default_of(annotation),)
        parts = [*bounds(annotation), *default]
        return any(_holds(p, seen, aliases) for p in parts if p is not annotation)
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return False
    if any(_holds(part, seen, aliases) for part in args):
        return True
    base = annotation if origin is None else origin
    if not isinstance(base, type):
        return False
    return class_holds_arrays(base) if seen is None else _class_holds(base, seen)


def _alias_holds(
    annotation: Any, alias: Any, seen: set[type] | None, aliases: tuple[Any, ...]
) -> bool:
    if any(alias is other for other in aliases):  # what else it holds is looked at
        return any(_holds(arg, seen, aliases) for arg in typing.get_args(annotation))
    return _holds(meaning_of_alias(annotation), seen, (*aliases, alias))


def _class_holds(base: type, seen: set[type]) -> bool:
    if base in seen or isinstance(base, DTypeClass):
        return False
    if is_pytree_dataclass(base):
        return True
    seen.add(base)
    inside = [
        annotation
        for part in base.__mro__
        for annotation in own_annotations(part).values()
    ]
    return any(
        _holds(part, seen) for part in (*inside, *generic_bases(base))
    ) or has_array_methods(base)


def has_array_methods(base: type) -> bool:
    """Whether a protocol demands methods that are given arrays or return them."""
    if not getattr(base, "_is_protocol", False):
        return False
    methods = [
        member
        for part in base.__mro__
        for member in vars(part).values()
        if inspect.isfunction(member)
    ]
    return any(
        _holds(annotation, {base})
        for method in methods
        for annotation in _annotations_of(method).values()
    )


def bounds(variable: Any) -> tuple[Any, ...]:
    """The types of which a type variable stands for one."""
    return tuple(part.annotation for part in resolved_bounds(variable))


def resolved_bounds(variable: Any) -> list[Resolved]:
    """As ``bounds``, with what their strings do not name; those mean what they do where the variable is defined."""
    bound = variable.__bound__
    found: tuple[Any, ...] = variable.__constraints__ if bound is None else (bound,)
    module = sys.modules.get(getattr(variable, "__module__", None) or "")
    names = {} if module is None else vars(module)
    return [resolved(part, names, {}) for part in found]


def _annotations_of(method: Any) -> Mapping[str, Any]:
    """The annotations of a method, as they are written."""
    try:
        found: Mapping[str, Any] = method.__annotations__
    except NameError:  # evaluated late, since Python 3.14
        return {}
    return found
