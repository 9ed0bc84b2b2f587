"""What modules instrumented by our import hook call: for functions, classes, and assignments to annotated variables."""

from __future__ import annotations

import sys
from typing import Any

from shardtypes import _stats
from shardtypes.array_types import has_array_fields
from shardtypes.callable_forms import count_unchecked_fields
from shardtypes.checked import wrap_function
from shardtypes.pytrees import is_pytree_dataclass
from shardtypes.variable_checks import local, module_variable, undecided


def function(target: Any) -> Any:
    """The checked form of a function found by the hook."""
    if hasattr(target, "__shardtypes_checked__"):
        return target
    return wrap_function(target, False, sys._getframe(1))


def fields(target: Any) -> Any:
    """A class with annotated fields: those of a ``pytree_dataclass`` are checked where a value of it is passed."""
    if isinstance(target, type) and not is_pytree_dataclass(target) and has_array_fields(target):
        count_unchecked_fields(target)
    return target


def read_again(target: Any) -> Any:
    """A function whose source typeguard's decorator reads again, without our checks of the functions inside of it."""
    name = getattr(target, "__qualname__", repr(target)).rpartition("<locals>.")[2]
    _stats.count_not_possible(f"{name}: the functions inside of it, for typeguard's decorator reads its source again")
    return target


__all__ = ["fields", "function", "local", "module_variable", "read_again", "undecided"]
