"""The annotated fields of classes: dataclasses of every kind, attrs, named tuples, typed dicts, plain classes."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from shardtypes import _stats
from shardtypes.frames import mentioned_names
from shardtypes.strings_in_types import Resolved, resolved

# Where an annotation names nothing (yet), or only what type checkers know.
_UNKNOWN = (NameError, AttributeError, TypeError, ValueError, SyntaxError)


def is_pytree_dataclass(cls: Any) -> bool:
    """Whether a class was made by ``pytree_dataclass``."""
    return isinstance(cls, type) and "__shardtypes_pytree__" in vars(cls)


def mark_own_sizes(cls: type) -> None:
    """Have each value of a class, and of those below it, name its sizes by itself."""
    cls.__shardtypes_own_sizes__ = True  # type: ignore[attr-defined]  # read by the next function


def shares_sizes(cls: type) -> bool:
    """Whether the sizes that the fields of a class name are those of the call: of a ``pytree_dataclass``, and of
    classes below one."""
    if getattr(cls, "__shardtypes_own_sizes__", False):
        return False
    return any(is_pytree_dataclass(part) for part in cls.__mro__)


def unstacked(cls: type) -> type:
    """The class of one of the values that a stacked class holds, ``C`` of ``Array['layers', C]``; any other itself."""
    while "__shardtypes_stack__" in vars(cls):
        _, inner = vars(cls)["__shardtypes_stack__"]
        cls = typing.get_origin(inner) or inner
    return cls


def stacked_as(base: Any, cls: type) -> type:
    """A class with the dimensions in front that the class ``base`` has, if it is a stacked one."""
    if "__shardtypes_stack__" not in vars(base) or issubclass(cls, base):
        return cls
    made: type = base.stack_alike(cls)
    return made


def is_stacked(cls: Any) -> bool:
    """Whether it is ``Array['n', C]`` of a class ``C``."""
    return isinstance(cls, type) and "__shardtypes_stack__" in vars(cls)


def is_stack_of_other(cls: Any) -> bool:
    """Whether it is ``Array['n', C]`` of a class ``C`` that is no ``pytree_dataclass``."""
    return is_stacked(cls) and not is_pytree_dataclass(cls)


def is_named_tuple(cls: Any) -> bool:
    """Whether a class is a named tuple."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")


def declares_fields(cls: Any) -> bool:
    """Whether a class has fields: a dataclass of any kind, or one of attrs."""
    return isinstance(cls, type) and (
        dataclasses.is_dataclass(cls) or hasattr(cls, "__attrs_attrs__")
    )


def is_checked_where_made(cls: type) -> bool:
    """Whether a class checks its fields when one of it is made (see ``construction``)."""
    return "__shardtypes_made__" in vars(cls)


def field_names(cls: Any) -> list[str]:
    """The fields that a value of a class has, in their order."""
    if is_pytree_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.init]
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    if hasattr(cls, "__attrs_attrs__"):
        return [attribute.name for attribute in cls.__attrs_attrs__]
    return list(cls._fields) if is_named_tuple(cls) else list(class_annotations(cls))


# The local names that the annotations of classes mention that were defined in a function.
_local_names: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()
# The global names of classes: a module that ``exec`` or ``runpy`` runs is not to be found by its name.
_module_names: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()


def remember_names(cls: type, frame: types.FrameType) -> None:
    """Keep what a class's annotations mention of where it is defined: no one finds it there later."""
    if frame.f_locals is frame.f_globals:
        if frame.f_globals.get("__name__", "builtins") == cls.__module__:
            _module_names[cls] = frame.f_globals
        return
    _local_names[cls] = mentioned_names(_written(cls), frame)
    for name, member in vars(cls).items():
        if (
            isinstance(member, type)
            and member.__qualname__ == f"{cls.__qualname__}.{name}"
        ):
            remember_names(member, frame)


def remember_names_of(before: type, cls: type) -> None:
    """Keep for a class what is kept for another one, of which it was made."""
    for names in (_local_names, _module_names):
        known = names.get(before)
        if known is not None:
            names.setdefault(cls, known)


def module_names(cls: type) -> dict[str, Any]:
    """The global names where a class is defined; none where that is not known."""
    known = _module_names.get(cls)
    if known is not None:
        return known
    for member in vars(cls).values():
        function = (
            inspect.unwrap(member) if isinstance(member, types.FunctionType) else None
        )
        if isinstance(function, types.FunctionType) and not is_generated(function):
            if function.__globals__.get("__name__", "builtins") == cls.__module__:
                return function.__globals__
    module = sys.modules.get(cls.__module__)
    return {} if module is None else vars(module)


def is_generated(function: types.FunctionType) -> bool:
    """Whether a method was made from the fields of a class, by ``dataclasses`` and the like."""
    code = function.__code__
    return code.co_qualname.startswith("__create_fn__.") or code.co_filename.startswith(
        "<attrs generated"
    )


# What each class's own annotations stand for. Not where one of them names nothing, for that may be defined later.
_found: WeakKeyDictionary[type, Mapping[str, Any]] = WeakKeyDictionary()


def own_annotations(cls: type) -> Mapping[str, Any]:
    """What a class itself annotates, resolved; as it is written, where it names nothing."""
    return _own(cls)[0]


def class_annotations(cls: type) -> Mapping[str, Any]:
    """As ``own_annotations``, of a class and its bases."""
    return _of_class(cls)[0]


def field_types(cls: type, args: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The resolved annotations of a class's fields, type variables replaced by ``args``.

    Raises ``NameError`` for an annotation that names nothing.
    """
    found, missing = _of_class(cls)
    for part in missing.values():
        raise part.missing[0]
    return _of_fields(cls, args, found)


@dataclasses.dataclass(frozen=True)
class FieldTypes:
    """What is known of the types of a class's fields."""

    types: dict[str, Any]
    cls: type
    missing: tuple[NameError, ...]

    def are_current(self) -> bool:
        """Whether nothing more is known by now: a name may be defined after the class."""
        return not any(_is_defined(self.cls, error.name) for error in self.missing)


def _is_defined(cls: type, name: str | None) -> bool:
    """Whether a name may mean something in the annotations of a class; None for one that is not known."""
    if name is None:
        return True
    return any(
        name in names
        for base in cls.__mro__
        for names in (vars(base), _local_names.get(base, {}), module_names(base))
    )


def known_field_types(cls: type, args: tuple[Any, ...] = ()) -> FieldTypes:
    """As ``field_types``, without what names nothing, which is counted."""
    found, missing = _of_class(cls)
    for name, part in missing.items():
        for reason in part.reasons(f"{cls.__name__}.{name}"):
            _stats.count_not_possible(reason)
    known = {
        name: hint
        for name, hint in found.items()
        if name not in missing or missing[name].annotation is not Any
    }
    errors = [error for part in missing.values() for error in part.missing]
    return FieldTypes(_of_fields(cls, args, known), cls, tuple(errors))


def are_resolved(cls: type) -> bool:
    """Whether each annotation of a class stands for something by now."""
    return not _of_class(cls)[1]


def replacements(parameters: Sequence[Any], args: Sequence[Any]) -> dict[Any, Any]:
    """What type variables stand for: those without an argument for their default; nothing where the arguments do not
    go with them."""
    given = [*args, *(default_of(parameter) for parameter in parameters[len(args) :])]
    if len(given) != len(parameters):
        return {}
    pairs = zip(parameters, given, strict=True)
    return {parameter: part for parameter, part in pairs if part is not parameter}


def default_of(parameter: Any) -> Any:
    """The default of a type variable, or itself."""
    has_default = getattr(parameter, "has_default", None)
    if has_default is None or not has_default():
        return parameter
    return parameter.__default__


def substituted(hint: Any, replaced: Mapping[Any, Any]) -> Any:
    """An annotation with its type variables replaced."""
    if hint in replaced:
        return replaced[hint]
    if typing.get_origin(hint) is None:  # a generic class without arguments, too
        return hint
    parameters = getattr(hint, "__parameters__", ())
    if parameters:
        return hint[tuple(replaced.get(p, p) for p in parameters)]
    return hint


def _of_fields(
    cls: Any, args: tuple[Any, ...], found: Mapping[str, Any]
) -> dict[str, Any]:
    replaced = replacements(getattr(cls, "__parameters__", ()), args) if args else {}
    names = [name for name in field_names(cls) if name in found]
    return {
        name: substituted(found[name], replaced) if replaced else found[name]
        for name in names
    }


def _of_class(cls: type) -> tuple[dict[str, Any], dict[str, Resolved]]:
    """The annotations of a class and its bases, and why some of them are left as they are written."""
    found: dict[str, Any] = {}
    missing: dict[str, Resolved] = {}
    arguments = _arguments_of_bases(cls)
    for base in reversed(cls.__mro__):
        hints, parts = _own(base)
        for name in hints:
            missing.pop(name, None)
        replaced = arguments.get(base)
        if replaced:
            hints = {name: substituted(h, replaced) for name, h in hints.items()}
        found.update(hints)
        missing.update(parts)
    return found, missing


def _arguments_of_bases(cls: type) -> dict[type, dict[Any, Any]]:
    """What the type variables of its bases stand for in a class: ``class Weights(Box[f32['M']])``."""
    found: dict[type, dict[Any, Any]] = {}
    waiting: list[tuple[type, Mapping[Any, Any]]] = [(cls, {})]
    while waiting:
        part, replaced = waiting.pop(0)
        for base in generic_bases(part):
            origin = typing.get_origin(base)
            if not isinstance(origin, type) or origin in found:
                continue
            args = [substituted(arg, replaced) for arg in typing.get_args(base)]
            parameters = getattr(origin, "__parameters__", ())
            found[origin] = replacements(parameters, args)
            waiting.append((origin, found[origin]))
        plain = [base for base in part.__bases__ if base not in found]
        waiting += [(base, {}) for base in plain if base is not object]
    return found


def generic_bases(cls: type) -> tuple[Any, ...]:
    """The bases of a class as it was written, ``Generic[T]`` and ``Protocol[T]`` left out."""
    if "__shardtypes_fields__" in vars(cls):  # of the stacked form of another class
        return ()
    written: tuple[Any, ...] = getattr(cls, "__orig_bases__", ())
    return tuple(
        part
        for part in written
        if typing.get_origin(part) not in (typing.Generic, typing.Protocol)
    )


def _own(cls: type) -> tuple[Mapping[str, Any], Mapping[str, Resolved]]:
    if "__shardtypes_fields__" in vars(cls):  # of the stacked form of another class
        return vars(cls)["__shardtypes_fields__"], {}
    earlier = _found.get(cls)
    if earlier is not None:
        return earlier, {}
    found: dict[str, Any] = {}
    missing: dict[str, Resolved] = {}
    for name, annotation in _written(cls).items():
        try:
            known = _evaluated(cls, annotation)
        except _UNKNOWN as error:
            known = Resolved(Any, [NameError(str(error))])
        found[name] = annotation if known.annotation is Any else known.annotation
        if known.missing:
            missing[name] = known
    if not missing:
        _found[cls] = found
    return found, missing


def _written(cls: type) -> dict[str, Any]:
    """What a class itself annotates, as it is written."""
    if vars(builtins).get(cls.__name__) is cls:
        return {}
    if sys.version_info < (3, 14):
        found = vars(cls).get("__annotations__", {})
        return dict(found) if isinstance(found, Mapping) else {}
    import annotationlib  # type: ignore[import-not-found,unused-ignore]  # Python 3.14 and later

    return dict(
        annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF)
    )


def _evaluated(cls: type, annotation: Any) -> Resolved:
    local_names = {**_local_names.get(cls, {}), **vars(cls), cls.__name__: cls}
    return resolved(annotation, module_names(cls), local_names)
