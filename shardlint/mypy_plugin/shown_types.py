"""The types of calls, operations and attributes that give arrays: with the shapes that the linter knows there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from mypy.nodes import (
    CallExpr,
    ComparisonExpr,
    Context,
    Decorator,
    FuncDef,
    IndexExpr,
    MemberExpr,
    OpExpr,
    OverloadedFuncDef,
    SymbolTableNode,
    UnaryExpr,
    Var,
)
from mypy.plugin import AttributeContext, FunctionContext, MethodContext
from mypy.plugins.functools import partial_call_callback
from mypy.types import (
    CallableType,
    Overloaded,
    Type,
    get_proper_type,
)

from shardlint.array_places import Arrays
from shardlint.mypy_plugin.codes import path_of
from shardlint.mypy_plugin.findings import Findings
from shardlint.mypy_plugin.forms import Forms, has_array, without_shapes
from shardlint.mypy_plugin.partials import jitted, partial_made

# Functions that give a function another shape and promise that its type stays.
_MAPPING: Final = ("vmap", "pmap", "scan", "xmap", "shard_map", "vectorize")
_OF_MYPY: Final = ("builtins.", "enum.", "_ctypes.")
"""Modules with attributes that mypy has hooks of its own for, and none that are arrays."""
_OPERATORS: Final = frozenset(
    f"__{name}__"
    for name in (
        "getitem neg pos invert eq ne lt le gt ge add sub mul truediv floordiv mod pow matmul and or xor lshift rshift "
        "radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul rand ror rxor rlshift rrshift"
    ).split()
)


class ShownTypes:
    """The hooks of what gives arrays; ``lookup`` finds a definition by its qualified name."""

    def __init__(
        self,
        findings: Findings,
        forms: Forms,
        lookup: Callable[[str], SymbolTableNode | None],
    ) -> None:
        self._findings = findings
        self._forms = forms
        self._lookup = lookup

    def function_hook(self, fullname: str) -> Callable[[FunctionContext], Type] | None:
        """The hook of a function that gives arrays, or of one of JAX that makes functions of functions."""
        if fullname == "functools.partial":
            return partial_made
        if fullname.startswith("jax."):
            return self._transformed
        if fullname.endswith(_MAPPING) and not fullname.startswith("shardtypes."):
            return self._transformed
        return self._called if self._gives_arrays(fullname) else None

    def method_hook(self, fullname: str) -> Callable[[MethodContext], Type] | None:
        """The hook of a method that gives arrays, or of an object that is called."""
        if fullname == "functools.partial.__call__":
            return self._partial_called
        name = fullname.rpartition(".")[2]
        if name == "__call__" or self._gives_arrays(fullname):
            return partial(self._method, name=name)
        return None

    def attribute_hook(
        self, fullname: str
    ) -> Callable[[AttributeContext], Type] | None:
        """The hook of an attribute of an object."""
        return None if fullname.startswith(_OF_MYPY) else self._attribute

    def is_overloaded(self, fullname: str) -> bool:
        """Whether a function or method of this name has several signatures that take arrays."""
        if "." not in fullname or fullname.startswith(("jax.", *_OF_MYPY)):
            return False
        found = self._lookup(fullname)
        node = None if found is None else found.node
        if not isinstance(node, OverloadedFuncDef):
            return False
        typ = get_proper_type(node.type)
        if not isinstance(typ, Overloaded):
            return False
        return any(has_array(one) for item in typ.items for one in item.arg_types)

    def revealed(self, ctx: FunctionContext) -> Type:
        """The hook of what ``reveal_type`` is given."""
        arrays = self._at(ctx, ctx.args[0][0])
        typ = ctx.arg_types[0][0]
        return typ if arrays is None else self._forms.showing(typ, arrays)

    def called(self, ctx: FunctionContext) -> Type:
        """The hook of a function without a name, which stands where its call does."""
        function = ctx.arg_types[0][0]
        proper = get_proper_type(function)
        if not isinstance(proper, CallableType) or proper.is_type_obj():
            return function
        arrays = self._at(ctx, ctx.context)
        return proper.copy_modified(
            ret_type=self._forms.showing(proper.ret_type, arrays)
        )

    def _transformed(self, ctx: FunctionContext) -> Type:
        kept = jitted(ctx)
        if kept is not None:
            return kept
        if isinstance(get_proper_type(ctx.default_return_type), CallableType):
            return without_shapes(ctx.default_return_type)
        return self._called(ctx)

    def _called(self, ctx: FunctionContext) -> Type:
        return self._shown(ctx, ctx.default_return_type)

    def _partial_called(self, ctx: MethodContext) -> Type:
        return jitted(ctx) or self._shown(ctx, partial_call_callback(ctx))

    def _method(self, ctx: MethodContext, name: str) -> Type:
        if not _is_result(ctx.context, name):
            return ctx.default_return_type
        return self._shown(ctx, ctx.default_return_type)

    def _attribute(self, ctx: AttributeContext) -> Type:
        if ctx.is_lvalue or not isinstance(ctx.context, MemberExpr):
            return ctx.default_attr_type
        return self._shown(ctx, ctx.default_attr_type)

    def _shown(
        self, ctx: AttributeContext | FunctionContext | MethodContext, typ: Type
    ) -> Type:
        """The type with what is known of its arrays."""
        if not has_array(typ):
            return typ
        return self._forms.showing(typ, self._at(ctx, ctx.context))

    def _at(
        self, ctx: AttributeContext | FunctionContext | MethodContext, node: Context
    ) -> Arrays:
        return self._findings.arrays_at(path_of(ctx.api), node)

    def _gives_arrays(self, fullname: str) -> bool:
        """Whether a function says so. One without a qualified name is local: who knows."""
        if "." not in fullname:
            return True
        found = self._lookup(fullname)
        node = None if found is None else found.node
        if not isinstance(node, (Decorator, FuncDef, OverloadedFuncDef, Var)):
            return False
        typ = get_proper_type(node.type)
        if isinstance(typ, Overloaded):
            return any(has_array(item.ret_type) for item in typ.items)
        return isinstance(typ, CallableType) and has_array(typ.ret_type)


def _is_result(node: Context, name: str) -> bool:
    """Whether an expression is what a method gives that mypy asks about there; of what ``for`` goes through it asks
    about ``__iter__``."""
    if isinstance(node, CallExpr):
        is_own = isinstance(node.callee, MemberExpr) and node.callee.name == name
        return is_own or name == "__call__"
    if isinstance(node, ComparisonExpr) and len(node.operands) > 2:
        return False
    is_operation = isinstance(node, (ComparisonExpr, IndexExpr, OpExpr, UnaryExpr))
    return is_operation and name in _OPERATORS
