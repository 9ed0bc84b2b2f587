"""``pytree_dataclass``: a dataclass that JAX sees as a tree of its fields, with their names in key paths."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

import jax

from shardtypes.fields import mark_own_sizes, remember_names

C = TypeVar("C")


@overload
def pytree_dataclass(cls: type[C], /) -> type[C]: ...
@overload
def pytree_dataclass(
    *,
    frozen: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    repr: bool = True,
    own_sizes: bool = False,
) -> Callable[[type[C]], type[C]]: ...


@dataclass_transform(field_specifiers=(dataclasses.field,))
def pytree_dataclass(
    cls: Any = None,
    /,
    *,
    frozen: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    repr: bool = True,
    own_sizes: bool = False,
) -> Any:
    """Make a class a dataclass and a pytree.

    The sizes that its fields name are those of the call: two values in one signature have the same ones. With
    ``own_sizes`` each value, of subclasses too, names its own, for functions that change sizes: matrices that are
    multiplied, a cache that grows.

    A field declared ``dataclasses.field(metadata={'static': True})`` is no leaf but part of the tree's structure, so
    it must be hashable. Wherever a value is checked, so are its fields, one by one; construction checks nothing, for
    JAX puts other things than arrays in the leaves.
    """

    outer = sys._getframe(1)

    def make(target: type[C]) -> type[C]:
        made = dataclasses.dataclass(
            target, frozen=frozen, kw_only=kw_only, eq=eq, repr=repr
        )
        remember_names(made, outer)
        if own_sizes:
            mark_own_sizes(made)
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


def is_static(cls: type, name: str) -> bool:
    """Whether a field is declared static."""
    return any(
        f.name == name and f.metadata.get("static", False)
        for f in dataclasses.fields(cls)
    )
