"""What the linter says of a project before a fix and not after it, and how near to the lines that were wrong."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.findings import statements
from benchmarks.fixes.entries import Fix
from benchmarks.fixes.histories import changed_files, checked_out

#: So many lines above or below the statement.
NEAR = 3
IN_PLACE, NEARBY, FOUND, NOTHING = "in place", "near", "found", "nothing"


@dataclass(frozen=True)
class Said:
    """A finding: what it says and where, and the places that it names."""

    path: str
    line: int
    code: str
    message: str
    places: tuple[tuple[str, int], ...] = ()

    @property
    def fingerprint(self) -> tuple[str, str, str]:
        """The same wherever in its file it stands."""
        return self.path, self.code, self.message

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.code} {self.message}"


@dataclass(frozen=True)
class Verdict:
    """What becomes of a fix. ``gone``: findings that the parent has and the fix has not. ``remaining``: those that both
    have, as the fix has them. ``new``: those that only the fix has."""

    fix: Fix
    outcome: str
    gone: tuple[Said, ...]
    remaining: tuple[Said, ...]
    new: tuple[Said, ...]

    @property
    def is_found(self) -> bool:
        return self.outcome != NOTHING


def judge(fix: Fix, repository: Path, seconds: float) -> Verdict:
    """Lint the files that a fix changes, in the tree of its parent and in its own.

    Raises:
        MissingHistoryError: the clone does not have the commits.
        RuntimeError: the linter failed.
        subprocess.TimeoutExpired: it took too long.
    """
    files = changed_files(repository, fix.commit)
    with tempfile.TemporaryDirectory() as folder:
        parent, fixed = Path(folder, "parent"), Path(folder, "fixed")
        checked_out(repository, f"{fix.commit}^", parent)
        checked_out(repository, fix.commit, fixed)
        before = list(said(parent, files, seconds))
        after = list(said(fixed, files, seconds))
        places = wrong_places(fix, (parent / fix.file).read_bytes())
    gone = only_first(before, after)
    new = only_first(after, before)
    remaining = [one for one in after if one not in new]
    outcome = outcome_of(gone, fix.file, places)
    return Verdict(fix, outcome, tuple(gone), tuple(remaining), tuple(new))


def said(tree: Path, files: Sequence[str], seconds: float) -> Iterator[Said]:
    """What the linter says of files of a project, whose other files it follows."""
    command = [sys.executable, "-P", "-m", "shardlint"]
    command += ["--no-cache", "--quiet", "--no-respect-gitignore", "--format", "json"]
    done = subprocess.run(
        [*command, *files],
        cwd=tree,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"the linter failed: {done.stderr[-2000:]}")
    for finding in json.loads(done.stdout):
        yield _said(finding)


def _said(finding: dict[str, Any]) -> Said:
    places = tuple((place["path"], place["line"]) for place in finding["related"])
    return Said(
        finding["path"], finding["line"], finding["code"], finding["message"], places
    )


def only_first(first: Iterable[Said], second: Iterable[Said]) -> list[Said]:
    """The findings of the first that the second has not; one that both have more or less often counts by its number."""
    left = Counter(one.fingerprint for one in second)
    only = []
    for one in first:
        if left[one.fingerprint]:
            left[one.fingerprint] -= 1
        else:
            only.append(one)
    return only


def wrong_places(fix: Fix, source: bytes) -> list[tuple[int, int]]:
    """The statements that hold the wrong lines; the lines themselves where the file is no Python of today."""
    try:
        found = statements({"": source}, [("", line) for line in fix.lines])
        return [(first, last) for _, first, last in found]
    except SyntaxError:
        return [(line, line) for line in fix.lines]


def outcome_of(
    gone: Sequence[Said], file: str, places: Sequence[tuple[int, int]]
) -> str:
    """How near to the wrong statements the nearest of the findings is."""
    here = [one.line for one in gone if one.path == file]
    if any(_within(line, places, 0) for line in here):
        return IN_PLACE
    named = [line for one in gone for path, line in one.places if path == file]
    if any(_within(line, places, NEAR) for line in here):
        return NEARBY
    if any(_within(line, places, 0) for line in named):
        return NEARBY
    return FOUND if gone else NOTHING


def _within(line: int, places: Sequence[tuple[int, int]], margin: int) -> bool:
    return any(first - margin <= line <= last + margin for first, last in places)
