"""Whose names the fields of a class are."""

from __future__ import annotations

from shardlint import ir
from shardlint.values import ClassValue


def shares_scope(cls: ClassValue) -> bool:
    """Whether an instance given to a function is checked field by field in the function's scope, as those of a
    ``pytree_dataclass`` are that does not say otherwise. The names of any other class are its own."""
    line = [*cls.line()]
    if any(map(_has_own_sizes, line)):
        return False
    return any(map(is_pytree_dataclass, line))


def _has_own_sizes(cls: ClassValue) -> bool:
    """``@pytree_dataclass(own_sizes=True)``"""
    return any(
        arg.keyword == "own_sizes" and arg.value != ir.Const(arg.value.at, False)
        for decorator in cls.node.decorators
        if isinstance(decorator, ir.Call) and _name(decorator) == "pytree_dataclass"
        for arg in decorator.args
    )


def is_pytree_dataclass(cls: ClassValue) -> bool:
    """Whether the class itself is decorated so: then ``Array['n', Cls]`` is one of stacked fields."""
    return any(
        _name(decorator) == "pytree_dataclass" for decorator in cls.node.decorators
    )


def _name(expr: ir.Expr) -> str:
    if isinstance(expr, ir.Call):
        if expr.args and _name(expr.func) == "partial":
            return _name(expr.args[0].value)
        return _name(expr.func)
    return (
        expr.id
        if isinstance(expr, ir.Name)
        else expr.name
        if isinstance(expr, ir.Attr)
        else ""
    )
