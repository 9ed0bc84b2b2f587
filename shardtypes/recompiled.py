"""A function compiled anew, with checks of what it assigns to its annotated variables.

Python keeps no annotations of variables, so the function's source is read again. Where that is not the source that it
was compiled from, its variables are counted instead of checked.
"""

from __future__ import annotations
import __future__

import ast
import copy
import functools
import linecache
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from shardtypes import _stats, variable_checks
from shardtypes.assignments import HOOKED, Function, check_assignments, has_annotated_assignments, own_nodes

_FUTURES = functools.reduce(
    lambda flags, name: flags | getattr(__future__, name).compiler_flag, __future__.all_feature_names, 0
)
_OUTER = "__shardtypes_outer__"


@dataclass(frozen=True)
class _Source:
    """A function that annotates variables, as it stands in its file."""

    node: Function
    holder: str | None  # the class around it, which its private names are mangled with
    modules: tuple[str, ...]  # what its module imports: Python compiles calls of their functions in another way


def with_assignments_checked(function: Any, display: str) -> Any:
    """The function with checks of its annotated variables; itself if it has none."""
    if not isinstance(function, types.FunctionType):
        return function
    code = function.__code__
    if HOOKED in code.co_names:  # the import hook did this already
        return function
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__))
    source = _functions_with_variables(code.co_filename, lines).get(code.co_firstlineno)
    if source is None or source.node.name != code.co_name:
        return function
    if not _same(code, _compiled(source, code, checked=False)):
        _stats.count_not_possible(f"{display}: its variables, for it was not compiled from the source that is there")
        return function
    made = _compiled(source, code, checked=True)
    if made is None:
        return function
    return _function(function, made)


@functools.lru_cache(maxsize=64)
def _functions_with_variables(path: str, lines: tuple[str, ...]) -> Mapping[int, _Source]:
    """Those functions of a file that annotate variables, by the line on which each begins."""
    try:
        tree = ast.parse("".join(lines), path)
    except (SyntaxError, ValueError):  # not the source of a running program any more
        return {}
    imports = [node for node in own_nodes(tree.body) if isinstance(node, (ast.Import, ast.ImportFrom))]
    names = [(alias.asname or alias.name).partition(".")[0] for node in imports for alias in node.names]
    modules = tuple(dict.fromkeys(name for name in names if name != "*"))
    return {_first_line(node): _Source(node, holder, modules) for node, holder in _functions(tree, None)}


def _functions(node: ast.AST, holder: str | None) -> Iterator[tuple[Function, str | None]]:
    """The functions that annotate variables, with the class around each."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)) and has_annotated_assignments(child):
            yield child, holder
        yield from _functions(child, child.name if isinstance(child, ast.ClassDef) else holder)


def _first_line(node: Function) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


def _compiled(source: _Source, code: types.CodeType, checked: bool) -> types.CodeType | None:
    """The code of a function inside another one, whose variables stand for those that it takes from around it."""
    node = copy.deepcopy(source.node)
    if checked:
        check_assignments(node, code.co_qualname.rpartition("<locals>.")[2])
    _take_off(node)
    around = [*(name for name in code.co_freevars if name != "__class__"), HOOKED]
    body: list[ast.stmt] = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in around]
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
    return _find(module, code.co_name, source.node)


def _take_off(node: Function) -> None:
    """Remove what is evaluated where a function is defined, and has no part in its code."""
    node.decorator_list = []
    node.returns = None
    if hasattr(node, "type_params"):
        node.type_params = []
    for argument in ast.walk(node.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    node.args.defaults = [ast.Constant(None) for _ in node.args.defaults]
    node.args.kw_defaults = [None if default is None else ast.Constant(None) for default in node.args.kw_defaults]


def _find(code: types.CodeType, name: str, node: Function) -> types.CodeType | None:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            if constant.co_name == name and constant.co_firstlineno == node.lineno:
                return constant
            found = _find(constant, name, node)
            if found is not None:
                return found
    return None


def _same(code: types.CodeType, again: types.CodeType | None) -> bool:
    """Whether a function's source is that which it was compiled from."""
    if again is None:
        return False
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")
    return all(getattr(code, name) == getattr(again, name) for name in names)


def _function(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    before = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    before[HOOKED] = types.CellType(variable_checks)
    code = _renamed(code, code.co_qualname, function.__code__.co_qualname)
    code = code.replace(co_firstlineno=function.__code__.co_firstlineno)
    cells = tuple(before[name] for name in code.co_freevars)
    made = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, cells)
    functools.update_wrapper(made, function)
    del made.__wrapped__  # type: ignore[attr-defined]  # it is that function
    made.__dict__.update(function.__dict__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _renamed(code: types.CodeType, before: str, after: str) -> types.CodeType:
    """The code, and that of functions inside of it, with another beginning of their qualified names."""
    constants = [_renamed(c, before, after) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    name = code.co_qualname
    if name == before or name.startswith(before + "."):
        name = after + name[len(before) :]
    return code.replace(co_qualname=name, co_consts=tuple(constants))
