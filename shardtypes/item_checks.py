"""Checks of what a program puts into annotated lists and dicts: ``parts[key] = x``, ``parts.append(x)``.

Dtypes, ranks and sizes that are numbers are compared. Names for sizes are those of each item by itself: what differs
from the names of the call is counted, for a program may fill such a container with layers of several widths.
"""

from __future__ import annotations

import collections
import collections.abc
import sys
import types
import typing
from collections.abc import Callable, Mapping
from types import CodeType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from typeguard import TypeCheckMemo, _suppression

from shardtypes import _stats
from shardtypes.annotation_checks import compile_annotation
from shardtypes.array_check import leave_own_names
from shardtypes.array_types import array_annotation, holds_arrays, meaning
from shardtypes.frames import table_of_frame
from shardtypes.meshes import current_view
from shardtypes.scopes import Table
from shardtypes.sites import Site
from shardtypes.switches import checks_on, left_out
from shardtypes.typeguard_checks import CONFIG, Checker
from shardtypes.variable_checks import declared_by

V = TypeVar("V")
_abc = collections.abc
_LISTS = (
    list, collections.deque, set, _abc.Sequence, _abc.MutableSequence, _abc.Collection, _abc.Iterable, _abc.MutableSet,
)  # fmt: skip
_DICTS = (
    dict, collections.defaultdict, collections.OrderedDict, _abc.Mapping, _abc.MutableMapping,
)  # fmt: skip

# The check of an item of each annotation, by the code that evaluates it; None where such items are not known.
_made: WeakKeyDictionary[CodeType, tuple[Any, Checker | None]] = WeakKeyDictionary()


def item(value: V, name: str, where: str, annotation: Callable[[], Any]) -> V:
    """Check what is put into an annotated variable of the function that runs, and give it back."""
    __tracebackhide__ = True
    if checks_on() and not (_suppression.type_checks_suppressed and left_out()):
        table = table_of_frame(sys._getframe(1))
        _check_items([value], name, where, annotation, table)
    return value


def item_alone(value: V, name: str, where: str, annotation: Callable[[], Any]) -> V:
    """As ``item``, of a variable of a module or of a function around the one that runs."""
    __tracebackhide__ = True
    if checks_on() and not (_suppression.type_checks_suppressed and left_out()):
        _check_items([value], name, where, annotation, None)
    return value


def items(held: Any, name: str, where: str, annotation: Callable[[], Any]) -> None:
    """Check all that an annotated variable holds, each by itself, after some of it was put there."""
    __tracebackhide__ = True
    if checks_on() and not (_suppression.type_checks_suppressed and left_out()):
        found = held.values() if isinstance(held, Mapping) else held
        parts = [*found] if isinstance(found, _abc.Iterable) else []
        _check_items(parts, name, where, annotation, None)


def left_items(value: V, name: str, where: str, annotation: Callable[[], Any]) -> V:
    """Count what is put into a parameter, which may become something else there, or deep into a variable."""
    if checks_on():
        declared, site = declared_by(name, where, annotation)
        if _may_hold_items(declared):
            _stats.count_not_possible(f"{site}, once its items are assigned to")
    return value


def _check_items(
    parts: list[Any],
    name: str,
    where: str,
    annotation: Callable[[], Any],
    table: Table | None,
) -> None:
    __tracebackhide__ = True
    declared, site = declared_by(name, where, annotation)
    if not _may_hold_items(declared):
        return
    check = _check_of_item(declared, annotation)
    if check is None:
        _stats.count_not_possible(f"{site}, once its items are assigned to")
        return
    site = Site(site.function, f"an item of {site.role}", site.module)
    for part in parts:
        own = Table()
        check(part, own, current_view(), site)
        leave_own_names(own, Table() if table is None else table, site, "the item")


def _may_hold_items(declared: Any) -> bool:
    return holds_arrays(declared) and array_annotation(meaning(declared)) is None


def _check_of_item(declared: Any, annotation: Callable[[], Any]) -> Checker | None:
    known = _made.get(annotation.__code__)
    if known is None or known[0] != declared:
        kinds = _item_types(declared)
        memo = TypeCheckMemo(annotation.__globals__, {}, config=CONFIG)
        check = compile_annotation(kinds[0], memo) if len(kinds) == 1 else None
        known = _made[annotation.__code__] = (declared, check)
    return known[1]


def _item_types(declared: Any) -> list[Any]:
    """What a list or dict of this type holds; of a union what its members do."""
    declared = meaning(declared)
    origin, args = typing.get_origin(declared), typing.get_args(declared)
    if origin in (typing.Union, types.UnionType):
        return [kind for member in args for kind in _item_types(member)]
    if origin in _LISTS and len(args) == 1:
        return [args[0]]
    return [args[1]] if origin in _DICTS and len(args) == 2 else []
