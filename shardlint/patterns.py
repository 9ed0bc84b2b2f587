"""Patterns of paths: those of the settings, and those of ``.gitignore`` files.

Both are read as git reads them. In the settings a wildcard after a folder also reaches into the folders below it, as it
does in ruff: ``tests/*.py`` means every file below ``tests``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from pathspec import GitIgnoreSpec


def matches(path: Path, patterns: Iterable[str], root: Path) -> bool:
    """Does some pattern of the settings, relative to ``root``, mean this path or a folder that holds it?"""
    found = tuple(patterns)
    if not found:
        return False
    try:
        relative = path.relative_to(root).as_posix()
    except ValueError:
        relative = path.as_posix().lstrip("/")
    return _compiled(found).match_file(relative) or _compiled(found).match_file(
        f"{relative}/"
    )


@lru_cache(maxsize=256)
def _compiled(patterns: tuple[str, ...]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(
        line for pattern in patterns for line in _spellings(pattern)
    )


def _spellings(pattern: str) -> list[str]:
    folder, slash, last = pattern.rpartition("/")
    if folder and "*" in last and "**" not in last:
        return [pattern, f"{folder}{slash}**/{last}"]
    return [pattern]


class Ignored:
    """What the ``.gitignore`` files of a repository leave out."""

    def __init__(self) -> None:
        self._specs: dict[Path, GitIgnoreSpec | None] = {}
        self._tops: dict[Path, Path] = {}

    def __call__(self, path: Path, is_folder: bool, root: Path) -> bool:
        """Whether git would ignore ``path``, whose folder is not ignored itself. The nearest file decides; those above
        the repository, or above ``root`` where there is none, have no say."""
        top = self._top(path.parent, root)
        for folder in path.parents:
            spec = self._spec(folder, top)
            if spec is not None:
                relative = path.relative_to(folder).as_posix()
                decided = spec.check_file(
                    f"{relative}/" if is_folder else relative
                ).include
                if decided is not None:
                    return decided
            if folder == top:
                break
        return False

    def _top(self, folder: Path, root: Path) -> Path:
        if folder not in self._tops:
            inside = (
                one for one in (folder, *folder.parents) if (one / ".git").exists()
            )
            self._tops[folder] = next(inside, root)
        return self._tops[folder]

    def _spec(self, folder: Path, top: Path) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            files = [folder / ".gitignore"]
            if folder == top:
                files.insert(0, folder / ".git" / "info" / "exclude")
            texts = [_read(file) for file in files]
            lines = [line for text in texts for line in text.splitlines()]
            self._specs[folder] = GitIgnoreSpec.from_lines(lines) if lines else None
        return self._specs[folder]


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # there is none, or git could not read it either
        return ""
