"""Whether a part of a function's result is certainly computed from some of its arguments."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from shardlint import ir
from shardlint.values import FunctionValue, Value

_METHODS = frozenset("sum mean max min prod std var astype reshape transpose ravel flatten squeeze dot clip".split())
_FUNCTIONS = frozenset(
    """sum mean max min prod std var abs exp log sin cos tanh sqrt square sign negative dot matmul einsum add subtract
    multiply divide power maximum minimum relu gelu silu softmax log_softmax sigmoid where reshape transpose
    concatenate stack clip""".split()
)


def depends(func: Value, positions: Collection[int], path: Sequence[int]) -> bool:
    """``path`` leads to the part of the result, as ``(1,)`` to the second item of a tuple. Only functions that compute
    straight ahead are judged."""
    if not isinstance(func, FunctionValue):
        return False
    node = func.node
    tainted = {param.name for index, param in enumerate(node.params) if index in positions}
    if isinstance(node, ir.Lambda):
        return _is_tainted(_part(node.body, path), tainted)
    assigned: set[str] = set()
    for statement in node.body:
        match statement:
            case ir.Assign(targets=(ir.Name(id=name),), value=value) if name not in assigned:
                assigned.add(name)
                (tainted.add if _is_tainted(value, tainted) else tainted.discard)(name)
            case ir.ExprStmt(value=ir.Const()):
                pass
            case ir.Return(value=value) if value is not None:
                return _is_tainted(_part(value, path), tainted)
            case _:
                return False
    return False


def _part(expr: ir.Expr, path: Sequence[int]) -> ir.Expr:
    for index in path:
        if not isinstance(expr, ir.Sequence) or index >= len(expr.items):
            return ir.Const(-1, None)
        expr = expr.items[index]
    return expr


def _is_tainted(expr: ir.Expr, names: set[str]) -> bool:
    match expr:
        case ir.Name(id=name):
            return name in names
        case ir.Binary(left=left, right=right):
            return _is_tainted(left, names) or _is_tainted(right, names)
        case ir.Unary(op="-", value=value):
            return _is_tainted(value, names)
        case ir.Subscript(obj=obj):
            return _is_tainted(obj, names)
        case ir.Attr(obj=obj, name="T" | "mT"):
            return _is_tainted(obj, names)
        case ir.Call(func=ir.Attr(obj=ir.Name(id="jnp"), name=name), args=args) if name in _FUNCTIONS:
            return any(_is_tainted(arg.value, names) for arg in args)
        case ir.Call(func=ir.Attr(obj=ir.Attr(obj=ir.Name(id="jax"), name="nn"), name=name), args=args):
            return name in _FUNCTIONS and any(_is_tainted(arg.value, names) for arg in args)
        case ir.Call(func=ir.Attr(obj=obj, name=name)) if name in _METHODS:
            return _is_tainted(obj, names)
        case _:
            return False
