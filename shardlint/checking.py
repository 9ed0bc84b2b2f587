"""A check as the command line does it: settings from the options, changes of files, output, and the exit status."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from shardlint import messages
from shardlint.config import ConfigError
from shardlint.discovery import shown
from shardlint.options import settings_of, without_baseline
from shardlint.problems import Problem
from shardlint.progress import Progress
from shardlint.render import FOR_READING
from shardlint.rules import RuleError
from shardlint.run import Report, Settings, check
from shardlint.writing import (
    WITH_COSTS,
    about_the_run,
    say,
    write_findings,
)

if TYPE_CHECKING:
    from shardlint.costing.changes import CostChanges
    from shardlint.since import Revision
    from shardlint.watching import Watched


def check_and_show(options: argparse.Namespace) -> int:
    """One check.

    Raises:
        ConfigError: options or settings that cannot be used.
        RuleError: a rule module cannot be used.
    """
    try:
        return _checked(options)
    except (ConfigError, RuleError) as error:
        problem = _problem_of(error)
        if _tells_of(problem, options.format):
            write_findings(Report(problems=[problem]), options)
        raise


def _problem_of(error: ConfigError | RuleError) -> Problem:
    file = error.file if isinstance(error, ConfigError) else None
    path = shown(file) if file is not None else None
    return Problem(str(error), path, is_setting=True)


def _tells_of(problem: Problem, kind: str) -> bool:
    """Whether a format says itself that nothing was checked. Services take an empty report of GitLab's for the news
    that all findings were mended."""
    if kind == "gitlab":
        return problem.path is not None
    return kind not in FOR_READING


def check_and_watch(options: argparse.Namespace) -> int:
    """Check, and again after each change, until the user interrupts it."""
    from shardlint.watching import changes

    if options.stdin_filename or _is_ignoring(options):
        other = "--stdin-filename" if options.stdin_filename else "--add-ignore"
        raise ConfigError("", messages.not_together("--watch", other))
    found, is_native = changes(_watched(options))
    if not is_native:
        say([messages.polling()])
    while True:
        try:
            check_and_show(options)
        except (ConfigError, RuleError) as error:  # which the next change may mend
            say([str(error)])
        sys.stdout.flush()
        if not options.quiet:
            say([messages.watching()])
        changed = sorted(shown(path) for path in next(found))
        if sys.stdout.isatty():
            sys.stdout.write("\033[2J\033[H")  # an empty screen
        if not options.quiet:
            say([messages.changed(time.strftime("%H:%M:%S"), changed)])


def _watched(options: argparse.Namespace) -> Watched:
    """What is asked for, and the projects around it, of which all files count."""
    from shardlint.watching import Watched

    asked = [Path(os.path.abspath(path)) for path in options.paths or ["."]]
    named = frozenset(path for path in asked if not path.is_dir())
    folders = {path for path in asked if path.is_dir()}
    settings = settings_of(options)
    around = [*folders, *(path.parent for path in named)]
    folders |= {settings(folder).root for folder in around}
    output = options.output_file
    written = Path(os.path.abspath(output)) if output else None
    return Watched(named, tuple(folders), written)


def _checked(options: argparse.Namespace) -> int:
    _require_compatible(options)
    since = _revision(options.since)
    settings: Settings = settings_of(options)
    if options.no_baseline:
        settings = without_baseline(settings)
    overlay, paths = _asked_for(options)

    def run() -> Report:
        with with_progress(options) as progress:
            report = check(
                paths,
                settings,
                cache=not options.no_cache,
                overlay=overlay,
                show_types=options.show_types,
                dependents=options.with_dependents,
                progress=progress,
            )
            if since is not None:
                asked = [*paths, *map(str, overlay)]
                if report.dependents:
                    asked += report.judged
                new, known = since.only_new(report, settings, asked, progress)
                report = replace(report, diagnostics=new, earlier=known)
            return report

    report = run()
    is_fixing = options.fix or options.unsafe_fixes or _is_ignoring(options)
    if is_fixing or options.diff:
        report = _rewritten(report, run, overlay, options)
    costs: CostChanges | None = None
    is_told = not options.quiet or options.format in WITH_COSTS
    if since is not None and is_told and not options.stdin_filename:
        costs = _cost_changes(since, report, settings)
    # the changed text of standard input goes to standard output
    has_text = options.stdin_filename and is_fixing and not options.diff
    with redirect_stdout(sys.stderr) if has_text else nullcontext():
        write_findings(report, options, costs)
    if since is not None and report.earlier and not options.quiet:
        say([messages.had_before(report.earlier, since.shown)])
    if costs is not None and not options.quiet:
        say(costs.text())
    return _ended(report, paths or [options.stdin_filename], options)


def _revision(name: str | None) -> Revision | None:
    """What findings are compared with, if somebody asks."""
    if name is None:
        return None
    # takes its time to import
    from shardlint.since import Revision

    return Revision.of(name)


def _cost_changes(since: Revision, report: Report, settings: Settings) -> CostChanges:
    """What has changed in what the files that were checked hold and send."""
    # takes its time to import
    from shardlint.costing.changes import cost_changes

    return cost_changes(since, report.judged, settings)


@contextmanager
def with_progress(options: argparse.Namespace) -> Iterator[Progress]:
    """Tells the user how far a run is, and takes that away at the end."""
    progress = Progress(sys.stderr, options.quiet)
    try:
        yield progress
    finally:
        progress.clear()


def _require_compatible(options: argparse.Namespace) -> None:
    """Raises ``ConfigError`` for options that contradict each other."""
    # reports of services have no room for types
    is_of_service = options.format in ("gitlab", "junit", "sarif")
    format_ = f"--format {options.format}"
    pairs = (
        ("--show-types", options.show_types, format_, is_of_service),
        ("--add-ignore", _is_ignoring(options), "--fix", options.fix),
        ("--add-ignore", _is_ignoring(options), "--unsafe-fixes", options.unsafe_fixes),
        ("--baseline", options.baseline, "--no-baseline", options.no_baseline),
    )
    for first, is_first, second, is_second in pairs:
        if is_first and is_second:
            raise ConfigError("", messages.not_together(first, second))
    if "\n" in (options.add_ignore or ""):
        raise ConfigError("--add-ignore", messages.reason_of_lines())


def _is_ignoring(options: argparse.Namespace) -> bool:
    return options.add_ignore is not None


def _asked_for(options: argparse.Namespace) -> tuple[dict[Path, bytes], list[str]]:
    """The text on standard input, if there is one, and the paths to check."""
    paths: list[str] = options.paths
    if options.stdin_filename:
        text = sys.stdin.buffer.read()
        path = Path(os.path.abspath(options.stdin_filename))
        return {path: text}, [path for path in paths if path != "-"]
    if "-" in paths:
        raise ConfigError(
            "", "to check standard input give its name with --stdin-filename"
        )
    return {}, paths or ["."]


def _ended(
    report: Report, paths: Sequence[str], options: argparse.Namespace, status: int = 1
) -> int:
    """Say what there is to say about a run; gives the exit status, ``status`` where there are findings."""
    say(report.problems)
    if options.traceback:
        sys.stderr.writelines(report.tracebacks)
    if not options.quiet:
        statistics = getattr(options, "statistics", False)
        say(about_the_run(report, paths, statistics))
    if report.problems:
        return 2
    return status if report.diagnostics and not options.exit_zero else 0


def _rewritten(
    report: Report,
    run: Callable[[], Report],
    overlay: dict[Path, bytes],
    options: argparse.Namespace,
) -> Report:
    """Fix findings, or write comments that silence them; then write the files, or print the difference."""
    from shardlint.fixing import fixing
    from shardlint.ignoring import ignoring, left
    from shardlint.rewriting import rewrite

    is_ignoring = _is_ignoring(options)
    change = (
        ignoring(options.add_ignore) if is_ignoring else fixing(options.unsafe_fixes)
    )
    made = rewrite(report, run, overlay, change, attrgetter("diagnostics"))
    report = made.report
    if options.diff:
        sys.stdout.writelines(made.difference())
    else:
        stdin = options.stdin_filename
        made.write(skip=shown(Path(os.path.abspath(stdin))) if stdin else None)
        if stdin:
            sys.stdout.buffer.write(overlay[Path(os.path.abspath(stdin))])
            sys.stdout.flush()
    lines = []
    if made.counts and not options.diff:
        done = messages.ignored if is_ignoring else messages.fixed
        lines.append(done(made.counts.total(), len(made.counts)))
    if is_ignoring and report.diagnostics:
        lines += left(report)
    elif not is_ignoring and report.fixable_notebooks:
        notebooks = sorted(report.fixable_notebooks)
        lines.append(messages.not_fixed_notebooks(notebooks))
    say(lines)
    return report
