"""``pytree_dataclass``: a dataclass that JAX sees as a tree of its fields, with their names in key paths."""

from __future__ import annotations

import dataclasses
import re
import sys
import threading
import types
import typing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, dataclass_transform, overload
from weakref import WeakKeyDictionary

import jax

from shardtypes import _stats

C = TypeVar("C")


@overload
def pytree_dataclass(cls: type[C], /) -> type[C]: ...
@overload
def pytree_dataclass(
    *, frozen: bool = False, kw_only: bool = False, eq: bool = True, repr: bool = True
) -> Callable[[type[C]], type[C]]: ...


@dataclass_transform(field_specifiers=(dataclasses.field,))
def pytree_dataclass(
    cls: Any = None, /, *, frozen: bool = False, kw_only: bool = False, eq: bool = True, repr: bool = True
) -> Any:
    """Make a class a dataclass and a pytree.

    A field declared ``dataclasses.field(metadata={'static': True})`` is no leaf but part of the tree's structure, so
    it must be hashable. Wherever a value is checked, so are its fields, one by one; construction checks nothing, for
    JAX puts other things than arrays in the leaves.
    """

    outer = sys._getframe(1)

    def make(target: type[C]) -> type[C]:
        made = dataclasses.dataclass(target, frozen=frozen, kw_only=kw_only, eq=eq, repr=repr)
        remember_names(made, outer)
        return register(made)

    return make if cls is None else make(cls)


# The local names that the annotations of classes mention that were defined in a function.
_local_names: WeakKeyDictionary[type, dict[str, Any]] = WeakKeyDictionary()


def remember_names(cls: type, frame: types.FrameType) -> None:
    """Keep what a class's annotations mention of the function in which it is defined: no one finds it there later."""
    if frame.f_locals is frame.f_globals:
        return
    texts = [text for text in _own_annotations(cls).values() if isinstance(text, str)]
    words = {word for text in texts for word in re.findall(r"[^\W\d]\w*", text)}
    _local_names[cls] = {name: value for name, value in frame.f_locals.items() if name in words}


def register(cls: type[C]) -> type[C]:
    """Register a dataclass with JAX and with our checks."""
    fields = [f for f in dataclasses.fields(cls) if f.init]  # type: ignore[arg-type]  # a dataclass by contract
    data = [f.name for f in fields if not f.metadata.get("static", False)]
    static = [f.name for f in fields if f.metadata.get("static", False)]
    jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=static)
    cls.__shardtypes_pytree__ = True  # type: ignore[attr-defined]  # the mark that the checks look for
    return cls


def is_pytree_dataclass(cls: Any) -> bool:
    """Whether a class was made by ``pytree_dataclass``."""
    return isinstance(cls, type) and "__shardtypes_pytree__" in vars(cls)


# What `field_types` found, by class and arguments. Not what it could not find, which may be defined later.
_found: WeakKeyDictionary[type, dict[tuple[Any, ...], dict[str, Any]]] = WeakKeyDictionary()


def field_types(cls: type, args: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The resolved annotations of the fields that are checked, type variables replaced by ``args``.

    Of a ``pytree_dataclass`` those are all, static ones included; of other classes those that hold arrays. Raises
    ``NameError`` for an annotation of a ``pytree_dataclass`` that names nothing; that of another class is counted.
    """
    known = _found.get(cls)
    if known is not None and args in known:
        return known[args]
    hints, complete = (_hints(cls), True) if is_pytree_dataclass(cls) else _resolvable_hints(cls)
    result = {name: hints[name] for name in _field_names(cls) if name in hints}
    parameters = getattr(cls, "__parameters__", ())
    if args and len(parameters) == len(args):
        replaced = dict(zip(parameters, args, strict=True))
        result = {name: _substitute(hint, replaced) for name, hint in result.items()}
    if not is_pytree_dataclass(cls):
        result = {name: hint for name, hint in result.items() if holds_arrays(hint)}
    if complete:
        _found.setdefault(cls, {})[args] = result
    return result


def checked_types(cls: type, args: tuple[Any, ...] = ()) -> dict[str, Any]:
    """As ``field_types``, for a check: what names nothing is counted, and the other fields are checked."""
    try:
        return field_types(cls, args)
    except NameError:
        hints, _ = _resolvable_hints(cls)
        return {name: hints[name] for name in _field_names(cls) if name in hints}


def is_record(cls: Any, args: tuple[Any, ...] = ()) -> bool:
    """Whether values of a class are checked field by field: a ``pytree_dataclass``, or a class that declares its fields
    in another way (``dataclasses``, flax, chex, equinox, attrs) and has arrays in them."""
    return is_pytree_dataclass(cls) or (declares_fields(cls) and bool(field_types(cls, args)))


def declares_fields(cls: Any) -> bool:
    """Whether a class has fields: a dataclass of any kind, or one of attrs."""
    return isinstance(cls, type) and (dataclasses.is_dataclass(cls) or hasattr(cls, "__attrs_attrs__"))


_under_way = threading.local()


@contextmanager
def being_checked(value: Any) -> Iterator[bool]:
    """Note that the fields of a value are being checked on this thread: False if they are already, for a value that
    holds itself."""
    inside: list[Any] = _under_way.__dict__.setdefault("values", [])
    if any(value is other for other in inside):
        yield False
        return
    inside.append(value)
    try:
        yield True
    finally:
        inside.pop()


def _field_names(cls: Any) -> list[str]:
    if is_pytree_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls) if field.init]
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    return [attribute.name for attribute in getattr(cls, "__attrs_attrs__", ())] or list(getattr(cls, "_fields", ()))


def holds_arrays(annotation: Any) -> bool:
    """Whether a value of this type holds annotated arrays: itself, its items or its fields."""
    return _holds(annotation, [])


def _holds(annotation: Any, seen: list[Any]) -> bool:
    from shardtypes.dtypes import ArrayType

    if isinstance(annotation, ArrayType):
        return True
    if any(annotation is other for other in seen):
        return False
    parts = annotation if isinstance(annotation, list) else typing.get_args(annotation)
    base = typing.get_origin(annotation) or annotation
    hints: dict[str, Any] = {}
    if declares_fields(base) or hasattr(base, "_fields") or typing.is_typeddict(base):
        hints, _ = _resolvable_hints(base)
    inside = [*seen, annotation]
    return any(_holds(part, inside) for part in (*parts, *hints.values()))


def _hints(cls: type) -> dict[str, Any]:
    """The resolved annotations of a class and its bases. Raises ``NameError`` for one that names nothing."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        # What a base stores itself wins over its annotations: it is the stacked form of another class.
        hints.update(vars(base).get("__shardtypes_fields__", {}))
        own = _own_annotations(base)
        if own and "__shardtypes_fields__" not in vars(base):
            hints.update(_evaluated(base, own))
    return hints


def _resolvable_hints(cls: type) -> tuple[dict[str, Any], bool]:
    """As ``_hints``, without annotations that name nothing, which are counted; and whether these are all."""
    try:
        return _hints(cls), True
    except (NameError, AttributeError, TypeError, SyntaxError):
        pass  # of one of them, or of several
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, annotation in _own_annotations(base).items():
            try:
                found.update(_evaluated(base, {name: annotation}))
            except (NameError, AttributeError, TypeError, SyntaxError) as error:
                found.pop(name, None)
                _stats.count_not_possible(f"annotation of {base.__name__}.{name} not checked: {error}")
    return found, False


def _own_annotations(cls: type) -> dict[str, Any]:
    return dict(vars(cls).get("__annotations__", {}) if sys.version_info < (3, 14) else _annotations(cls))


def _evaluated(cls: type, annotations: dict[str, Any]) -> dict[str, Any]:
    module = sys.modules.get(cls.__module__)
    holder = type(cls.__name__, (), {"__annotations__": annotations, "__module__": cls.__module__})
    names = {**vars(module)} if module is not None else {}
    local_names = {**_local_names.get(cls, {}), cls.__name__: cls}
    return typing.get_type_hints(holder, names, local_names, include_extras=True)


def _annotations(cls: type) -> dict[str, Any]:
    import annotationlib  # type: ignore[import-not-found,unused-ignore]  # Python 3.14 and later

    return dict(annotationlib.get_annotations(cls, format=annotationlib.Format.FORWARDREF))


def _substitute(hint: Any, replaced: dict[Any, Any]) -> Any:
    if hint in replaced:
        return replaced[hint]
    parameters = getattr(hint, "__parameters__", ())
    if parameters:
        return hint[tuple(replaced.get(p, p) for p in parameters)]
    return hint


def is_static(cls: type, name: str) -> bool:
    """Whether a field is declared static."""
    return any(f.name == name and f.metadata.get("static", False) for f in dataclasses.fields(cls))
