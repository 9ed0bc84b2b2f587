"""Which files are checked: what the command line names, what its folders hold, and what is left out and why.

Every file has the settings that lie nearest to it. A file that is named itself is taken whatever the settings exclude,
unless these say ``force-exclude``; that is what a commit hook needs, which names every file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shardlint import messages
from shardlint.config import DEFAULT_EXCLUDE, Config, find
from shardlint.patterns import Ignored, matches
from shardlint.problems import Problem

#: What is checked in a folder, besides scripts that name Python on their first line; anything at all can be named
#: itself.
SUFFIXES = frozenset({".py", ".pyi", ".pyw", ".ipynb"})
#: A folder of more files is not read whole where only some of them are asked for: it is more than one project.
MAX_FILES = 5_000
#: A folder that is left out is looked through for files so far, before it counts as one that holds some.
_FEW = 2_000
_OF_TOOLS = frozenset(DEFAULT_EXCLUDE)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or a folder that is not checked, and why; it holds at least one file that would be."""

    path: Path
    reason: str


@dataclass(slots=True)
class Discovery:
    """Finds files. ``settings`` gives those in force in a folder; ``skipped``, ``problems`` and ``folders`` grow with
    what it walks: problems are folders that could not be read, and paths that are not there."""

    settings: Callable[[Path], Config] = find
    folders: list[Path] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _known: dict[Path, Config] = field(default_factory=dict)
    _ignored: Ignored = field(default_factory=Ignored)
    _entered: set[tuple[int, int]] = field(default_factory=set)

    def config(self, folder: Path) -> Config:
        """The settings in force in a folder."""
        if folder not in self._known:
            self._known[folder] = self.settings(folder)
        return self._known[folder]

    def files(self, paths: Iterable[str]) -> Iterator[Path]:
        """Every file under ``paths``, once."""
        seen: set[Path] = set()
        for text in paths:
            path = Path(os.path.abspath(text))
            for file in self._under(path, text):
                if file not in seen:
                    seen.add(file)
                    yield file

    def _under(self, path: Path, text: str) -> Iterable[Path]:
        if path.is_dir():
            return self.walk(path)
        if not os.path.lexists(path):
            self.problems.append(Problem(messages.gone(text), shown(path)))
            return ()
        return [path] if self.admits(path) else ()

    def admits(self, path: Path) -> bool:
        """Whether a file that is named itself is checked."""
        config = self.config(path.parent)
        if not config.force_exclude:
            return True
        around = (
            path.relative_to(config.root).parents
            if path.is_relative_to(config.root)
            else ()
        )
        folders = [config.root / one for one in reversed(around) if one.name]
        return not any(
            self._leave_out(one, config, is_folder=one != path, named=path)
            for one in (*folders, path)
        )

    def walk(self, folder: Path) -> Iterator[Path]:
        """Every file of a folder that is to be checked, in order. A linked folder is entered unless what it leads to is
        inside ``folder`` and so is read where it is; so links may form circles."""
        self._entered = set()
        yield from self._walk(folder, Path(os.path.realpath(folder)))

    def _walk(self, folder: Path, top: Path) -> Iterator[Path]:
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
            about = os.stat(folder)
        except OSError as error:
            reason = error.strerror or str(error)
            text = messages.unreadable(shown(folder), reason)
            self.problems.append(Problem(text, shown(folder)))
            return
        if (about.st_dev, about.st_ino) in self._entered:
            return
        self._entered.add((about.st_dev, about.st_ino))
        self.folders.append(folder)
        config = self.config(folder)
        folders = []
        for entry in entries:
            path = folder / entry.name
            if _is_folder(entry):
                if not _is_elsewhere_inside(entry, top) and not self._leave_out(
                    path, config, is_folder=True
                ):
                    folders.append(path)
            elif not _is_of_python(path) or _is_elsewhere_inside(entry, top):
                continue
            elif not self._leave_out(path, config, is_folder=False):
                if os.path.exists(path):
                    yield path
                else:
                    self.skipped.append(Skipped(path, messages.LINK_TO_NOTHING))
        for path in folders:
            yield from self._walk(path, top)

    def _leave_out(
        self, path: Path, config: Config, is_folder: bool, named: Path | None = None
    ) -> bool:
        """Whether the settings, git or what it is leave a path out. What is ``named`` is not checked for that."""
        reason = self._reason(path, config, is_folder)
        if reason is None:
            return False
        if named is not None:
            self.skipped.append(Skipped(named, reason or "exclude"))
        elif reason and _holds_files(path, is_folder):
            self.skipped.append(Skipped(path, reason))
        return True

    def _reason(self, path: Path, config: Config, is_folder: bool) -> str | None:
        """Why a path is left out; '' for folders of tools, of which nothing need be said."""
        if config.exclude == DEFAULT_EXCLUDE:
            if path.name in _OF_TOOLS:
                return ""
        elif matches(path, config.exclude, config.root):
            return "exclude"
        if matches(path, config.extend_exclude, config.root):
            return "extend-exclude"
        if is_folder and (path / "pyvenv.cfg").exists():
            return ""
        if config.respect_gitignore and self._ignored(path, is_folder, config.root):
            return ".gitignore"
        return None


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    # a link that leads to itself: no folder, and whoever reads it as a file says so
    except OSError:
        return False


# The first line of a program that Python runs, by itself or in an environment that uv makes for it.
_RUNS_PYTHON = re.compile(rb"#!.*(python|\buv\b.*\brun\b.*--script\b)")


def _is_of_python(path: Path) -> bool:
    """Whether a file is a program by its name or, where that has no suffix, by its first line."""
    if path.suffix or path.name.startswith("."):
        return path.suffix in SUFFIXES
    try:
        # what is no regular file may wait for ever for someone to write
        if not path.is_file():
            return False
        with open(path, "rb") as file:
            return _RUNS_PYTHON.match(file.readline(200)) is not None
    except OSError:
        return False


def _is_elsewhere_inside(entry: os.DirEntry[str], top: Path) -> bool:
    """Whether this is a link to something below ``top``, which is met without the link, or around it."""
    if not entry.is_symlink() or not os.path.exists(entry.path):
        return False
    target = Path(os.path.realpath(entry.path))
    return target.is_relative_to(top) or top.is_relative_to(target)


def _holds_files(path: Path, is_folder: bool) -> bool:
    if not is_folder:
        return True
    looked = 0
    for _, _, names in os.walk(path):
        looked += len(names)
        if looked > _FEW or any(Path(name).suffix in SUFFIXES for name in names):
            return True
    return False


def shown(path: Path) -> str:
    """A path as it is printed: relative to the current directory where it is below it."""
    try:
        return path.relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()
