"""Who made a value of a class: the program, by calling it, or JAX, which takes values apart and makes them again.

JAX does so from C++, so that the calling frame is whichever frame of Python is nearest: that of a program which calls a
compiled function, for example. What a frame calls is read from its source.
"""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import types
import typing
from typing import Any, Literal
from weakref import WeakKeyDictionary

Maker = Literal["program", "library", "unknown"]

# Who takes values apart and makes them again.
_LIBRARIES = {
    "jax", "jaxlib", "flax", "equinox", "chex", "optax", "orbax", "copy", "copyreg", "pickle", "_pickle", "cloudpickle",
    "shardtypes",
}  # fmt: skip
# What stands between a class and who calls it.
_BETWEEN = {"dataclasses", "typing", "functools", "abc", "attr", "attrs", "collections"}
_REPLACING = {"replace", "_replace", "__replace__", "evolve"}
# What only programs call: JAX calls the class of a named tuple.
_MADE_BY_METHODS = {*_REPLACING, "_make"}
_OWN_METHODS = ("__init__", "__call__", "__new__")


def calling_frame(value: Any, frame: types.FrameType | None) -> types.FrameType | None:
    """The frame that had a value made, from the one in which its class was called; None if a library did."""
    while frame is not None:
        home, name = _home(frame), frame.f_code.co_name
        is_method = name in _OWN_METHODS or frame.f_code in _constructors(type(value))
        own = is_method and any(
            _first_argument(frame) is part for part in (value, type(value))
        )
        if not (own or home == "between" or (home == "library" and name in _REPLACING)):
            return None if home == "library" else frame
        frame = frame.f_back
    return None


def _constructors(kind: type) -> frozenset[types.CodeType]:
    """The code of a class's constructor, with that which a library has put around it."""
    codes = _known_constructors.get(kind)
    if codes is None:
        made: list[types.CodeType] = []
        function: Any = inspect.getattr_static(kind, "__init__")
        while isinstance(function, types.FunctionType):
            made.append(function.__code__)
            function = getattr(function, "__wrapped__", None)
        codes = _known_constructors[kind] = frozenset(made)
    return codes


_known_constructors: WeakKeyDictionary[type, frozenset[types.CodeType]] = (
    WeakKeyDictionary()
)


def is_put_together(frame: types.FrameType) -> bool:
    """Whether what a frame calls is a function of JAX, such as a compiled one: it made the value then, in C++."""
    called = _called(frame)
    found = _evaluated(called, frame)
    if found is None:
        return False
    key = id(frame.f_code), frame.f_lasti
    if _functions_of_jax.get(key) is found:
        return True
    if not _puts_together(called, found):
        return False
    if len(_functions_of_jax) > 4096:
        _functions_of_jax.clear()
    _functions_of_jax[key] = found
    return True


# What was found to be such a function, by the place that called it.
_functions_of_jax: dict[tuple[int, int], Any] = {}


def who_made(cls: type, frame: types.FrameType) -> Maker:
    """Whose doing it is that one of a class was made while a frame ran: the program's, if that is certain."""
    called = _called(frame)
    if isinstance(called, ast.Attribute) and called.attr in _MADE_BY_METHODS:
        return "program"
    if not _is_class(_evaluated(called, frame), cls):
        return "library" if is_put_together(frame) else "unknown"
    return "library" if frame.f_code.co_name == "tree_unflatten" else _called_by(frame)


def _puts_together(called: ast.expr | None, found: Any) -> bool:
    """Whether a call of this is one in which JAX makes values: of a compiled function, of ``treedef.unflatten``."""
    if isinstance(found, type) or _name(called) in _REPLACING:
        return False
    kind = type(found)
    home = (
        kind.__module__
        if kind not in (types.FunctionType, types.BuiltinFunctionType)
        else found.__module__
    )
    return str(home).partition(".")[0] in _LIBRARIES or "unflatten" in _name(called)


def _home(frame: types.FrameType) -> str:
    """Whether a frame runs code of a library, code between, or the program's."""
    return _home_of_module(frame.f_globals.get("__name__"))


@functools.lru_cache(maxsize=4096)
def _home_of_module(name: str | None) -> str:
    package = str(name).partition(".")[0]
    if package in _LIBRARIES:
        return "library"
    return "between" if package in _BETWEEN else "program"


def _first_argument(frame: types.FrameType) -> Any:
    names = frame.f_code.co_varnames[:1]
    return frame.f_locals.get(names[0]) if names else None


def _is_class(found: Any, cls: type) -> bool:
    found = found.func if isinstance(found, functools.partial) else found
    found = typing.get_origin(found) or found
    return isinstance(found, type) and issubclass(found, cls)


def _called_by(frame: types.FrameType) -> Maker:
    """Whether the program called the function that runs in a frame, or JAX, to put a value together again."""
    code = frame.f_code
    if code.co_name.startswith("<") and code.co_name != "<lambda>":
        return "program"  # a module, or a comprehension
    if code.co_flags & (
        inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
    ):
        return "program"
    outer = frame.f_back
    # or what is read, where this is a property
    called = _called(outer) if outer is not None else None
    found = _evaluated(called, outer) if outer is not None else None
    if _code(found) is code:
        return "program"
    if _puts_together(called, found):
        return "library"
    return "program" if _name(called) == code.co_name else "unknown"


def _code(function: Any) -> types.CodeType | None:
    function = function.func if isinstance(function, functools.partial) else function
    return getattr(getattr(function, "__func__", function), "__code__", None)


def _evaluated(expression: ast.expr | None, frame: types.FrameType) -> Any:
    """What a dotted name stands for in a frame, a subscript of one being taken for that one; None for all else."""
    if isinstance(expression, ast.Name):
        for scope in (frame.f_locals, frame.f_globals, frame.f_builtins):
            if expression.id in scope:
                return scope[expression.id]
        return None
    if isinstance(expression, ast.Subscript):
        return _evaluated(expression.value, frame)
    if isinstance(expression, ast.Attribute):
        found = inspect.getattr_static(
            _evaluated(expression.value, frame), expression.attr, None
        )  # runs no property
        return (
            found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        )
    return None


def _name(called: ast.expr | None) -> str:
    if isinstance(called, ast.Attribute):
        return called.attr
    return called.id if isinstance(called, ast.Name) else ""


# What each place in a program calls, by its code and the offset in it; the code is kept, and so its id.
_known: dict[tuple[int, int], tuple[types.CodeType, ast.expr | None]] = {}


def _called(frame: types.FrameType) -> ast.expr | None:
    """What a frame is in the midst of calling, or reading, from its source; None where that cannot be read."""
    code, at = frame.f_code, frame.f_lasti
    found = _known.get((id(code), at))
    if found is None:
        if len(_known) > 4096:
            _known.clear()
        found = _known[id(code), at] = (code, _read(frame))
    return found[1]


def _read(frame: types.FrameType) -> ast.expr | None:
    line, end_line, column, end_column = list(frame.f_code.co_positions())[
        frame.f_lasti // 2
    ]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    lines = [
        linecache.getline(frame.f_code.co_filename, n, frame.f_globals)
        for n in range(line, end_line + 1)
    ]
    encoded = [text.encode() for text in lines]
    encoded[-1] = encoded[-1][:end_column]
    try:
        found = ast.parse(b"(" + b"".join(encoded)[column:] + b")", mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return found.func if isinstance(found, ast.Call) else found
