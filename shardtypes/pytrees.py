"""``pytree_dataclass``: a dataclass that JAX sees as a tree of its fields, with their names in key paths."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar, dataclass_transform, overload

import jax

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

    def make(target: type[C]) -> type[C]:
        made = dataclasses.dataclass(target, frozen=frozen, kw_only=kw_only, eq=eq, repr=repr)
        return register(made)

    return make if cls is None else make(cls)


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


@cache
def field_types(cls: type, args: tuple[Any, ...] = ()) -> dict[str, Any]:
    """The resolved annotations of the fields, static ones included, type variables replaced by ``args``.

    Raises ``NameError`` for an annotation that names nothing.
    """
    stored = vars(cls).get("__shardtypes_fields__")
    if stored is not None:
        return dict(stored)
    hints = _hints(cls)
    result = {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init}
    parameters = getattr(cls, "__parameters__", ())
    if args and parameters:
        replaced = dict(zip(parameters, args, strict=True))
        result = {name: _substitute(hint, replaced) for name, hint in result.items()}
    return result


def _hints(cls: type) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        # What a base stores itself wins over its annotations: it is the stacked form of another class.
        hints.update(vars(base).get("__shardtypes_fields__", {}))
        own = vars(base).get("__annotations__", {}) if sys.version_info < (3, 14) else _annotations(base)
        if not own or "__shardtypes_fields__" in vars(base):
            continue
        module = sys.modules.get(base.__module__)
        holder = type(base.__name__, (), {"__annotations__": dict(own), "__module__": base.__module__})
        names = {**vars(module)} if module is not None else {}
        hints.update(typing.get_type_hints(holder, names, {base.__name__: base}, include_extras=True))
    return hints


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
