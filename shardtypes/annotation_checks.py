"""The check of one annotation, compiled.

Arrays, and what holds them, are checked by our own code: every array in every item and field. An annotation without
arrays is typeguard's. What holds arrays that no check reaches is counted.
"""

from __future__ import annotations

import inspect
import types
import typing
from contextvars import ContextVar
from typing import Any

import jax
from typeguard import TypeCheckError, TypeCheckMemo

from shardtypes import _stats, messages, switches
from shardtypes.array_types import (
    alias_of,
    array_annotation,
    bounds,
    holds_arrays,
    meaning_of_alias,
    resolved_bounds,
    without_qualifiers,
)
from shardtypes.container_checks import compile_container
from shardtypes.dtypes import array_spec
from shardtypes.errors import ShardTypeError
from shardtypes.meshes import View
from shardtypes.scopes import Table
from shardtypes.sites import Site
from shardtypes.typeguard_checks import CONFIG, Checker, anything, by_typeguard


def compile_annotation(annotation: Any, memo: TypeCheckMemo) -> Checker | None:
    """The check of a parameter, result or variable, in whose annotation no strings are left; None where anything is
    allowed."""
    if _is_anything(annotation):
        return None
    array = array_annotation(annotation)
    if array is not None:
        return array_spec(array).check
    if holds_arrays(annotation):
        return _saying_where(compile_part(annotation, memo))
    if switches.arrays_only:
        return None
    return _saying_where(by_typeguard(annotation, memo))


def _is_anything(annotation: Any) -> bool:
    return (
        annotation is inspect.Parameter.empty
        or annotation is Any
        or annotation is object
    )


def compile_part(annotation: Any, memo: TypeCheckMemo) -> Checker:
    """The check of a type inside another one, or of one that holds arrays. Errors do not say where the value is."""
    annotation = without_qualifiers(annotation)
    array = array_annotation(annotation)
    if array is not None:
        return array_spec(array).check
    if alias_of(annotation) is not None:
        return _compile_alias(annotation, memo)
    if _is_anything(annotation):
        return anything
    if not holds_arrays(annotation):
        return anything if switches.arrays_only else by_typeguard(annotation, memo)
    if isinstance(annotation, typing.TypeVar):
        return _compile_variable(annotation, memo)
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        return _compile_union(typing.get_args(annotation), memo)
    return compile_container(annotation, memo, compile_part)


def _compile_variable(variable: Any, memo: TypeCheckMemo) -> Checker:
    """The check of a type variable: of its bound, or of the types that it is constrained to."""
    for part in resolved_bounds(variable):
        for reason in part.reasons(f"type variable {variable.__name__}"):
            _stats.count_not_possible(reason)
    return _compile_union(bounds(variable), memo)


# The checks of the aliases that are being compiled, as far as they are there: one may hold itself.
_under_way: ContextVar[tuple[tuple[Any, list[Checker]], ...]] = ContextVar(
    "shardtypes_aliases", default=()
)


def _compile_alias(annotation: Any, memo: TypeCheckMemo) -> Checker:
    under_way = _under_way.get()
    alias = alias_of(annotation)
    for other, made in under_way:
        if other is annotation or (alias is not annotation and other == annotation):
            return _made_by_then(annotation, memo, made)
    if any(alias_of(other) is alias for other, _ in under_way):
        return _made_by_then(annotation, memo, [])  # of other arguments each time
    made_here: list[Checker] = []
    token = _under_way.set((*under_way, (annotation, made_here)))
    try:
        made_here.append(compile_part(meaning_of_alias(annotation), memo))
    finally:
        _under_way.reset(token)
    return made_here[0]


def _made_by_then(annotation: Any, memo: TypeCheckMemo, made: list[Checker]) -> Checker:
    """The check that is there when the first value is, else it is made then."""

    def check(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if not made:
            made.append(compile_part(annotation, memo))
        made[0](value, table, view, site)

    return check


def _saying_where(check: Checker) -> Checker:
    """The check, whose errors begin with the place of the value."""

    def checked(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        try:
            check(value, table, view, site)
        except TypeCheckError as error:
            if getattr(error, "site", None) is None:
                error.append_path_element(str(site))
            # the way through the parts tells nobody anything
            error.__traceback__ = None
            raise

    return checked


def _compile_union(members: tuple[Any, ...], memo: TypeCheckMemo) -> Checker:
    """A union with arrays in it: the first member that fits is it, and what the others bound is forgotten."""
    optional = type(None) in members
    checks = [
        _compile_member(member, memo) for member in members if member is not type(None)
    ]
    if len(checks) == 1:
        (only,) = checks

        def check_optional(value: Any, table: Table, view: View, site: Site) -> None:
            if value is not None or not optional:
                only(value, table, view, site)

        return check_optional
    declared = " | ".join(type_text(member) for member in members)

    def check_union(value: Any, table: Table, view: View, site: Site) -> None:
        __tracebackhide__ = True
        if value is None and optional:
            return
        failures: list[str] = []
        for check in checks:
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


_NUMBERS = {int: "iu", float: "iuf", complex: "iufc", bool: "b"}


def _compile_member(member: Any, memo: TypeCheckMemo) -> Checker:
    """The check of a member of a union that has arrays. Others must fit as well, or anything would."""
    if _is_anything(member):
        return anything
    if holds_arrays(member):
        return compile_part(member, memo)
    check = by_typeguard(member, memo)
    if member not in _NUMBERS:
        return check

    def check_number(value: Any, table: Table, view: View, site: Site) -> None:
        if (
            isinstance(value, jax.core.Tracer)
            and value.ndim == 0
            and value.dtype.kind in _NUMBERS[member]
        ):
            return  # what JAX makes of a number that it traces
        check(value, table, view, site)

    return check_number


def type_text(annotation: Any) -> str:
    """An annotation as its author writes it."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        return annotation.__name__ if annotation is not type(None) else "None"
    return repr(annotation)


__all__ = ["CONFIG", "Checker", "array_annotation", "compile_annotation"]
