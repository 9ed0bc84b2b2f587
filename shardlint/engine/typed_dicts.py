"""``class Batch(TypedDict)``: dicts whose keys and values a class tells."""

from __future__ import annotations

from collections.abc import Iterator

from shardlint import ir
from shardlint.values import ClassValue, DictValue, ExternalValue, Value

_BASES = frozenset({"typing.TypedDict", "typing_extensions.TypedDict"})


def is_typed_dict(cls: ClassValue) -> bool:
    return any(
        isinstance(base, ExternalValue) and base.qualname in _BASES
        for one in _with_bases(cls)
        for base in one.bases
    )


def has_every_key(cls: ClassValue) -> bool:
    """Whether its dicts certainly have all keys: none is ``NotRequired``, no class says ``total=False``."""
    return not any(
        any(arg.keyword == "total" for arg in one.node.bases)
        or any(_may_be_absent(field.annotation) for field in one.fields.values())
        for one in _with_bases(cls)
    )


def made(cls: ClassValue, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """``Batch(x=…, y=…)``; None of another class, or of arguments that are not written one by one."""
    if args or not is_typed_dict(cls):
        return None
    return DictValue(tuple(kwargs.items()))


def _with_bases(cls: ClassValue) -> Iterator[ClassValue]:
    yield cls
    for base in cls.bases:
        if isinstance(base, ClassValue):
            yield from _with_bases(base)


def _may_be_absent(annotation: ir.Expr) -> bool:
    if not isinstance(annotation, ir.Subscript):
        return False
    name = annotation.obj
    last = name.name if isinstance(name, ir.Attr) else getattr(name, "id", "")
    return last == "NotRequired"
