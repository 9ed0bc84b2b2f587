"""``class Batch(TypedDict)``: dicts whose keys and values a class tells."""

from __future__ import annotations

from shardlint import ir
from shardlint.values import ClassValue, DictValue, ExternalValue, Value

_BASES = frozenset({"typing.TypedDict", "typing_extensions.TypedDict"})


def is_typed_dict(cls: ClassValue) -> bool:
    return any(
        isinstance(base, ExternalValue) and base.qualname in _BASES
        for one in cls.line()
        for base in one.bases
    )


def has_every_key(cls: ClassValue) -> bool:
    """Whether its dicts certainly have all keys: none is ``NotRequired``, no class says ``total=False``."""
    return not any(
        any(arg.keyword == "total" for arg in one.node.bases)
        or any(_may_be_absent(field.annotation) for field in one.fields.values())
        for one in cls.line()
    )


def made(cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """``Batch(x=…, y=…)``; None of another class, or of arguments that are not written one by one."""
    if args or not is_typed_dict(cls):
        return None
    return DictValue(tuple(kwargs.items()))


def _may_be_absent(annotation: ir.Expr) -> bool:
    if not isinstance(annotation, ir.Subscript):
        return False
    name = annotation.obj
    last = name.name if isinstance(name, ir.Attr) else getattr(name, "id", "")
    return last == "NotRequired"
