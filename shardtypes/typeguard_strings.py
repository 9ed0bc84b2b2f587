"""Plain strings in annotations of ours, under typeguard's decorator and import hook.

typeguard takes a string in a subscript to be code, but for those of a few types that it lists (``Literal``): their
subscripts it leaves as they are. One entry is added to that list, which equals each name that stands for a type of
ours where typeguard met it. What it does with any other name is not touched.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from shardtypes import _stats
from shardtypes.lang.array_names import SHARDTYPES_DTYPES
from shardtypes.name_sources import origins
from shardtypes.variables import own_nodes, parameter_names

_OURS = {*SHARDTYPES_DTYPES, "Array"}


def leave_strings_alone(transformer: Any) -> None:
    """Add the entry to the list in ``typeguard._transformer``, once."""
    if not any(isinstance(name, _OurNames) for name in transformer.literal_names):
        transformer.literal_names = (
            *transformer.literal_names,
            _OurNames("shardtypes.*"),
        )


class _OurNames(str):
    """Equal to each dotted name that stands for one of our types in the module that typeguard is instrumenting."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, name: object) -> bool:
        caller = sys._getframe(1)
        expression = caller.f_locals.get("expression")
        if not isinstance(expression, ast.Subscript) or not _has_text(expression):
            return str.__eq__(self, name) is True
        return _is_ours(expression.value, _Place(caller))


def _has_text(node: ast.Subscript) -> bool:
    return any(
        isinstance(part, ast.Constant) and isinstance(part.value, str)
        for part in ast.walk(node.slice)
    )


class _Place:
    """Where in which module typeguard met a name, as its own frames say."""

    def __init__(self, caller: FrameType) -> None:
        # typeguard asks for the function that it is in, then for those around it and the module.
        memo = caller.f_locals.get("self")
        self.asked_before = (
            caller.f_back is not None and caller.f_back.f_code is caller.f_code
        )
        self.memo = memo
        self.scopes: list[ast.AST] = []
        # What the module imports for type checkers only: typeguard leaves that out.
        self.ignored: set[str] = set()
        while memo is not None:
            if memo.node is not None:
                self.scopes.append(memo.node)
            self.ignored = memo.ignored_names
            memo = memo.parent
        self.module: str | None = None
        self.names: list[dict[str, Any]] = []
        self._read(caller)

    def _read(self, frame: FrameType | None) -> None:
        """The module's name, and the variables that are known where a function is decorated."""
        while frame is not None:
            name, local = frame.f_code.co_name, frame.f_locals
            if name == "instrument" and callable(local.get("f")):
                self.module = local["f"].__module__
                self.names = [
                    *_variables_around(frame),
                    local["f"].__globals__,
                    vars(builtins),
                ]
                return
            if name == "get_code" and isinstance(local.get("fullname"), str):
                self.module = local["fullname"]
                return
            frame = frame.f_back


def _variables_around(instrument: FrameType) -> Iterator[dict[str, Any]]:
    """The variables of the functions in which a function is being decorated, innermost first."""
    frame = instrument.f_back
    while frame is not None and frame.f_globals.get("__name__", "").startswith(
        "typeguard."
    ):
        frame = frame.f_back
    if frame is not None and frame.f_locals is not frame.f_globals:
        yield dict(frame.f_locals)


def _is_ours(base: ast.expr, place: _Place) -> bool:
    if place.asked_before or place.memo is None:
        return False
    value = _value(base, place.names)
    if value is None:
        ours = any(
            _is_our_name(name) for name in origins(base, place.scopes, place.module)
        )
    else:
        ours = getattr(value, "__shardtypes_text__", False) is True
    if not ours:
        return False
    root = next(part.id for part in ast.walk(base) if isinstance(part, ast.Name))
    text, where = ast.unparse(base), place.memo.joined_path.value
    if root in _variables(place.scopes[0]):
        # There the name is no type: typeguard leaves such annotations out, but finds some of these variables too late.
        place.memo.ignored_names.add(root)
        _stats.count_not_possible(
            f"annotation {text}[…] of {where} not checked: there {root} is a variable"
        )
        return False
    if root in place.ignored:
        _stats.count_not_possible(
            f"annotation {text}[…] of {where} not checked: {root} exists for type checkers only"
        )
        return False
    return True


def _variables(scope: ast.AST) -> set[str]:
    """The names that mean a variable inside of a function."""
    if not isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return set()
    stored = [node for node in own_nodes(scope.body) if isinstance(node, ast.Name)]
    return parameter_names(scope) | {
        node.id for node in stored if isinstance(node.ctx, ast.Store)
    }


def _value(expression: ast.expr, names: Sequence[dict[str, Any]]) -> Any:
    """What a dotted name stands for; None if for nothing."""
    if isinstance(expression, ast.Name):
        return next(
            (
                variables[expression.id]
                for variables in names
                if expression.id in variables
            ),
            None,
        )
    if isinstance(expression, ast.Attribute):
        return getattr(_value(expression.value, names), expression.attr, None)
    return None


def _is_our_name(name: str) -> bool:
    module, _, last = name.rpartition(".")
    return last in _OURS and (
        module == "shardtypes" or module.startswith("shardtypes.")
    )
