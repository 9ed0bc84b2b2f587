"""The arguments with which ``trace`` calls a function: made from its annotations, or given as examples."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import itertools
import math
import sys
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from shardtypes.array_types import array_annotation, meaning
from shardtypes.checked import _MISSING, evaluated_hints
from shardtypes.dtypes import ArrayType, shape_of_type
from shardtypes.fields import (
    is_named_tuple,
    is_pytree_dataclass,
    known_field_types,
)
from shardtypes.jaxtyping_types import translated
from shardtypes.lang import Shape
from shardtypes.partition_specs import map_type, members_fitting
from shardtypes.pytrees import is_static
from shardtypes.trace_forms import bound_arguments, example_of, innermost
from shardtypes.trace_guesses import CannotTell, Guess, guess_of, of_defaults


@dataclass(frozen=True)
class Argument:
    """One argument of the call: a value, or an annotation to make arrays of, or what makes it of the sizes."""

    parameter: inspect.Parameter
    annotation: Any
    value: Any
    # made from the defaults of its class: what is found holds for these
    supposed: bool = False
    guess: Guess | None = None
    # everything that its annotation allows, the default first
    choices: tuple[Choice, ...] = ()

    @property
    def is_positional(self) -> bool:
        """Whether it is passed by its position: what ``shard_map``, ``vmap`` and ``pmap`` return asks for that."""
        return self.parameter.kind is not self.parameter.KEYWORD_ONLY


@dataclass(frozen=True)
class Choice:
    """One thing that an argument may be: a value, or arrays as an annotation says."""

    words: str
    value: Any
    annotation: Any


def arguments_of(
    f: Any, examples: tuple[Any, ...], named: Mapping[str, Any]
) -> list[Argument]:
    """The arguments of a call, in order. Raises ``CannotTell`` for one that needs an example."""
    inner = innermost(f)
    hints = _hints(inner)
    signature = inspect.signature(f)
    given = dict(signature.bind_partial(*examples, **named).arguments)
    result: list[Argument] = []
    # a parameter is left out, so that those after it are passed by name
    by_name = False
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name, _self_type(f, parameter, signature))
        if parameter.kind is parameter.VAR_KEYWORD:
            result += _keywords(parameter, hint, given)
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            result += _rest(parameter, hint, given)
            continue
        argument = _argument(parameter, hint, given)
        if argument is None and _rest_follows(signature, given, hints):
            argument = Argument(parameter, hint, parameter.default)
        if argument is None:
            by_name = True
        elif by_name and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            result.append(
                replace(
                    argument, parameter=parameter.replace(kind=parameter.KEYWORD_ONLY)
                )
            )
        else:
            result.append(argument)
    return result


def _hints(function: Any) -> dict[str, Any]:
    """The annotations of a function, those of jaxtyping as ours."""
    hints = evaluated_hints(function)
    return {name: translated(hint) for name, hint in hints.items()}


def _keywords(
    parameter: inspect.Parameter, hint: Any, given: Mapping[str, Any]
) -> list[Argument]:
    wanted = hint is not _MISSING and has_arrays(hint)
    made = [f"{parameter.name}{i}" for i in range(2)] if wanted else []
    values = given.get(parameter.name, dict.fromkeys(made, _MISSING))
    return [
        Argument(parameter.replace(name=name, kind=parameter.KEYWORD_ONLY), hint, value)
        for name, value in values.items()
    ]


def _rest(
    parameter: inspect.Parameter, hint: Any, given: Mapping[str, Any]
) -> list[Argument]:
    wanted = hint is not _MISSING and has_arrays(hint)
    values = given.get(parameter.name, (_MISSING, _MISSING) if wanted else ())
    return [
        Argument(
            parameter.replace(
                name=f"{parameter.name}{i}", kind=parameter.POSITIONAL_ONLY
            ),
            hint,
            value,
        )
        for i, value in enumerate(values)
    ]


def _rest_follows(
    signature: inspect.Signature, given: Mapping[str, Any], hints: Mapping[str, Any]
) -> bool:
    """Whether items of ``*args`` are passed, before which everything is positional."""
    rest = next(
        (p for p in signature.parameters.values() if p.kind is p.VAR_POSITIONAL), None
    )
    return rest is not None and bool(_rest(rest, hints.get(rest.name, _MISSING), given))


def _argument(
    parameter: inspect.Parameter, hint: Any, given: Mapping[str, Any]
) -> Argument | None:
    """One argument; None for a parameter that keeps its default."""
    if parameter.name in given:
        return Argument(parameter, hint, given[parameter.name])
    choices = _choices(hint, parameter)
    if choices:
        return replace(
            _chosen(Argument(parameter, hint, _MISSING), choices[0]), choices=choices
        )
    if hint is not _MISSING and has_arrays(hint):
        _need_static_fields(hint, parameter.name)
        return Argument(parameter, hint, _MISSING)
    if parameter.default is not parameter.empty:
        return None
    made = of_defaults(hint)
    if made is not None:
        return Argument(parameter, hint, made, supposed=True)
    return Argument(parameter, hint, None, guess=guess_of(parameter, hint))


def _chosen(argument: Argument, choice: Choice) -> Argument:
    return replace(argument, value=choice.value, annotation=choice.annotation)


def _choices(hint: Any, parameter: inspect.Parameter) -> tuple[Choice, ...]:
    """Everything that a ``bool``, a ``Literal``, an ``Enum`` or a union with arrays allows, the default first."""
    if hint is bool:
        values: list[Any] = [False, True]
    elif typing.get_origin(hint) is typing.Literal:
        values = list(typing.get_args(hint))
    elif isinstance(hint, type) and issubclass(hint, enum.Enum):
        values = list(hint)
    elif typing.get_origin(hint) in (typing.Union, types.UnionType) and has_arrays(
        hint
    ):
        return _members(hint, parameter)
    else:
        return ()
    if parameter.default is not parameter.empty:
        values = [
            parameter.default,
            *(value for value in values if value != parameter.default),
        ]
    return tuple(
        Choice(f"{parameter.name}={_shown(value)}", value, hint) for value in values
    )


def _members(hint: Any, parameter: inspect.Parameter) -> tuple[Choice, ...]:
    """The members of a union: its arrays, each in turn, and None. The default last, for it says the least."""
    found = []
    for member in typing.get_args(hint):
        if member is type(None):
            continue
        if has_arrays(member):
            _need_static_fields(member, parameter.name)
            found.append(
                Choice(f"{parameter.name}: {_shown_type(member)}", _MISSING, member)
            )
    if type(None) in typing.get_args(hint):
        found.append(Choice(f"{parameter.name}=None", None, hint))
    return tuple(found)


def _shown(value: Any) -> str:
    return str(value) if isinstance(value, enum.Enum) else repr(value)


def _shown_type(hint: Any) -> str:
    return hint.__name__ if isinstance(hint, type) else repr(hint)


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
    calls: Sequence[tuple[Choice, ...]]
    if math.prod(len(a.choices) for a in several) <= _MOST:
        calls = list(itertools.product(*(a.choices for a in several)))
    else:
        others = [(i, value) for i, a in enumerate(several) for value in a.choices[1:]]
        calls = [
            defaults,
            *(
                (*defaults[:i], value, *defaults[i + 1 :])
                for i, value in others[: _MOST - 1]
            ),
        ]
    made = []
    for choices in calls:
        chosen = {
            a.parameter.name: choice for a, choice in zip(several, choices, strict=True)
        }
        words = ", ".join(choice.words for choice in choices)
        arguments = [
            _chosen(a, chosen[a.parameter.name]) if a.parameter.name in chosen else a
            for a in parameters
        ]
        made.append((words, arguments))
    return made


def sizes_of_examples(f: Any, parameters: list[Argument]) -> dict[str, int]:
    """The sizes that the given values have for names: those of the object of a bound method too."""
    found: dict[str, int] = {}

    def note(annotation: ArrayType, values: Any) -> None:
        dims = shape_of_type(annotation).dims
        for value in jax.tree_util.tree_leaves(values):
            shape = getattr(value, "shape", ())
            if len(shape) == len(dims) and not any(
                dim.kind == "variadic" for dim in dims
            ):
                for dim, size in zip(dims, shape, strict=True):
                    if (
                        dim.kind == "size"
                        and dim.size is not None
                        and dim.size.symbol_name is not None
                    ):
                        found.setdefault(dim.size.symbol_name, size)

    given = [
        (a.annotation, example_of(f, at if a.is_positional else None, a.value))
        for at, a in enumerate(parameters)
        if a.value is not _MISSING and a.annotation is not _MISSING
    ]
    inner = innermost(f)
    hints = _hints(inner)
    given += [
        (hints[name], value)
        for name, value in bound_arguments(f).items()
        if name in hints
    ]
    owner = getattr(f, "__self__", None)
    if owner is not None and is_pytree_dataclass(type(owner)):
        given.insert(0, (type(owner), owner))
    for hint, value in given:
        for annotation, part in _annotated_parts(hint, value):
            note(annotation, part)
    return found


def _annotated_parts(hint: Any, value: Any) -> Iterator[tuple[ArrayType, Any]]:
    """The parts of a value of which its annotation says something, as far as it is of that structure."""
    hint = meaning(hint)
    array = array_annotation(hint)
    if array is not None:
        yield array, value
        return
    base, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    pairs: list[tuple[Any, Any]] = []
    if base in (typing.Union, types.UnionType):
        pairs = [(part, value) for part in members_fitting(hint, value)[:1]]
    elif is_pytree_dataclass(base) or is_named_tuple(base):
        types_of = (
            known_field_types(base, args).types if isinstance(value, base) else {}
        )
        pairs = [(t, getattr(value, name, None)) for name, t in types_of.items()]
    elif typing.is_typeddict(base) and isinstance(value, dict):
        types_of = known_field_types(base, args).types
        pairs = [(t, value.get(name)) for name, t in types_of.items()]
    elif base is tuple and isinstance(value, tuple):
        several = len(args) == 2 and args[1] is Ellipsis
        pairs = list(
            zip(args[:1] * len(value) if several else args, value, strict=False)
        )
    elif isinstance(value, dict):
        pairs = [(part, item) for part in args[1:] for item in value.values()]
    elif isinstance(value, (list, tuple)):
        pairs = [(part, item) for part in args[:1] for item in value]
    for part, item in pairs:
        yield from _annotated_parts(part, item)


def _self_type(
    f: Any, parameter: inspect.Parameter, signature: inspect.Signature
) -> Any:
    """The class of a method's object, if ``f`` is a method found in its class."""
    inner = innermost(f)
    holder, _, _ = getattr(inner, "__qualname__", "").rpartition(".")
    if not holder or parameter.name != next(iter(signature.parameters)):
        return _MISSING
    found: Any = sys.modules.get(inner.__module__)
    for part in holder.split("."):
        found = getattr(found, part, None)
    if not isinstance(found, type) or isinstance(
        inspect.getattr_static(found, inner.__name__, None), staticmethod
    ):
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
    for name, inner in known_field_types(base, typing.get_args(hint)).types.items():
        field = fields[name]
        if not is_static(base, name):
            _need_static_fields(inner, f"{path}.{name}")
        elif (
            field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ):
            raise CannotTell(
                f"the static field {path}.{name} has no default: give an example of {path.split('.')[0]}"
            )


def has_arrays(hint: Any) -> bool:
    found: list[ArrayType] = []
    try:
        map_type(hint, lambda a: found.append(a), many=lambda c, item: item)
    except TypeError:
        return bool(found)
    except NameError:  # of a class: what it holds is asked where its arrays are made
        return True
    return bool(found)


def is_made(argument: Argument) -> bool:
    """Whether its arrays are made of its annotation."""
    return argument.value is _MISSING and argument.guess is None


def shapes_of(parameters: list[Argument]) -> Iterator[Shape]:
    for argument in parameters:
        if is_made(argument):
            found: list[ArrayType] = []
            try:
                map_type(argument.annotation, found.append, many=lambda c, item: item)
            # such as a union: which of its members is meant?
            except (TypeError, NameError) as error:
                raise CannotTell(
                    f"{error}: give an example of {argument.parameter.name!r}"
                ) from None
            yield from map(shape_of_type, found)


def numbers_in(argument: Argument) -> list[Any]:
    """The static fields of the dataclasses that are made for an argument, of their defaults."""
    found: list[Any] = []
    waiting = [argument.annotation] if argument.value is _MISSING else []
    while waiting:
        hint = waiting.pop()
        base = typing.get_origin(hint) or hint
        waiting += typing.get_args(hint)
        if is_pytree_dataclass(base):
            waiting += known_field_types(base, typing.get_args(hint)).types.values()
            found += [
                f.default for f in dataclasses.fields(base) if is_static(base, f.name)
            ]
    return found
