"""Our annotations under typeguard's own decorator and import hook.

typeguard looks up who checks a type: we register for ours. Its instrumentation also evaluates strings inside
subscripts as code, which turns ``f32['batch/d']`` into a division: we keep strings of our annotations as they are.
"""

from __future__ import annotations

import ast
import functools
import sys
import types
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import typeguard
from typeguard import TypeCheckError, TypeCheckMemo, _decorators, _importhook, _transformer
from typeguard._checkers import check_type_internal

from shardtypes.scopes import Site, Table, current_table
from shardtypes.switches import checks_on

_site: ContextVar[Site | None] = ContextVar("shardtypes_site", default=None)

# What typeguard's own names are in the frames between an instrumented function and our checker.
_ENTRY = ("check_argument_types_internal", "check_return_type_internal", "check_variable_assignment")


@contextmanager
def at_site(site: Site) -> Iterator[None]:
    """Say where the value that typeguard is about to check was met."""
    token = _site.set(site)
    try:
        yield
    finally:
        _site.reset(token)


@functools.lru_cache(maxsize=4096)
def made_site(function: str, argument: str | None, module: str) -> Site:
    """The parameter, or with None the result, of a function by the name that typeguard gives it."""
    role = "the result" if argument is None else f"parameter {argument!r}"
    return Site(function.rpartition("<locals>.")[2], role, module)


@functools.lru_cache(maxsize=4096)
def _site_of_field(site: Site, name: str) -> Site:
    """``parameter 'w'`` → ``parameter 'w', field 'mlp'`` → ``parameter 'w', field 'mlp.up'``."""
    role = f"{site.role[:-1]}.{name}'" if ", field '" in site.role else f"{site.role}, field {name!r}"
    return Site(site.function, role.removeprefix(", "), site.module)


def _site_of_frames() -> Site:
    """The function and parameter that typeguard is checking, from its own frames."""
    frame: types.FrameType | None = sys._getframe(2)
    for _ in range(20):
        if frame is None:
            break
        name = frame.f_code.co_name
        if name in _ENTRY:
            local = frame.f_locals
            if name != "check_variable_assignment":
                return made_site(local["func_name"], local.get("argname"), local["memo"].globals.get("__name__", ""))
            caller = frame.f_back.f_code.co_qualname if frame.f_back is not None else ""
            return Site(caller.rpartition("<locals>.")[2], f"variable {local.get('varname')!r}")
        frame = frame.f_back
    return Site("", "")


@functools.lru_cache(maxsize=1)
def tools() -> tuple[Any, Any]:
    """What needs JAX, loaded at the first check: typeguard may load this module long before."""
    from shardtypes.dtypes import array_spec
    from shardtypes.meshes import current_view

    return array_spec, current_view


# The compiled check of each annotation that typeguard has met, by dtype class and text.
_checks: dict[tuple[Any, Any], Any] = {}


def _check_array(value: Any, origin: Any, args: tuple[Any, ...], memo: TypeCheckMemo) -> None:
    if not checks_on():
        return
    array_spec, current_view = tools()
    key = origin, args[0]
    check = _checks.get(key)
    if check is None:
        check = _checks[key] = array_spec(origin[args[0]]).check
    table = current_table()
    check(value, table if table is not None else Table(), current_view(), _site.get() or _site_of_frames())


def _check_dataclass(value: Any, origin: Any, args: tuple[Any, ...], memo: TypeCheckMemo) -> None:
    from shardtypes.pytrees import being_checked, checked_types

    if not isinstance(value, origin):
        raise TypeCheckError(f"is not an instance of {origin.__module__}.{origin.__qualname__}")
    if not checks_on():
        return
    site = _site.get() or _site_of_frames()
    with being_checked(value) as first:
        for name, annotation in checked_types(origin, args).items() if first else ():
            try:
                with at_site(_site_of_field(site, name)):
                    check_type_internal(getattr(value, name), annotation, memo)
            except TypeCheckError as error:
                error.append_path_element(f"field {name!r} ({origin.__name__})")
                raise


def lookup(origin: Any, args: tuple[Any, ...], extras: tuple[Any, ...]) -> Any:
    """typeguard's question: who checks this type?"""
    if getattr(origin, "__shardtypes__", None) is True and args:
        return _check_array
    if _is_record(origin, args):
        return _check_dataclass
    for extra in extras:
        if isinstance(extra, types.GenericAlias) and getattr(extra.__origin__, "__shardtypes__", None) is True:
            return lambda value, _origin, _args, memo: check_type_internal(value, extra, memo)
    return None


def _is_record(origin: Any, args: tuple[Any, ...]) -> bool:
    if "shardtypes.dtypes" not in sys.modules:  # then there is no array type that a field could have
        return False
    from shardtypes.pytrees import is_record

    return is_record(origin, args)


class _AnnotationTransformer(_transformer.AnnotationTransformer):
    """typeguard's treatment of annotations, except that the text of an array annotation stays text.

    Whether ``X`` in ``X['batch/d']`` is ours is known when the code runs, whatever name it was imported under:
    ``X['batch/d']`` becomes ``X['batch/d'] if getattr(X, '__shardtypes_text__', False) else X[batch/d]``.
    """

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        texts = self._texts(node)
        if not texts or not _is_dotted(node.value) or self._is_known(node.value):
            return super().visit_Subscript(node)
        untouched = ast.copy_location(ast.Subscript(node.value, node.slice, node.ctx), node)
        if not all(_is_expression(text) for text in texts):
            return untouched
        test = _takes_text(node.value)
        evaluated = super().visit_Subscript(_copy(node))
        if evaluated is None:
            return None
        return ast.fix_missing_locations(ast.copy_location(ast.IfExp(test, untouched, evaluated), node))

    @staticmethod
    def _texts(node: ast.Subscript) -> list[str]:
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [item.value for item in items if isinstance(item, ast.Constant) and isinstance(item.value, str)]

    def _is_known(self, base: ast.expr) -> bool:
        """Whether the name certainly is one of typing's or Python's own, which take strings as forward references."""
        names = [f"{module}.{name}" for module in ("typing", "typing_extensions") for name in typing.__all__]
        names += ["builtins." + name for name in ("list", "dict", "tuple", "set", "frozenset", "type")]
        return bool(self._memo.name_matches(base, *names))


class _Transformer(_transformer.TypeguardTransformer):
    """typeguard's instrumentation, with one table of sizes held for the whole of each outermost call."""

    def visit_FunctionDef(self, node: Any) -> Any:
        made = super().visit_FunctionDef(node)
        if not isinstance(made, ast.FunctionDef) or not _is_instrumented(made) or _yields(made):
            return made
        # Under the decorator names are imported in the function, under the hook at the top of the module.
        at, hold = int(ast.get_docstring(made, clean=False) is not None), ast.Name(_HOLD, ast.Load())
        first = made.body[at]
        if isinstance(first, ast.ImportFrom) and first.module == _FUNCTIONS:
            first.names.append(ast.alias("HeldTable", _HOLD))
            at += 1
        else:
            hold = self._get_import(_FUNCTIONS, "HeldTable")
        body = made.body[at:]
        held = ast.With([ast.withitem(ast.Call(hold, [], []))], body)
        made.body[at:] = [held]
        for part in (*ast.walk(held.items[0]), held):
            if "lineno" in part._attributes and not hasattr(part, "lineno"):
                ast.copy_location(part, body[0] if hasattr(body[0], "lineno") else node)
        return made

    def _get_import(self, module: str, name: str) -> ast.Name:
        if (module, name) in _REPLACED:
            module = _FUNCTIONS
        return super()._get_import(module, name)


_HOLD = "__shardtypes_hold__"
# Our functions in the place of typeguard's, and what else comes with the same import statement.
_FUNCTIONS = "shardtypes.typeguard_functions"
_REPLACED = {
    ("typeguard", "TypeCheckMemo"),
    ("typeguard._functions", "check_argument_types_internal"),
    ("typeguard._functions", "check_return_type_internal"),
}


def _is_instrumented(node: ast.FunctionDef) -> bool:
    """Whether typeguard put its memo into this function."""
    return any(
        isinstance(s, ast.Assign)
        and isinstance(s.value, ast.Call)
        and isinstance(s.value.func, ast.Name)
        and s.value.func.id.startswith("TypeCheckMemo")
        for s in node.body
    )


def _yields(node: ast.FunctionDef) -> bool:
    detector = _transformer.GeneratorDetector()
    detector.visit(node)
    return detector.contains_yields


def _takes_text(base: ast.expr) -> ast.expr:
    """Code that asks at run time: is this an annotation of ours, or of jaxtyping's, whose strings are no code?"""
    test = ast.parse(
        "getattr(X, '__shardtypes_text__', X.__class__.__module__.startswith('jaxtyping.'))", mode="eval"
    ).body

    class Fill(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.expr:
            return base if node.id == "X" else node

    filled: ast.expr = Fill().visit(test)
    return filled


def _is_dotted(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _copy(node: ast.Subscript) -> ast.Subscript:
    items = node.slice
    if isinstance(items, ast.Tuple):
        items = ast.copy_location(ast.Tuple(list(items.elts), items.ctx), items)
    return ast.copy_location(ast.Subscript(node.value, items, node.ctx), node)


_registered = False


def register_with_typeguard() -> None:
    """Have typeguard check our annotations, wherever its decorator or its import hook is used.

    Loading any array type does this already; calling it again changes nothing. Modules instrumented before are not
    changed.
    """
    global _registered
    if _registered:
        return
    _registered = True
    typeguard.checker_lookup_functions.insert(0, lookup)
    _transformer.AnnotationTransformer = _AnnotationTransformer  # type: ignore[misc]  # typeguard offers no other way
    for module in (_decorators, _importhook):  # each has its own reference to the class
        setattr(module, "TypeguardTransformer", _Transformer)  # noqa: B010 - not a name that it exports
    _importhook.OPTIMIZATION += "shardtypes2"  # bytecode made without this treatment must not be used with it
    _instrument = _decorators.instrument

    def instrument(function: Any) -> Any:
        if not getattr(function, "__shardtypes_scope__", False):
            return _instrument(function)
        from shardtypes.scopes import scope

        inner = _instrument(function.__wrapped__)
        return inner if isinstance(inner, str) else scope(inner)

    setattr(_decorators, "instrument", instrument)  # noqa: B010 - as above
