"""Which fields of a dataclass its constructor takes by position, and in which order."""

from __future__ import annotations

from collections.abc import Callable

from shardlint import ir
from shardlint.outline import last_name
from shardlint.values import ClassValue, ExternalValue, Value

#: Classes below these are dataclasses without a decorator.
MAKING_DATACLASSES = frozenset(
    "equinox.Module equinox._module.Module flax.struct.PyTreeNode flax.linen.Module".split()
)
_WITHOUT_FIELDS = MAKING_DATACLASSES | {"typing.NamedTuple"}
_MODULES_WITHOUT_FIELDS = frozenset(
    {"abc", "builtins", "collections.abc", "typing", "typing_extensions"}
)

IsDecorator = Callable[[ir.Expr, str], bool]
"""Whether a decorator, in a module, makes a dataclass."""


def positional_fields(
    cls: ClassValue, makes_dataclass: IsDecorator
) -> tuple[str, ...] | None:
    """The fields in the order of the positional arguments; None where a base class is not known: its come first."""
    if not _is_known(cls):
        return None
    return tuple(
        name
        for name, by_position in _fields(cls, makes_dataclass).items()
        if by_position
    )


def _is_known(cls: ClassValue) -> bool:
    return all(_is_known_base(base) for base in cls.bases)


def _is_known_base(base: Value) -> bool:
    if isinstance(base, ClassValue):
        return _is_known(base)
    if not isinstance(base, ExternalValue):
        return False
    return (
        base.qualname in _WITHOUT_FIELDS
        or base.qualname.rpartition(".")[0] in _MODULES_WITHOUT_FIELDS
    )


def _fields(cls: ClassValue, makes_dataclass: IsDecorator) -> dict[str, bool]:
    """Each parameter of the constructor, and whether it may be given by position. A field that a class declares again
    keeps its place."""
    found: dict[str, bool] = {}
    for base in reversed(cls.bases):
        if isinstance(base, ClassValue):
            found.update(_fields(base, makes_dataclass))
    decorators = [
        expr for expr in cls.node.decorators if makes_dataclass(expr, cls.module)
    ]
    if (
        decorators
        or _is_below(cls, MAKING_DATACLASSES)
        or ExternalValue("typing.NamedTuple") in cls.bases
    ):
        found.update(
            _own_fields(cls, any(_option(expr, "kw_only", True) for expr in decorators))
        )
    return found


def _own_fields(cls: ClassValue, keyword_only: bool) -> dict[str, bool]:
    found: dict[str, bool] = {}
    for name, node in cls.fields.items():
        keyword_only = keyword_only or last_name(node.annotation) == "KW_ONLY"
        if not is_field(node.annotation):
            continue
        by_position = not keyword_only or _option(node.value, "kw_only", False)
        never = _option(node.value, "kw_only", True) or _option(
            node.value, "init", False
        )
        found[name] = by_position and not never
    return found


def is_field(annotation: ir.Expr) -> bool:
    """Whether what is annotated so in the body of a dataclass is one of its fields."""
    return last_name(annotation) not in ("ClassVar", "KW_ONLY")


def _is_below(cls: ClassValue, names: frozenset[str]) -> bool:
    for base in cls.bases:
        if isinstance(base, ExternalValue) and base.qualname in names:
            return True
        if isinstance(base, ClassValue) and _is_below(base, names):
            return True
    return False


def _option(expr: ir.Expr | None, name: str, value: bool) -> bool:
    """Whether a call gives ``name=value``."""
    if not isinstance(expr, ir.Call):
        return False
    given = [arg.value for arg in expr.args if arg.keyword == name]
    return any(isinstance(one, ir.Const) and one.value is value for one in given)
