"""The linter for programs: nothing is printed, and nothing ends the process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from shardlint import config as configuration
from shardlint.addresses import rule_page
from shardlint.config import Config
from shardlint.config import ConfigError as ConfigError
from shardlint.fingerprints import Identities, unique
from shardlint.run import Report, Settings, check
from shardlint.selection import require_known
from shardtypes.lang import diagnostics

StrPath: TypeAlias = str | os.PathLike[str]
SettingsLike: TypeAlias = Mapping[str, Any] | StrPath | None
"""The settings by the names of the file's keys, a file that has them, or None for those nearest to each file."""


@dataclass(frozen=True, slots=True)
class RelatedPlace:
    """Another place that explains a finding. Lines and columns start at 1; ``cell`` is that of a notebook, or None."""

    path: str
    cell: int | None
    line: int
    column: int
    message: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Put ``replacement`` in place of the text from the start to before the end. Lines and columns start at 1."""

    line: int
    column: int
    end_line: int
    end_column: int
    replacement: str


@dataclass(frozen=True, slots=True)
class Fix:
    """A change that removes a finding. A safe one never changes what a correct program does."""

    title: str
    applicability: Literal["safe", "unsafe"]
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, as ``shardlint --format json`` prints it.

    Lines and columns start at 1 and count characters; the end column is the one after the last. In a notebook ``cell``
    is the number of the cell whose lines are counted, elsewhere None. ``witness`` are sizes for which the program
    fails, ``url`` is the rule's page. ``fingerprint`` stays while lines move, and is no other finding's of the same
    result.
    """

    code: str
    name: str
    severity: str
    message: str
    path: str
    cell: int | None
    line: int
    column: int
    end_line: int
    end_column: int
    witness: Mapping[str, int]
    related: tuple[RelatedPlace, ...]
    fix: Fix | None
    url: str
    fingerprint: str

    def __str__(self) -> str:
        """``model.py:3:5: ST204 …``, as ``--format concise`` has it."""
        cell = f":cell {self.cell}" if self.cell else ""
        message = " ".join(self.message.split())
        return f"{self.path}{cell}:{self.line}:{self.column}: {self.code} {message}"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check found. ``problems`` are sentences about work that could not be done: while there are some, no
    finding does not mean that there is none. ``skipped`` are files and folders that were left out on purpose."""

    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    checked: int
    skipped: tuple[str, ...]


def check_paths(
    paths: StrPath | Iterable[StrPath],
    settings: SettingsLike = None,
    *,
    cache: bool = True,
    jobs: int = 1,
    with_dependents: bool = False,
) -> CheckResult:
    """Check files and folders, as ``shardlint PATH…`` does.

    Args:
        paths: Files and folders, or one of them; relative ones start at the current folder.
        settings: A mapping with the keys of the settings file, whose paths count from the current folder on; the path
            of such a file; or None for the settings nearest to each file.
        cache: Whether results are kept in, and taken from, the folder that the settings name.
        jobs: Processes to use, 0 for one per core. Those of 2 and more are forked where the system can: do not ask for
            them in a program with threads.
        with_dependents: Whether the files of the project that use these are checked, too.

    Raises:
        ConfigError: settings that cannot be used; the text says where and what to do.
    """
    found = _settings(settings, jobs)
    several = [paths] if isinstance(paths, (str, os.PathLike)) else paths
    names = [os.fspath(path) for path in several]
    return _result(check(names, found, cache=cache, dependents=with_dependents))


def check_source(
    text: str | bytes,
    filename: StrPath = "source.py",
    settings: SettingsLike = None,
    *,
    cache: bool = True,
) -> CheckResult:
    """Check one text as that of a file, which need not exist: imports are looked up from where it would be.

    Args:
        text: The program; bytes have the encoding that they declare.
        filename: Its path, which decides on settings and imports, and whether it is a notebook or a stub.
        settings: As for ``check_paths``.
        cache: As for ``check_paths``.

    Raises:
        ConfigError: settings that cannot be used; the text says where and what to do.
    """
    path = Path(os.path.abspath(filename))
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    return _result(check((), _settings(settings, 1), cache=cache, overlay={path: data}))


def _settings(given: SettingsLike, jobs: int) -> Settings:
    if given is None:
        return lambda folder: replace(configuration.find(folder), jobs=jobs)
    config = _config(given)
    require_known(config.select, "'select'")
    require_known(config.ignore, "'ignore'")
    return lambda folder: replace(config, jobs=jobs)


def _config(given: Mapping[str, Any] | StrPath) -> Config:
    if isinstance(given, Mapping):
        return configuration.parse(given, "settings", root=Path.cwd())
    return configuration.load(Path(os.path.abspath(given)))


def _result(report: Report) -> CheckResult:
    identified = unique(report.diagnostics, Identities(report.lines))
    return CheckResult(
        tuple(_finding(one, fingerprint) for one, fingerprint in identified),
        tuple(map(str, report.problems)),
        report.checked,
        tuple(str(one.path) for one in report.skipped),
    )


def _finding(one: diagnostics.Diagnostic, fingerprint: str) -> Finding:
    place = one.place
    return Finding(
        code=one.code,
        name=one.name,
        severity=one.severity,
        message=one.message,
        path=place.path,
        cell=place.cell or None,
        line=place.line,
        column=place.column,
        end_line=place.end_line,
        end_column=place.end_column,
        witness=MappingProxyType(dict(one.witness)),
        related=tuple(_related(related) for related in one.related),
        fix=_fix(one.fix) if one.fix is not None else None,
        url=rule_page(one.code),
        fingerprint=fingerprint,
    )


def _related(one: diagnostics.Related) -> RelatedPlace:
    place = one.place
    return RelatedPlace(
        place.path, place.cell or None, place.line, place.column, one.message
    )


def _fix(fix: diagnostics.Fix) -> Fix:
    edits = tuple(
        Edit(
            edit.place.line,
            edit.place.column,
            edit.place.end_line,
            edit.place.end_column,
            edit.replacement,
        )
        for edit in fix.edits
    )
    return Fix(fix.title, fix.applicability, edits)
