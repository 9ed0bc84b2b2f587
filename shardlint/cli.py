"""The command line. Exit status: 0 nothing found, 1 findings, 2 the work could not be done."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path

from shardlint import messages
from shardlint.config import ConfigError
from shardlint.discovery import shown
from shardlint.options import (
    baseline_options,
    check_options,
    settings_of,
    without_baseline,
)
from shardlint.rules import RuleError, all_rules, rule
from shardlint.run import Report, Settings, check
from shardlint.writing import about_the_run, say, write_findings


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    command = (
        arguments.pop(0) if arguments and arguments[0] in messages.COMMANDS else "check"
    )
    try:
        status = _run(command, arguments)
        sys.stdout.flush()
    except (ConfigError, RuleError) as error:
        return _fail(str(error))
    except OSError as error:
        if error.filename is not None:
            raise  # a file, and none of those that are read or written: these have their own words
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 2  # nobody reads what is written
        return _fail(messages.no_output(error.strerror or str(error)))
    return status


def _run(command: str, arguments: list[str]) -> int:
    if command == "explain":
        return _explain(arguments)
    if command == "rules":
        return _rules(arguments)
    if command == "server":
        return _server(arguments)
    if command == "baseline":
        return _baseline(baseline_options(arguments))
    return _check(check_options(arguments))


def _check(options: argparse.Namespace) -> int:
    if options.version:
        sys.stdout.write(f"shardlint {version('shardtypes')}\n")
        return 0
    if options.explain:
        return _explain(options.explain)
    _require_compatible(options)
    settings: Settings = settings_of(options)
    if options.no_baseline:
        settings = without_baseline(settings)
    overlay, paths = _asked_for(options)
    run = partial(
        check,
        paths,
        settings,
        cache=not options.no_cache,
        overlay=overlay,
        show_types=options.show_types,
    )
    report = run()
    if options.fix or options.unsafe_fixes or options.diff or _is_ignoring(options):
        report = _rewritten(report, run, overlay, options)
    write_findings(report, options)
    return _ended(report, paths or [options.stdin_filename], options)


def _require_compatible(options: argparse.Namespace) -> None:
    """Raises ``ConfigError`` for options that contradict each other."""
    pairs = (
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
    run: partial[Report],
    overlay: dict[Path, bytes],
    options: argparse.Namespace,
) -> Report:
    """Fix findings, or write comments that silence them; then write the files, or print the difference."""
    from shardlint.fixing import fixing
    from shardlint.ignoring import ignoring
    from shardlint.rewriting import rewrite

    is_ignoring = _is_ignoring(options)
    change = (
        ignoring(options.add_ignore) if is_ignoring else fixing(options.unsafe_fixes)
    )
    made = rewrite(report, run, overlay, change)
    report = made.report
    if options.diff:
        sys.stdout.writelines(made.difference())
    else:
        stdin = options.stdin_filename
        made.write(skip=shown(Path(os.path.abspath(stdin))) if stdin else None)
    lines = []
    if made.counts and not options.diff:
        done = messages.ignored if is_ignoring else messages.fixed
        lines.append(done(made.counts.total(), len(made.counts)))
    if is_ignoring and report.diagnostics:
        lines.append(messages.not_ignored(len(report.diagnostics)))
    elif not is_ignoring and report.fixable_notebooks:
        notebooks = sorted(report.fixable_notebooks)
        lines.append(messages.not_fixed_notebooks(notebooks))
    say(lines)
    return report


def _baseline(options: argparse.Namespace) -> int:
    from shardlint.making_baselines import write_baselines

    paths = options.paths or ["."]
    settings = settings_of(options)
    report = check(paths, without_baseline(settings), cache=not options.no_cache)
    written = write_baselines(report, settings)
    say(report.problems)
    if options.traceback:
        sys.stderr.writelines(report.tracebacks)
    if not options.quiet:
        say(written)
    return 2 if report.problems else 0


def _explain(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="shardlint explain", description="Print the documentation of rules."
    )
    parser.add_argument(
        "codes", nargs="+", metavar="CODE", help="a code such as ST301, or a name"
    )
    for wanted in parser.parse_args(arguments).codes:
        found = rule(wanted.upper()) or next(
            (r for r in all_rules() if r.name == wanted), None
        )
        if found is None:
            return _fail(messages.unknown_rule(wanted))
        sys.stdout.write(f"# {found.code} {found.name}\n\n{found.text()}\n")
    return 0


def _rules(arguments: Sequence[str]) -> int:
    argparse.ArgumentParser(
        prog="shardlint rules", description="List all rules."
    ).parse_args(arguments)
    for found in all_rules():
        off = "" if found.default else " (off by default)"
        sys.stdout.write(f"{found.code} {found.name:<24} {found.summary()}{off}\n")
    return 0


def _server(arguments: Sequence[str]) -> int:
    argparse.ArgumentParser(
        prog="shardlint server",
        description="Serve an editor: the language server protocol on standard input and output.",
    ).parse_args(arguments)
    try:
        from shardlint.server.protocol import serve
    except ModuleNotFoundError as error:
        return _fail(messages.no_server(error.name or ""))
    serve()
    return 0


def _fail(message: str) -> int:
    sys.stderr.write(f"shardlint: {message}\n")
    return 2
