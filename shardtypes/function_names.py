"""What functions are called in messages, and which names they use."""

from __future__ import annotations

from types import CodeType
from typing import Any


def display_name(function: Any) -> str:
    """A function's name as messages show it, without ``<locals>``."""
    name = (
        getattr(function, "__qualname__", None)
        or getattr(function, "__name__", None)
        or repr(function)
    )
    return str(name).rpartition("<locals>.")[2]


def names_used(code: CodeType) -> frozenset[str]:
    """The names that a function looks up, and those that the functions in it do."""
    inner = [
        names_used(const) for const in code.co_consts if isinstance(const, CodeType)
    ]
    return frozenset(code.co_names).union(*inner)
