"""What the run before knew of the files that it looked at, and whether all of them are still as they were.

mypy takes a file from its cache while neither the file nor what it imports has changed. What the linter finds there may
depend on other files as well, and a file with annotations has to be rewritten before mypy analyses it. So mypy is told
to take such files from its cache only while nothing at all has changed: this is written down beside the cache, and told
without the linter, whose import alone takes longer than a run of mypy that has nothing to do.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from mypy.options import Options

from shardlint.cache import digest

FILE: Final = "shardlint-{}.json"
"""The file, beside mypy's own folder for a version of Python."""

#: What the settings of the linter and the release of JAX are read from, in the folders around a project.
_SETTINGS: Final = re.compile(
    r"\.git|\.gitignore|setup\.py|.*\.(?:cfg|lock|toml)|.*requirements.*"
)
_EXCLUDED: Final = os.path.join(".git", "info", "exclude")
_SUFFIXES: Final = frozenset({"", ".py", ".pyi", ".pyw", ".ipynb"})

Version = tuple[int, int, str]
"""When a file was changed, its size, and a hash of its text where that was read."""


@dataclass(frozen=True)
class OfFile:
    """What decided how mypy keeps a file: whether it is ``rewritten`` or reports something, and so is checked anew when
    anything changes, and what the plugin tells mypy about it."""

    is_rewritten: bool
    has_findings: bool
    settings: str


@dataclass(frozen=True)
class Looked:
    """All that a run may depend on: ``files``, the names in the ``folders`` of the project, and the names of settings
    in the folders ``around`` it."""

    files: dict[str, Version | None] = field(default_factory=dict)
    folders: dict[str, list[str]] = field(default_factory=dict)
    around: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_unchanged(self) -> bool:
        """Whether all of it is still as it was."""
        return (
            all(_is_same(path, known) for path, known in self.files.items())
            and all(_names(path) == known for path, known in self.folders.items())
            and all(_settings(path) == known for path, known in self.around.items())
        )

    def joined(self, other: Looked) -> Looked:
        """Both; the other one is the newer."""
        return Looked(
            self.files | other.files,
            self.folders | other.folders,
            self.around | other.around,
        )


class LastRun:
    """What is kept of the run before, and is written for the next one."""

    def __init__(self, options: Options) -> None:
        self._folder = os.path.abspath(options.cache_dir)
        version = ".".join(map(str, options.python_version))
        self._path = Path(self._folder, FILE.format(version))
        # workers and the daemon see some of the files only
        self._keeps = options.cache_dir != os.devnull and not (
            options.num_workers
            or options.fine_grained_incremental
            or options.use_fine_grained_cache
        )
        self._tool = digest(_written_out(options), os.environ.get("MYPYPATH", ""))
        self._seen: dict[str, Version | None] = {}
        self._modules: dict[str, OfFile] = {}
        self._written: set[str] | None = None
        self._before = Looked()
        self._known: dict[str, OfFile] = {}
        self.is_unchanged = self._keeps and self._read()

    def of(self, path: str) -> OfFile | None:
        """What is known of a module's file while nothing has changed."""
        return self._known.get(os.path.abspath(path)) if self.is_unchanged else None

    def see(self, path: str) -> None:
        """mypy has read a file, or found it in its cache."""
        if path in self._seen or not path.endswith((".py", ".pyi")):
            return
        self._seen[path] = _version(path)

    def decide(self, path: str, about: OfFile) -> None:
        """A module of the user's is kept, or not, for these reasons."""
        self._modules[os.path.abspath(path)] = about

    def write(self, path: str, looked: Looked | None) -> None:
        """mypy writes a file into its cache. ``looked`` is what the linter looked at; None where it failed, which is
        tried again."""
        if not self._keeps or looked is None:
            # another run may have written that the cache is good
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
            self._keeps = False
            return
        if self._written is None:
            self._begin(looked)
        file = os.path.abspath(path)
        assert self._written is not None
        if file in self._modules and file not in self._written:
            self._written.add(file)
            self._append([["written", file]])

    def _begin(self, looked: Looked) -> None:
        """By now mypy has met all modules of the run."""
        own = self._folder + os.sep
        seen = {os.path.abspath(path): known for path, known in self._seen.items()}
        hashed = self._modules.keys() | looked.files.keys()
        files = {
            path: _with_hash(path, known) if path in hashed else known
            for path, known in (looked.files | seen).items()
        }
        folders = {
            path: names
            for path, names in looked.folders.items()
            if not (path + os.sep).startswith(own)
        }
        now = Looked(files, folders, looked.around)
        self._written = set()
        if self.is_unchanged:
            now = self._before.joined(now)
            self._written = {path for path in self._known if path not in self._modules}
            self._modules = self._known | self._modules
        rows: list[list[object]] = [["looked", self._tool, asdict(now)]]
        rows += [["module", path, asdict(one)] for path, one in self._modules.items()]
        rows += [["written", path] for path in sorted(self._written)]
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.unlink(missing_ok=True)
        self._append(rows)

    def _append(self, rows: Iterable[list[object]]) -> None:
        try:
            with open(self._path, "a", encoding="utf-8") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
        except (OSError, UnicodeError):  # the next run takes longer
            self._keeps = False

    def _read(self) -> bool:
        """Read what the run before wrote; whether all that it was about is unchanged, and in mypy's cache."""
        try:
            text = self._path.read_text(encoding="utf-8")
            rows = [json.loads(line) for line in text.splitlines()]
            (kind, tool, looked), *others = rows
            if kind != "looked" or tool != self._tool:
                return False
            files = {
                path: None if known is None else (known[0], known[1], known[2])
                for path, known in looked["files"].items()
            }
            self._before = Looked(files, looked["folders"], looked["around"])
            modules = [row[1:] for row in others if row[0] == "module"]
            self._known = {path: OfFile(**about) for path, about in modules}
            written = {row[1] for row in others if row[0] == "written"}
        except (OSError, ValueError, TypeError, KeyError, IndexError):
            return False  # there was none, or it was cut off
        again = {path for path, one in self._known.items() if one.is_rewritten}
        return again <= written and self._before.is_unchanged


def looked_at(
    files: Iterable[str], folders: Iterable[str], around: Iterable[str]
) -> Looked:
    """All of this, as it is now; ``around`` are folders that settings were looked for in."""
    inside = {path: _names(path) for path in folders}
    settings = {path: _settings(path) for path in around}
    read = [
        os.path.join(folder, _EXCLUDED if name == ".git" else name)
        for folder, names in (*inside.items(), *settings.items())
        for name in names
        if _SETTINGS.fullmatch(name)
    ]
    paths = [*files, *(path for path in read if os.path.isfile(path))]
    return Looked({path: _version(path) for path in paths}, inside, settings)


def _written_out(options: Options) -> str:
    """All options of mypy; sets have another order in each process."""
    values = []
    for name, value in sorted(options.snapshot().items()):
        if isinstance(value, (set, frozenset)):
            value = sorted(str(one) for one in value)
        values.append(f"{name}={value}")
    return "\n".join(values)


def _version(path: str) -> Version | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, ""


def _with_hash(path: str, known: Version | None) -> Version | None:
    return None if known is None else (known[0], known[1], _hash(path))


def _hash(path: str) -> str:
    try:
        return digest(Path(path).read_bytes())
    except OSError:
        return ""


def _is_same(path: str, known: Version | None) -> bool:
    """Whether a file is as it was; one that was only written again is."""
    now = _version(path)
    if now is None or known is None:
        return now is known
    if now[:2] == known[:2]:
        return True
    return now[1] == known[1] and known[2] != "" and _hash(path) == known[2]


def _names(folder: str) -> list[str]:
    """The names in a folder of the project that may mean something to the linter."""
    try:
        with os.scandir(folder) as found:
            return sorted(entry.name for entry in found if _counts(entry))
    except OSError:
        return []


def _counts(entry: os.DirEntry[str]) -> bool:
    if _SETTINGS.fullmatch(entry.name):
        return True
    if entry.name.startswith(".") or entry.name == "__pycache__":
        return False
    return os.path.splitext(entry.name)[1] in _SUFFIXES or entry.is_dir()


def _settings(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if _SETTINGS.fullmatch(name))
    except OSError:
        return []
