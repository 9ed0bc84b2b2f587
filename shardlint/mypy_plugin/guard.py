"""A hook that fails is reported where it failed, and mypy goes on."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import TypeAlias, TypeVar

from mypy.errors import CompileError
from mypy.nodes import Context, StrExpr
from mypy.options import Options
from mypy.plugin import (
    AnalyzeTypeContext,
    AttributeContext,
    FunctionContext,
    FunctionSigContext,
    MethodContext,
    MethodSigContext,
)
from mypy.types import AnyType, FunctionLike, Type, TypeOfAny

from shardlint.mypy_plugin.codes import INTERNAL, CanFail

SignatureContext: TypeAlias = FunctionSigContext | MethodSigContext
_T = TypeVar("_T", AnalyzeTypeContext, AttributeContext, FunctionContext, MethodContext)
_C = TypeVar(
    "_C",
    bound=AnalyzeTypeContext
    | AttributeContext
    | FunctionContext
    | MethodContext
    | SignatureContext,
)
_R = TypeVar("_R")


class Guard:
    """Makes hooks that never raise: a failure is an error at the place, and the place keeps the type mypy gives it."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def typed(
        self, find: Callable[[], Callable[[_T], Type] | None], what: str
    ) -> Callable[[_T], Type] | None:
        """The hook that ``find`` finds, which gives a type, or None. ``what`` is the function or class it is of."""
        try:
            hook = find()
        except Exception as problem:  # noqa: BLE001  reported where the hook would be called
            return partial(self._not_found, what=what, error=problem)
        return None if hook is None else self._guarded(hook, what, _type_without_us)

    def signature(
        self, hook: Callable[[SignatureContext], FunctionLike], what: str
    ) -> Callable[[SignatureContext], FunctionLike]:
        """The hook, which gives a signature, of the function ``what``."""
        return self._guarded(hook, what, lambda ctx: ctx.default_signature)

    def _guarded(
        self, hook: Callable[[_C], _R], what: str, without_us: Callable[[_C], _R]
    ) -> Callable[[_C], _R]:
        def guarded(ctx: _C) -> _R:
            try:
                return hook(ctx)
            except CompileError:
                raise
            except Exception as error:  # noqa: BLE001  whatever it is, it is reported and mypy goes on
                self._report(what, error, ctx.api, ctx.context)
                return without_us(ctx)

        return guarded

    def _not_found(self, ctx: _T, what: str, error: Exception) -> Type:
        self._report(what, error, ctx.api, ctx.context)
        return _type_without_us(ctx)

    def failed(self, ctx: FunctionContext) -> Type:
        """The hook of the statement with which a file begins that could not be rewritten: it is given why."""
        message = ctx.args[0][0]
        text = message.value if isinstance(message, StrExpr) else ""
        ctx.api.fail(text, ctx.context, code=INTERNAL)
        return ctx.default_return_type

    def failure(self, what: str, error: Exception) -> str:
        """The message of a failure; under ``--show-traceback`` the traceback is printed as well."""
        if self._options.show_traceback:
            traceback.print_exception(error, file=sys.stderr)
        return _internal_failure(what, error)

    def _report(self, what: str, error: Exception, api: CanFail, at: Context) -> None:
        api.fail(self.failure(what, error), at, code=INTERNAL)


def _type_without_us(
    ctx: AnalyzeTypeContext | AttributeContext | FunctionContext | MethodContext,
) -> Type:
    if isinstance(ctx, AnalyzeTypeContext):
        return AnyType(TypeOfAny.from_error)
    return (
        ctx.default_attr_type
        if isinstance(ctx, AttributeContext)
        else ctx.default_return_type
    )


def _internal_failure(what: str, error: Exception) -> str:
    """``the mypy plugin shardlint.mypy_plugin failed at jax.numpy.sum: KeyError: 'x'; …``."""
    return (
        f"the mypy plugin shardlint.mypy_plugin failed at {what}: {type(error).__name__}: {error}; "
        "this place was not checked, please report it (--show-traceback shows where)"
    )
