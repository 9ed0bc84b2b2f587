"""Fields of objects: whose names the shapes there are."""

from __future__ import annotations

from mypy.nodes import (
    Context,
    Expression,
    FuncItem,
    IndexExpr,
    MemberExpr,
    NameExpr,
    Var,
)
from mypy.plugin import AttributeContext, ClassDefContext
from mypy.plugins.dataclasses import dataclass_tag_callback
from mypy.types import Instance, TupleType, Type, TypeVarType, get_proper_type

from shardlint.mypy_plugin.bindings import SingleBindings
from shardlint.mypy_plugin.forms import OF, Forms, renamed, without_shapes
from shardlint.mypy_plugin.scopes import TREE, enclosing_functions, shares_scope


def mark_tree(ctx: ClassDefContext) -> None:
    """Remember, in the cache as well, that a class is a ``pytree_dataclass``; mypy treats it as a dataclass."""
    ctx.cls.info.metadata[TREE] = {"tree": True}
    dataclass_tag_callback(ctx)


def field_type(ctx: AttributeContext, forms: Forms, bindings: SingleBindings) -> Type:
    """The type of ``obj.field``: where its names are not those of the function, they become ``objꞏM``."""
    owner = get_proper_type(ctx.type)
    if isinstance(owner, TupleType) and isinstance(ctx.context, MemberExpr):
        return _item(owner, ctx.context.name) or ctx.default_attr_type
    if (
        ctx.is_lvalue
        and isinstance(owner, Instance)
        and _is_inferred(owner, ctx.context)
    ):
        return without_shapes(ctx.default_attr_type)
    if not isinstance(owner, Instance) or not isinstance(ctx.context, MemberExpr):
        return ctx.default_attr_type
    root = _root(ctx.context.expr)
    if shares_scope(owner.type) and _is_parameter(
        root, enclosing_functions(ctx.api), bindings
    ):
        return ctx.default_attr_type
    if _is_argument(owner, ctx.context.name):
        return ctx.default_attr_type
    name = root.name if root is not None else owner.type.name
    return renamed(ctx.default_attr_type, f"{name}{OF}", forms)


def _is_inferred(owner: Instance, node: Context) -> bool:
    """Whether a field has no annotation: what it was first assigned promises nothing."""
    found = owner.type.get(node.name) if isinstance(node, MemberExpr) else None
    variable = None if found is None else found.node
    if not isinstance(variable, Var) or not variable.is_inferred:
        return False
    # mypy makes that of `self.field: T` before it reads the annotation
    return not variable.explicit_self_type


def _is_argument(owner: Instance, name: str) -> bool:
    """Whether a field is what the object's type was given, as that of ``Box[f32['M']]``: its names are those of the
    place where that was written. A class that gives it to its base writes names of its own."""
    found = owner.type.names.get(name)
    variable = None if found is None else found.node
    return isinstance(variable, Var) and isinstance(variable.type, TypeVarType)


def _item(owner: TupleType, name: str) -> Type | None:
    """The field of a named tuple: the class has its own names in it, the value those of the place where it was made."""
    fields = owner.partial_fallback.type.metadata.get("namedtuple", {}).get(
        "fields", []
    )
    return (
        owner.items[fields.index(name)]
        if name in fields and len(fields) == len(owner.items)
        else None
    )


def _root(node: Expression) -> NameExpr | None:
    """``params`` of ``params.layers[0].w``."""
    while isinstance(node, (MemberExpr, IndexExpr)):
        node = node.expr if isinstance(node, MemberExpr) else node.base
    return node if isinstance(node, NameExpr) else None


def _is_parameter(
    node: NameExpr | None, functions: list[FuncItem], bindings: SingleBindings
) -> bool:
    variable = node.node if node is not None else None
    if variable is None or bindings.is_rebound(variable, functions):
        return False
    return any(
        argument.variable is variable
        for function in functions
        for argument in function.arguments[_skip(function) :]
    )


def _skip(function: FuncItem) -> int:
    return 1 if function.arg_names[:1] == ["self"] else 0
