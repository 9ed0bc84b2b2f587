"""What is known of the open documents: one run of the linter over their unsaved texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from shardlint import config as configuration
from shardlint import files
from shardlint.config import Config
from shardlint.run import Report, check
from shardlint.workers import ShownType
from shardtypes.lang.diagnostics import Diagnostic


@dataclass(frozen=True, slots=True)
class Checked:
    """The findings and types of one document. ``lines`` is the text that their places refer to."""

    lines: tuple[str, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    types: tuple[ShownType, ...] = ()
    uses: tuple[ShownType, ...] = ()


def check_documents(texts: Mapping[Path, str]) -> tuple[dict[Path, Checked], list[str]]:
    """Check all of ``texts`` (absolute path to text) at once, each project with its own settings. With the results come
    lines about work that could not be done.

    Raises:
        ConfigError: settings that cannot be used.
        RuleError: a rule module cannot be used.
    """
    projects: dict[Path, tuple[Config, dict[Path, bytes]]] = {}
    for path, text in texts.items():
        config = configuration.find(path.parent)
        if not files.excluded(path, config):
            projects.setdefault(config.root, (config, {}))[1][path] = text.encode("utf-8", "surrogatepass")
    found: dict[Path, Checked] = {}
    problems: list[str] = []
    for config, overlay in projects.values():
        # One process: forking under the threads of a server is not safe, and an open file is small.
        report = check((), replace(config, jobs=1), overlay=overlay, show_types=True)
        problems += report.problems
        found |= {path: _part(report, files.shown(path)) for path in overlay}
    return found, problems


def _part(report: Report, shown: str) -> Checked:
    return Checked(
        tuple(report.texts.get(shown, b"").decode("utf-8", "replace").splitlines(keepends=True)),
        tuple(d for d in report.diagnostics if d.place.path == shown),
        tuple(t for t in report.types if t.place.path == shown),
        tuple(t for t in report.uses if t.place.path == shown),
    )
