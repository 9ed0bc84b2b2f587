"""The methods of classes by name, those of bases included."""

from __future__ import annotations

from collections.abc import Callable

from shardlint import ir
from shardlint.values import ClassValue


def find_method(cls: ClassValue, name: str) -> tuple[ir.Function, ClassValue] | None:
    return _find(cls, name, lambda node: not _is_accessor(node))


def find_setter(cls: ClassValue, name: str) -> tuple[ir.Function, ClassValue] | None:
    """What assigns to a property."""
    return _find(
        cls,
        name,
        lambda node: any(
            isinstance(d, ir.Attr) and d.name == "setter" for d in node.decorators
        ),
    )


def _find(
    cls: ClassValue, name: str, wanted: Callable[[ir.Function], bool]
) -> tuple[ir.Function, ClassValue] | None:
    for node in reversed(cls.node.body):
        if isinstance(node, ir.Function) and node.name == name and wanted(node):
            return node, cls
    for base in cls.bases:
        found = _find(base, name, wanted) if isinstance(base, ClassValue) else None
        if found is not None:
            return found
    return None


def _is_accessor(node: ir.Function) -> bool:
    """Whether a function is the second or third part of a property, not what reads it."""
    return any(
        isinstance(d, ir.Attr) and d.name in ("setter", "deleter")
        for d in node.decorators
    )
