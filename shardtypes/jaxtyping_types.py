"""jaxtyping's array types as ours. They tell dtypes and sizes; how an array is sharded is left open."""

from __future__ import annotations

import os
import typing
from functools import cache
from typing import Any

import jax

from shardtypes.array_check import ArraySpec
from shardtypes.array_types import array_annotation
from shardtypes.dtypes import ALL_DTYPES, ArrayDType, ArrayType, anydtype
from shardtypes.errors import ShapeStringError
from shardtypes.lang import parse
from shardtypes.lang.array_names import JAXTYPING_DTYPES
from shardtypes.meshes import View
from shardtypes.scopes import Table
from shardtypes.sites import Site
from shardtypes.strings_in_types import with_args

_DISABLED = "JAXTYPING_DISABLE"


class JaxtypingSpec(ArraySpec):
    """What an annotation of jaxtyping says of an array."""

    __slots__ = ()

    def check(self, value: Any, table: Table, view: View, site: Site) -> None:
        """As that of our annotations, of dtype, rank and sizes alone."""
        __tracebackhide__ = True
        self.check_shape(value, table, view, site)


class JaxtypingType(ArrayType):
    """An annotation of jaxtyping, in the form that ours have. There is one object for each of jaxtyping's."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return object.__getattribute__(self, "_spec").text  # type: ignore[no-any-return]  # an alias forwards attributes


def translated(hint: Any, any_array: bool = False) -> Any:
    """An annotation with jaxtyping's types of JAX's arrays as ours, with ``any_array`` also of NumPy's; what jaxtyping
    alone can read stays."""
    if isinstance(getattr(hint, "dim_str", None), str) and hasattr(hint, "array_type"):
        if not any_array and hint.array_type not in (jax.Array, Any):
            return hint
        name = getattr(hint.dtype, "__name__", "")
        return _translated_array(name, hint.dim_str) or hint
    args = typing.get_args(hint)
    if not args or array_annotation(hint) is not None or _is_opaque(hint):
        return hint
    changed = tuple(translated(part, any_array) for part in args)
    try:
        if all(a is b for a, b in zip(args, changed, strict=True)):
            return hint
        return with_args(hint, changed)
    except TypeError:
        return hint


def is_disabled() -> bool:
    """Whether the environment turns jaxtyping's checks off."""
    return os.environ.get(_DISABLED, "0").strip().lower() in ("1", "true")


def _is_opaque(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Annotated, typing.Literal)


@cache
def _translated_array(name: str, dims: str) -> JaxtypingType | None:
    """``name[Array, dims]``; None where that cannot be read."""
    try:
        shape = parse(dims, "jaxtyping")
    except ShapeStringError:
        return None
    dtype = _dtype_class(name)
    made = JaxtypingType(dtype, (dims.encode(),))
    spec = JaxtypingSpec.compile(dtype, shape, f"{name}[Array, {dims!r}]")
    object.__setattr__(made, "_spec", spec)
    return made


def _dtype_class(name: str) -> type[ArrayDType]:
    """The class of ours for one of jaxtyping's; any dtype for one that we have not."""
    wanted = JAXTYPING_DTYPES.get(name)
    for candidate in ALL_DTYPES:
        if candidate.name == wanted:
            return candidate
    return anydtype
