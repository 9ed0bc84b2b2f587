"""The check of annotated fields where a value is made: under the import hook, and ``typechecked`` on a class.

Dtypes, ranks and sizes are compared, not shardings: a value is often made first and placed then. JAX makes values of
these classes too, and puts whatever it likes in the fields (placeholders, axes for ``vmap``, examples without their
batch dimension). So an error is raised only where the program itself calls the class with arrays. Whatever else does
not fit is counted, or left alone where JAX or a library on top of it made it.

A class that declares no fields may get them by a decorator above: what such decorators make calls a method of the class
once a value is complete, in which it is looked up what became of the class.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any, is_typeddict
from weakref import WeakKeyDictionary, ref

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
    remember_names_of,
)
from shardtypes.meshes import current_view
from shardtypes.scopes import enter_table, leave_table
from shardtypes.sharding_check import UnplacedTable
from shardtypes.sites import Site
from shardtypes.stacks import is_stack
from shardtypes.switches import checks_on

_MISSING = object()


def check_where_made(cls: type, every: bool = False, is_complete: bool = True) -> type:
    """Have a class check its fields that hold arrays whenever one of it is made; with ``every`` the others too, of a
    class that JAX does not take apart. Where it is not ``is_complete``, decorators may declare fields yet.

    What the class says of arrays, and is not checked so, is counted: attributes of a class that declares no fields,
    and parameters that a dataclass does not keep.
    """
    if is_checked_where_made(cls):
        return cls
    for name, annotation in own_annotations(cls).items():
        if isinstance(annotation, dataclasses.InitVar) and holds_arrays(annotation):
            _stats.count_not_possible(
                f"{cls.__qualname__}: {name!r}, which is a parameter and no field"
            )
    if not (_has_its_fields(cls, is_complete) or is_named_tuple(cls)):
        _check_if_declared(cls, every, is_complete)
        return cls
    hook = _hook(cls)
    made = getattr(cls, hook, None)

    if hook == "__new__":
        _check_named_tuple(cls)
    else:

        def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
            __tracebackhide__ = True
            if made is not None:
                made(self, *args, **kwargs)
            _check(self, cls, sys._getframe(1))

        setattr(cls, hook, functools.wraps(made)(init) if made is not None else init)
    cls.__shardtypes_made__ = _Mark(cls, every)  # type: ignore[attr-defined]  # what `is_checked_where_made` looks for
    return cls


def _check_named_tuple(cls: Any) -> None:
    """Check the fields where the class is called, and where ``_make`` and ``_replace`` make one without calling it."""
    called = cls.__new__

    @functools.wraps(called)
    def new(kind: Any, /, *args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        value = called(kind, *args, **kwargs)
        _check(value, cls, sys._getframe(1))
        return value

    cls.__new__ = staticmethod(new)
    if not inspect.ismethod(getattr(cls, "_make", None)):
        return  # another tuple that calls its items fields
    made = cls._make.__func__

    @functools.wraps(made)
    def make(kind: Any, iterable: Any, /) -> Any:
        __tracebackhide__ = True
        value = made(kind, iterable)
        _check(value, cls, sys._getframe(1))
        return value

    cls._make = classmethod(make)


def _has_its_fields(cls: type, is_complete: bool) -> bool:
    """Whether a class has all fields that it will have."""
    inherits = is_complete or not own_annotations(cls)
    return declares_fields(cls) and (inherits or not _DECLARED.isdisjoint(vars(cls)))


class _Mark:
    """Is on a class that checks its fields. ``every`` is whether those without arrays are checked, too."""

    def __init__(self, cls: type | None, every: bool) -> None:
        self.every = every
        self.cls = None if cls is None else ref(cls)

    def __set_name__(self, owner: type, name: str) -> None:
        """A decorator has made another class of the same members, for slots."""
        before = None if self.cls is None else self.cls()
        if before is not None:
            remember_names_of(before, owner)
        self.cls = ref(owner)

    def __reduce__(self) -> tuple[Any, ...]:
        return _Mark, (None, self.every)

    @property
    def is_declared(self) -> bool:
        """Whether what became of the class has fields."""
        found = None if self.cls is None else self.cls()
        return found is None or not _DECLARED.isdisjoint(vars(found))


# What a class that declares fields has of its own.
_DECLARED = frozenset(("__dataclass_fields__", "__attrs_attrs__"))
# What generated constructors of dataclasses, and of attrs, call last.
_AFTERWARDS = ("__post_init__", "__attrs_post_init__")


def _check_if_declared(cls: type, every: bool, is_complete: bool) -> None:
    """Check the fields that a decorator above declares, where one is made; count attributes, which are no fields."""
    has_arrays = has_array_fields(cls)
    reason = f"{cls.__qualname__}: its fields are not checked where one is made"
    mark = _Mark(cls, every)
    made = vars(cls).get("__init__")
    # their members are what they declare
    if is_typeddict(cls) or getattr(cls, "_is_protocol", False):
        is_complete, made = True, None
    if made is not None and has_arrays:  # decorators leave it as it is
        cls.__init__ = _own_constructor(made, reason)  # type: ignore[misc]  # as it is called
        cls.__shardtypes_made__ = mark  # type: ignore[attr-defined]  # as above
    elif made is None and is_complete and has_arrays:
        _stats.count_not_possible(reason)
    elif made is None and not is_complete and own_annotations(cls):
        for name in _AFTERWARDS:
            setattr(cls, name, _afterwards(name, vars(cls).get(name)))
        cls.__shardtypes_made__ = mark  # type: ignore[attr-defined]  # as above
        if has_arrays:
            _stats.count_unless(reason, lambda: mark.is_declared)


def _afterwards(name: str, own: Callable[..., Any] | None) -> Callable[..., Any]:
    """The method that runs when a value is complete, with what the class does there itself."""

    def afterwards(self: Any, /, *args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        order = type(self).__mro__
        at = next(
            at for at, base in enumerate(order) if vars(base).get(name) is afterwards
        )
        above = next(
            (vars(base)[name] for base in order[at + 1 :] if name in vars(base)), None
        )
        if own is not None:
            own(self, *args, **kwargs)
        elif above is not None:
            above(self, *args, **kwargs)
        if (
            getattr(type(self), name) is afterwards
            and _declaring(type(self)) in order[at:]
        ):
            _check(self, order[at], sys._getframe(1))

    return functools.wraps(own)(afterwards) if own is not None else afterwards


def _own_constructor(made: Callable[..., None], reason: str) -> Callable[..., None]:
    """The constructor that a class has of its own, with the check of its fields, if it has fields."""

    @functools.wraps(made)
    def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
        __tracebackhide__ = True
        made(self, *args, **kwargs)
        kind = next(
            base for base in type(self).__mro__ if vars(base).get("__init__") is init
        )
        declaring = _declaring(type(self))
        if declaring is object and checks_on():
            _stats.count_not_possible(reason)
        elif declaring in kind.__mro__:
            _check(self, kind, sys._getframe(1))

    return init


def _declaring(kind: type) -> type:
    """The class that says which fields a value has, a subclass others than its base; ``object`` if none does."""
    return next(
        (base for base in kind.__mro__ if not _DECLARED.isdisjoint(vars(base))), object
    )


def _hook(cls: type) -> str:
    """The method that runs when a value is complete."""
    if is_named_tuple(cls):
        return "__new__"
    equinox = any(
        base.__name__ == "Module" and base.__module__.startswith("equinox.")
        for base in cls.__mro__
    )
    # equinox converts fields after __init__
    return "__check_init__" if equinox else "__init__"


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
    except TypeCheckError:
        if not is_stack(value, lambda one: _check_arrays(one, checks, cls)):
            raise
        _stats.count_not_possible(
            f"{_display(cls)}: a stack was made by the class of one of its values"
        )
    finally:
        leave_table(opened)


def _check_arrays(value: Any, checks: _Checks, cls: type) -> None:
    """Check the fields of one of a stack."""
    table, view = UnplacedTable(), current_view()
    for name, (check, has_arrays) in checks.items():
        part = getattr(value, name, _MISSING)
        if has_arrays and part is not _MISSING:
            check(part, table, view, Site(_display(cls), f"field {name!r}"))


def _display(cls: type) -> str:
    return cls.__qualname__.rpartition("<locals>.")[2]


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
    display = _display(cls)
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
            _stats.count_not_possible(
                f"{display}: field {name!r} was made of what does not fit its annotation"
            )


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
        check = (
            compile_annotation(hint, memo)
            if has_arrays or vars(cls)["__shardtypes_made__"].every
            else None
        )
        if check is not None:
            found[name] = check, has_arrays
    _checks[cls] = known, found
    return found
