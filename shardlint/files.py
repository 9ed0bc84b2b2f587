"""Which files to check, what their modules are called, and where an imported module lives."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

from shardlint.config import Config

SKIPPED_FOLDERS = frozenset(
    {"__pycache__", "node_modules", "site-packages", "venv", "build", "dist", "__pypackages__"},
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Python file: its path, the path to print, its module name, and the folder that the name starts from."""

    path: Path
    shown: str
    module: str
    is_package: bool
    root: Path


class MissingPath(Exception):
    """A path on the command line that does not exist."""


def discover(paths: Iterable[str], config: Config) -> Iterator[Path]:
    """Every Python file under ``paths``. A file that is named itself is always taken. Raises ``MissingPath``."""
    seen: set[Path] = set()
    for text in paths:
        path = Path(os.path.abspath(text))
        if path.is_dir():
            found: Iterable[Path] = _walk(path, config)
        elif path.exists() or path.is_symlink():
            found = (path,)
        else:
            raise MissingPath(text)
        for file in found:
            if file not in seen:
                seen.add(file)
                yield file


def _walk(folder: Path, config: Config) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        base = Path(here)
        folders[:] = sorted(
            name
            for name in folders
            if name not in SKIPPED_FOLDERS
            and not name.startswith(".")
            and not os.path.exists(os.path.join(here, name, "pyvenv.cfg"))
            and not excluded(base / name, config)
        )
        for name in sorted(names):
            if name.endswith(".py") and not excluded(base / name, config):
                yield base / name


def excluded(path: Path, config: Config) -> bool:
    return any(matches(path, pattern, config.root) for pattern in config.exclude)


def matches(path: Path, pattern: str, root: Path) -> bool:
    """Does a pattern of the settings mean this path? It is relative to ``root``; a bare name matches anywhere."""
    try:
        relative = path.relative_to(root).as_posix()
    except ValueError:
        relative = path.as_posix()
    pattern = pattern.rstrip("/")
    if fnmatch(relative, pattern) or fnmatch(relative, f"{pattern}/*"):
        return True
    return "/" not in pattern and any(fnmatch(part, pattern) for part in Path(relative).parts)


def shown(path: Path) -> str:
    """A path as it is printed: relative to the current directory where it is below it."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def source_file(path: Path, name: str | None = None) -> SourceFile:
    """The file with its module name: the dotted path from the folder that holds its outermost package."""
    is_package = path.name == "__init__.py"
    if name is not None:
        return SourceFile(path, shown(path), name, is_package, path.parents[name.count(".") + is_package])
    parts = [] if is_package else [path.stem]
    folder = path.parent
    while (folder / "__init__.py").is_file() and folder.name:
        parts.insert(0, folder.name)
        folder = folder.parent
    return SourceFile(path, shown(path), ".".join(parts) or path.parent.name, is_package, folder)


@cache
def locate(dotted: str, roots: tuple[Path, ...]) -> Path | None:
    """The file of an absolute module name, looked for in ``roots`` in order."""
    relative = dotted.replace(".", os.sep)
    for root in roots:
        path = os.path.join(root, relative)
        for candidate in (os.path.join(path, "__init__.py"), f"{path}.py"):
            if os.path.isfile(candidate):
                return Path(candidate)
    return None
