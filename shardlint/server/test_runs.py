"""What test runs with ``--shardtypes-prove`` said of the functions of a document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from shardlint import messages
from shardlint.server.documents import Document
from shardtypes.lang.kept_verdicts import FOLDER, digest, read


@dataclass(frozen=True, slots=True)
class OfTests:
    """What to show above a function, and where its definition was (from 1)."""

    function: str
    line: int
    text: str


def verdicts_of(document: Document) -> Iterator[OfTests]:
    """Of each function that tests have run over several devices."""
    root = _root(document.path)
    if root is None:
        return
    own = document.path.relative_to(root).as_posix()
    text = "".join(document.lines)

    def digest_of(file: str) -> str:
        if file == own:
            return digest(text.encode())
        return _digest(root / file)

    for one in read(root / FOLDER):
        if one.file == own:
            is_current = one.still_holds(digest_of)
            shown = messages.verdict_of_tests(one.verdict, one.culprit, is_current)
            yield OfTests(one.function, one.line, shown)


def _root(path: Path) -> Path | None:
    """The folder around a file in which pytest keeps what it knows, ours with it."""
    for folder in path.parents:
        if (folder / FOLDER).is_dir():
            return folder
    return None


def _digest(path: Path) -> str:
    """Of a file on the disk; empty where there is none any more."""
    try:
        changed = path.stat().st_mtime_ns
        return _digest_then(path, changed)
    except OSError:
        return ""


@cache
def _digest_then(path: Path, changed: int) -> str:
    return digest(path.read_bytes())
