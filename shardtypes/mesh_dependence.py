"""Functions whose numbers depend on the mesh on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., Any])
_ATTRIBUTE = "__mesh_dependent__"


def mesh_dependent(why: str) -> Callable[[Function], Function]:
    """Say why a function may give other numbers on other meshes.

    ``@mesh_dependent("each device drops its own units")``

    ``prove`` and ``pytest --shardtypes-prove`` then give no verdict, and say this instead. Raises ``TypeError`` without
    a reason.
    """
    if not isinstance(why, str) or not why.strip():
        raise TypeError(
            "mesh_dependent takes a reason, as in @mesh_dependent('each device drops its own units')"
        )

    def declare(function: Function) -> Function:
        setattr(function, _ATTRIBUTE, why)
        return function

    return declare


def dependence_of(function: Any) -> str:
    """Why a function may give other numbers on other meshes; empty where it may not."""
    while True:
        why = getattr(function, _ATTRIBUTE, "")
        if why:
            return str(why)
        inner = getattr(function, "func", None) or getattr(
            function, "__wrapped__", None
        )
        if inner is None:
            return ""
        function = inner
