"""The check of annotated fields where a value is made: under the import hook, and ``typechecked`` on a class.

Dtypes, ranks and sizes are compared, not shardings: a value is often made first and placed then. JAX makes values of
these classes too, and puts whatever it likes in the fields (placeholders, axes for ``vmap``, examples without their
batch dimension). So an error is raised only where the program itself calls the class with arrays. Whatever else does
not fit is counted, or left alone where JAX or a library on top of it made it.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any
from weakref import WeakKeyDictionary

import jax
from typeguard import TypeCheckError, TypeCheckMemo

from shardtypes import _stats
from shardtypes.annotation_checks import CONFIG, Checker, compile_annotation
from shardtypes.callers import calling_frame, is_put_together, who_made
from shardtypes.meshes import current_view
from shardtypes.pytrees import checked_types, declares_fields
from shardtypes.scopes import Site, enter_table, leave_table
from shardtypes.sharding_check import UnplacedTable
from shardtypes.switches import checks_on

_MISSING = object()
_MARK = "__shardtypes_made__"


def check_where_made(cls: type) -> type:
    """Have a class check its fields whenever one of it is made. A class without fields is left as it is."""
    if is_checked_where_made(cls) or not (declares_fields(cls) or _is_named_tuple(cls)):
        return cls
    hook = _hook(cls)
    made = getattr(cls, hook, None)

    if hook == "__new__":

        @functools.wraps(cls.__new__)
        def new(kind: Any, /, *args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            value = cls.__new_unchecked__(kind, *args, **kwargs)  # type: ignore[attr-defined]  # set below
            _check(value, cls, sys._getframe(1))
            return value

        cls.__new_unchecked__ = cls.__new__  # type: ignore[attr-defined]
        cls.__new__ = staticmethod(new)  # type: ignore[method-assign]
    else:

        def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            if made is not None:
                made(self, *args, **kwargs)
            _check(self, cls, sys._getframe(1))

        setattr(cls, hook, functools.wraps(made)(init) if made is not None else init)
    setattr(cls, _MARK, True)
    return cls


def is_checked_where_made(cls: type) -> bool:
    """Whether a class checks its fields when one of it is made."""
    return _MARK in vars(cls)


def is_generated(function: types.FunctionType) -> bool:
    """Whether a method was made from the fields of a class, by ``dataclasses`` and the like."""
    return function.__code__.co_filename.startswith("<")


def _is_named_tuple(cls: type) -> bool:
    return issubclass(cls, tuple) and hasattr(cls, "_fields")


def _hook(cls: type) -> str:
    """The method that runs when a value is complete."""
    if _is_named_tuple(cls):
        return "__new__"
    equinox = any(base.__name__ == "Module" and base.__module__.startswith("equinox.") for base in cls.__mro__)
    return "__check_init__" if equinox else "__init__"  # equinox converts fields after __init__


def _check(value: Any, cls: type, frame: types.FrameType | None) -> None:
    """Check a value's fields. Raises ``ShapeError`` where the program called the class with other arrays."""
    __tracebackhide__ = True
    caller = calling_frame(value, frame)
    if caller is None or is_put_together(caller) or not checks_on():
        return
    if type(value) is not cls and _checked_class(type(value)) is not cls:
        return  # made by a subclass, which checks more
    checks = _field_checks(cls)
    table, view = UnplacedTable(), current_view()
    opened = enter_table(table)
    try:
        for name, check in checks.items():
            part = getattr(value, name, _MISSING)
            if part is not _MISSING:
                _check_field(check, part, name, cls, caller, table, view)
    finally:
        leave_table(opened)


def _checked_class(kind: type) -> type | None:
    return next((base for base in kind.__mro__ if is_checked_where_made(base)), None)


def _check_field(
    check: Checker, part: Any, name: str, cls: type, caller: types.FrameType, table: UnplacedTable, view: Any
) -> None:
    __tracebackhide__ = True
    display = cls.__qualname__.rpartition("<locals>.")[2]
    try:
        check(part, table, view, Site(display, f"field {name!r}", cls.__module__))
    except TypeCheckError:
        leaves = jax.tree_util.tree_leaves(part, is_leaf=lambda leaf: leaf is None)
        maker = who_made(cls, caller)
        if maker == "program" and all(isinstance(leaf, jax.Array) for leaf in leaves):
            raise
        if maker != "library":
            _stats.count_not_possible(f"{display}: field {name!r} was made of what does not fit its annotation")


_checks: WeakKeyDictionary[type, dict[str, Checker]] = WeakKeyDictionary()


def _field_checks(cls: type) -> dict[str, Checker]:
    found = _checks.get(cls)
    if found is None:
        memo = TypeCheckMemo(vars(sys.modules[cls.__module__]), {}, config=CONFIG)
        made = {name: compile_annotation(hint, memo) for name, hint in checked_types(cls).items()}
        found = _checks[cls] = {name: check for name, check in made.items() if check is not None}
    return found
