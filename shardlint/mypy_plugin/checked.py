"""What the linter finds in files that lie together, as the plugin keeps it, file by file."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint.config import Config, ConfigError
from shardlint.rules import RuleError
from shardtypes.lang.diagnostics import Diagnostic

if TYPE_CHECKING:
    from shardlint.run import Report

Version = tuple[int, int]


@dataclass(frozen=True)
class Found:
    """What was found in one file, what could not be done there, and what its expressions are that give arrays, as
    ``shardlint.array_places`` writes it. ``version`` is that of the file."""

    version: Version | None
    diagnostics: tuple[Diagnostic, ...] = ()
    problems: tuple[str, ...] = ()
    arrays: str = ""

    @property
    def is_nothing(self) -> bool:
        return not self.diagnostics and not self.problems


@dataclass(frozen=True)
class Checked:
    """The files in which something was found, by path; all that were ``read``; whether something could not be done,
    with its tracebacks, and why nothing could be done at all."""

    found: dict[str, Found]
    read: frozenset[Path] = frozenset()
    failed: bool = False
    tracebacks: tuple[str, ...] = ()
    refused: str | None = None


def checked(paths: Iterable[str], config: Config, keeps: bool) -> Checked:
    """Check files with the settings of ``config``; what is found is kept for the next run if the plugin ``keeps``."""
    from shardlint.run import check  # takes its time to import

    try:
        report = check(paths, config, cache=keeps, arrays=True)
    except (ConfigError, RuleError) as error:
        return Checked({}, failed=True, refused=f"shardlint: {error}")
    return Checked(
        _by_file(report),
        frozenset(report.files),
        bool(report.problems),
        tuple(report.tracebacks),
    )


def version_of(path: str) -> Version | None:
    """What tells two states of a file apart; None where there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _by_file(report: Report) -> dict[str, Found]:
    diagnostics: dict[str, list[Diagnostic]] = defaultdict(list)
    problems: dict[str, list[str]] = defaultdict(list)
    for one in report.diagnostics:
        diagnostics[os.path.abspath(one.place.path)].append(one)
    for problem in report.problems:
        if problem.path is not None:
            problems[os.path.abspath(problem.path)].append(problem.text)
    arrays = {os.path.abspath(path): text for path, text in report.arrays.items()}
    return {
        path: Found(
            None, tuple(diagnostics[path]), tuple(problems[path]), arrays.get(path, "")
        )
        for path in diagnostics.keys() | problems.keys() | arrays.keys()
    }
