"""Sizes of named tuples and typed dicts, whose names are their own: their ``B`` may be what the function calls ``C``.

``trace`` makes such an argument as if its names were those of the call, for mostly they are. Where the function fails
so, it is asked once more with names that are apart.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from shardtypes.array_types import array_annotation, holds_arrays, meaning
from shardtypes.dtypes import ArrayType, shape_of_type
from shardtypes.fields import (
    field_types,
    is_named_tuple,
    is_pytree_dataclass,
    is_stacked,
    shares_sizes,
)
from shardtypes.lang import Dim, Size
from shardtypes.pytrees import is_static
from shardtypes.stacked import stack
from shardtypes.trace_arguments import Argument, is_made

_EQUALITY = re.compile(r"[^\W\d]\w* = [^\W\d]\w*")
_BETWEEN = "__of__"
"""Stands in a name that is made here between what a class calls a size, and the argument."""
_STACK = "stack"
"""The dimension in front of a stack."""


def holds_own_names(parameters: list[Argument]) -> bool:
    """Whether arguments are made of types with named tuples or typed dicts in them."""
    return any(_has_records(one.annotation) for one in parameters if is_made(one))


def with_own_names(parameters: list[Argument]) -> list[Argument] | None:
    """The arguments whose named tuples and typed dicts have names of their own; None where there may be any number of
    those."""
    made = []
    for one in parameters:
        if is_made(one) and _has_records(one.annotation):
            apart = _apart(one.annotation, one.parameter.name, is_own=False)
            if apart is None:
                return None
            made.append(replace(one, annotation=apart))
        else:
            made.append(one)
    return made


def stacked(parameters: list[Argument]) -> list[tuple[str, list[Argument]]]:
    """The parameters with one of them a stack of its class, and what that is called: of a class whose values name their
    own sizes a stack may be annotated as one."""
    found = []
    for at, one in enumerate(parameters):
        hint = one.annotation
        is_record = _is_record(typing.get_origin(hint) or hint)
        if not (is_made(one) and is_record and holds_arrays(hint)):
            continue
        several = replace(one, annotation=stack(_STACK, hint))
        words = f"{one.parameter.name} is a stack"
        found.append((words, [*parameters[:at], several, *parameters[at + 1 :]]))
    return found


def readable(reason: str) -> str:
    """A verdict's reason with these names as messages show them: ``layer.B``."""
    return re.sub(rf"(\w+?){_BETWEEN}(\w+)", r"\2.\1", reason)


def owner_of(name: str) -> str:
    """The argument whose own a name is; nothing for a name of the call."""
    return name.partition(_BETWEEN)[2]


def joins_own_names(equalities: Iterable[str]) -> bool:
    """Whether what a call needs, such as ``C = B__of__layer``, makes two names equal that one argument has."""
    groups: list[set[str]] = []
    for text in filter(_EQUALITY.fullmatch, equalities):
        joined = set(text.split(" = "))
        apart = [group for group in groups if not group & joined]
        groups = [*apart, joined.union(*(group for group in groups if group & joined))]
    return any(_same_owner(group) for group in groups)


def _same_owner(names: set[str]) -> bool:
    owners = [owner_of(name) for name in names if owner_of(name)]
    return len(set(owners)) < len(owners)


def _is_record(base: Any) -> bool:
    """Whether a class is a named tuple, a typed dict, or another tree whose values name their sizes each."""
    if is_pytree_dataclass(base):
        return not shares_sizes(base) and not is_stacked(base)
    return is_named_tuple(base) or typing.is_typeddict(base)


def _parts(annotation: Any) -> list[Any]:
    """What stands in a type: the fields of a class that hold arrays, or the types in brackets."""
    base = typing.get_origin(annotation) or annotation
    args = typing.get_args(annotation)
    if _is_record(base):
        return list(field_types(base, args).values())
    if is_pytree_dataclass(base):
        hints = field_types(base, args)
        return [hint for name, hint in hints.items() if not is_static(base, name)]
    return [part for part in args if part is not Ellipsis]


def _has_records(annotation: Any) -> bool:
    annotation = meaning(annotation)
    if array_annotation(annotation) is not None:
        return False
    base = typing.get_origin(annotation) or annotation
    return _is_record(base) or any(map(_has_records, _parts(annotation)))


def _apart(annotation: Any, path: str, is_own: bool) -> Any:
    """The tree of types that a named tuple, a typed dict or a tuple of some holds, with names of their own; None for
    other types that hold such. ``is_own``: it is a field of one."""
    annotation = meaning(annotation)
    array = array_annotation(annotation)
    if array is not None:
        return _renamed(array, path) if is_own else array
    if not is_own and not _has_records(annotation):
        return annotation
    base, args = (
        typing.get_origin(annotation) or annotation,
        typing.get_args(annotation),
    )
    if _is_record(base):
        hints = field_types(base, args)
        names = base._fields if is_named_tuple(base) else _leaves(base, hints)
        parts = {name: _field(hints.get(name), path, name) for name in names}
        if None in parts.values():
            return None
        return base(**parts)
    if base is tuple and Ellipsis not in args:
        items = [_apart(part, path, is_own) for part in args]
        return None if None in items else tuple(items)
    return None


def _leaves(base: Any, hints: Mapping[str, Any]) -> list[str]:
    """The fields of a typed dict or a ``pytree_dataclass`` that are no part of its structure."""
    if typing.is_typeddict(base):
        return list(hints)
    return [name for name in hints if not is_static(base, name)]


def _field(hint: Any, path: str, name: str) -> Any:
    """What a field holds: another named tuple or typed dict has names of its own."""
    return _apart(hint, f"{path}_{name}" if _has_records(hint) else path, is_own=True)


def _renamed(array: ArrayType, owner: str) -> Any:
    """An array type whose sizes are those of an owner."""
    shape = shape_of_type(array)
    own = {name: Size.of(f"{name}{_BETWEEN}{owner}") for name in shape.names}
    dims = " ".join(str(_with_sizes(dim, own)) for dim in shape.dims)
    pending = f" {{U:{','.join(shape.pending)}}}" if shape.pending else ""
    dtype: Any = typing.get_origin(array)
    return dtype[dims + pending]


def _with_sizes(dim: Dim, own: dict[str, Size]) -> Dim:
    if dim.size is None:
        return dim
    return replace(dim, size=dim.size.substitute(own))
