"""What functions are called in messages."""

from __future__ import annotations

from typing import Any


def display_name(function: Any) -> str:
    """A function's name as messages show it, without ``<locals>``."""
    name = (
        getattr(function, "__qualname__", None)
        or getattr(function, "__name__", None)
        or repr(function)
    )
    return str(name).rpartition("<locals>.")[2]
