"""A function compiled anew, with checks inside of its body.

Python keeps no annotations of variables, so the function's source is read again. Where there is none, or not the one
that it was compiled from, its variables are counted instead of checked.
"""

from __future__ import annotations
import __future__

import ast
import copy
import dis
import functools
import importlib
import linecache
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import CO_VARARGS, CO_VARKEYWORDS
from typing import Any

from shardtypes import _stats
from shardtypes.assignments import HOOKED, check_assignments_inside
from shardtypes.fields import is_generated
from shardtypes.import_hook import instrument_body
from shardtypes.variables import FUNCTIONS, Function, Scope, own_nodes

_FUTURES = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag,
    __future__.all_feature_names,
    0,
)
_OUTER = "__shardtypes_outer__"
_OTHER_SOURCE = "it was not compiled from the source that is there"
_NO_SOURCE = "its source is not there"


# Puts checks into a function, in place, and says whether it did; it gets the function's name in messages, too, and what
# is around it.
Instrument = Callable[[Function, str, Sequence[Scope]], bool]


class OtherSource(Exception):
    """A function was not compiled from the source that is there, or there is none; its text says which."""


@dataclass(frozen=True)
class _Source:
    """A function as it stands in its file."""

    node: Function
    around: tuple[Scope, ...]
    # what its module imports: Python compiles calls of their functions in another way
    modules: tuple[str, ...]

    @property
    def holder(self) -> str | None:
        """The class around it, which its private names are mangled with."""
        return next(
            (
                scope.name
                for scope in reversed(self.around)
                if isinstance(scope, ast.ClassDef)
            ),
            None,
        )


def with_assignments_checked(function: Any, display: str) -> Any:
    """The function with checks of its annotated variables; itself if it has none."""
    if not isinstance(function, types.FunctionType):
        return function
    # As instrumented code has it: it decorates what is defined inside with what this module is a part of.
    hooked = importlib.import_module("shardtypes.hooked")

    def instrument(node: Function, path: str, around: Sequence[Scope]) -> bool:
        check_assignments_inside(node, path, around)
        return instrument_body(node, path, around)

    try:
        return recompiled(function, instrument, hooked)
    except OtherSource as error:
        _stats.count_not_possible(f"{display}: its variables, for {error}")
        return function


def recompiled(
    function: types.FunctionType, instrument: Instrument, hooks: types.ModuleType
) -> types.FunctionType:
    """The function with checks in its body, which call into ``hooks``; itself if there is nothing to check.

    Raises ``OtherSource``.
    """
    code = function.__code__
    if HOOKED in code.co_names:  # the import hook did this already
        return function
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__))
    source = _functions_of(code.co_filename, lines).get(code.co_firstlineno)
    if source is None or source.node.name != code.co_name:
        if not _may_annotate_variables(function):
            return function
        raise OtherSource(_OTHER_SOURCE if lines else _NO_SOURCE)
    node = copy.deepcopy(source.node)
    if not instrument(node, code.co_qualname.rpartition("<locals>.")[2], source.around):
        return function
    # Where a function around it was compiled anew, it was already compared with its source.
    if HOOKED not in code.co_freevars and not _same(
        code, _compiled(source, copy.deepcopy(source.node), code)
    ):
        raise OtherSource(_OTHER_SOURCE)
    made = _compiled(source, node, code)
    return function if made is None else _function(function, made, hooks)


def _may_annotate_variables(function: types.FunctionType) -> bool:
    """Whether there may be annotated variables in a function, or in functions and classes inside of it: it assigns to
    what is no parameter."""
    code = function.__code__
    if code.co_name == "<lambda>" or is_generated(function):
        return False
    parameters = code.co_argcount + code.co_kwonlyargcount
    variadic = (code.co_flags & CO_VARARGS, code.co_flags & CO_VARKEYWORDS)
    taken = set(code.co_varnames[: parameters + sum(map(bool, variadic))])
    if {*code.co_varnames, *code.co_cellvars} - taken:
        return True
    inside = [part for part in code.co_consts if isinstance(part, types.CodeType)]
    # Comprehensions and lambdas have none.
    if any(not part.co_name.startswith("<") for part in inside):
        return True
    return any(each.opname in _STORES for each in dis.get_instructions(code))


_STORES = {"STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF"}


@functools.lru_cache(maxsize=64)
def _functions_of(path: str, lines: tuple[str, ...]) -> Mapping[int, _Source]:
    """The functions of a file by the line on which each begins."""
    try:
        tree = ast.parse("".join(lines), path)
    except (SyntaxError, ValueError):  # not the source of a running program any more
        return {}
    imports = [
        node
        for node in own_nodes(tree.body)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    names = [
        (alias.asname or alias.name).partition(".")[0]
        for node in imports
        for alias in node.names
    ]
    modules = tuple(dict.fromkeys(name for name in names if name != "*"))
    return {
        _first_line(node): _Source(node, around, modules)
        for node, around in _functions(tree, (tree,))
    }


def _functions(
    node: ast.AST, around: tuple[Scope, ...]
) -> Iterator[tuple[Function, tuple[Scope, ...]]]:
    """All functions, with what is around each."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTIONS):
            yield child, around
        inner = (
            (*around, child)
            if isinstance(child, (*FUNCTIONS, ast.ClassDef))
            else around
        )
        yield from _functions(child, inner)


def _first_line(node: Function) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _compiled(
    source: _Source, node: Function, code: types.CodeType
) -> types.CodeType | None:
    """The code of a function inside another one, whose variables stand for those that it takes from around it.

    ``node`` is a copy of its source, with checks or without, which is changed.
    """
    _take_off(node)
    around = [*(name for name in code.co_freevars if name != "__class__"), HOOKED]
    body: list[ast.stmt] = [
        ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in around
    ]
    outer = ast.parse(f"def {_OUTER}(): pass").body[0]
    held: Any = node
    if source.holder is not None:
        held = ast.parse(f"class {source.holder}: pass").body[0]
        held.body = [node]
    outer.body = [*body, held]  # type: ignore[attr-defined]  # a function
    imports = [ast.Import([ast.alias(name)]) for name in source.modules]
    tree = ast.fix_missing_locations(ast.Module([*imports, outer], []))
    flags = code.co_flags & _FUTURES
    module = compile(tree, code.co_filename, "exec", flags=flags, dont_inherit=True)
    return _find(module, code.co_name, code.co_firstlineno)


def _take_off(node: Function) -> None:
    """Remove what is evaluated where a function is defined, and has no part in its code. That begins in the line of the
    first decorator."""
    node.decorator_list = [
        ast.copy_location(ast.Constant(None), one) for one in node.decorator_list[:1]
    ]
    node.returns = None
    if hasattr(node, "type_params"):
        node.type_params = []
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [
        None if default is None else ast.Constant(None)
        for default in node.args.kw_defaults
    ]


def _find(code: types.CodeType, name: str, line: int) -> types.CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == name and constant.co_firstlineno == line:
                return constant
            found = _find(constant, name, line)
            if found is not None:
                return found
    return None


def _same(code: types.CodeType, again: types.CodeType | None) -> bool:
    """Whether a function's source is that which it was compiled from."""
    if again is None:
        return False
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")
    return all(getattr(code, name) == getattr(again, name) for name in names)


def _function(
    function: types.FunctionType, code: types.CodeType, hooks: types.ModuleType
) -> types.FunctionType:
    before = dict(
        zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    )
    before[HOOKED] = types.CellType(hooks)
    code = _renamed(code, code.co_qualname, function.__code__.co_qualname)
    cells = tuple(before[name] for name in code.co_freevars)
    made = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, cells
    )
    functools.update_wrapper(made, function)
    del made.__wrapped__  # type: ignore[attr-defined]  # it is that function
    made.__dict__.update(function.__dict__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _renamed(code: types.CodeType, before: str, after: str) -> types.CodeType:
    """The code, and that of functions and classes inside of it, with another beginning of their qualified names."""

    def renamed(constant: Any) -> Any:
        if isinstance(constant, types.CodeType):
            return _renamed(constant, before, after)
        if isinstance(constant, str) and constant.startswith(before + "."):
            return after + constant[len(before) :]  # of a class, in its body
        return constant

    name = code.co_qualname
    if name == before or name.startswith(before + "."):
        name = after + name[len(before) :]
    constants = tuple(map(renamed, code.co_consts))
    return code.replace(co_qualname=name, co_consts=constants)
