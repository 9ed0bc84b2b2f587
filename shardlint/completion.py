"""Completion in shells: scripts that are made from what reads the options."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

import shtab

from shardlint import options
from shardlint.rules import all_rules

#: What reads the options of each command.
_COMMANDS: dict[str, Callable[[], argparse.ArgumentParser]] = {
    "check": options.check_parser,
    "annotate": options.annotate_parser,
    "baseline": options.baseline_parser,
    "completion": options.completion_parser,
    "convert": options.convert_parser,
    "cost": options.cost_parser,
    "explain": options.explain_parser,
    "mcp": options.mcp_parser,
    "rules": options.rules_parser,
    "schema": options.schema_parser,
    "server": options.server_parser,
}
#: The arguments and options that are files.
_FILES = (
    "against",
    "baseline",
    "config",
    "function",
    "output_file",
    "paths",
    "python",
    "stdin_filename",
    "write",
)
#: Those that are codes of rules.
_CODES = ("codes", "explain", "select", "ignore")


_PREFIX = "shardlint"
#: Bash completes no files by itself unless it is asked to.
_AFTER = {"bash": f"complete -o bashdefault -o default -F _shtab_{_PREFIX} shardlint\n"}


def script(shell: str) -> str:
    """What makes a shell complete ``shardlint``: its commands, options, their choices, files and codes of rules."""
    parser = _completed(options.check_parser())
    _leave_paths_to_the_shell(parser)
    commands = parser.add_subparsers(dest="command")
    for name, make in _COMMANDS.items():
        one = _completed(make())
        commands.add_parser(
            name,
            parents=[one],
            add_help=False,
            description=one.description,
            help=one.description,
        )
    made = str(shtab.complete(parser, shell, root_prefix=_PREFIX))
    return f"{made.rstrip()}\n{_AFTER.get(shell, '')}"


def _leave_paths_to_the_shell(parser: argparse.ArgumentParser) -> None:
    """What stands first is completed as a command. Shells complete files where they find no command."""
    paths = [action for action in parser._actions if action.dest == "paths"]
    for action in paths:
        parser._actions.remove(action)


def _completed(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """A parser whose arguments know how they are completed."""
    codes = [rule.code for rule in all_rules()]
    for action in parser._actions:  # argparse has no other way to its arguments
        if action.dest in _FILES:
            _complete_by(action, shtab.FILE)
        elif action.dest in _CODES:
            action.choices = codes
    return parser


def _complete_by(action: argparse.Action, how: Mapping[str, object]) -> None:
    """shtab takes ``complete`` for how an argument is completed."""
    vars(action)["complete"] = how
