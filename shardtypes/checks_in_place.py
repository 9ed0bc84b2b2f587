"""Checks of annotations in functions that are compiled, mapped or called by others already.

A decorator such as ``jit`` keeps the function that it was given, so for a block that very function is made to run its
checked form: its signature and its annotated local variables are checked, and those of what it calls in its package.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import types
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from shardtypes import hooked
from shardtypes.array_types import holds_arrays
from shardtypes.assignments import HOOKED
from shardtypes.checked import UNREADABLE, evaluated_hints, wrap_function
from shardtypes.function_names import display_name, names_used
from shardtypes.import_hook import instrument_body
from shardtypes.jaxtyping_types import translated
from shardtypes.recompiled import OtherSource, recompiled
from shardtypes.trace_forms import innermost, layers

_active: ContextVar[bool] = ContextVar("shardtypes_checks_in_place", default=False)
# Stands in the bytecode for the function that is to be called; no program has this number.
_PLACEHOLDER = 7.31e-291


# One block at a time: it changes functions that threads share.
_lock = threading.RLock()


@contextlib.contextmanager
def checks_in_place(f: Any) -> Iterator[tuple[str, ...]]:
    """Check all annotations of a function, and of what it calls in its package, in the block and its thread only.

    Yields what is not checked, in words.
    """
    with _lock, contextlib.ExitStack() as undo:
        left = [_check(called, undo) for called in reached(f)]
        token = _active.set(True)
        undo.callback(_active.reset, token)
        yield tuple(filter(None, left))


@dataclass(frozen=True)
class Reached:
    """A function as it was written, and the one that runs in its place: another one where a decorator checks its
    variables. ``is_checked`` is whether there is such a decorator."""

    function: types.FunctionType
    running: types.FunctionType
    is_checked: bool


def reached(f: Any) -> list[Reached]:
    """The functions that a function may call by their names, in its package, and itself."""
    package = _package(innermost(f))
    found: dict[int, Reached] = {}
    waiting = [f]
    while waiting:
        called = waiting.pop()
        function = innermost(called)
        if (
            not isinstance(function, types.FunctionType)
            or _package(function) != package
            or id(function) in found
        ):
            continue
        found[id(function)] = _as_reached(called, function)
        waiting += _called_by(function, package)
    return list(found.values())


def _as_reached(called: Any, function: types.FunctionType) -> Reached:
    checks = [
        getattr(layer, "__shardtypes_checked__", None) for layer in layers(called)
    ]
    plan = next((found.plan for found in checks if found is not None), None)
    if plan is None:
        return Reached(function, function, False)
    return Reached(
        function,
        plan.function if isinstance(plan.function, types.FunctionType) else function,
        True,
    )


def _called_by(function: types.FunctionType, package: str) -> Iterator[Any]:
    names = names_used(function.__code__)
    closed = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    values = [
        function.__globals__[name] for name in names if name in function.__globals__
    ]
    values += [cell.cell_contents for _, cell in closed if _is_filled(cell)]
    for value in [*values, _holder(function)]:
        yield from _functions_of(value, names, package)


def _functions_of(value: Any, names: frozenset[str], package: str) -> list[Any]:
    if isinstance(value, types.ModuleType):
        return [getattr(value, name) for name in names if name in vars(value)]
    if isinstance(innermost(value), types.FunctionType):
        return [value]
    cls = value if isinstance(value, type) else type(value)
    if _package(cls) != package:
        return []
    return [
        member
        for name, member in vars(cls).items()
        if name in names or name == "__call__"
    ]


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _package(value: Any) -> str:
    return str(getattr(value, "__module__", "") or "").partition(".")[0]


def _holder(function: types.FunctionType) -> Any:
    """The class of a method."""
    found: Any = function.__globals__
    for part in function.__qualname__.split(".")[:-1]:
        found = (
            found.get(part) if isinstance(found, dict) else getattr(found, part, None)
        )
    return found if isinstance(found, type) else None


def _check(called: Reached, undo: contextlib.ExitStack) -> str:
    """Have a function run its checked form; says what is not checked."""
    function, running = called.function, called.running
    # by the import hook, and whatever is defined in it
    if called.is_checked and HOOKED in function.__globals__:
        return ""
    left = ""
    inside = function
    try:
        inside = recompiled(function, instrument_body, hooked)
    except OtherSource as error:
        left = (
            f"annotations inside of {display_name(function)} were not checked: {error}"
        )
    hints = _array_hints(function)
    if inside is function and not hints:
        return left
    plain, form = _copy(running, running.__code__), _copy(inside, inside.__code__)
    form.__annotations__ = hints
    checked = wrap_function(form, False, None)

    def choose(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        return (checked if _active.get() else plain)(*args, **kwargs)

    _replace(running, choose, undo)
    return left


def _replace(
    function: types.FunctionType, other: Callable[..., Any], undo: contextlib.ExitStack
) -> None:
    before = function.__code__
    undo.callback(setattr, function, "__code__", before)
    if "__signature__" not in vars(function):
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]  # as inspect documents it
        undo.callback(delattr, function, "__signature__")
    function.__code__ = _call_of(other, before)


def _call_of(other: Callable[..., Any], code: types.CodeType) -> types.CodeType:
    """Bytecode of the same kind that calls another function, for a function with that code."""
    template = _CALLS[code.co_flags & _KINDS]
    constants = tuple(
        other if const == _PLACEHOLDER else const for const in template.co_consts
    )
    return template.replace(
        co_consts=constants,
        co_freevars=code.co_freevars,
        co_filename=code.co_filename,
        co_firstlineno=code.co_firstlineno,
        co_name=code.co_name,
        co_qualname=code.co_qualname,
    )


def _call_template(head: str, last: str) -> types.CodeType:
    made: dict[str, Any] = {}
    exec(
        f"{head} call(*args, **kwargs):\n    other = {_PLACEHOLDER}\n    {last}",
        made,
    )
    return made["call"].__code__  # type: ignore[no-any-return]  # what `exec` made


_KINDS = inspect.CO_COROUTINE | inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR
# Python gives a function no code of another kind.
_CALLS = {
    template.co_flags & _KINDS: template
    for template in (
        _call_template("def", "return other(*args, **kwargs)"),
        _call_template("def", "return (yield from other(*args, **kwargs))"),
        _call_template("async def", "return await other(*args, **kwargs)"),
        _call_template(
            "async def", "async for one in other(*args, **kwargs): yield one"
        ),
    )
}


def _copy(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    copy = types.FunctionType(
        code,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__module__, copy.__qualname__, copy.__doc__ = (
        function.__module__,
        function.__qualname__,
        function.__doc__,
    )
    copy.__annotations__ = dict(function.__annotations__)
    vars(copy).update(vars(function))
    return copy


def _array_hints(function: types.FunctionType) -> dict[str, Any]:
    """The annotations that hold arrays; others are not asked for."""
    hints: dict[str, Any] = dict(function.__annotations__)
    with contextlib.suppress(*UNREADABLE):
        hints = evaluated_hints(function)
    ours = {name: translated(hint) for name, hint in hints.items()}
    return {
        name: hint
        for name, hint in ours.items()
        if isinstance(hint, str) or holds_arrays(hint)
    }
