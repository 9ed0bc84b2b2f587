"""Strings in annotations that stand for types: quoted ones, and names in types that were written elsewhere."""

from __future__ import annotations

import collections.abc
import inspect
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from shardtypes import messages
from shardtypes.dtypes import ArrayType


def has_strings(annotation: Any) -> bool:
    """Whether strings in an annotation stand for types."""
    if isinstance(annotation, (str, typing.ForwardRef)):
        return True
    return any(has_strings(part) for part in _parts(annotation))


def _parts(annotation: Any) -> Sequence[Any]:
    """The types in a type."""
    if isinstance(annotation, list):  # the parameters of a Callable
        return annotation
    origin = typing.get_origin(annotation)
    if origin is typing.Literal or isinstance(annotation, ArrayType):
        return ()
    args = typing.get_args(annotation)
    return args[:1] if origin is typing.Annotated else args


@dataclass
class Resolved:
    """An annotation with its strings evaluated, ``Any`` in the place of those that name nothing, and why."""

    annotation: Any
    missing: list[NameError] = field(default_factory=list)

    def reasons(self, owner: str) -> list[str]:
        """What of the annotation of ``owner`` cannot be checked, in words."""
        which = "annotation" if self.annotation is Any else "part of the annotation"
        return [f"{which} of {owner} not checked: {error}" for error in self.missing]


def resolved(
    annotation: Any, names: Mapping[str, Any], local_names: Mapping[str, Any]
) -> Resolved:
    """An annotation without strings. Each is evaluated by itself, so that the others are known where one is not."""
    if not has_strings(annotation):
        return Resolved(annotation)
    result = Resolved(Any)
    result.annotation = _Evaluation(dict(names), local_names, result.missing).of(
        annotation, {}
    )
    return result


class NameInItself:
    """A name for a type, met inside of what it stands for, as in ``Tree = f32['N'] | list['Tree']``.

    As ``type Tree = …`` it has its meaning in ``__value__``.
    """

    def __init__(self, text: str) -> None:
        self.__value__: Any = Any
        self._text = text

    def __repr__(self) -> str:
        return self._text


@dataclass
class _Evaluation:
    names: dict[str, Any]
    local_names: Mapping[str, Any]
    missing: list[NameError]

    def of(self, annotation: Any, inside: Mapping[str, NameInItself]) -> Any:
        """``inside`` are the strings that are being evaluated: a type may hold itself."""
        if not has_strings(annotation):
            return annotation
        if isinstance(annotation, (str, typing.ForwardRef)):
            text = (
                annotation
                if isinstance(annotation, str)
                else annotation.__forward_arg__
            )
            if text in inside:
                return inside[text]
            try:
                value = self.value(
                    text, getattr(annotation, "__forward_module__", None)
                )
            except NameError as error:
                self.missing.append(error)
                return Any
            except AttributeError as error:
                self.missing.append(NameError(str(error)))
                return Any
            except SyntaxError:  # a note, such as "one of three modes"
                self.missing.append(NameError(messages.no_expression(text)))
                return Any
            name = NameInItself(text)
            name.__value__ = self.of(value, {**inside, text: name})
            return name.__value__
        if isinstance(annotation, list):
            return [self.of(part, inside) for part in annotation]
        return with_args(
            annotation,
            tuple(self.of(part, inside) for part in typing.get_args(annotation)),
        )

    def value(self, text: str, module: Any) -> Any:
        def holder() -> None: ...

        holder.__annotations__ = {"": f"({text},)[0]" if text.startswith("*") else text}
        names = vars(sys.modules[module]) if isinstance(module, str) else self.names
        return inspect.get_annotations(
            holder, globals=names, locals=self.local_names, eval_str=True
        )[""]


def with_args(annotation: Any, args: tuple[Any, ...]) -> Any:
    """A subscripted type with other arguments."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        return typing.Union[args]  # noqa: UP007 - a tuple of members
    if origin is collections.abc.Callable:
        return collections.abc.Callable[args[0], args[1]]
    made = origin[args if len(args) != 1 else args[0]]
    return (
        next(iter(made)) if getattr(annotation, "__unpacked__", False) is True else made
    )
