"""The check of one annotation, compiled: arrays by our own code, everything else by typeguard."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from typing import Any

import jax
import jax.export
from typeguard import CollectionCheckStrategy, TypeCheckConfiguration, TypeCheckError, TypeCheckMemo
from typeguard._checkers import check_type_internal

from shardtypes import _stats, messages, switches
from shardtypes.dtypes import ArrayType, array_spec
from shardtypes.errors import ShardTypeError
from shardtypes.meshes import View
from shardtypes.scopes import Site, Table
from shardtypes.typeguard_door import at_site

Checker = Callable[[Any, Table, View, Site], None]

# Arrays in a list are all checked, not only the first.
CONFIG = TypeCheckConfiguration(collection_check_strategy=CollectionCheckStrategy.ALL_ITEMS)


def array_annotation(annotation: Any) -> ArrayType | None:
    """The array type that an annotation stands for: ``f32['…']``, or ``Annotated[jax.Array, f32['…']]``."""
    if isinstance(annotation, ArrayType):
        return annotation
    if typing.get_origin(annotation) is typing.Annotated:
        base, *extras = typing.get_args(annotation)
        if base is jax.Array or isinstance(base, ArrayType):
            return next((extra for extra in extras if isinstance(extra, ArrayType)), array_annotation(base))
    return None


def compile_annotation(annotation: Any, memo: TypeCheckMemo) -> Checker | None:
    """The check of one annotation; None where anything is allowed."""
    if annotation is inspect.Parameter.empty or annotation is Any or annotation is object:
        return None
    array = array_annotation(annotation)
    if array is not None:
        return array_spec(array).check
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        members = typing.get_args(annotation)
        if any(array_annotation(member) is not None for member in members):
            return _compile_union(members, memo)

    if switches.arrays_only and not _holds_arrays(annotation):
        return None

    def by_typeguard(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        with at_site(site):
            try:
                check_type_internal(value, annotation, memo)
            except TypeCheckError as error:
                if jax.export.is_symbolic_dim(value):  # it stands for an integer
                    return
                if getattr(error, "site", None) is None:
                    error.append_path_element(str(site))
                error.__traceback__ = None  # the way through typeguard tells nobody anything
                raise
            except (AttributeError, TypeError) as error:  # typeguard's own, as for some protocols
                _stats.count_not_possible(f"typeguard cannot check {site}: {error}")

    return by_typeguard


def _holds_arrays(annotation: Any) -> bool:
    from shardtypes.trace_arguments import has_arrays  # which imports this module

    try:
        return has_arrays(annotation)
    except (NameError, AttributeError):  # a type whose own annotations do not resolve
        return False


def _compile_union(members: tuple[Any, ...], memo: TypeCheckMemo) -> Checker:
    """A union with arrays in it: the first member that fits is it, and what the others bound is forgotten."""
    optional = type(None) in members
    checks = [compile_annotation(member, memo) for member in members if member is not type(None)]
    if len(checks) == 1 and optional and (only := checks[0]) is not None:

        def check_optional(value: Any, table: Table, view: View, site: Site) -> None:
            if value is not None:
                only(value, table, view, site)

        return check_optional
    declared = " | ".join(type_text(member) for member in members)

    def check_union(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if value is None and optional:
            return
        failures: list[str] = []
        for check in checks:
            if check is None:
                return  # anything is allowed
            mark = table.mark()
            try:
                check(value, table, view, site)
            except TypeCheckError as error:
                table.rollback(mark)
                failures.append(str(error).removeprefix(str(site)).lstrip(": "))
            else:
                return
        raise ShardTypeError(messages.no_member(declared, failures), site)

    return check_union


def type_text(annotation: Any) -> str:
    """An annotation as its author writes it."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation.__name__ if annotation is not type(None) else "None"
    return repr(annotation)
