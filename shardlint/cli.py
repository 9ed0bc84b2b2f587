"""The command line. Exit status: 0 nothing found, 1 findings, 2 the work could not be done."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

from shardlint import config as configuration
from shardlint import decoding, fixing, messages
from shardlint.config import Config, ConfigError
from shardlint.discovery import shown
from shardlint.jax_version import Version, parse_version
from shardlint.render import FORMATS, renderer
from shardlint.render.json import render_with_types
from shardlint.render.types import render_types
from shardlint.rules import RuleError, all_rules, rule
from shardlint.run import Report, Settings, check
from shardlint.selection import require_known
from shardlint.whole_files import write_whole

#: A fix may uncover another finding; fixes that do not settle in this many passes are in each other's way.
_PASSES = 10


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
    return _check(_parser().parse_args(arguments))


def _check(options: argparse.Namespace) -> int:
    if options.version:
        sys.stdout.write(f"shardlint {version('shardtypes')}\n")
        return 0
    if options.explain:
        return _explain(options.explain)
    settings = _settings(options)
    overlay: dict[Path, bytes] = {}
    paths: list[str] = options.paths
    if options.stdin_filename:
        overlay[Path(os.path.abspath(options.stdin_filename))] = sys.stdin.buffer.read()
        paths = [path for path in paths if path != "-"]
    elif not paths:
        paths = ["."]
    elif "-" in paths:
        raise ConfigError(
            "", "to check standard input give its name with --stdin-filename"
        )

    def run() -> Report:
        return check(
            paths,
            settings,
            cache=not options.no_cache,
            overlay=overlay,
            show_types=options.show_types,
        )

    report = run()
    if options.fix or options.unsafe_fixes or options.diff:
        report = _fix(report, run, overlay, options)
    _print(report, options)
    for problem in report.problems:
        sys.stderr.write(f"shardlint: {problem}\n")
    if options.traceback:
        sys.stderr.writelines(report.tracebacks)
    for line in _about_the_run(
        report, paths or [options.stdin_filename], options.statistics
    ):
        sys.stderr.write(f"shardlint: {line}\n")
    if report.problems:
        return 2
    return 1 if report.diagnostics and not options.exit_zero else 0


def _about_the_run(report: Report, paths: Sequence[str], all_: bool) -> list[str]:
    """What was not checked and why, and how much was known of what was."""
    skipped = [(shown(one.path), one.reason) for one in report.skipped]
    lines = [messages.not_checked(skipped, None if all_ else 3)] if skipped else []
    if report.checked:
        lines.append(messages.known_share(report.checked, report.known, report.arrays))
        uncompared = _count(report, messages.is_not_compared)
        meant = _count(report, messages.is_meant)
        if uncompared or meant:
            lines.append(messages.compared_share(uncompared, meant))
    elif not skipped and not report.problems:
        lines.append(messages.nothing_to_check(paths))
    return lines


def _count(report: Report, is_one: Callable[[str], bool]) -> int:
    """How many of the gaps of a run are of one kind."""
    return sum(count for text, count in report.gaps.items() if is_one(text))


def _settings(options: argparse.Namespace) -> Settings:
    """The settings in force in a folder, with those of the command line in place of theirs."""
    select, ignore = _codes(options.select), _codes(options.ignore)
    require_known(select or (), "--select")
    require_known(ignore or (), "--ignore")
    try:
        mesh = configuration.parse_mesh(options.mesh) if options.mesh else None
    except ValueError as error:
        raise ConfigError("--mesh", str(error)) from None
    given = (
        configuration.load(Path(os.path.abspath(options.config)))
        if options.config
        else None
    )

    def settings(folder: Path) -> Config:
        config = given if given is not None else configuration.find(folder)
        return config.with_options(
            select=select,
            ignore=(*config.ignore, *ignore) if ignore else None,
            extend_exclude=(*config.extend_exclude, *_listed(options.exclude))
            if options.exclude
            else None,
            force_exclude=True if options.force_exclude else None,
            respect_gitignore=False if options.no_respect_gitignore else None,
            mesh=mesh,
            jax_version=options.jax_version,
            evaluate=False if options.no_evaluate else None,
            jobs=options.jobs,
        )

    return settings


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _codes(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else _listed(text)


def _fix(
    report: Report, run: object, overlay: dict[Path, bytes], options: argparse.Namespace
) -> Report:
    """Apply fixes until nothing changes, in memory; then write the files, or print the difference."""
    assert callable(run)
    before: dict[str, bytes] = {}
    applied: Counter[str] = Counter()
    for _ in range(_PASSES):
        changed = False
        for path, text in report.texts.items():
            found = [
                d
                for d in report.diagnostics
                if d.place.path == path and not d.place.cell
            ]
            if not any(d.fix is not None for d in found):
                continue
            encoding = decoding.encoding_of(text)
            decoded = text.decode(encoding)
            fixed, count = fixing.apply(decoded, found, options.unsafe_fixes)
            if count and fixed != decoded:
                before.setdefault(path, text)
                overlay[Path(os.path.abspath(path))] = fixed.encode(encoding)
                applied[path] += count
                changed = True
        if not changed:
            break
        again: Report = run()
        report = replace(
            again, problems=list(dict.fromkeys([*report.problems, *again.problems]))
        )
    for path, old in before.items():
        new = report.texts[path]
        if options.diff:
            first, second = (
                decoding.lines(decoding.decoded(t), keepends=True) for t in (old, new)
            )
            sys.stdout.writelines(
                difflib.unified_diff(first, second, f"a/{path}", f"b/{path}")
            )
        elif path != (
            options.stdin_filename
            and shown(Path(os.path.abspath(options.stdin_filename)))
        ):
            try:
                write_whole(Path(path), new)
            except OSError as error:
                report.problems.append(
                    messages.not_written(path, error.strerror or str(error))
                )
                del applied[path]
    if applied and not options.diff:
        counts = applied.total(), len(applied)
        sys.stderr.write(f"shardlint: {messages.fixed(*counts)}\n")
    if report.fixable_notebooks:
        sys.stderr.write(
            f"shardlint: {messages.not_fixed_notebooks(sorted(report.fixable_notebooks))}\n"
        )
    return report


def _print(report: Report, options: argparse.Namespace) -> None:
    if options.show_types and options.format == "json":
        sys.stdout.write(render_with_types(report.diagnostics, report.types))
        return
    if options.show_types:
        sys.stdout.write(render_types(report.types, options.format))
    sys.stdout.write(renderer(options.format)(report.diagnostics, report.lines))
    counts = Counter(d.code for d in report.diagnostics)
    out = sys.stdout if options.format in ("full", "concise") else sys.stderr
    if options.statistics:
        names = {d.code: d.name for d in report.diagnostics}
        for code, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
            out.write(f"{count:5} {code} {names[code]}\n")
        for text, count in sorted(
            report.gaps.items(), key=lambda item: (-item[1], item[0])
        ):
            out.write(f"{count:5} {text}\n")
    elif cut := sorted(filter(messages.is_cut_off, report.gaps)):
        sys.stderr.write(messages.cut_short(cut))
    if options.format == "full":
        fixable = sum(
            d.fix is not None and d.fix.applicability == "safe"
            for d in report.diagnostics
        )
        sys.stdout.write(
            messages.summary(len(report.diagnostics), report.checked, fixable) + "\n"
        )


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


def _jobs(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(
            f"a number of processes (0: one per core), got {text!r}"
        )
    return int(text)


def _release(text: str) -> Version:
    found = parse_version(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"a release of JAX such as 0.10.2, got {text!r}"
        )
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="shardlint",
        description="Check shapes, dtypes and shardings of JAX code without running it.",
        epilog="Other commands: `shardlint explain CODE`, `shardlint rules`, `shardlint server`. "
        "Exit status: 0 nothing found, 1 findings, 2 the work could not be done.",
    )
    add = parser.add_argument
    add("--version", action="store_true", help="print the version, and check nothing")
    add(
        "--explain",
        nargs="+",
        metavar="CODE",
        help="print the documentation of rules, and check nothing",
    )
    add(
        "paths",
        nargs="*",
        metavar="PATH",
        help="files and folders (default: the current folder)",
    )
    add(
        "--format",
        choices=FORMATS,
        default="full",
        help="how findings are printed (default: full)",
    )
    add(
        "--select",
        metavar="CODES",
        help="only these rules: codes or beginnings of codes, comma-separated",
    )
    add("--ignore", metavar="CODES", help="not these rules")
    add("--fix", action="store_true", help="apply safe fixes to the files")
    add("--unsafe-fixes", action="store_true", help="apply all fixes to the files")
    add(
        "--diff",
        action="store_true",
        help="print what fixes would change and leave the files alone",
    )
    add(
        "--exclude",
        metavar="PATTERNS",
        help="not these files and folders either, comma-separated, as in .gitignore",
    )
    add(
        "--force-exclude",
        action="store_true",
        help="leave out what is excluded even where it is named itself",
    )
    add(
        "--no-respect-gitignore",
        action="store_true",
        help="check what a .gitignore leaves out as well",
    )
    add(
        "--jax-version",
        type=_release,
        metavar="RELEASE",
        help="the release of JAX that the program is for",
    )
    add("--mesh", metavar="AXES", help="the mesh, such as d=2,t=4")
    add(
        "--no-evaluate",
        action="store_true",
        help="run no code in numbers on other numbers of devices (ST316)",
    )
    add(
        "--show-types",
        action="store_true",
        help="print the inferred type of every local",
    )
    add(
        "--stdin-filename",
        metavar="PATH",
        help="check standard input as if it were the text of this file",
    )
    add(
        "--jobs",
        type=_jobs,
        metavar="N",
        help="processes to use (default: one per core)",
    )
    add("--no-cache", action="store_true", help="neither read nor write the cache")
    add(
        "--statistics",
        action="store_true",
        help="print how often each rule reports, and what was not followed",
    )
    add(
        "--exit-zero",
        action="store_true",
        help="exit with 0 even if there are findings",
    )
    add("--config", metavar="FILE", help="a pyproject.toml or shardlint.toml to use")
    add("--traceback", action="store_true", help="show where shardlint itself failed")
    return parser
