"""Makes ``jax.Array`` generic in a dtype and a shape, so that a bare one, anywhere, is the unknown form.

mypy reads JAX's own stubs, in which every function takes and returns the bare class. A generic class written bare has
``Any`` for its arguments: compatible both ways, with every attribute still checked.
"""

from __future__ import annotations

from mypy.nodes import COVARIANT, Decorator, FuncDef, OverloadedFuncDef, Statement
from mypy.plugin import ClassDefContext
from mypy.types import (
    AnyType,
    CallableType,
    Type,
    TypeOfAny,
    TypeVarId,
    TypeVarLikeType,
    TypeVarType,
    UnboundType,
)

from shardlint.mypy_plugin.names import JAX_ARRAY


def make_array_generic(ctx: ClassDefContext) -> None:
    """Give the class its two type variables: ``Array[DType, Shape]``."""
    anything = ctx.api.named_type("builtins.object", [])
    # A default of this kind counts as written out, so that strict mode does not ask for type arguments.
    unknown = AnyType(TypeOfAny.special_form)
    variables: list[TypeVarLikeType] = [
        TypeVarType(
            name,
            f"{JAX_ARRAY}.{name}",
            TypeVarId(index, namespace=JAX_ARRAY),
            [],
            anything,
            unknown,
            COVARIANT,
        )
        for index, name in enumerate(("DType", "Shape"), 1)
    ]
    ctx.cls.type_vars = variables
    ctx.cls.info.type_vars = []
    ctx.cls.info.add_type_vars()
    for statement in ctx.cls.defs.body:
        _widen_self(statement)


def _widen_self(node: Statement) -> None:
    """Newer stubs let methods return ``Self``, which would claim that ``x.T`` has the shape of ``x``."""
    if isinstance(node, OverloadedFuncDef):
        for item in node.items:
            _widen_self(item)
    function = node.func if isinstance(node, Decorator) else node
    if isinstance(function, FuncDef) and isinstance(function.type, CallableType):
        function.type.ret_type = _without_self(function.type.ret_type)


def _without_self(typ: Type) -> Type:
    if isinstance(typ, UnboundType):
        if typ.name.rpartition(".")[2] == "Self":
            return UnboundType(
                JAX_ARRAY.rpartition(".")[2], line=typ.line, column=typ.column
            )
        typ.args = tuple(_without_self(arg) for arg in typ.args)
    return typ


def open_dtypes(ctx: ClassDefContext) -> None:
    """Let mypy itself take any dtype for any other: the plugin compares them, families included."""
    ctx.cls.info.fallback_to_any = True  # inherited by every dtype class
