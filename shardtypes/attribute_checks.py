"""Checks of what a program assigns to annotated attributes of objects: ``state.step = x``, ``self.w = w``.

As where an object is made, dtypes, ranks and sizes are compared, not shardings, and only arrays are ever an error. What
does not go with the other attributes is counted: they may be assigned next.
"""

from __future__ import annotations

import sys
import types
from typing import Any
from weakref import WeakKeyDictionary

import jax
from typeguard import TypeCheckError, TypeCheckMemo, _suppression

from shardtypes import _stats
from shardtypes.annotation_checks import compile_annotation
from shardtypes.array_types import holds_arrays
from shardtypes.fields import (
    class_annotations,
    declares_fields,
    is_checked_where_made,
    module_names,
)
from shardtypes.meshes import current_view
from shardtypes.sharding_check import UnplacedTable
from shardtypes.sites import Site
from shardtypes.stacks import is_stack
from shardtypes.switches import checks_on, left_out
from shardtypes.typeguard_checks import CONFIG, Checker

_MISSING = object()

# The checks of the attributes of each class that hold arrays.
_made: WeakKeyDictionary[type, dict[str, Checker]] = WeakKeyDictionary()


def attribute(owner: Any, name: str) -> None:
    """Check the attribute that was just assigned, if the class of the object annotates it."""
    __tracebackhide__ = True
    kind = owner if isinstance(owner, type) else type(owner)
    checks = _made.get(kind)
    if checks is None:
        checks = _checks_of(kind)
    check = checks.get(name)
    if check is None or not checks_on():
        return
    if _suppression.type_checks_suppressed and left_out():
        return
    if _is_making(owner, sys._getframe(1)):
        return  # it is checked when it is complete
    value = getattr(owner, name, _MISSING)
    display = kind.__qualname__.rpartition("<locals>.")[2]
    site = Site(display, f"field {name!r}", kind.__module__)
    try:
        check(value, UnplacedTable(), current_view(), site)
    except TypeCheckError:
        if not _is_of_arrays(value) or is_stack(
            value, lambda one: check(one, UnplacedTable(), current_view(), site)
        ):
            _stats.count_not_possible(
                f"{site} was assigned what does not fit its annotation"
            )
            return
        raise
    _compare_with_others(owner, checks, site)


def _is_making(owner: Any, frame: types.FrameType) -> bool:
    """Whether the code that assigns is the constructor of an object that checks its fields when it is made."""
    code, kind = frame.f_code, type(owner)
    if not (declares_fields(kind) and any(map(is_checked_where_made, kind.__mro__))):
        return False
    is_constructor = code.co_name in ("__init__", "__post_init__")
    return is_constructor and frame.f_locals.get(code.co_varnames[0]) is owner


def _is_of_arrays(value: Any) -> bool:
    leaves = jax.tree_util.tree_leaves(value, is_leaf=lambda leaf: leaf is None)
    return all(isinstance(leaf, jax.Array) for leaf in leaves)


def _compare_with_others(owner: Any, checks: dict[str, Checker], site: Site) -> None:
    table, view = UnplacedTable(), current_view()
    for name, check in checks.items():
        value = getattr(owner, name, _MISSING)
        if value is _MISSING or not _is_of_arrays(value):
            continue
        try:
            check(value, table, view, site)
        except TypeCheckError:
            _stats.count_not_possible(f"{site} does not go with the other fields")
            return


def _checks_of(kind: type) -> dict[str, Checker]:
    hints = class_annotations(kind)
    held = {name: hint for name, hint in hints.items() if holds_arrays(hint)}
    memo = TypeCheckMemo(module_names(kind), {}, config=CONFIG)
    checks: dict[str, Checker] = {}
    for name, hint in held.items():
        check = None if isinstance(hint, str) else compile_annotation(hint, memo)
        if check is not None:
            checks[name] = check
        else:
            _stats.count_not_possible(f"annotation of {kind.__name__}.{name}")
    if not any(isinstance(hint, str) for hint in held.values()):
        _made[kind] = checks  # else it may be defined later
    return checks
