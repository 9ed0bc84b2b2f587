"""Whose names the fields of a class are."""

from __future__ import annotations

from shardlint import ir
from shardlint.values import ClassValue


def shares_scope(cls: ClassValue) -> bool:
    """Whether an instance given to a function is checked field by field in the function's scope, as those of a
    ``pytree_dataclass`` are. The names of any other class are its own."""
    return is_pytree_dataclass(cls) or any(
        isinstance(base, ClassValue) and shares_scope(base) for base in cls.bases
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
