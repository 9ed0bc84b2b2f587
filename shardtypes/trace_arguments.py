"""The arguments with which ``trace`` calls a function: made from its annotations, or given as examples."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import inspect
import itertools
import math
import sys
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from shardtypes.checked import _MISSING, _closure, _globals
from shardtypes.dtypes import ArrayType, shape_of_type
from shardtypes.fields import field_types, is_pytree_dataclass
from shardtypes.lang import Shape
from shardtypes.partition_specs import map_type
from shardtypes.pytrees import is_static


class CannotTell(Exception):
    """An argument cannot be made from the annotations."""


@dataclass(frozen=True)
class Argument:
    parameter: inspect.Parameter
    annotation: Any
    value: Any
    supposed: bool = False  # made from the defaults of its class: what is found holds for these
    choices: tuple[Any, ...] = ()  # every value that its annotation allows, the default first


def arguments_of(f: Any, examples: tuple[Any, ...], named: Mapping[str, Any]) -> list[Argument]:
    inner = inspect.unwrap(f)
    hints = typing.get_type_hints(inner, _globals(f), _closure(f), include_extras=True)
    signature = inspect.signature(f)
    given = dict(signature.bind_partial(*examples, **named).arguments)
    result = []
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, _self_type(f, parameter, signature))
        if parameter.kind is parameter.VAR_KEYWORD:
            if parameter.name in given:
                result += [
                    Argument(parameter.replace(name=name, kind=parameter.KEYWORD_ONLY), hint, value)
                    for name, value in given[parameter.name].items()
                ]
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            wanted = hint is not _MISSING and has_arrays(hint)
            values = given.get(parameter.name, (_MISSING, _MISSING) if wanted else ())
            result += [
                Argument(parameter.replace(name=f"{parameter.name}{i}", kind=parameter.POSITIONAL_ONLY), hint, value)
                for i, value in enumerate(values)
            ]
            continue
        if parameter.name in given:
            result.append(Argument(parameter, hint, given[parameter.name]))
        elif hint is not _MISSING and has_arrays(hint):
            _need_static_fields(hint, parameter.name)
            result.append(Argument(parameter, hint, _MISSING))
        elif choices := _choices(hint, parameter):
            result.append(Argument(parameter, hint, choices[0], choices=choices))
        elif parameter.default is not parameter.empty:
            continue
        else:
            result.append(Argument(parameter, hint, _of_defaults(parameter, hint), supposed=True))
    return result


def _choices(hint: Any, parameter: inspect.Parameter) -> tuple[Any, ...]:
    """All values of a ``bool``, a ``Literal`` or an ``Enum``, the default first; none of another type."""
    if hint is bool:
        values: list[Any] = [False, True]
    elif typing.get_origin(hint) is typing.Literal:
        values = list(typing.get_args(hint))
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        values = list(hint)
    else:
        return ()
    if parameter.default is not parameter.empty:
        values = [parameter.default, *(value for value in values if value != parameter.default)]
    return tuple(values)


# How many calls are made for the values of such parameters at most.
_MOST = 16


def combinations(parameters: list[Argument]) -> list[tuple[str, list[Argument]]]:
    """The calls to make for parameters with a few values, the defaults first, each with its values in words.

    All combinations, if they are few; else each value once, and the defaults for the others.
    """
    several = [a for a in parameters if len(a.choices) > 1]
    if not several:
        return [("", parameters)]
    defaults = tuple(a.choices[0] for a in several)
    calls: Sequence[tuple[Any, ...]]
    if math.prod(len(a.choices) for a in several) <= _MOST:
        calls = list(itertools.product(*(a.choices for a in several)))
    else:
        others = [(i, value) for i, a in enumerate(several) for value in a.choices[1:]]
        calls = [defaults, *((*defaults[:i], value, *defaults[i + 1 :]) for i, value in others[: _MOST - 1])]
    made = []
    for values in calls:
        chosen = {a.parameter.name: value for a, value in zip(several, values, strict=True)}
        words = ", ".join(f"{name}={v if isinstance(v, enum.Enum) else repr(v)}" for name, v in chosen.items())
        made.append((words, [replace(a, value=chosen.get(a.parameter.name, a.value)) for a in parameters]))
    return made


def sizes_of_examples(f: Any, parameters: list[Argument]) -> dict[str, int]:
    """The sizes that the given values have for names: those of the object of a bound method too."""
    found: dict[str, int] = {}

    def note(annotation: ArrayType, values: Any) -> None:
        dims = shape_of_type(annotation).dims
        for value in jax.tree_util.tree_leaves(values):
            shape = getattr(value, "shape", ())
            if len(shape) == len(dims) and not any(dim.kind == "variadic" for dim in dims):
                for dim, size in zip(dims, shape, strict=True):
                    if dim.kind == "size" and dim.size is not None and dim.size.symbol_name is not None:
                        found.setdefault(dim.size.symbol_name, size)

    given = [(a.annotation, a.value) for a in parameters if a.value is not _MISSING and a.annotation is not _MISSING]
    owner = getattr(f, "__self__", None)
    if owner is not None and is_pytree_dataclass(type(owner)):
        given.insert(0, (type(owner), owner))
    for hint, value in given:
        # Without an array type, or of another structure: the checks say so.
        with contextlib.suppress(TypeError, ValueError):
            tree = map_type(hint, lambda a: a, example=value)
            jax.tree_util.tree_map(note, tree, value, is_leaf=lambda x: isinstance(x, ArrayType))
    return found


def _of_defaults(parameter: inspect.Parameter, hint: Any) -> Any:
    """An object of a dataclass without arrays, such as a configuration, all of whose fields have defaults."""
    name = parameter.name
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        fields = [field for field in dataclasses.fields(hint) if field.init]
        missing = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        if not missing:
            return hint()
        raise CannotTell(f"{hint.__name__}.{missing[0]} has no default: give an example of {name!r}")
    if name in ("self", "cls") and isinstance(hint, type):
        raise CannotTell(
            f"{hint.__name__} is no pytree_dataclass, so annotations do not make its object: give one as first argument"
        )
    what = "has no annotation" if hint is _MISSING else f"is annotated {hint!r}"
    raise CannotTell(f"parameter {name!r} {what} and has no default: give an example")


def _self_type(f: Any, parameter: inspect.Parameter, signature: inspect.Signature) -> Any:
    """The class of a method's object, if ``f`` is a method found in its class."""
    inner = inspect.unwrap(f)
    holder, _, _ = getattr(inner, "__qualname__", "").rpartition(".")
    if not holder or parameter.name != next(iter(signature.parameters)):
        return _MISSING
    found: Any = sys.modules.get(inner.__module__)
    for part in holder.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or isinstance(inspect.getattr_static(found, inner.__name__, None), staticmethod):
        return _MISSING
    return found


def _need_static_fields(hint: Any, path: str) -> None:
    """Raise for a static field without a default in a dataclass that is to be made."""
    base = typing.get_origin(hint) or hint
    if not is_pytree_dataclass(base):
        for part in typing.get_args(hint):
            _need_static_fields(part, path)
        return
    fields = {field.name: field for field in dataclasses.fields(base)}
    for name, inner in field_types(base, typing.get_args(hint)).items():
        field = fields[name]
        if not is_static(base, name):
            _need_static_fields(inner, f"{path}.{name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise CannotTell(f"the static field {path}.{name} has no default: give an example of {path.split('.')[0]}")


def has_arrays(hint: Any) -> bool:
    found: list[ArrayType] = []
    try:
        map_type(hint, lambda a: found.append(a), many=lambda c, item: item)
    except TypeError:
        return bool(found)
    return bool(found)


def shapes_of(parameters: list[Argument]) -> Iterator[Shape]:
    for argument in parameters:
        if argument.value is _MISSING:
            found: list[ArrayType] = []
            try:
                map_type(argument.annotation, found.append, many=lambda c, item: item)
            except TypeError as error:  # such as a union: which of its members is meant?
                raise CannotTell(f"{error}: give an example of {argument.parameter.name!r}") from None
            yield from map(shape_of_type, found)
