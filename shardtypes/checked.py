"""``typechecked``: the checks of one function, compiled once.

Array parameters are checked by our own code; every other annotation is typeguard's. Annotations are read at the first
call, so that they may name what is defined later.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from typeguard import TypeCheckMemo, _suppression

from shardtypes import _stats
from shardtypes.annotation_checks import CONFIG, Checker, compile_annotation
from shardtypes.array_check import abandon
from shardtypes.construction import check_where_made, is_generated
from shardtypes.errors import ShardTypeError
from shardtypes.generators import Checks as GeneratorChecks
from shardtypes.generators import parts_of, run, run_async
from shardtypes.meshes import View, current_view
from shardtypes.scopes import Site, Table, current_table, enter_table, leave_table
from shardtypes.switches import checks_on, left_out, switched_off
from shardtypes.typeguard_door import register_with_typeguard

F = TypeVar("F")
_MISSING = object()


@dataclass(frozen=True, slots=True)
class _Parameter:
    position: int
    name: str
    default: Any
    check: Checker
    site: Site


@dataclass(frozen=True, slots=True)
class _Plan:
    parameters: tuple[_Parameter, ...]
    rest: tuple[int, Checker, Site] | None
    keywords: tuple[frozenset[str], Checker, Site] | None
    result: tuple[Checker, Site] | None
    generator: GeneratorChecks


def display_name(function: Any) -> str:
    """A function's name as messages show it, without ``<locals>``."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or repr(function)
    return str(name).rpartition("<locals>.")[2]


def _resolve(annotation: Any, name: str, function: Any, local_names: dict[str, Any]) -> Any:
    if not isinstance(annotation, str):
        return annotation
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    return typing.get_type_hints(holder, _globals(function), local_names, include_extras=True)[name]


def _globals(function: Any) -> dict[str, Any]:
    inner = inspect.unwrap(function)
    return getattr(inner, "__globals__", None) or vars(sys.modules[inner.__module__])


def _closure(function: Any) -> dict[str, Any]:
    code = getattr(inspect.unwrap(function), "__code__", None)
    cells = getattr(inspect.unwrap(function), "__closure__", None) or ()
    names: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code is not None else (), cells, strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def _make_plan(function: Any, local_names: dict[str, Any]) -> _Plan:
    """Read a function's annotations. A name that does not resolve leaves that one parameter to be counted."""
    inner = inspect.unwrap(function)
    display = display_name(function)
    module = getattr(function, "__module__", None) or ""
    names = {**local_names, **_closure(function)}
    memo = TypeCheckMemo(_globals(function), names, config=CONFIG)
    annotations = getattr(inner, "__annotations__", {})

    resolved: dict[str, Any] = {}

    def checker(name: str) -> Checker | None:
        try:
            annotation = _resolve(annotations.get(name, inspect.Parameter.empty), name, function, names)
            resolved[name] = annotation
        except NameError as error:
            _stats.count_not_possible(f"annotation of {display}({name}) not checked: {error}")
            return None
        return compile_annotation(annotation, memo)

    parameters: list[_Parameter] = []
    rest = keywords = None
    position = 0
    named: set[str] = set()
    for parameter in inspect.signature(function).parameters.values():
        check = checker(parameter.name)
        site = Site(display, f"parameter {parameter.name!r}", module)
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = (position, check, site) if check else None
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            keywords = (frozenset(named), check, site) if check else None
            continue
        named.add(parameter.name)
        at = position if parameter.kind is not parameter.KEYWORD_ONLY else sys.maxsize
        position += 1
        if check is not None:
            default = _MISSING if parameter.default is parameter.empty else parameter.default
            parameters.append(_Parameter(at, parameter.name, default, check, site))
    returned = checker("return") if "return" in annotations else None
    result = (returned, Site(display, "the result", module)) if returned else None
    yields: list[Checker | None] = [None, None, None]
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        parts = parts_of(resolved.get("return"))
        yields = [compile_annotation(part, memo) for part in parts] if parts is not None else yields
    generator = GeneratorChecks(yields[0], yields[1], yields[2], display, module)
    return _Plan(tuple(parameters), rest, keywords, result, generator)


def _check_arguments(plan: _Plan, args: tuple[Any, ...], kwargs: dict[str, Any], table: Table, view: View) -> None:
    __tracebackhide__ = True
    count = len(args)
    for parameter in plan.parameters:
        if parameter.position < count:
            value = args[parameter.position]
        else:
            value = kwargs.get(parameter.name, parameter.default)
            if value is _MISSING:
                continue  # the call itself says that it is missing
        parameter.check(value, table, view, parameter.site)
    if plan.rest is not None:
        first, check, site = plan.rest
        for value in args[first:]:
            check(value, table, view, site)
    if plan.keywords is not None:
        named, check, site = plan.keywords
        for name, value in kwargs.items():
            if name not in named:
                check(value, table, view, site)


class _Checks:
    """The checks of one function, made at its first call."""

    __slots__ = ("_plan", "display", "fresh", "function", "local_names")

    def __init__(self, function: Any, fresh: bool, local_names: dict[str, Any]) -> None:
        self.function = function
        self.display = display_name(function)
        self.fresh = fresh
        self.local_names = local_names
        self._plan: _Plan | None = None

    @property
    def plan(self) -> _Plan:
        plan = self._plan
        if plan is None:
            plan = self._plan = _make_plan(self.function, self.local_names)
        return plan


def _wrap(function: Any, fresh: bool, local_names: dict[str, Any]) -> Any:
    checks = _Checks(function, fresh, local_names)
    _stats.declare_function(f"{getattr(function, '__module__', '')}.{checks.display}", _place(function))
    if inspect.iscoroutinefunction(function):
        return _wrap_coroutine(checks)
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return _wrap_generator(checks)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the call, not how it was checked
        if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
            return function(*args, **kwargs)
        if _stats.recording:
            _stats.count_function(f"{function.__module__}.{checks.display}")
        plan = checks._plan or checks.plan
        table = current_table()
        view = current_view()
        if table is None or fresh:
            table = Table()
            token = enter_table(table)
            try:
                _check_arguments(plan, args, kwargs, table, view)
                result = function(*args, **kwargs)
                if plan.result is not None:
                    check, site = plan.result
                    check(result, table, view, site)
                if table.deferred:
                    abandon(table)
            except ShardTypeError as error:
                error.left_call(())
                raise
            finally:
                leave_table(token)
        else:
            mark = table.mark()
            try:
                _check_arguments(plan, args, kwargs, table, view)
                result = function(*args, **kwargs)
                if plan.result is not None:
                    check, site = plan.result
                    check(result, table, view, site)
            except BaseException as error:
                table.fail(mark, error)
                raise
        return result

    checked.__shardtypes_checked__ = checks  # type: ignore[attr-defined]  # so that a second door does not check twice
    return checked


def _wrap_coroutine(checks: _Checks) -> Any:
    function = checks.function

    @functools.wraps(function)
    async def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the call, not how it was checked
        if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
            return await function(*args, **kwargs)
        if _stats.recording:
            _stats.count_function(f"{function.__module__}.{checks.display}")
        plan, view = checks.plan, current_view()
        table = current_table()
        token = None
        if table is None or checks.fresh:
            table = Table()
            token = enter_table(table)
        mark = table.mark()
        try:
            _check_arguments(plan, args, kwargs, table, view)
            result = await function(*args, **kwargs)
            if plan.result is not None:
                check, site = plan.result
                check(result, table, view, site)
            return result
        except BaseException as error:
            table.fail(mark, error)
            raise
        finally:
            if token is not None:
                leave_table(token)

    checked.__shardtypes_checked__ = checks  # type: ignore[attr-defined]  # as above
    return checked


def _wrap_generator(checks: _Checks) -> Any:
    """Arguments are checked at the call; from then on the generator has a table of its own."""
    function = checks.function
    start: Any = run_async if inspect.isasyncgenfunction(function) else run

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True  # pytest shows the call, not how it was checked
        if not checks_on() or (_suppression.type_checks_suppressed and left_out()):
            return function(*args, **kwargs)
        if _stats.recording:
            _stats.count_function(f"{function.__module__}.{checks.display}")
        shared = None if checks.fresh else current_table()
        table = Table() if shared is None else shared.copy()
        _check_arguments(checks.plan, args, kwargs, table, current_view())
        return start(function(*args, **kwargs), checks.plan.generator, table)

    checked.__shardtypes_checked__ = checks  # type: ignore[attr-defined]  # as above
    return checked


def _mentioned(target: Any, frame: types.FrameType) -> dict[str, Any]:
    """The local names that the target's string annotations mention: others must not be kept alive."""
    if frame.f_locals is frame.f_globals:
        return {}
    members = vars(target).values() if isinstance(target, type) else [target]
    texts = [
        text
        for member in members
        for text in getattr(inspect.unwrap(getattr(member, "__func__", member)), "__annotations__", {}).values()
        if isinstance(text, str)
    ]
    words = {word for text in texts for word in re.findall(r"[^\W\d]\w*", text)}
    return {name: value for name, value in frame.f_locals.items() if name in words}


def _place(function: Any) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""


def _wrap_class(target: type, local_names: dict[str, Any]) -> type:
    for name, member in list(vars(target).items()):
        if isinstance(member, types.FunctionType) and member.__module__ == target.__module__:
            if is_generated(member):
                continue  # the fields are checked when they are all there
            if getattr(member, "__annotations__", None) and not hasattr(member, "__shardtypes_checked__"):
                setattr(target, name, _wrap(member, False, local_names))
        elif isinstance(member, (classmethod, staticmethod)):
            setattr(target, name, type(member)(_wrap(member.__func__, False, local_names)))
        elif isinstance(member, property):
            setattr(target, name, _wrap_property(member, False, local_names))
    return check_where_made(target)


def _wrap_property(member: property, fresh: bool, local_names: dict[str, Any]) -> property:
    parts = [_wrap(f, fresh, local_names) if f is not None else None for f in (member.fget, member.fset, member.fdel)]
    return property(parts[0], parts[1], parts[2], member.__doc__)


@overload
def typechecked(target: F) -> F: ...
@overload
def typechecked(*, scope: bool = False) -> Callable[[F], F]: ...


def typechecked(target: Any = None, *, scope: bool = False) -> Any:
    """Check a function's arguments and result at every call; on a class, those of its methods.

    Array annotations check dtype, shape and sharding; all others are checked as typeguard does. Names share the
    caller's table; with ``scope=True`` each call gets a table of its own. With ``SHARDTYPES=0`` in the environment the
    function is returned as it is.

    Raises ``ShapeError`` or ``ShardingError`` for arrays, ``typeguard.TypeCheckError`` for others.
    """
    if target is None:
        return functools.partial(typechecked, scope=scope)
    if switched_off():
        return target
    register_with_typeguard()
    local_names = _mentioned(target, sys._getframe(1))
    if isinstance(target, type):
        return _wrap_class(target, local_names)
    if isinstance(target, (classmethod, staticmethod)):
        return type(target)(_wrap(target.__func__, scope, local_names))
    if isinstance(target, property):
        return _wrap_property(target, scope, local_names)
    earlier = getattr(target, "__shardtypes_checked__", None)
    if earlier is not None:
        return _wrap(earlier.function, True, local_names) if scope and not earlier.fresh else target
    if not callable(target):
        raise TypeError(f"typechecked needs a function or a class, got {type(target).__name__}")
    return _wrap(target, scope or getattr(target, "__shardtypes_scope__", False), local_names)
