"""Reading a command line: what is wrong with it is said in a line, with the option that was meant."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from shardlint import messages
from shardlint.config import ConfigError


class OptionParser(argparse.ArgumentParser):
    """argparse's own prints all options above each error, and ends the process."""

    def error(self, message: str) -> NoReturn:
        """Raises ``ConfigError``."""
        text = messages.bad_arguments(message, self.prog)
        raise ConfigError("", text)


def parsed(parser: OptionParser, arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command.

    Raises:
        ConfigError: an option or argument that it does not have, or a value that it does not take.
    """
    # argparse would first miss what an unknown option took the place of
    _require_known(parser, arguments)
    found, rest = parser.parse_known_args(arguments)
    for one in rest:
        if one.startswith("-"):
            raise ConfigError("", messages.unknown_option(one, (), parser.prog))
        raise ConfigError("", messages.unexpected_argument(one, parser.prog))
    return found


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """A type of arguments that asks about a choice that is misspelt."""

    def chosen(text: str) -> str:
        if text in choices:
            return text
        raise argparse.ArgumentTypeError(messages.unknown_choice(text, choices))

    return chosen


def _require_known(parser: OptionParser, arguments: Iterable[str]) -> None:
    known: list[str] = []
    for action in parser._actions:  # argparse has no other way to its options
        known += action.option_strings
    for argument in arguments:
        if argument == "--":
            return
        option = argument.partition("=")[0]
        # with a space it is a value, for argparse too
        if not option.startswith("--") or " " in option:
            continue
        # argparse takes the beginning of an option
        if not any(one.startswith(option) for one in known):
            text = messages.unknown_option(option, known, parser.prog)
            raise ConfigError("", text)
