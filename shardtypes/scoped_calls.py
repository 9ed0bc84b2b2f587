"""``@scope``: each call of a function opens a ``Scope`` of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from shardtypes.scopes import Scope, enter_table, leave_table, shared_table

P = ParamSpec("P")
R = TypeVar("R")


def scope(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator: each call opens a ``Scope``. Name, doc and signature of the function are kept.

    Works above and below ``typechecked``. Generators and coroutines hold their table while they run only.
    """
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        from shardtypes.generators import scoped  # takes JAX to import

        return scoped(function)  # type: ignore[no-any-return]  # a generator function in, a generator function out
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def run_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
            with Scope():
                return await function(*args, **kwargs)

        run_coroutine.__shardtypes_scope__ = True  # type: ignore[attr-defined]  # as below
        return run_coroutine  # type: ignore[return-value]  # a coroutine function in, a coroutine function out

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        opened = enter_table(shared_table())
        try:
            return function(*args, **kwargs)
        finally:
            leave_table(opened)

    run.__shardtypes_scope__ = True  # type: ignore[attr-defined]  # tells `typechecked` above it to check inside
    return run
