"""Which checked call a piece of running code belongs to: by where it stands in the source, not by who called it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from types import CodeType, FrameType, FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from shardtypes.scopes import Table, open_tables

# The modules whose frames stand between a caller and a function that is checked.
_CHECKING = (
    "shardtypes.checked",
    "shardtypes.generated_checks",
    "shardtypes.generators",
)


def table_of_frame(frame: FrameType) -> Table | None:
    """The table for checks in the code that runs in a frame; None where that is part of no checked call.

    That of the innermost open ``Scope``; else of the checked call that the frame is the body of, or in whose body its
    code stands.
    """
    tables = list(open_tables())
    scope = tables.pop() if tables and tables[-1].shared else None
    generated = _codes_of_generated_calls(frame) if scope is None else ()
    call: FrameType | None = frame
    while call is not None and (tables or generated):
        if any(code is call.f_code for code in generated):
            table = _table_of_generated_call(call)
            if table is not None and _belongs_to(frame, call):
                return table
        table = next((table for table in tables if table.code is call.f_code), None)
        if table is not None and _is_checked(call):
            if _belongs_to(frame, call):
                return table
            tables.remove(table)
        call = call.f_back
    return scope


def _belongs_to(frame: FrameType, call: FrameType) -> bool:
    """Whether a frame is that of a call, or of code that stands in the function and was defined in this call."""
    return call is frame or (
        stands_in(frame.f_code, call.f_code) and _is_defined_in(frame, call)
    )


def _codes_of_generated_calls(frame: FrameType) -> list[CodeType]:
    """The functions around a frame whose checkers are generated."""
    found = []
    caller = frame.f_back
    while caller is not None:
        checker = caller.f_globals.get("__shardtypes_checker__")
        if checker is not None and checker.function_code is not None:
            found.append(checker.function_code)
        caller = caller.f_back
    return found


def _table_of_generated_call(call: FrameType) -> Table | None:
    """The table of a call that a generated checker makes; None for one that it does not make."""
    caller = call.f_back
    while caller is not None and caller.f_code is not call.f_code:
        checker = caller.f_globals.get("__shardtypes_checker__")
        if checker is not None and checker.function_code is call.f_code:
            table: Table | None = checker.table(caller)
            return table
        caller = caller.f_back
    return None


def table_of_caller() -> Table | None:
    """As ``table_of_frame``, of the code that called into this package."""
    frame: FrameType | None = inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        "shardtypes."
    ):
        frame = frame.f_back
    return None if frame is None else table_of_frame(frame)


def defining_frame(function: Any, frame: FrameType | None) -> FrameType | None:
    """The running call, ``frame`` or one above it, in which a function is being defined; None for one of a module."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None or "<locals>" not in code.co_qualname:
        return None
    while frame is not None and not stands_in(code, frame.f_code):
        frame = frame.f_back
    return frame


def local_names(frame: FrameType | None) -> dict[str, Any]:
    """What names stand for where a function is being defined, but for those of the module."""
    names: dict[str, Any] = {}
    while frame is not None and frame.f_locals is not frame.f_globals:
        names = {**frame.f_locals, **names}
        if not _is_class_body(frame):
            return names
        frame = frame.f_back
    return names


def mentioned_names(
    annotations: Mapping[str, Any], frame: FrameType | None
) -> dict[str, Any]:
    """The local names that string annotations mention: others must not be kept alive."""
    words = {
        word
        for text in annotations.values()
        if isinstance(text, str)
        for word in re.findall(r"[^\W\d]\w*", text)
    }
    return (
        {name: value for name, value in local_names(frame).items() if name in words}
        if words
        else {}
    )


# The local names that the annotations of functions mention, by the functions: no one finds them there later.
_names_of_functions: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def keep_names(function: Any, names: dict[str, Any]) -> None:
    """Keep the local names that the annotations of a function mention."""
    inner = inspect.unwrap(function)
    if names and isinstance(inner, FunctionType):
        _names_of_functions[inner] = names


def kept_names(function: Any) -> Mapping[str, Any]:
    """The local names that the annotations of a function mention, as far as they are kept."""
    inner = inspect.unwrap(function)
    return _names_of_functions.get(inner, {}) if isinstance(inner, FunctionType) else {}


def defining_table(frame: FrameType | None) -> Table | None:
    """The table of the checked call in which a function is being defined, by its ``defining_frame``."""
    while frame is not None and _is_class_body(frame):
        frame = frame.f_back
    return None if frame is None else table_of_frame(frame)


def _is_class_body(frame: FrameType) -> bool:
    return (
        not frame.f_code.co_flags & inspect.CO_OPTIMIZED
        and frame.f_locals is not frame.f_globals
    )


def _is_checked(frame: FrameType) -> bool:
    """Whether this very call is checked, and not one around it of the same function."""
    caller = frame.f_back
    while caller is not None and caller.f_globals.get("__name__") not in _CHECKING:
        if caller.f_code is frame.f_code:
            return False
        caller = caller.f_back
    return caller is not None


def stands_in(code: CodeType, outer: CodeType) -> bool:
    """Whether a function stands in the source of a function or class, at any depth."""
    within = code.co_qualname.startswith(f"{outer.co_qualname}.")
    return (
        within
        and outer.co_filename == code.co_filename
        and _contains_anywhere(outer, code)
    )


def _contains_anywhere(outer: CodeType, code: CodeType) -> bool:
    constants = [
        constant for constant in outer.co_consts if isinstance(constant, CodeType)
    ]
    return any(
        constant is code or _contains_anywhere(constant, code) for constant in constants
    )


def _is_defined_in(frame: FrameType, call: FrameType) -> bool:
    """Whether the function that runs in a frame was defined in this call of the function around it.

    It was not if the variables that it takes from there are other objects.
    """
    taken = set(frame.f_code.co_freevars) & {
        *call.f_code.co_varnames,
        *call.f_code.co_cellvars,
    }
    inner, outer = frame.f_locals, call.f_locals
    return all(inner.get(name) is outer.get(name) for name in taken)
