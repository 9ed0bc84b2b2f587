"""Calls of annotated functions: arguments are unified with the parameters; the result is in the caller's terms."""

from __future__ import annotations

from collections.abc import Iterator

from mypy.nodes import (
    BytesExpr,
    CallExpr,
    Context,
    Expression,
    IndexExpr,
    MemberExpr,
    OperatorAssignmentStmt,
    RefExpr,
    StrExpr,
    SymbolNode,
    TypeAlias,
    Var,
)
from mypy.plugin import (
    CheckerPluginInterface,
    FunctionContext,
    FunctionSigContext,
    MethodSigContext,
)
from mypy.types import (
    AnyType,
    CallableType,
    FunctionLike,
    Instance,
    Overloaded,
    Type,
    TypeOfAny,
    UninhabitedType,
    get_proper_type,
)

from shardlint.mypy_plugin.annotations import stack, stacked_prefix
from shardlint.mypy_plugin.displays import displayed
from shardlint.mypy_plugin.errors import Reporter
from shardlint.mypy_plugin.forms import (
    ArrayForm,
    Forms,
    has_array,
    map_arrays,
    read_array,
    shown,
)
from shardlint.mypy_plugin.matching import match
from shardlint.mypy_plugin.scopes import known_sizes
from shardlint.mypy_plugin.variables import Variables, recorded_type
from shardtypes.lang import Bindings, Size, format_shape

ITEM = "Incompatible item"


def call_signature(
    ctx: FunctionSigContext | MethodSigContext,
    forms: Forms,
    report: Reporter,
    variables: Variables,
    place: str = "",
) -> FunctionLike:
    """The callee's signature with this call's sizes in its result; arguments that do not fit are reported."""
    signature = _constructed(ctx.context, ctx.default_signature, ctx.api, forms)
    formals = [has_array(formal) for formal in signature.arg_types]
    if not any(formals) and not has_array(signature.ret_type):
        return signature
    known = known_sizes(ctx.api)
    bindings = Bindings()
    overloaded = _is_overloaded(ctx.context, ctx.api)
    arg_types = list(signature.arg_types)
    for index, (formal, args) in enumerate(
        zip(signature.arg_types, ctx.args, strict=False)
    ):
        given = _displayed(ctx.api, formal, args if formals[index] else [])
        for expected, arg, declared in given:
            actual = variables.value_type(ctx.api, arg, declared)
            problem = match(expected, actual, bindings, known)
            if problem is None:
                continue
            if overloaded:
                # takes nothing, so that mypy goes on to the next signature
                arg_types[index] = UninhabitedType()
                break
            report(
                ctx.api,
                problem.rule or "ST202",
                problem.message(place or _place(signature, index)),
                arg,
                problem.code,
            )
    return signature.copy_modified(
        arg_types=arg_types, ret_type=substitute(signature.ret_type, bindings, forms)
    )


def put_signature(
    ctx: MethodSigContext, forms: Forms, report: Reporter, variables: Variables
) -> FunctionLike:
    """A method that puts something into a list, a dict or the like: its items are what its annotation says. Where none
    says it, mypy made the type of what was put in first, and arrays of any shape may follow."""
    holder = _holder(ctx.context)
    held = holder.node if isinstance(holder, RefExpr) else None
    if isinstance(holder, MemberExpr) and held is None:
        held = _attribute(ctx.api, holder)
    if not isinstance(held, Var) or held.is_inferred:
        return ctx.default_signature
    return call_signature(ctx, forms, report, variables, ITEM)


def _holder(context: Context) -> Expression | None:
    """``parts`` in ``parts.append(x)``, ``parts["a"].append(x)``, ``parts[0] = x`` and ``parts += [x]``."""
    found: Context | None = context
    if isinstance(context, CallExpr):
        callee = context.callee
        found = callee.expr if isinstance(callee, MemberExpr) else None
    elif isinstance(context, OperatorAssignmentStmt):
        found = context.lvalue
    while isinstance(found, IndexExpr):
        found = found.base
    return found if isinstance(found, Expression) else None


def _attribute(api: CheckerPluginInterface, node: MemberExpr) -> SymbolNode | None:
    """What an attribute of an object was declared as."""
    owner = get_proper_type(recorded_type(api, node.expr))
    found = owner.type.get(node.name) if isinstance(owner, Instance) else None
    return None if found is None else found.node


def _displayed(
    api: CheckerPluginInterface, formal: Type, args: list[Expression]
) -> Iterator[tuple[Type, Expression, Type]]:
    """The arguments, those that are displays item by item, with what is expected of each and what it is."""
    for arg in args:
        whole = api.get_expression_type(arg)  # mypy keeps the types of its parts
        for expected, part in displayed(formal, arg):
            actual = whole if part is arg else recorded_type(api, part)
            yield expected, part, actual or AnyType(TypeOfAny.special_form)


def _is_overloaded(call: Context, api: CheckerPluginInterface) -> bool:
    callee = recorded_type(api, call.callee) if isinstance(call, CallExpr) else None
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
