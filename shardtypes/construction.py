"""The check of annotated fields where a value is made: under the import hook, and ``typechecked`` on a class.

Dtypes, ranks and sizes are compared, not shardings: a value is often made first and placed then. JAX makes values of
these classes too, and puts whatever it likes in the fields (placeholders, axes for ``vmap``, examples without their
batch dimension). So an error is raised only where the program itself calls the class with arrays. Whatever else does
not fit is counted, or left alone where JAX or a library on top of it made it.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from typing import Any
from weakref import WeakKeyDictionary

import jax
from typeguard import TypeCheckError, TypeCheckMemo

from shardtypes import _stats
from shardtypes.annotation_checks import CONFIG, Checker, compile_annotation
from shardtypes.array_types import has_array_fields, holds_arrays
from shardtypes.callers import calling_frame, is_put_together, who_made
from shardtypes.fields import (
    FieldTypes,
    declares_fields,
    is_checked_where_made,
    is_named_tuple,
    known_field_types,
    module_names,
    own_annotations,
)
from shardtypes.meshes import current_view
from shardtypes.scopes import Site, enter_table, leave_table
from shardtypes.sharding_check import UnplacedTable
from shardtypes.switches import checks_on

_MISSING = object()


def check_where_made(cls: type, every: bool = False) -> type:
    """Have a class check its fields that hold arrays whenever one of it is made; with ``every`` the others too, of a
    class that JAX does not take apart.

    What the class says of arrays, and is not checked so, is counted: attributes of a class that declares no fields,
    and parameters that a dataclass does not keep.
    """
    if is_checked_where_made(cls):
        return cls
    if not (declares_fields(cls) or is_named_tuple(cls)):
        if has_array_fields(cls):
            _stats.count_not_possible(f"{cls.__qualname__}: its fields are not checked where one is made")
        return cls
    for name, annotation in own_annotations(cls).items():
        if isinstance(annotation, dataclasses.InitVar) and holds_arrays(annotation):
            _stats.count_not_possible(f"{cls.__qualname__}: {name!r}, which is a parameter and no field")
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
    cls.__shardtypes_made__ = every  # type: ignore[attr-defined]  # the mark that `is_checked_where_made` looks for
    return cls


def _hook(cls: type) -> str:
    """The method that runs when a value is complete."""
    if is_named_tuple(cls):
        return "__new__"
    equinox = any(base.__name__ == "Module" and base.__module__.startswith("equinox.") for base in cls.__mro__)
    return "__check_init__" if equinox else "__init__"  # equinox converts fields after __init__


def _check(value: Any, cls: type, frame: types.FrameType | None) -> None:
    """Check a value's fields. Raises ``ShapeError`` where the program called the class with other arrays."""
    __tracebackhide__ = True
    checks = _field_checks(cls)
    if not checks or not checks_on():
        return
    caller = calling_frame(value, frame)
    if caller is None or is_put_together(caller):
        return
    if type(value) is not cls and _checked_class(type(value)) is not cls:
        return  # made by a subclass, which checks more
    table, view = UnplacedTable(), current_view()
    opened = enter_table(table)
    try:
        for name, (check, has_arrays) in checks.items():
            part = getattr(value, name, _MISSING)
            if part is not _MISSING and (has_arrays or not _is_tree(value)):
                _check_field(check, has_arrays, part, name, cls, caller, table, view)
    finally:
        leave_table(opened)


def _checked_class(kind: type) -> type | None:
    return next((base for base in kind.__mro__ if is_checked_where_made(base)), None)


def _check_field(
    check: Checker,
    has_arrays: bool,
    part: Any,
    name: str,
    cls: type,
    caller: types.FrameType,
    table: UnplacedTable,
    view: Any,
) -> None:
    __tracebackhide__ = True
    display = cls.__qualname__.rpartition("<locals>.")[2]
    try:
        check(part, table, view, Site(display, f"field {name!r}", cls.__module__))
    except TypeCheckError:
        if not has_arrays:
            raise
        leaves = jax.tree_util.tree_leaves(part, is_leaf=lambda leaf: leaf is None)
        maker = who_made(cls, caller)
        if maker == "program" and all(isinstance(leaf, jax.Array) for leaf in leaves):
            raise
        if maker != "library":
            _stats.count_not_possible(f"{display}: field {name!r} was made of what does not fit its annotation")


def _is_tree(value: Any) -> bool:
    """Whether JAX takes values of this class apart, and makes them of other things."""
    return jax.tree_util.default_registry.flatten_one_level(value) is not None


# The check of each field, and whether it is one of arrays.
_Checks = dict[str, tuple[Checker, bool]]
_checks: WeakKeyDictionary[type, tuple[FieldTypes, _Checks]] = WeakKeyDictionary()


def _field_checks(cls: type) -> _Checks:
    made = _checks.get(cls)
    if made is not None and made[0].are_current():
        return made[1]
    memo = TypeCheckMemo(module_names(cls), {}, config=CONFIG)
    known = known_field_types(cls)
    found: _Checks = {}
    for name, hint in known.types.items():
        has_arrays = holds_arrays(hint)
        check = compile_annotation(hint, memo) if has_arrays or vars(cls)["__shardtypes_made__"] else None
        if check is not None:
            found[name] = check, has_arrays
    _checks[cls] = known, found
    return found
