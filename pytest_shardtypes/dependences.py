"""The files of a project that what a function computes may depend on."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

from shardtypes.lang.kept_verdicts import digest

_INSTALLED = {"site-packages", "dist-packages"}


def files_behind(function: Any, root: Path) -> dict[str, str]:
    """The files below a folder, relative to it, that the file of a function imports, and those that these import, with
    the digests of what is in them."""
    waiting = [getattr(function, "__module__", None) or ""]
    seen: set[str] = set()
    found: dict[str, str] = {}
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        if name in seen or module is None:
            continue
        seen.add(name)
        path = _own_file(module, root)
        if path is None:
            continue
        data = _data(path)
        found[path.relative_to(root).as_posix()] = digest(data)
        waiting.append(name.rpartition(".")[0])
        waiting += _imported(data, module.__package__ or "")
    return found


def _own_file(module: ModuleType, root: Path) -> Path | None:
    """The file of a module of the project."""
    file = getattr(module, "__file__", None)
    if file is None:
        return None
    path = Path(file)
    if not path.is_relative_to(root) or not _INSTALLED.isdisjoint(path.parts):
        return None
    return path


@cache
def _data(path: Path) -> bytes:
    """Read once: what a run has imported stays as it is. Of a file that is gone nothing is known."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


@cache
def _imported(data: bytes, package: str) -> tuple[str, ...]:
    """The names of modules that a file may import; some name what is in one."""
    try:
        tree = ast.parse(data)
    except (SyntaxError, ValueError):  # what runs is not of this text
        return ()
    return tuple(_names(tree, package))


def _names(tree: ast.Module, package: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            dotted = "." * node.level + (node.module or "")
            try:
                base = resolve_name(dotted, package)
            except ImportError:  # it leads out of the package
                continue
            yield base
            for alias in node.names:
                yield f"{base}.{alias.name}"
