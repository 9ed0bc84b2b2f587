"""What modules instrumented by our import hook call: the door for functions, and the check of annotated locals."""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from typeguard import TypeCheckMemo

from shardtypes import _stats
from shardtypes.annotation_checks import CONFIG, compile_annotation
from shardtypes.checked import _mentioned, _wrap
from shardtypes.construction import check_where_made
from shardtypes.meshes import current_view
from shardtypes.pytrees import remember_names
from shardtypes.scopes import Site, shared_table
from shardtypes.switches import checks_on

V = TypeVar("V")


def function(target: Any) -> Any:
    """The checked form of a function found by the hook."""
    if hasattr(target, "__shardtypes_checked__"):
        return target
    return _wrap(target, False, _mentioned(target, sys._getframe(1)))


def declared(target: type) -> type:
    """A class with annotated fields, found by the hook, that checks them where one of it is made."""
    remember_names(target, sys._getframe(1))
    return check_where_made(target)


def local(value: V, name: str, where: str, annotation: Callable[[], Any]) -> V:
    """Check the value of an annotated local variable. The annotation is evaluated here, as Python itself never does."""
    if not checks_on():
        return value
    names = annotation.__globals__
    try:
        declared = annotation()
        if isinstance(declared, str):
            declared = typing.get_type_hints(
                type("_", (), {"__annotations__": {name: declared}}), names, include_extras=True
            )[name]
    except NameError as error:
        _stats.count_not_possible(f"annotation of {where}, variable {name!r} not checked: {error}")
        return value
    check = compile_annotation(declared, TypeCheckMemo(names, {}, config=CONFIG))
    if check is not None:
        with shared_table() as table:
            check(value, table, current_view(), Site(where, f"variable {name!r}", names.get("__name__", "")))
    return value
