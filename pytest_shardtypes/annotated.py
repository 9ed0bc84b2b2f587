"""Which functions have annotations of shardtypes: at least one array type, on its own or inside another type."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator
from typing import Any

from shardtypes import switches
from shardtypes.annotation_checks import array_annotation
from shardtypes.checked import UNREADABLE, evaluated_hints
from shardtypes.dtypes import shape_of_type
from shardtypes.jaxtyping_types import translated
from shardtypes.trace_arguments import has_arrays


def takes_arrays(function: Any) -> bool:
    """Whether a parameter holds annotated arrays."""
    return _holds(function, result=False)


def handles_arrays(function: Any) -> bool:
    """Whether a parameter or the result holds annotated arrays."""
    return _holds(function, result=True)


def find(qualified: str) -> Any:
    """The function of a dotted name in the modules that are imported; None for one inside another function."""
    parts = qualified.split(".")
    for at in range(len(parts) - 1, 0, -1):
        value: Any = sys.modules.get(".".join(parts[:at]))
        if value is None:
            continue
        for part in parts[at:]:
            value = inspect.getattr_static(value, part, None)
            if isinstance(value, (staticmethod, classmethod)):
                value = value.__func__
            elif isinstance(value, property):
                value = value.fget
        return value
    return None


def _holds(function: Any, result: bool) -> bool:
    try:
        inner = inspect.unwrap(function)
        texts = getattr(inner, "__annotations__", {})
        parameters = {
            *inspect.signature(function).parameters,
            *(["return"] if result else []),
        }
    except (TypeError, ValueError):  # no signature, or wrapped in a circle
        return False
    try:
        hints = evaluated_hints(inner)
    except UNREADABLE:
        # Annotations of names that exist for type checkers only.
        return any(
            _has_string(str(text)) for name, text in texts.items() if name in parameters
        )
    if switches.jaxtyping_too:
        hints = {name: translated(hint) for name, hint in hints.items()}
    return any(_arrays_in(hint) for name, hint in hints.items() if name in parameters)


def _has_string(text: str) -> bool:
    """Whether a string follows a bracket: ``f32['B']``, ``f32[Array, "B"]``."""
    inside = text.partition("[")[2]
    return "'" in inside or '"' in inside


def _arrays_in(hint: Any) -> bool:
    try:
        return has_arrays(hint)
    # a type whose own annotations do not resolve
    except (NameError, AttributeError, RecursionError):
        return False


def declared_axes(function: Any) -> Iterator[tuple[str, int, str]]:
    """Role (``"parameter 'x'"``, ``'the result'``), dimension and axis of each sharded dimension of a signature."""
    try:
        inner = inspect.unwrap(function)
        hints = evaluated_hints(inner)
    except UNREADABLE:
        return
    for name, hint in hints.items():
        annotation = next(
            (
                found
                for part in (hint, *typing.get_args(hint))
                if (found := array_annotation(part))
            ),
            None,
        )
        if annotation is None:
            continue
        role = "the result" if name == "return" else f"parameter {name!r}"
        for dim, entry in enumerate(shape_of_type(annotation).dims):
            for axis in entry.axes:
                yield role, dim, axis
