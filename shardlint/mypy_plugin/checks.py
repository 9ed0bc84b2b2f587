"""Returned and assigned values against what was promised."""

from __future__ import annotations

from mypy import errorcodes
from mypy.errorcodes import ErrorCode
from mypy.plugin import FunctionContext
from mypy.types import AnyType, Type, TypeOfAny

from shardlint.mypy_plugin.matching import bindings_for, match
from shardlint.mypy_plugin.scopes import known_names


def check_returned(ctx: FunctionContext) -> Type:
    """The value of a ``return`` in a function that promises an array."""
    return _check(ctx, "Incompatible return value", errorcodes.RETURN_VALUE)


def check_assigned(ctx: FunctionContext) -> Type:
    """The value assigned to a variable annotated as an array."""
    return _check(ctx, "Incompatible assignment", errorcodes.ASSIGNMENT)


def _check(ctx: FunctionContext, what: str, code: ErrorCode) -> Type:
    actual = ctx.arg_types[0][0] if ctx.arg_types and ctx.arg_types[0] else AnyType(TypeOfAny.special_form)
    expected = ctx.api.type_context[-1] if ctx.api.type_context else None
    if expected is None:
        return actual
    known = known_names(ctx.api)
    problem = match(expected, actual, bindings_for(known), known)
    if problem is None:
        return actual
    ctx.api.fail(problem.message(what), ctx.context, code=code)
    return AnyType(TypeOfAny.from_error)
