"""Waiting for changes of files: with ``watchfiles`` where it is installed, else by looking at them again and again."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from shardlint.config import DEFAULT_EXCLUDE
from shardlint.discovery import SUFFIXES
from shardtypes.lang.frozen import frozen

#: Programs, and what settings, logical rules and baselines are written in.
_SUFFIXES = SUFFIXES | {".json", ".toml", ".yaml", ".yml"}
_OF_TOOLS = frozenset(DEFAULT_EXCLUDE)
#: Seconds between two looks.
_STEP = 1.0
#: Milliseconds after which the library says that nothing has changed.
_TIMEOUT = 200


@frozen
class Watched:
    """Files and folders to watch: of folders what may change what is found, and what is ``named`` itself whatever it
    is; never ``written``, which is what a check writes."""

    named: frozenset[Path]
    folders: tuple[Path, ...]
    written: Path | None = None

    def matters(self, path: Path) -> bool:
        """Whether a change of a file may change what is found."""
        if path == self.written:
            return False
        if path in self.named:
            return True
        if not _OF_TOOLS.isdisjoint(path.parts):
            return False
        return path.suffix in _SUFFIXES or path.name == ".gitignore"


def changes(watched: Watched) -> tuple[Iterator[set[Path]], bool]:
    """Endless: the files that have changed since the last look, each time some have; from this call on nothing is
    missed. And whether a library does it."""
    folders = _outermost(
        [*watched.folders, *(path.parent for path in watched.named)],
    )
    native = _native(folders, watched)
    found = _polled(folders, watched) if native is None else native
    # what changes from here on counts: the first look is now
    next(found)
    return (changed for changed in found if changed), native is not None


def _outermost(folders: Iterable[Path]) -> list[Path]:
    every = {folder for folder in folders if folder.is_dir()}
    return sorted(one for one in every if every.isdisjoint(one.parents))


def _native(folders: list[Path], watched: Watched) -> Iterator[set[Path]] | None:
    """By ``watchfiles``; None where it is not installed."""
    try:
        import watchfiles
    except ModuleNotFoundError:
        return None

    looks = watchfiles.watch(
        *folders,
        watch_filter=lambda _, path: watched.matters(Path(path)),
        rust_timeout=_TIMEOUT,
        yield_on_timeout=True,
        raise_interrupt=True,
    )
    return ({Path(path) for _, path in look} for look in looks)


def _polled(folders: list[Path], watched: Watched) -> Iterator[set[Path]]:
    before = _look(folders, watched)
    yield set()
    while True:
        time.sleep(_STEP)
        now = _look(folders, watched)
        yield {path for path, _ in before.items() ^ now.items()}
        before = now


def _look(folders: Iterable[Path], watched: Watched) -> dict[Path, tuple[int, int]]:
    found: dict[Path, tuple[int, int]] = {}
    for folder in folders:
        for inside, names, files in os.walk(folder):
            names[:] = [name for name in names if name not in _OF_TOOLS]
            for path in (Path(inside, name) for name in files):
                if watched.matters(path):
                    found |= _about(path)
    return found


def _about(path: Path) -> dict[Path, tuple[int, int]]:
    try:
        about = path.stat()
    except OSError:  # it is gone by now
        return {}
    return {path: (about.st_mtime_ns, about.st_size)}
