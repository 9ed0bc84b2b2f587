"""Trees of commits, taken out of clones that need no work tree."""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

#: What the linter reads of a project.
SUFFIXES = (".py", ".toml", ".yaml", ".yml")


class MissingHistoryError(Exception):
    """A clone, or a commit of it, is not there."""


def history(folder: Path, fix_folder: str) -> Path:
    """The clone of a project: the folder of that name, or ``repo`` in it.

    Raises:
        MissingHistoryError: there is none.
    """
    for candidate in (folder / fix_folder, folder / fix_folder / "repo"):
        if candidate.is_dir() and _is_repository(candidate):
            return candidate
    address = f"https://github.com/{fix_folder.replace('+', '/')}"
    raise MissingHistoryError(
        f"no clone of {address}: git clone --bare {address} {folder / fix_folder}"
    )


def _is_repository(folder: Path) -> bool:
    """Whether it is a clone itself, not only inside one."""
    return (folder / ".git").exists() or (folder / "objects").is_dir()


def checked_out(repository: Path, commit: str, into: Path) -> None:
    """Write what the linter reads of a commit.

    Raises:
        MissingHistoryError: the clone does not have that commit.
    """
    listed = _git(repository, "ls-tree", "-r", "--name-only", "-z", commit)
    paths = [path for path in listed.decode().split("\0") if path.endswith(SUFFIXES)]
    archive = _git(
        repository, "--literal-pathspecs", "archive", "--format=tar", commit, *paths
    )
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(into, filter="data")


def changed_files(repository: Path, commit: str) -> list[str]:
    """The Python files that a commit changes, without those of tests."""
    listed = _git(
        repository,
        "diff-tree",
        "-r",
        "--no-renames",
        "--name-only",
        "--diff-filter=M",
        "-z",
        f"{commit}^",
        commit,
    )
    paths = [path for path in listed.decode().split("\0") if path.endswith(".py")]
    return [path for path in paths if not _is_test(PurePosixPath(path))]


def _is_test(path: PurePosixPath) -> bool:
    in_folder = any(part in ("test", "tests") for part in path.parts[:-1])
    return in_folder or path.stem.startswith("test_") or path.stem.endswith("_test")


def _git(repository: Path, *arguments: str) -> bytes:
    command: Sequence[str] = ["git", "-C", str(repository), *arguments]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()
        raise MissingHistoryError(f"{repository}: {said}")
    return done.stdout
