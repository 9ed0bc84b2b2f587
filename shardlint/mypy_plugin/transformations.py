"""Functions that other functions have made: ``jit`` and ``vmap`` of a function, and ``functools.partial``."""

from __future__ import annotations

import re
from typing import Final

from mypy.nodes import RefExpr
from mypy.plugin import FunctionContext, MethodContext
from mypy.plugins.functools import (
    handle_partial_with_callee,
    partial_call_callback,
    partial_new_callback,
)
from mypy.types import (
    AnyType,
    CallableType,
    Instance,
    Overloaded,
    TupleType,
    Type,
    TypeOfAny,
    get_proper_type,
)

from shardlint.mypy_plugin.forms import Forms, map_arrays, read_array, without_shapes
from shardlint.mypy_plugin.names import TYPED_SHARD_MAP
from shardtypes.lang import format_shape

# Generic functions of JAX whose result has the shapes of an argument: of its values, or of a function it is given.
_KEEPING: Final = frozenset(
    {
        "checkpoint",
        "checkpoint_name",
        "checkpoint_wrapper",
        "cond",
        "custom_gradient",
        "device_put",
        "fori_loop",
        "named_call",
        "optimization_barrier",
        "pmax",
        "pmean",
        "pmin",
        "ppermute",
        "psum",
        "block_until_ready",
        "stop_gradient",
        "switch",
        "while_loop",
        "with_sharding_constraint",
    }
)
# Functions of other libraries that map a function over a dimension and promise that its type stays.
MAPPING: Final = re.compile(r"(?:^|\.)\w*(?:vmap|pmap|scan|xmap|shard_map|vectorize)$")
_JITTED: Final = frozenset({"jax._src.pjit.JitWrapped", "jax._src.stages.Wrapped"})
_PARTIAL: Final = "__mypy_partial"
_KEEPS: Final = "<keeps the function's type>"


def transformed(ctx: FunctionContext, name: str, forms: Forms) -> Type:
    """What a function of JAX without a model gives: ``jit`` the function that it got, ``scan`` the carry.

    Most promise the type of an argument, with a shape that only a few of them keep; and those leave the sharding to
    the compiler.
    """
    jitted = _jitted(ctx)
    if jitted is not None:
        return jitted
    result = get_proper_type(ctx.default_return_type)
    if isinstance(result, CallableType):
        return result if name in _KEEPING else without_shapes(result)
    if MAPPING.search(name) and not isinstance(result, TupleType):
        # an object that can be called has become another function
        return AnyType(TypeOfAny.special_form)
    if name in _KEEPING:
        return _as_worked_out(result, forms)
    if name == "scan" and isinstance(result, TupleType) and len(result.items) == 2:
        carry, stacked = result.items
        return result.copy_modified(
            items=[_as_worked_out(carry, forms), without_shapes(stacked)]
        )
    return without_shapes(result)


def _as_worked_out(typ: Type, forms: Forms) -> Type:
    """The type with shapes of which nobody declared a sharding."""

    def change(array: Instance) -> Type:
        form = read_array(array)
        if form is None or form.shape is None:
            return array
        sizes = format_shape(
            [None if dim.kind != "size" else dim.size for dim in form.shape.dims]
        )
        return forms.with_shape(
            array, None if form.shape.variadic is not None else sizes, declared=False
        )

    return map_arrays(typ, change)


def _jitted(ctx: FunctionContext | MethodContext) -> Type | None:
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
    typ = get_proper_type(ctx.arg_types[0][0]) if callee is not None else None
    if (
        isinstance(callee, RefExpr)
        and callee.fullname == TYPED_SHARD_MAP
        and isinstance(typ, Overloaded)
    ):
        made = handle_partial_with_callee(ctx, callee=typ.items[0])
        if isinstance(made, Instance):
            return made.copy_with_extra_attr(_KEEPS, AnyType(TypeOfAny.special_form))
    return partial_new_callback(ctx)


def partial_call(ctx: MethodContext) -> Type:
    """The call of a partial object, by mypy's own rules; the sizes it was given earlier are not known here."""
    jitted = _jitted(ctx)
    if jitted is not None:
        return jitted
    result = partial_call_callback(ctx)
    if (
        isinstance(ctx.type, Instance)
        and ctx.type.extra_attrs is not None
        and _KEEPS in ctx.type.extra_attrs.attrs
    ):
        return result
    function = _applied(ctx)
    if function is None:
        return without_shapes(result)
    if isinstance(get_proper_type(result), CallableType):  # a decorator
        defined = (
            function.definition.fullname if function.definition is not None else "jax."
        )
        return without_shapes(result) if defined.startswith("jax.") else result
    return without_shapes(result)


def _applied(ctx: MethodContext) -> CallableType | None:
    """What is left of the signature of a partially applied function."""
    extra = ctx.type.extra_attrs if isinstance(ctx.type, Instance) else None
    found = get_proper_type(extra.attrs.get(_PARTIAL)) if extra is not None else None
    return found if isinstance(found, CallableType) else None
