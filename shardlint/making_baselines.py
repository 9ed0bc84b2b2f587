"""``shardlint baseline``: the findings of a run, written to the file of each project."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

from shardlint import baseline, messages
from shardlint.discovery import shown
from shardlint.fingerprints import Identities
from shardlint.problems import Problem
from shardlint.run import Report, Settings
from shardtypes.lang.diagnostics import Diagnostic


def write_baselines(report: Report, settings: Settings) -> list[str]:
    """Write the findings of a run; what files and rules that it left out have in the file stays. Gives a line on each
    file; what cannot be written is a problem of the report.

    Raises:
        ConfigError: a file that is there and is no baseline.
    """
    found: dict[Path, list[Diagnostic]] = defaultdict(list)
    in_use: dict[Path, bool] = {}
    for path in report.judged:
        target, is_used = _target(path, settings)
        in_use[target] = is_used
        found.setdefault(target, [])
    for one in report.diagnostics:
        target, is_used = _target(one.place.path, settings)
        in_use[target] = is_used
        found[target].append(one)
    identities = Identities(report.lines)
    lines = []
    for target, mine in found.items():
        old = baseline.read(target) if target.exists() else ()
        folder = target.parent
        new = baseline.entries_of(mine, identities, folder)
        entries = baseline.merged(old, new, report.judged, folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            baseline.write(target, entries)
        except OSError as error:
            reason = error.strerror or str(error)
            text = f"{shown(target)}: {messages.unwritable_baseline(reason)}"
            report.problems.append(Problem(text, shown(target)))
            continue
        count = sum(entry.count for entry in entries)
        files = len({entry.path for entry in entries})
        lines.append(
            messages.baseline_written(shown(target), count, files, in_use[target])
        )
    return lines


def _target(path: str, settings: Settings) -> tuple[Path, bool]:
    """The baseline for a file, and whether it is in force there."""
    config = settings(Path(os.path.abspath(path)).parent)
    if config.baseline is not None:
        return config.baseline, True
    return config.root / baseline.DEFAULT_NAME, False
