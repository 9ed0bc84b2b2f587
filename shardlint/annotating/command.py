"""``shardlint annotate``: what it writes and prints, and the exit status."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from shardlint import messages
from shardlint.annotating.editing import applied
from shardlint.annotating.importing import importing
from shardlint.checking import with_progress
from shardlint.config import ConfigError
from shardlint.discovery import shown
from shardlint.found import Proposal
from shardlint.options import annotate_options, settings_of
from shardlint.rewriting import Rewriting, rewrite
from shardlint.run import Report, check
from shardlint.writing import say, write_findings
from shardtypes.lang.diagnostics import Diagnostic, Edit

#: Functions that are named one by one, of those that stay as they are.
_MANY = 10


@dataclass
class Annotating:
    """Writes annotations into texts. ``names`` are the functions that are asked for by file, all where there is none;
    ``written`` those that got annotations."""

    names: Mapping[str, Sequence[str]]
    written: dict[str, set[str]] = field(default_factory=dict)

    def proposals(self, report: Report) -> Iterator[Proposal]:
        """What a run proposes of what is asked for."""
        for one in report.proposals:
            if one.edits and self._is_wanted(one):
                yield one

    def annotated(
        self, text: str, found: Sequence[Proposal], report: Report
    ) -> tuple[str, int]:
        """The text of a file with what is proposed for it, and for how many functions."""
        path = found[0].place.path
        edits: list[Edit] = []
        dtypes: set[str] = set()
        written = self.written.setdefault(path, set())
        for one in found:
            edits += one.edits
            dtypes.update(one.dtypes)
            written.add(one.name)
        new = applied(text, edits)
        imports = importing(new, path, dtypes)
        return applied(new, imports), len(found)

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
    overlay: dict[Path, bytes] = {}
    with with_progress(options) as progress:
        run = partial(
            check,
            wanted,
            settings_of(options),
            cache=not options.no_cache,
            overlay=overlay,
            show_types=True,
            progress=progress,
        )
        before = run()
        _require_functions(wanted, before)
        made = rewrite(
            before,
            run,
            overlay,
            annotating.annotated,
            annotating.proposals,
        )
    _show(annotating, before, made, options)
    if made.report.problems:
        return 2
    return 1 if made.report.diagnostics else 0


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


def _show(
    annotating: Annotating,
    before: Report,
    made: Rewriting,
    options: argparse.Namespace,
) -> None:
    """Write the files, or print the difference; say what was done, and what annotated code is found to do wrong."""
    after = made.report
    if options.diff:
        sys.stdout.writelines(made.difference())
    else:
        made.write()
    new = _new(before.diagnostics, after.diagnostics)
    after = made.report = replace(after, diagnostics=new)
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
