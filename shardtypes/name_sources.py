"""Where a name in a module's source comes from, read without importing anything.

An import hook sees a module before it runs: what ``F`` is in ``F['batch/d']`` is then known only from the statements
that bind it, here and in the modules that they name. Modules that are loaded already are asked instead of read.
"""

from __future__ import annotations

import ast
import functools
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

# A name is followed through this many modules and assignments at most.
_STEPS = 20


def origins(
    expression: ast.AST, scopes: Sequence[ast.AST], module: str | None
) -> Iterator[str]:
    """The qualified names that a dotted name may stand for: ``F`` is ``my_types.F``, and that ``shardtypes.f32``.

    ``scopes`` are the functions around it and the module, innermost first; ``module`` is the module's own name, which
    relative imports need.
    """
    yield from _follow(expression, tuple(scopes), module, _STEPS)


def _follow(
    expression: ast.AST, scopes: Sequence[ast.AST], module: str | None, steps: int
) -> Iterator[str]:
    if steps == 0:
        return
    if isinstance(expression, ast.Name):
        for at, scope in enumerate(scopes):
            found = _bindings(scope)
            for binding in found.names.get(expression.id, ()):
                yield from _follow_binding(binding, scopes[at:], module, steps - 1)
            if expression.id in found.names:
                return
            for star in found.stars:
                yield from _follow_attribute(
                    _absolute(star, module), expression.id, steps - 1
                )
    elif isinstance(expression, ast.Attribute):
        for base in _follow(expression.value, scopes, module, steps):
            yield from _follow_attribute(base, expression.attr, steps - 1)


def _follow_binding(
    binding: ast.AST | str, scopes: Sequence[ast.AST], module: str | None, steps: int
) -> Iterator[str]:
    if isinstance(binding, str):
        yield binding
    elif isinstance(binding, ast.ImportFrom):
        (alias,) = binding.names
        yield from _follow_attribute(_absolute(binding, module), alias.name, steps)
    else:
        yield from _follow(binding, scopes, module, steps)


def _follow_attribute(module: str | None, name: str, steps: int) -> Iterator[str]:
    """``module.name``, and what that is bound to in the source of the module."""
    if module is None or steps <= 0:
        return
    yield f"{module}.{name}"
    loaded = sys.modules.get(module)
    value = vars(loaded).get(name) if loaded is not None else None
    if value is not None:
        home, qualified = (
            getattr(value, "__module__", None),
            getattr(value, "__qualname__", None),
        )
        if isinstance(home, str) and isinstance(qualified, str):
            yield f"{home}.{qualified}"
        elif isinstance(getattr(value, "__name__", None), str):  # a module
            yield value.__name__
        return
    tree = _tree(module)
    if tree is not None:
        yield from _follow(ast.Name(name, ast.Load()), (tree,), module, steps)


class _Bindings:
    """What the statements of a function or a module bind, without those inside of what is defined there."""

    def __init__(self, scope: ast.AST) -> None:
        # Of ``import a.b`` a string, of ``from a import b`` that statement for this one name, of ``F = x`` the value.
        self.names: defaultdict[str, list[ast.AST | str]] = defaultdict(list)
        self.stars: list[ast.ImportFrom] = []
        self._read(getattr(scope, "body", []))

    def _read(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    self.names[alias.asname or alias.name.partition(".")[0]].append(
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
            elif isinstance(node, ast.ImportFrom):
                self._read_import_from(node)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self.names[target.id].append(node.value)
            elif (
                isinstance(node, ast.AnnAssign)
                and isinstance(node.target, ast.Name)
                and node.value is not None
            ):
                self.names[node.target.id].append(node.value)
            elif isinstance(
                node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
            ):
                self.names[node.name].append(node)
            elif isinstance(
                node, (ast.If, ast.Try, ast.With, ast.For, ast.While, ast.ExceptHandler)
            ):
                self._read([*ast.iter_child_nodes(node)])

    def _read_import_from(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            one = ast.ImportFrom(node.module, [alias], node.level)
            if alias.name == "*":
                self.stars.append(one)
            else:
                self.names[alias.asname or alias.name].append(one)


@functools.lru_cache(maxsize=8)
def _bindings(scope: ast.AST) -> _Bindings:
    return _Bindings(scope)


def _absolute(node: ast.ImportFrom, module: str | None) -> str | None:
    """The module that an import names; None for a relative one in a module whose name is not known."""
    if not node.level:
        return node.module
    if module is None:
        return None
    package = module if _is_package(module) else module.rpartition(".")[0]
    parts = package.split(".")
    above = parts[: len(parts) - node.level + 1]
    return (
        ".".join([*above, *([node.module] if node.module else [])]) if above else None
    )


def _is_package(module: str) -> bool:
    loaded = sys.modules.get(module)
    if loaded is not None:
        return hasattr(loaded, "__path__")
    spec = _find(module)
    return spec is not None and spec.submodule_search_locations is not None


def _find(module: str) -> ModuleSpec | None:
    """Where a module's source is, without importing its package."""
    package = module.rpartition(".")[0]
    path = None
    if package:
        loaded = sys.modules.get(package)
        if loaded is not None:
            path = getattr(loaded, "__path__", None)
        else:
            spec = _find(package)
            path = None if spec is None else spec.submodule_search_locations
        if path is None:
            return None
    return PathFinder.find_spec(module, path)


def _tree(module: str) -> ast.Module | None:
    """The parsed source of a module that is not loaded yet; None where there is none to read."""
    spec = _find(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    path = Path(spec.origin)
    return _parsed(str(path), path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _parsed(path: str, _changed: int) -> ast.Module | None:
    try:
        return ast.parse(Path(path).read_bytes(), path)
    # its own import says what is wrong with it
    except (OSError, SyntaxError, ValueError):
        return None
