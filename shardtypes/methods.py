"""The sizes of the object that a method is called on: those of a ``pytree_dataclass`` are names of the call.

JAX makes such objects too, of axes, of shardings, of examples without their batch dimension. So where the object does
not fit the annotations of its class, that is counted and no error: the method is then checked without its sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

from typeguard import TypeCheckError, TypeCheckMemo

from shardtypes import _stats
from shardtypes.annotation_checks import compile_part
from shardtypes.container_checks import compile_receiver
from shardtypes.fields import field_names, is_pytree_dataclass, module_names
from shardtypes.meshes import View
from shardtypes.scopes import Table
from shardtypes.sites import Site
from shardtypes.typeguard_checks import CONFIG, Checker


def check_of_object(name: str, module: str) -> Checker | None:
    """What binds the sizes of a function's first argument by its class; None for a function outside of classes.

    ``name`` is the function's qualified name. The argument is found out about when there is one: a class may be local.
    """
    holder, _, method = name.rpartition(".")
    if not holder or holder.endswith("<locals>"):
        return None

    def check_object(value: Any, table: Table, view: View, site: Site) -> None:
        classes = [*_classes(type(value), holder, module, method)]
        if not classes or not all(
            hasattr(value, name) for name in field_names(classes[0])
        ):  # not made yet
            return
        if not any(_bind(value, cls, table, view, site) for cls in classes):
            what = f"names of {site.function}'s object, which does not fit the fields of {classes[-1].__name__}"
            _stats.count_not_possible(what)

    return check_object


def names_no_sizes(name: str, module: str) -> Callable[[Any], bool]:
    """As ``check_of_object``, what tells whether a value is of a class that names no sizes."""
    holder, _, method = name.rpartition(".")
    found: WeakSet[type] = WeakSet()

    def is_sizeless(value: Any) -> bool:
        cls = type(value)
        if cls in found:
            return True
        if any(_classes(cls, holder, module, method)):
            return False
        found.add(cls)
        return True

    return is_sizeless


def _classes(cls: type, holder: str, module: str, method: str) -> Iterator[type]:
    """The kinds of ``pytree_dataclass`` that an object is of, up to the class in which its method stands.

    The stacked form of a class comes first, then the class itself: inside of ``scan`` the object is one of the stack.
    """
    owner = next(
        (
            base
            for base in cls.__mro__
            if (base.__qualname__, base.__module__) == (holder, module)
        ),
        None,
    )
    if (
        owner is None
        or not is_pytree_dataclass(owner)
        or isinstance(vars(owner).get(method), staticmethod)
    ):
        return
    yield from (
        base
        for base in cls.__mro__
        if issubclass(base, owner) and is_pytree_dataclass(base)
    )


def _bind(value: Any, cls: type, table: Table, view: View, site: Site) -> bool:
    """Add the sizes of an object's fields to a table; nothing where one of the fields does not fit."""
    found = table.copy()
    try:
        _check(cls)(value, found, view, site)
    except TypeCheckError:
        return False
    table.inherit(found)
    table.deferred[:] = found.deferred
    return True


@functools.lru_cache(maxsize=1024)
def _check(cls: type) -> Checker:
    memo = TypeCheckMemo(module_names(cls), {}, config=CONFIG)
    return compile_receiver(cls, memo, compile_part)
