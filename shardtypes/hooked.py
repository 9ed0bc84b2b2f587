"""What modules instrumented by our import hook call: for functions, classes, and assignments to annotated variables."""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

from shardtypes import _stats, switches
from shardtypes.attribute_checks import attribute
from shardtypes.checked import place_of, wrap_function
from shardtypes.construction import check_where_made
from shardtypes.fields import remember_names
from shardtypes.function_names import display_name
from shardtypes.item_checks import item, item_alone, items, left_items
from shardtypes.variable_checks import local, module_variable, outer, table, undecided


def function(target: Any) -> Any:
    """The checked form of a function found by the hook."""
    if hasattr(target, "__shardtypes_checked__"):
        return target
    return wrap_function(target, False, sys._getframe(1))


def counted(target: Any) -> Any:
    """A function that jaxtyping checks, its calls counted."""
    if not switches.jaxtyping_too or not isinstance(target, types.FunctionType):
        return target
    name = f"{target.__module__}.{display_name(target)}"
    _stats.declare_function(name, place_of(target))

    @functools.wraps(target)
    def called(*args: Any, **kwargs: Any) -> Any:
        if _stats.recording:
            _stats.count_function(name)
            _stats.count("by jaxtyping")
        return target(*args, **kwargs)

    return called


def declared(target: Any) -> Any:
    """A class with annotated fields, found by the hook, that checks them where one of it is made."""
    if isinstance(target, type):  # not what another decorator has made of it
        remember_names(target, sys._getframe(1))
        check_where_made(target)
    return target


def read_again(target: Any) -> Any:
    """A function whose source typeguard's decorator reads again, without our checks of the functions inside of it."""
    name = getattr(target, "__qualname__", repr(target)).rpartition("<locals>.")[2]
    _stats.count_not_possible(
        f"{name}: the functions inside of it, for typeguard's decorator reads its source again"
    )
    return target


__all__ = [
    "attribute",
    "counted",
    "declared",
    "function",
    "item",
    "item_alone",
    "items",
    "left_items",
    "local",
    "module_variable",
    "outer",
    "read_again",
    "table",
    "undecided",
]
