"""Calls of annotated functions: arguments are unified with the parameters; the result is in the caller's terms."""

from __future__ import annotations

from mypy.nodes import BytesExpr, CallExpr, Context, RefExpr, StrExpr, TypeAlias
from mypy.plugin import (
    CheckerPluginInterface,
    FunctionContext,
    FunctionSigContext,
    MethodSigContext,
)
from mypy.types import (
    CallableType,
    FunctionLike,
    Instance,
    Overloaded,
    Type,
    UninhabitedType,
    get_proper_type,
)

from shardlint.mypy_plugin.annotations import stack, stacked_prefix
from shardlint.mypy_plugin.errors import Reporter
from shardlint.mypy_plugin.forms import (
    ArrayForm,
    Forms,
    arrays_in,
    map_arrays,
    read_array,
    shown,
)
from shardlint.mypy_plugin.matching import match
from shardlint.mypy_plugin.scopes import known_sizes
from shardlint.mypy_plugin.variables import Variables
from shardtypes.lang import Bindings, Size, format_shape


def call_signature(
    ctx: FunctionSigContext | MethodSigContext,
    forms: Forms,
    report: Reporter,
    variables: Variables,
) -> FunctionLike:
    """The callee's signature with this call's sizes in its result; arguments that do not fit are reported."""
    signature = _constructed(ctx.context, ctx.default_signature, ctx.api, forms)
    formals = [any(True for _ in arrays_in(formal)) for formal in signature.arg_types]
    if not any(formals) and not any(True for _ in arrays_in(signature.ret_type)):
        return signature
    known = known_sizes(ctx.api)
    bindings = Bindings()
    overloaded = _is_overloaded(ctx.context, ctx.api)
    arg_types = list(signature.arg_types)
    for index, (formal, args) in enumerate(
        zip(signature.arg_types, ctx.args, strict=False)
    ):
        for arg in args if formals[index] else ():
            actual = variables.value_type(
                ctx.api, arg, ctx.api.get_expression_type(arg)
            )
            problem = match(formal, actual, bindings, known)
            if problem is None:
                continue
            if overloaded:
                # takes nothing, so that mypy goes on to the next signature
                arg_types[index] = UninhabitedType()
                break
            report(
                ctx.api,
                problem.rule or "ST202",
                problem.message(_place(signature, index)),
                arg,
                problem.code,
            )
    return signature.copy_modified(
        arg_types=arg_types, ret_type=substitute(signature.ret_type, bindings, forms)
    )


def _is_overloaded(call: Context, api: CheckerPluginInterface) -> bool:
    # TypeChecker has it, the plugin interface does not say so
    lookup = getattr(api, "lookup_type_or_none", None)
    callee = (
        lookup(call.callee)
        if isinstance(call, CallExpr) and lookup is not None
        else None
    )
    return isinstance(get_proper_type(callee), Overloaded)


def _place(signature: CallableType, index: int) -> str:
    """``Argument "x" of f``."""
    name = signature.arg_names[index]
    where = f'Argument "{name}"' if name else f"Argument {index + 1}"
    return f"{where} of {signature.name}" if signature.name else where


def _constructed(
    context: Context, signature: CallableType, api: CheckerPluginInterface, forms: Forms
) -> CallableType:
    """The constructor of ``Layers = Array['layers', Layer]``: every array in it has the dimensions in front."""
    callee = context.callee if isinstance(context, CallExpr) else None
    alias = callee.node if isinstance(callee, RefExpr) else None
    prefix = stacked_prefix(alias.target) if isinstance(alias, TypeAlias) else None
    if prefix is None:
        return signature
    return _stacked(
        signature, prefix, api.named_generic_type("builtins.str", []), forms
    )


def stacked_constructor(ctx: FunctionContext, forms: Forms) -> Type:
    """``Array['layers', Layer]`` where it is called: the constructor, with dimensions in front of every array."""
    text, given = ctx.args[0][0], get_proper_type(ctx.arg_types[1][0])
    if not isinstance(text, (StrExpr, BytesExpr)) or not isinstance(
        given, CallableType
    ):
        return ctx.default_return_type
    return _stacked(
        given, text.value, ctx.api.named_generic_type("builtins.str", []), forms
    )


def _stacked(
    signature: CallableType, prefix: str, text_type: Instance, forms: Forms
) -> CallableType:
    return signature.copy_modified(
        arg_types=[
            stack(prefix, formal, text_type, forms) for formal in signature.arg_types
        ],
        ret_type=stack(prefix, signature.ret_type, text_type, forms),
    )


def substitute(typ: Type, bindings: Bindings, forms: Forms) -> Type:
    """A result type in the caller's terms."""

    def change(array: Instance) -> Type:
        form = read_array(array)
        return (
            array
            if form is None
            else forms.with_shape(array, _substituted(form, bindings), form.declared)
        )

    return map_arrays(typ, change)


def _substituted(form: ArrayForm, bindings: Bindings) -> str | None:
    """The shape as the caller writes it; None where its rank is not known."""
    if form.shape is None:
        return None
    sizes: list[Size | None] = []
    axes: list[tuple[str, ...]] = []
    for dim in form.shape.dims:
        if dim.kind == "variadic":
            middle = bindings.variadics.get(dim.name) if dim.name is not None else None
            if middle is None:
                return None
            sizes += [shown(size) for size in middle]
            axes += [()] * len(middle)
            continue
        bound = (
            dim.kind == "size"
            and dim.size is not None
            and dim.size.symbols <= bindings.sizes.keys()
        )
        sizes.append(
            shown(dim.size.substitute(bindings.sizes))
            if bound and dim.size is not None
            else None
        )
        axes.append(dim.axes)
    return format_shape(sizes, axes, form.shape.pending)
