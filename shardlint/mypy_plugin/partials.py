"""``functools.partial`` and ``jax.jit``, which keep the signature of a function; mypy loses it."""

from __future__ import annotations

from typing import Final

from mypy.nodes import RefExpr
from mypy.plugin import FunctionContext, MethodContext
from mypy.plugins.functools import (
    handle_partial_with_callee,
    partial_new_callback,
)
from mypy.types import CallableType, Instance, Overloaded, Type, get_proper_type

from shardlint.mypy_plugin.names import TYPED_SHARD_MAP

_JITTED: Final = frozenset({"jax._src.pjit.JitWrapped", "jax._src.stages.Wrapped"})


def jitted(ctx: FunctionContext | MethodContext) -> Type | None:
    """The function itself, with the attributes (``lower``, ``trace``) of what ``jit`` makes of it."""
    result = get_proper_type(ctx.default_return_type)
    if not isinstance(result, Instance) or result.type.fullname not in _JITTED:
        return None
    given = [typ for group in ctx.arg_types for typ in group]
    function = get_proper_type(given[0]) if given else None
    return (
        function.copy_modified(fallback=result)
        if isinstance(function, CallableType)
        else None
    )


def partial_made(ctx: FunctionContext) -> Type:
    """``functools.partial(f, …)``: mypy gives up on overloaded functions, of which ``typed_shard_map`` is one."""
    callee = ctx.args[0][0] if ctx.args and ctx.args[0] else None
    if isinstance(callee, RefExpr) and callee.fullname == TYPED_SHARD_MAP:
        typ = get_proper_type(ctx.arg_types[0][0])
        if isinstance(typ, Overloaded):
            return handle_partial_with_callee(ctx, callee=typ.items[0])
    return partial_new_callback(ctx)
