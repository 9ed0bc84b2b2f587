"""What the modules of a project are called, and which file an import statement means.

A module's name is its path from the folder that imports start from, whether or not the folders on the way are packages:
it depends on nothing but where the file lies. An import is looked up as Python would, along the folders that a program
of that file has on its path; the name by which it asks may be another one than the module's.
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shardlint.config import Config
from shardlint.discovery import shown
from shardlint.project import is_library

_PACKAGE_FILES = ("__init__.py", "__init__.pyi")
#: What makes a folder one that a project is installed from.
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg", "shardlint.toml", ".git")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Python file: its path, the path to print, its module name, the folders that its imports are looked up in, in
    order, the folder that its own name starts from, and those around a file that is in no project: any of them may be
    what its program is started from."""

    path: Path
    shown: str
    module: str
    is_package: bool
    roots: tuple[Path, ...]
    start: Path
    around: tuple[Path, ...] = ()

    def locate(self, name: str, dots: int = 0) -> Path | None:
        """The file of a module, as this file imports it: by its absolute name, or by one with so many dots before."""
        if not dots:
            found = locate(name, self._folders(name))
            return (
                locate(name, self.around)
                if found is None and not is_library(name)
                else found
            )
        parents = self.path.parents
        return locate(name, (parents[min(dots, len(parents)) - 1],))

    def locate_folder(self, name: str, dots: int = 0) -> Path | None:
        """The folder of a name, as this file imports it: of a package without a file of its own."""
        if dots:
            parents = self.path.parents
            return locate_folder(name, (parents[min(dots, len(parents)) - 1],))
        found = locate_folder(name, self._folders(name))
        return (
            locate_folder(name, self.around)
            if found is None and not is_library(name)
            else found
        )

    def _folders(self, name: str) -> tuple[Path, ...]:
        """Where a name is looked up. The folder around a project is on no path that is known, only the project itself
        may go by its folder's name: what else lies there are neighbours."""
        is_own = name.partition(".")[0] == self.start.name
        return (*self.roots, self.start.parent) if is_own else self.roots


def source_file(path: Path, config: Config) -> SourceFile:
    """The file with its module's name."""
    outermost = _above_packages(path.parent)
    around = _projects_around(outermost, config.root)
    start = _start(outermost, config)
    roots = tuple(
        dict.fromkeys((outermost, *_sources(config.root, config.src), *around))
    )
    is_package = path.name in _PACKAGE_FILES
    name = dotted(path.parent if is_package else path.with_suffix(""), start)
    if path.suffix == ".pyi" and path.with_suffix(".py").exists():
        # a name that nothing imports: where there are both, programs run the other
        name += "-stub"
    if path.suffix in ("", ".ipynb"):
        name += "-script"  # nothing can import it
    is_alone = config.source is None and not config.project
    return SourceFile(
        path,
        shown(path),
        name,
        is_package,
        roots,
        start,
        _above(outermost) if is_alone else (),
    )


def dotted(path: Path, start: Path) -> str:
    """The name of a module or a folder, from the folder that imports start from."""
    parts = path.relative_to(start).parts
    name = ".".join(parts) or start.name
    shadows = len(parts) > 1 and is_library(name) and not _is_package(start / parts[0])
    return f"{start.name}.{name}" if shadows else name


def folder_name(path: Path, config: Config) -> str:
    """The name of a folder that is no package with a file of its own."""
    return dotted(path, _start(_above_packages(path), config))


def _start(outermost: Path, config: Config) -> Path:
    """The nearest folder around a package, or a script's own, that imports of the project start from."""
    around = [
        root
        for root in _sources(config.root, config.src)
        if outermost.is_relative_to(root)
    ]
    return max(around, key=lambda root: len(root.parts), default=outermost)


@cache
def _sources(root: Path, src: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(Path(os.path.normpath(root / one)) for one in src)


@cache
def _above_packages(folder: Path) -> Path:
    """The folder that holds the outermost package around ``folder``, or ``folder`` itself."""
    while _is_package(folder) and folder.name:
        folder = folder.parent
    return folder


@cache
def _is_package(folder: Path) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in _PACKAGE_FILES)


@cache
def _projects_around(folder: Path, root: Path) -> tuple[Path, ...]:
    """The folders around one that projects are installed from, with their ``src``: up to the root of the repository, or
    to ``root``."""
    found: list[Path] = []
    for one in (folder, *folder.parents):
        present = [
            name for name in _PROJECT_FILES if os.path.exists(os.path.join(one, name))
        ]
        if present:
            found += [one, one / "src"]
        if ".git" in present or one == root:
            return tuple(found)
    return ()  # what lies around it is not known to belong to it


@cache
def _above(folder: Path) -> tuple[Path, ...]:
    """The folders around one, the nearest first; those that hold everybody's files are none of them."""
    common = (Path(folder.anchor), Path.home(), Path(tempfile.gettempdir()))
    found: list[Path] = []
    for one in folder.parents:
        if one in common:
            break
        found.append(one)
    return tuple(found)


@cache
def locate(name: str, roots: tuple[Path, ...]) -> Path | None:
    """The file of an absolute module name, looked for in ``roots`` in order."""
    relative = name.replace(".", os.sep)
    for root in roots:
        path = os.path.join(root, relative)
        package = os.path.join(path, "__init__.py")
        for candidate in (package, f"{path}.py", f"{package}i", f"{path}.pyi"):
            if os.path.isfile(candidate):
                return Path(candidate)
    return None


@cache
def locate_folder(name: str, roots: tuple[Path, ...]) -> Path | None:
    """The folder of an absolute name, looked for in ``roots`` in order: of a package without a file of its own."""
    relative = name.replace(".", os.sep)
    return next(
        (
            Path(root, relative)
            for root in roots
            if os.path.isdir(os.path.join(root, relative))
        ),
        None,
    )


def forget() -> None:
    """Look at the disk anew: files come and go between the runs of one process."""
    for known in (
        _sources,
        _above_packages,
        _is_package,
        _projects_around,
        _above,
        locate,
        locate_folder,
    ):
        known.cache_clear()
