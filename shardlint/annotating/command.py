"""``shardlint annotate``: what it writes and prints, and the exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from shardlint import decoding, messages
from shardlint.annotating.editing import applied
from shardlint.annotating.importing import importing
from shardlint.checking import with_progress
from shardlint.config import ConfigError
from shardlint.discovery import shown
from shardlint.found import Proposal
from shardlint.options import annotate_options, settings_of
from shardlint.rewriting import Rewriting
from shardlint.run import Report, check
from shardlint.writing import say, write_findings
from shardtypes.lang.diagnostics import Diagnostic, Edit

#: What one function is known to give may tell of another; annotations that do not settle contradict each other.
_PASSES = 10
#: Functions that are named one by one, of those that stay as they are.
_MANY = 10


@dataclass
class Annotating:
    """Files that get annotations. ``names`` are the functions that are asked for by file, all where there is none;
    ``overlay`` are the new texts, ``before`` the old ones, ``written`` the functions that got annotations."""

    names: Mapping[str, Sequence[str]]
    overlay: dict[Path, bytes] = field(default_factory=dict)
    before: dict[str, bytes] = field(default_factory=dict)
    written: dict[str, set[str]] = field(default_factory=dict)

    def annotate(self, report: Report) -> bool:
        """Write what a run proposes; whether that is anything."""
        by_path: dict[str, list[Proposal]] = {}
        for one in report.proposals:
            if one.edits and self._is_wanted(one):
                by_path.setdefault(one.place.path, []).append(one)
        for path, found in by_path.items():
            old = report.texts[path]
            self.before.setdefault(path, old)
            absolute = Path(os.path.abspath(path))
            self.overlay[absolute] = _annotated(old, path, found)
            written = self.written.setdefault(path, set())
            written.update(one.name for one in found)
        return bool(by_path)

    def open(self, report: Report) -> list[str]:
        """A line on each function of which nothing could be written, with the reason; of many, one line on all."""
        found = []
        reasons: Counter[str] = Counter()
        for one in report.proposals:
            is_written = one.name in self.written.get(one.place.path, ())
            if one.why is None or is_written or not self._is_wanted(one):
                continue
            line = messages.not_annotated(one.place.path, one.name, one.why)
            found.append(line)
            reasons[one.why] += 1
        if len(found) > _MANY:
            return [messages.several_not_annotated(reasons)]
        return found

    def _is_wanted(self, one: Proposal) -> bool:
        names = self.names.get(one.place.path)
        return not names or one.name in names


def run_annotate(arguments: Sequence[str]) -> int:
    """The command. 0; 1 where annotated code has findings that it did not have.

    Raises:
        ConfigError: options that cannot be used, or no such file or function.
    """
    options = annotate_options(arguments)
    wanted = _wanted(options.paths or ["."])
    annotating = Annotating(wanted)
    with with_progress(options) as progress:
        run = partial(
            check,
            wanted,
            settings_of(options),
            cache=not options.no_cache,
            overlay=annotating.overlay,
            show_types=True,
            progress=progress,
        )
        before = after = run()
        _require_functions(wanted, before)
        for _ in range(_PASSES):
            if not annotating.annotate(after):
                break
            after = run()
    _show(annotating, before, after, options)
    if after.problems:
        return 2
    return 1 if after.diagnostics else 0


def _wanted(paths: Sequence[str]) -> dict[str, list[str]]:
    """The files and folders, and the functions that are named of each."""
    found: dict[str, list[str]] = {}
    for one in paths:
        path, _, name = one.partition("::")
        names = found.setdefault(shown(Path(os.path.abspath(path))), [])
        if name:
            names.append(name)
    return found


def _require_functions(wanted: Mapping[str, Sequence[str]], report: Report) -> None:
    """Raises ConfigError for a function that is not there, or lacks nothing."""
    for path, names in wanted.items():
        known = [one.name for one in report.proposals if one.place.path == path]
        for name in names:
            if name not in known and path in report.judged:
                raise ConfigError(path, messages.nothing_lacks(name, known))


def _annotated(text: bytes, path: str, found: Sequence[Proposal]) -> bytes:
    encoding = decoding.encoding_of(text)
    edits: list[Edit] = []
    dtypes: set[str] = set()
    for one in found:
        edits += one.edits
        dtypes.update(one.dtypes)
    decoded = applied(text.decode(encoding), edits)
    imports = importing(decoded.encode(encoding), path, dtypes)
    return applied(decoded, imports).encode(encoding)


def _show(
    annotating: Annotating, before: Report, after: Report, options: argparse.Namespace
) -> None:
    """Write the files, or print the difference; say what was done, and what annotated code is found to do wrong."""
    made = Rewriting(after, annotating.before)
    if options.diff:
        sys.stdout.writelines(made.difference())
    else:
        made.write()
    after.diagnostics = _new(before.diagnostics, after.diagnostics)
    if after.diagnostics:
        write_findings(after, options)
    say(after.problems)
    if options.quiet:
        return
    say(annotating.open(after))
    count = sum(map(len, annotating.written.values()))
    say([messages.annotated(count, len(annotating.written), options.diff)])
    if after.diagnostics:
        say([messages.found_by_annotations(len(after.diagnostics))])


def _new(before: Sequence[Diagnostic], after: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Findings that were not there before, wherever the lines are now."""
    known = Counter((one.place.path, one.code, one.message) for one in before)
    found = []
    for one in after:
        key = (one.place.path, one.code, one.message)
        known[key] -= 1
        if known[key] < 0:
            found.append(one)
    return found
