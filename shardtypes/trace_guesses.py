"""Arguments that are no arrays: configurations made of their defaults, or guessed.

A guess is not the user's word: what fails with one is no failure, only not known.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardtypes.checked import _MISSING

# Numbers that nothing is known of: even, so that halves of them exist.
_NUMBER, _FRACTION = 4, 0.5


# As much of a type stands in a message.
_LONGEST = 60


class CannotTell(Exception):
    """An argument cannot be made from the annotations."""


@dataclass(frozen=True)
class Guess:
    """What makes a value of the sizes: a number, or an object whose numbers have the sizes that share their names."""

    hint: Any
    used: set[str] = field(default_factory=set)

    def value(self, sizes: Mapping[str, Any]) -> Any:
        """The value at these sizes. It notes which of its fields a program reads."""
        made = _guessed(self.hint, "", sizes)
        return _watched(made, self.used) if dataclasses.is_dataclass(made) else made

    @property
    def is_used(self) -> bool:
        """Whether a program may depend on the guess: it is a number, or its fields were read."""
        return bool(self.used) or not dataclasses.is_dataclass(
            _optional(self.hint) or self.hint
        )

    def words(self, names: Iterable[str]) -> str:
        """The value, with names in place of their sizes."""
        return shown(_guessed(self.hint, "", {name: _Name(name) for name in names}))


def _watched(made: Any, used: set[str]) -> Any:
    """The object, of a class that notes which fields are read; the class's own for one that cannot be derived from."""
    names = {part.name for part in dataclasses.fields(made)}

    class Watched(type(made)):  # type: ignore[misc]  # the class is known at run time only
        def __getattribute__(self, name: str) -> Any:
            if name in names:
                used.add(name)
            return super().__getattribute__(name)

    watched = copy.copy(made)
    try:
        object.__setattr__(watched, "__class__", Watched)
    except TypeError:  # such as one with slots
        used.update(names)
        return made
    return watched


class _Name(int):
    """The name of a size, as messages show it."""

    def __new__(cls, name: str) -> _Name:
        made = super().__new__(cls, 1)
        made.name = name
        return made

    name: str

    def __repr__(self) -> str:
        return self.name


def shown(value: Any) -> str:
    """A value as messages show it; for one without a ``repr`` of its own the call that makes it."""
    return (
        f"{type(value).__name__}()"
        if _inherits("__repr__", type(value))
        else repr(value)
    )


def of_defaults(hint: Any) -> Any:
    """An object of a class without arrays, such as a configuration, all of whose fields have defaults; else None.

    Raises:
        CannotTell: the class makes none.
    """
    if (
        not isinstance(hint, type)
        or hint.__module__ == "builtins"
        or not _is_record(hint)
    ):
        return None
    if _required(hint):
        return None
    try:
        return hint()
    # whatever the user's class raises
    except Exception as error:
        raise CannotTell(
            f"{hint.__name__}() raises {type(error).__name__}: {error}: give an example"
        ) from error


def guess_of(parameter: inspect.Parameter, hint: Any) -> Guess:
    """What makes an argument that nothing gives. Raises ``CannotTell`` where a guess would be one of too many."""
    name = parameter.name
    if name in ("self", "cls") and isinstance(hint, type):
        raise CannotTell(
            f"{hint.__name__} is not a pytree_dataclass, so no object of it can be made: give one as first argument"
        )
    missing = _unknown(hint, "")
    if missing is None:
        return Guess(hint)
    if missing:
        raise CannotTell(
            f"{hint.__name__}{missing} has no default: give an example of {name!r}"
        )
    what = "has no annotation" if hint is _MISSING else f"is annotated {_type(hint)}"
    raise CannotTell(f"parameter {name!r} {what} and has no default: give an example")


def _type(hint: Any) -> str:
    """A type as messages show it."""
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    text = repr(hint)
    if len(text) > _LONGEST:
        return f"{text[:_LONGEST]}…"
    return text


def _is_record(cls: type) -> bool:
    """Whether a class only holds values: a dataclass, a named tuple, or a class without a constructor of its own."""
    if (
        dataclasses.is_dataclass(cls)
        or hasattr(cls, "_fields")
        or hasattr(cls, "__attrs_attrs__")
    ):
        return True
    return not _constructs(cls)


def _constructs(cls: type) -> bool:
    return not (_inherits("__init__", cls) and _inherits("__new__", cls))


def _inherits(method: str, cls: type) -> bool:
    """Whether a class has only what every object has."""
    return getattr(cls, method) is getattr(object, method)


def _required(cls: type) -> dict[str, Any]:
    """The arguments without defaults that make an object of a record, with their annotations."""
    if not _constructs(cls):
        return {}
    hints = typing.get_type_hints(cls, include_extras=True)
    signature = inspect.signature(cls)
    return {
        p.name: hints.get(p.name, _MISSING)
        for p in signature.parameters.values()
        if p.default is p.empty
    }


def _unknown(hint: Any, path: str) -> str | None:
    """The first part of a type that cannot be guessed; None where all can."""
    if hint in (int, float) or _optional(hint) is not None:
        return None
    if (
        not isinstance(hint, type)
        or hint.__module__ == "builtins"
        or not _is_record(hint)
    ):
        return path
    for name, inner in _required(hint).items():
        missing = _unknown(inner, f"{path}.{name}")
        if missing is not None:
            return missing
    return None


def _optional(hint: Any) -> Any:
    """The other member of a union of one type with None; None for any other type."""
    members = (
        typing.get_args(hint)
        if typing.get_origin(hint) in (typing.Union, types.UnionType)
        else ()
    )
    others = [member for member in members if member is not type(None)]
    return others[0] if len(members) == 2 and len(others) == 1 else None


def _guessed(hint: Any, name: str, sizes: Mapping[str, Any]) -> Any:
    inner = _optional(hint)
    if inner is not None:
        return _guessed(inner, name, sizes) if _unknown(inner, "") is None else None
    if hint is int:
        return sizes.get(name, _NUMBER)
    if hint is float:
        return _FRACTION
    return hint(
        **{
            field: _guessed(inner, field, sizes)
            for field, inner in _required(hint).items()
        }
    )
