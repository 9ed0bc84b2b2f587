"""The findings that the files have and an earlier revision of them had not."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from shardlint import messages
from shardlint.config import Config, ConfigError
from shardlint.discovery import SUFFIXES
from shardlint.fingerprints import Identities
from shardlint.problems import Problem
from shardlint.run import Report, Settings, Tell, check
from shardtypes.lang.diagnostics import Diagnostic
from shardtypes.lang.frozen import frozen

#: A line of ``git ls-files --stage`` is a mode, a name, a stage and a path; these modes are no files.
_SUBMODULE = "160000"
#: What tells git where a repository is and what its files are: a hook's has no say about another index.
_OWN_INDEX = "GIT_INDEX_FILE"


@frozen
class Revision:
    """A commit of the repository whose files are in the folder ``top``."""

    top: Path
    name: str
    commit: str

    @classmethod
    def of(cls, name: str) -> Revision:
        """Where what is checked out left the commit that a name stands for, in the repository of the current folder:
        what was mended there since is not the branch's. The commit itself where they have nothing in common, and of
        ``A..``, as for git. ``A...`` is ``A``. A range may end at what is checked out, which is what is compared.

        Raises:
            ConfigError: no git, no repository, no such commit, or a range that ends elsewhere.
        """
        here = Path.cwd()
        up = _git(["rev-parse", "--show-cdup"], here, messages.no_repository)
        top = Path(os.path.abspath(up.rstrip("\n")))
        start, dots, end = _range(name)
        commit = _commit(start, here)
        if end and _commit(end, here) != _commit("HEAD", here):
            raise ConfigError("--since", messages.ends_elsewhere(start, dots, end))
        if dots != "..":
            commit = _left(commit, here)
        return cls(top, start, commit)

    @property
    def shown(self) -> str:
        """As it is printed: by its name, and the beginning of its hash where the name is another."""
        if self.commit.startswith(self.name):
            return self.name
        return f"{self.name} ({self.commit[:10]})"

    def only_new(
        self,
        report: Report,
        settings: Settings,
        paths: Sequence[str],
        progress: Tell | None = None,
    ) -> tuple[list[Diagnostic], int]:
        """The findings of a run over ``paths`` that the revision has not, and how many it has. It is checked with the
        settings of now; what could not be checked in it is a problem of the run.

        Raises:
            ConfigError: a path outside of the repository, or git cannot give the files of the revision.
        """
        for path in paths:
            if not Path(os.path.abspath(path)).is_relative_to(self.top):
                raise ConfigError("--since", messages.outside_repository(path))
        if not report.diagnostics:
            return [], 0
        known, problems = self._known(settings, paths, progress)
        report.problems += problems
        names = _names_before(self)
        new = []
        for one, identity in _identified(report):
            now = Path(os.path.abspath(one.place.path))
            key = (names.get(now) or now, one.code, identity)
            if known[key] > 0:
                known[key] -= 1
            else:
                new.append(one)
        return new, len(report.diagnostics) - len(new)

    @contextmanager
    def files(self, paths: Iterable[str]) -> Iterator[Elsewhere]:
        """The programs of the revision, in a folder of their own, and the files ``paths`` of it whatever they are."""
        with _files_of(self, paths) as folder:
            yield Elsewhere(self.top, folder)

    def changed(self, files: Iterable[Path]) -> dict[Path, Path | None]:
        """Those of the files of now whose text the revision has not under their name, and what they were called then:
        None where they were not there."""
        listed = _git(
            ["ls-files", "--others", "--exclude-standard", "-z"],
            self.top,
            messages.git_failed,
        )
        untracked = [self.top / name for name in listed.split("\0")[:-1]]
        before = {**_names_before(self), **dict.fromkeys(untracked)}
        return {file: before[file] for file in files if file in before}

    def _known(
        self, settings: Settings, paths: Sequence[str], progress: Tell | None
    ) -> tuple[Counter[tuple[Path, str, str]], list[Problem]]:
        """How often the revision has each finding, by its path there, code and fingerprint; and problems."""
        with self.files(paths) as there:
            asked = list(filter(os.path.lexists, map(there.path, paths)))
            found = check(
                asked, there.settings(settings), cache=False, progress=progress
            )
        known = Counter(
            (there.back(one.place.path), one.code, identity)
            for one, identity in _identified(found)
        )
        problems = [
            Problem(
                messages.in_revision(self.shown, there.without_folder(problem.text))
            )
            for problem in found.problems
        ]
        return known, problems


def _identified(report: Report) -> Iterator[tuple[Diagnostic, str]]:
    identities = Identities(report.lines)
    for one in report.diagnostics:
        yield one, identities.of(one).fingerprint


class Elsewhere:
    """The files of a repository, at ``top``, once more in another folder."""

    def __init__(self, top: Path, folder: Path) -> None:
        self._top = top
        self._folder = folder

    def path(self, path: str) -> str:
        """Where a path of the command line is there."""
        return str(self._there(Path(os.path.abspath(path))))

    def back(self, path: str) -> Path:
        """The path in the repository of a path that was printed."""
        found = Path(os.path.abspath(path))
        if found.is_relative_to(self._folder):
            return self._top / found.relative_to(self._folder)
        return found

    def without_folder(self, text: str) -> str:
        """A text that names files there, as it would be of the repository."""
        return text.replace(f"{self._folder}{os.sep}", "")

    def settings(self, settings: Settings) -> Settings:
        """The settings of the same folders of now. Nothing is hidden, and what JAX it is does not depend on files."""

        def found(folder: Path) -> Config:
            config = settings(self.back(str(folder)))
            root = self._there(config.root)
            return replace(config, root=root, baseline=None, jax_version=config.jax)

        return found

    def _there(self, path: Path) -> Path:
        if path.is_relative_to(self._top):
            return self._folder / path.relative_to(self._top)
        return path


@contextmanager
def _files_of(old: Revision, paths: Iterable[str]) -> Iterator[Path]:
    """A folder with the programs of a revision. Neither the files of the repository nor its index change."""
    named = {
        os.path.relpath(os.path.abspath(path), old.top).replace(os.sep, "/")
        for path in paths
    }
    with tempfile.TemporaryDirectory(prefix="shardlint-") as made:
        # what is found there is printed by its real path
        folder = Path(os.path.realpath(made))
        # imports may name the folder of the project
        files = folder / "tree" / old.top.name
        files.mkdir(parents=True)
        index = {_OWN_INDEX: str(folder / "index")}
        _git(["read-tree", old.commit], old.top, messages.git_failed, index)
        listed = _git(
            ["ls-files", "--stage", "-z"], old.top, messages.git_failed, index
        )
        entries = [_entry(row) for row in listed.split("\0")[:-1]]
        wanted = [
            path
            for mode, path in entries
            if mode != _SUBMODULE and (_is_read(path) or path in named)
        ]
        write = ["checkout-index", "--quiet", "-z", "--stdin", f"--prefix={files}/"]
        names = "".join(f"{path}\0" for path in wanted)
        _git(write, old.top, messages.git_failed, index, names)
        for mode, path in entries:
            # Another repository: as it is now, so that none of its findings is new.
            if mode == _SUBMODULE:
                (files / path).parent.mkdir(parents=True, exist_ok=True)
                (files / path).symlink_to(old.top / path)
        yield files


def _entry(row: str) -> tuple[str, str]:
    about, _, path = row.partition("\t")
    return about.partition(" ")[0], path


def _is_read(path: str) -> bool:
    """Whether a check may read a file: a program by its name, or by what it may hold."""
    name = PurePosixPath(path)
    return name.suffix in SUFFIXES or not name.suffix or name.name == ".gitignore"


def _names_before(old: Revision) -> Mapping[Path, Path | None]:
    """The files of now that differ, untracked ones left out, and what they were called; None where they were not
    there."""
    rows = _git(
        ["diff", "--name-status", "--find-renames", "-z", old.commit],
        old.top,
        messages.git_failed,
    )
    found: dict[Path, Path | None] = {}
    fields = iter(rows.split("\0")[:-1])
    for status in fields:
        then = old.top / next(fields)
        if status.startswith("R"):
            found[old.top / next(fields)] = then
        elif status == "A":
            found[then] = None
        elif status != "D":
            found[then] = then
    return found


def _range(name: str) -> tuple[str, str, str]:
    """The start, the dots and the end of ``A..B`` and ``A...B``; of another name the name alone."""
    for dots in ("...", ".."):
        start, found, end = name.partition(dots)
        if found:
            # git's own default
            return start or "HEAD", dots, end
    return name, "", ""


def _commit(name: str, folder: Path) -> str:
    """The commit that a name stands for. Raises ``ConfigError``."""
    # no name is taken for an option
    verify = ["rev-parse", "--verify", "--quiet", "--end-of-options"]
    found = _git(
        [*verify, f"{name}^{{commit}}"],
        folder,
        lambda _: messages.no_revision(name),
    )
    return found.strip()


def _left(commit: str, folder: Path) -> str:
    """The last commit that another and what is checked out have in common; the other itself if git knows none, as in a
    shallow clone."""
    try:
        found = _git(["merge-base", commit, "HEAD"], folder, messages.git_failed)
    except ConfigError:
        return commit
    return found.strip()


def _git(
    arguments: Sequence[str],
    folder: Path,
    failed: Callable[[str], str],
    env: Mapping[str, str] | None = None,
    text: str = "",
) -> str:
    """What git prints. Raises ``ConfigError`` with what ``failed`` makes of what it says."""
    kept = {k: v for k, v in os.environ.items() if k != _OWN_INDEX}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={**kept, "LC_ALL": "C", **(env or {})},
            input=text.encode("utf-8", "surrogateescape"),
            capture_output=True,
            check=False,
        )
    except OSError:
        raise ConfigError("--since", messages.no_git()) from None
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ConfigError("--since", failed(said))
    return done.stdout.decode("utf-8", "surrogateescape")
