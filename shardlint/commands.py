"""The commands, by what stands first on the command line. Each gives the exit status."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from shardlint import messages
from shardlint.addresses import rule_page
from shardlint.config import ConfigError
from shardlint.option_parser import parsed
from shardlint.options import (
    baseline_options,
    check_options,
    completion_parser,
    explain_parser,
    mcp_options,
    rules_parser,
    schema_parser,
    server_options,
    settings_of,
    without_baseline,
)
from shardlint.rules import RuleError, all_rules, rule
from shardlint.rules.pages import page
from shardlint.writing import say


def run(arguments: list[str]) -> int:
    """Run a command; errors of the user's are said."""
    command = "check"
    if arguments and arguments[0] in messages.COMMANDS:
        command = arguments.pop(0)
    try:
        return _run(command, arguments)
    except (ConfigError, RuleError) as error:
        return _fail(str(error))


def _run(command: str, arguments: list[str]) -> int:
    if command == "explain":
        return _explain(arguments)
    if command == "rules":
        return _rules(arguments)
    if command == "schema":
        return _schema(arguments)
    if command == "mcp":
        return _mcp(arguments)
    if command == "server":
        return _server(arguments)
    if command == "completion":
        return _completion(arguments)
    if command == "cost":
        return _cost(arguments)
    if command == "annotate":
        return _annotate(arguments)
    if command == "convert":
        return _convert(arguments)
    if command == "baseline":
        return _baseline(baseline_options(arguments))
    return _check(check_options(arguments))


def _check(options: argparse.Namespace) -> int:
    if options.version:
        return _version()
    if options.explain:
        return _explain(options.explain)
    from shardlint.checking import check_and_show, check_and_watch

    return check_and_watch(options) if options.watch else check_and_show(options)


def _version() -> int:
    sys.stdout.write(f"shardlint {version('shardtypes')}\n")
    return 0


def _baseline(options: argparse.Namespace) -> int:
    from shardlint.checking import with_progress
    from shardlint.making_baselines import write_baselines
    from shardlint.run import check

    settings = settings_of(options)
    with with_progress(options) as progress:
        report = check(
            options.paths or ["."],
            without_baseline(settings),
            cache=not options.no_cache,
            progress=progress,
        )
    written = write_baselines(report, settings)
    say(report.problems)
    if options.traceback:
        sys.stderr.writelines(report.tracebacks)
    if not options.quiet:
        say(written)
    return 2 if report.problems else 0


def _cost(arguments: list[str]) -> int:
    # takes its time to import
    from shardlint.costing.command import run_cost

    return run_cost(arguments)


def _annotate(arguments: Sequence[str]) -> int:
    # takes its time to import
    from shardlint.annotating.command import run_annotate

    return run_annotate(arguments)


def _convert(arguments: Sequence[str]) -> int:
    from shardlint.converting.command import run_convert

    return run_convert(arguments)


def _explain(arguments: Sequence[str]) -> int:
    for wanted in parsed(explain_parser(), arguments).codes:
        found = rule(wanted.upper()) or next(
            (r for r in all_rules() if r.name == wanted), None
        )
        if found is None:
            return _fail(messages.unknown_rule(wanted))
        sys.stdout.write(f"{page(found)}\n{rule_page(found.code)}\n")
    return 0


def _rules(arguments: Sequence[str]) -> int:
    parsed(rules_parser(), arguments)
    for found in all_rules():
        off = "" if found.default else " (off by default)"
        sys.stdout.write(f"{found.code} {found.name:<24} {found.summary()}{off}\n")
    return 0


def _schema(arguments: Sequence[str]) -> int:
    from shardlint.schemas import schema_text

    sys.stdout.write(schema_text(parsed(schema_parser(), arguments).name))
    return 0


def _server(arguments: Sequence[str]) -> int:
    options = server_options(arguments)
    try:
        from shardlint.server.protocol import serve
    except ModuleNotFoundError as error:
        return _fail(messages.no_server(error.name or ""))
    if options.version:
        settings_of(options)  # which fails where an option cannot be used
        return _version()
    serve(arguments)
    return 0


def _completion(arguments: Sequence[str]) -> int:
    shell = parsed(completion_parser(), arguments).shell
    try:
        from shardlint.completion import script
    except ModuleNotFoundError as error:
        return _fail(messages.no_completion(error.name or ""))
    sys.stdout.write(script(shell))
    return 0


def _mcp(arguments: Sequence[str]) -> int:
    options = mcp_options(arguments)
    try:
        from shardlint.mcp_server.serving import serve
    except ModuleNotFoundError as error:
        return _fail(messages.no_mcp(error.name or ""))
    if options.version:
        return _version()
    serve(options.python)
    return 0


def _fail(message: str) -> int:
    sys.stderr.write(f"shardlint: {message}\n")
    return 2
