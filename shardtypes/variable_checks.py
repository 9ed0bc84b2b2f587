"""What instrumented code calls where it assigns to an annotated variable."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from typeguard import TypeCheckMemo, _suppression

from shardtypes import _stats
from shardtypes.annotation_checks import compile_annotation
from shardtypes.array_types import holds_arrays, resolved
from shardtypes.errors import ShapeStringError
from shardtypes.frames import table_of_frame
from shardtypes.meshes import current_view
from shardtypes.scopes import Site, Table
from shardtypes.switches import checks_on, left_out
from shardtypes.typeguard_checks import CONFIG, Checker

V = TypeVar("V")

# The check of each statement, with the annotation that it was made of.
_made: WeakKeyDictionary[CodeType, tuple[Any, Checker | None, Site]] = WeakKeyDictionary()


def local(value: V, name: str, where: str, annotation: Callable[[], Any]) -> V:
    """Check the value of an annotated variable. The annotation is evaluated here, as Python itself never does."""
    __tracebackhide__ = True
    if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
        return value
    _, check, site = _check_of(name, where, annotation)
    if check is not None:
        table = table_of_frame(sys._getframe(1)) or Table()
        with table.statement(annotation.__code__):
            check(value, table, current_view(), site)
    return value


def module_variable(value: V, name: str, annotation: Callable[[], Any]) -> V:
    """Check the value of an annotated variable of a module, if it holds arrays."""
    __tracebackhide__ = True
    if not checks_on():
        return value
    declared, check, site = _check_of(name, "", annotation)
    if check is not None and holds_arrays(resolved(declared, annotation.__globals__, {})):
        check(value, Table(), current_view(), site)
    return value


def _check_of(name: str, where: str, annotation: Callable[[], Any]) -> tuple[Any, Checker | None, Site]:
    """The annotation, its check, and where the variable is; no check for an annotation that names nothing."""
    try:
        declared = annotation()
        made = _made.get(annotation.__code__)
        if made is None or made[0] != declared:
            made = _made[annotation.__code__] = _compiled(declared, name, where, annotation)
    except ShapeStringError:
        raise
    except (NameError, KeyError, AttributeError, TypeError, IndexError) as error:
        place = f"{where}, variable {name!r}" if where else f"variable {name!r}"
        _stats.count_not_possible(f"annotation of {place} not checked: {error}")
        return Any, None, Site("", "")
    return made


def _compiled(declared: Any, name: str, where: str, annotation: Callable[[], Any]) -> tuple[Any, Checker | None, Site]:
    names = {**annotation.__globals__, **inspect.getclosurevars(annotation).nonlocals}
    site = Site(where, f"variable {name!r}", names.get("__name__", ""))
    return declared, compile_annotation(declared, TypeCheckMemo(names, {}, config=CONFIG)), site


def undecided(value: V, name: str, where: str) -> V:
    """Count a value that is not checked: its variable has several annotations, or is a parameter too."""
    _stats.count_not_possible(f"{where}: variable {name!r}, which has several annotations")
    return value
