"""What instrumented code calls where it assigns to an annotated variable."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

from typeguard import TypeCheckMemo, _suppression

from shardtypes import _stats
from shardtypes.annotation_checks import compile_annotation
from shardtypes.array_check import abandon
from shardtypes.array_types import holds_arrays
from shardtypes.errors import ShapeStringError
from shardtypes.frames import table_of_frame
from shardtypes.meshes import current_view
from shardtypes.scopes import Table
from shardtypes.sites import Site
from shardtypes.strings_in_types import Resolved, resolved
from shardtypes.switches import checks_on, left_out
from shardtypes.typeguard_checks import CONFIG, Checker

V = TypeVar("V")


class _Made(NamedTuple):
    """The check of a statement, with the annotation that it was made of."""

    written: Any
    declared: Resolved
    check: Checker | None
    site: Site


_made: WeakKeyDictionary[CodeType, _Made] = WeakKeyDictionary()


def local(value: V, name: str, where: str, annotation: Callable[[], Any]) -> V:
    """Check the value of an annotated variable. The annotation is evaluated here, as Python itself never does."""
    __tracebackhide__ = True
    if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
        return value
    _, check, site = _check_of(name, where, annotation)
    if check is not None:
        table = table_of_frame(sys._getframe(1))
        if table is None:
            _check_alone(value, check, site)
            return value
        with table.statement(annotation.__code__):
            check(value, table, current_view(), site)
    return value


def outer(
    value: V,
    name: str,
    where: str,
    annotation: Callable[[], Any],
    kept: Callable[[], Table | None],
) -> V:
    """Check the value that a function assigns to an annotated variable of a function around it.

    ``kept`` gives the table of that one's call, which its sizes are of. It raises ``NameError`` where there is none.
    """
    __tracebackhide__ = True
    if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
        return value
    declared, check, site = _check_of(name, where, annotation)
    if check is None:
        return value
    try:
        table = kept()
    except NameError:
        table = None
    if table is None:
        if holds_arrays(declared):
            _stats.count_not_possible(
                f"{site}: its names for sizes, for the function around it is not checked"
            )
        _check_alone(value, check, site)
        return value
    with table.statement(annotation.__code__):
        check(value, table, current_view(), site)
    if table.closed and table.deferred:
        abandon(table)
    return value


def table() -> Table | None:
    """The table of the call that runs, for the functions that it defines."""
    return table_of_frame(sys._getframe(1))


def module_variable(
    value: V, name: str, where: str, annotation: Callable[[], Any]
) -> V:
    """Check the value of an annotated variable of a module, if it holds arrays; ``where`` is who assigns it."""
    __tracebackhide__ = True
    if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
        return value
    declared, check, site = _check_of(name, where, annotation)
    if check is not None and holds_arrays(declared):
        _check_alone(value, check, site)
    return value


def declared_by(
    name: str, where: str, annotation: Callable[[], Any]
) -> tuple[Any, Site]:
    """What the annotation of a variable stands for, and where the variable is; ``Any`` if for nothing."""
    declared, _, site = _check_of(name, where, annotation)
    return declared, site


def _check_alone(value: Any, check: Checker, site: Site) -> None:
    """Check a value whose names for sizes are its own."""
    __tracebackhide__ = True
    own = Table()
    check(value, own, current_view(), site)
    if own.deferred:
        abandon(own)


def _check_of(
    name: str, where: str, annotation: Callable[[], Any]
) -> tuple[Any, Checker | None, Site]:
    """The annotation, its check, and where the variable is; no check for an annotation that names nothing."""
    place = f"{where}, variable {name!r}" if where else f"variable {name!r}"
    try:
        written = annotation()
        made = _made.get(annotation.__code__)
        if made is None or made.written != written:
            made = _compiled(written, name, where, annotation)
            if not made.declared.missing:  # else it may be defined later
                _made[annotation.__code__] = made
    except ShapeStringError:
        raise
    except (NameError, KeyError, AttributeError, TypeError, IndexError) as error:
        _stats.count_not_possible(f"annotation of {place} not checked: {error}")
        return Any, None, Site("", "")
    for reason in made.declared.reasons(place):
        _stats.count_not_possible(reason)
    return made.declared.annotation, made.check, made.site


def _compiled(
    written: Any, name: str, where: str, annotation: Callable[[], Any]
) -> _Made:
    names = {**annotation.__globals__, **inspect.getclosurevars(annotation).nonlocals}
    site = Site(where, f"variable {name!r}", names.get("__name__", ""))
    declared = resolved(written, names, {})
    check = compile_annotation(
        declared.annotation, TypeCheckMemo(names, {}, config=CONFIG)
    )
    return _Made(written, declared, check, site)


def undecided(value: V, which: str) -> V:
    """Count a value that is not checked: its variable has several annotations, or none yet, or is a parameter too."""
    _stats.count_not_possible(which)
    return value
