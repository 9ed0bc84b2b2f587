"""``install_import_hook``: checks in all annotated functions of whole packages, without decorators.

Each function is checked underneath its decorators, and annotated variables where they are assigned. The code keeps its
lines, so tracebacks and debuggers are undisturbed.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import marshal
import sys
import types
import warnings
from collections.abc import Iterable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import TracebackType

from shardtypes.assignments import (
    HOOKED,
    check_assignments,
    check_module_variables,
    has_checks,
)
from shardtypes.kept_checkers import KeptCheckers
from shardtypes.messages import missing_package
from shardtypes.switches import switched_off
from shardtypes.variables import Scope, annotations_of

# Part of the name of cached bytecode, and so never confused with Python's or typeguard's.
TAG = "shardtypes6"

# Functions below these are checked already, or must be left alone.
_JAXTYPED = "jaxtyped"
_LEAVE = {"typechecked", _JAXTYPED, "no_type_check", "overload", "typeguard_ignore"}


def _decorator_names(node: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    names: set[str] = set()
    for decorator in node.decorator_list:
        names |= _names_in(decorator)
    return names


def _names_in(decorator: ast.expr) -> set[str]:
    names: set[str] = set()
    for part in ast.walk(decorator):
        if isinstance(part, ast.Name):
            names.add(part.id)
        elif isinstance(part, ast.Attribute):
            names.add(part.attr)
    return names


def _is_annotated(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    arguments = node.args
    every = [
        *arguments.posonlyargs,
        *arguments.args,
        *arguments.kwonlyargs,
        arguments.vararg,
        arguments.kwarg,
    ]
    return node.returns is not None or any(
        a is not None and a.annotation is not None for a in every
    )


class _Instrument(ast.NodeTransformer):
    """Adds the checks of arguments and results to annotated functions, and those of what variables are assigned."""

    def __init__(self, path: Sequence[str], around: Sequence[Scope]) -> None:
        self._path = [*path]
        self._around = [*around]

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self.body(node)
        if any(isinstance(statement, ast.AnnAssign) for statement in node.body):
            # sees what the other decorators made
            node.decorator_list.insert(0, _checking("declared", node))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self._function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self._function(node)

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.AST:
        if "no_type_check" in _decorator_names(node):
            return node
        # Variables share a table with each other, so their function is checked as well.
        has_signature = bool(annotations_of(node.body)) or _is_annotated(node)
        self.body(node)
        if has_signature and not _decorator_names(node) & _LEAVE:
            node.decorator_list.append(_checking("function", node))
        elif has_signature:
            _count_calls(node)
        return node

    def body(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        """Add the checks inside of a function or class, which may be checked itself already."""
        self._around.append(node)
        self._path.append(node.name)
        node.body = [self.visit(statement) for statement in node.body]
        self._around.pop()
        check_assignments(node, ".".join(self._path), self._around)
        self._path.pop()


def _count_calls(node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    """Count the calls of what ``jaxtyped`` makes of a function."""
    for at, decorator in enumerate(node.decorator_list):
        if _JAXTYPED in _names_in(decorator):
            node.decorator_list.insert(at, _checking("counted", node))
            return


def _checking(name: str, node: ast.stmt) -> ast.expr:
    """``__shardtypes_hooked__.name``, on the line of a function or class."""
    made = ast.Attribute(ast.Name(HOOKED, ast.Load()), name, ast.Load())
    for part in ast.walk(made):
        ast.copy_location(part, node)
    return made


def instrument(source: bytes, path: str) -> ast.Module:
    """The tree of a module with checks in it. Raises ``SyntaxError`` as Python does."""
    tree = ast.parse(source, path)
    _Instrument((), (tree,)).visit(tree)
    check_module_variables(tree)
    at = 0
    for statement in tree.body:
        future = (
            isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        )
        text = isinstance(statement, ast.Expr) and isinstance(
            statement.value, ast.Constant
        )
        if not (future or text):
            break
        at += 1
    line = ast.parse(f"import shardtypes.hooked as {HOOKED}").body[0]
    tree.body.insert(at, line)
    return ast.fix_missing_locations(tree)


def instrument_body(
    node: ast.FunctionDef | ast.AsyncFunctionDef, path: str, around: Sequence[Scope]
) -> bool:
    """Add checks of what a function assigns to annotated variables, and of the functions defined in it, in place.

    ``path`` is its name in messages. Returns whether there are any.
    """
    _Instrument(path.split(".")[:-1], around).body(node)
    ast.fix_missing_locations(node)
    return has_checks(node)


class _Loader(SourceFileLoader):
    """Loads a module with checks in it, from its own cached bytecode where that is fresh."""

    checkers: KeptCheckers

    def get_code(self, fullname: str) -> types.CodeType:
        path = self.get_filename(fullname)
        stats = self.path_stats(path)
        header = importlib.util.MAGIC_NUMBER + bytes(4)
        header += (int(stats["mtime"]) & 0xFFFFFFFF).to_bytes(4, "little")
        header += (int(stats.get("size", 0)) & 0xFFFFFFFF).to_bytes(4, "little")
        checkers = importlib.util.cache_from_source(path, optimization=f"{TAG}checks")
        self.checkers = KeptCheckers(checkers, header)
        cache = importlib.util.cache_from_source(path, optimization=TAG)
        try:
            data = self.get_data(cache)
        except OSError:
            data = b""
        if data.startswith(header):
            # a damaged file is written anew
            with contextlib.suppress(EOFError, ValueError, TypeError):
                return marshal.loads(data[len(header) :])  # type: ignore[no-any-return]  # our own file
        code = self._compile(self.get_data(path), path, fullname)
        if not sys.dont_write_bytecode:
            self.set_data(cache, header + marshal.dumps(code))
        return code

    def _compile(self, source: bytes, path: str, fullname: str) -> types.CodeType:
        try:
            tree = instrument(source, path)
            return compile(tree, path, "exec", dont_inherit=True)
        except (ValueError, TypeError, RecursionError) as error:
            warnings.warn(
                f"shardtypes cannot instrument {fullname} ({path}), so it is not checked: {error}",
                stacklevel=2,
            )
            return compile(source, path, "exec", dont_inherit=True)


class _Finder(MetaPathFinder):
    def __init__(self, packages: tuple[str, ...]) -> None:
        self.packages = packages

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        if not any(
            fullname == p or fullname.startswith(p + ".") for p in self.packages
        ):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or type(spec.loader) is not SourceFileLoader:
            return None
        spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class Hook:
    """The handle of an installed hook: ``uninstall()`` it, or use it as a context manager."""

    def __init__(self, finder: _Finder) -> None:
        self._finder = finder

    @property
    def packages(self) -> tuple[str, ...]:
        """The packages whose modules are checked."""
        return self._finder.packages

    def uninstall(self) -> None:
        """Leave modules imported from now on alone. Those imported already stay checked."""
        if self._finder in sys.meta_path:
            sys.meta_path.remove(self._finder)

    def __enter__(self) -> Hook:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.uninstall()


def install_import_hook(packages: str | Iterable[str]) -> Hook:
    """Check all annotated functions of these packages (and their subpackages) that are imported from now on.

    With ``SHARDTYPES=0`` in the environment nothing is installed. A module that cannot be instrumented is named in a
    warning and runs unchecked.
    """
    names = (packages,) if isinstance(packages, str) else tuple(packages)
    for name in names:
        if not isinstance(name, str) or not all(
            part.isidentifier() for part in name.split(".")
        ):
            raise ValueError(
                f"install_import_hook needs names of packages, got {name!r}"
            )
    finder = _Finder(names)
    if not switched_off():
        _need_typeguard()
        sys.meta_path.insert(0, finder)
    return Hook(finder)


def _need_typeguard() -> None:
    """Say now what modules that are imported later would fail for."""
    try:
        importlib.import_module("typeguard")
    except ModuleNotFoundError as error:
        message = missing_package("install_import_hook", "typeguard")
        raise ModuleNotFoundError(message, name="typeguard") from error
