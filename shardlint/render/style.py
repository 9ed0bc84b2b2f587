"""How text looks on a terminal: colours, and links on the codes of rules. Elsewhere it is plain."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from shardlint.addresses import rule_page
from shardtypes.lang.frozen import frozen

Choice: TypeAlias = Literal["auto", "always", "never"]

CHOICES: tuple[Choice, ...] = ("auto", "always", "never")

_RESET = "\033[0m"
_BOLD, _RED, _YELLOW, _GREEN = "\033[1m", "\033[1;31m", "\033[1;33m", "\033[1;32m"
_BLUE, _CYAN = "\033[1;34m", "\033[36m"
# ends at ST, as the standard has it
_LINK = "\033]8;;{target}\033\\{text}\033]8;;\033\\"


class Stream(Protocol):
    """What is written to."""

    def isatty(self) -> bool: ...


@frozen
class Style:
    """Whether to write colours, and links."""

    colours: bool = False
    links: bool = False

    def code(self, code: str, severity: str) -> str:
        """The code of a rule, which leads to its page."""
        colour = _YELLOW if severity == "warning" else _RED
        text = self._in(colour, code)
        if not self.links:
            return text
        return _LINK.format(target=rule_page(code), text=text)

    def strong(self, text: str) -> str:
        return self._in(_BOLD, text)

    def margin(self, text: str) -> str:
        """Line numbers and bars."""
        return self._in(_BLUE, text)

    def mark(self, text: str, is_related: bool, severity: str = "error") -> str:
        """What underlines code."""
        if is_related:
            return self._in(_BLUE, text)
        return self._in(_YELLOW if severity == "warning" else _RED, text)

    def note(self, text: str) -> str:
        return self._in(_CYAN, text)

    def fix(self, text: str) -> str:
        return self._in(_GREEN, text)

    def _in(self, colour: str, text: str) -> str:
        return f"{colour}{text}{_RESET}" if self.colours and text else text


PLAIN = Style()


def style_of(
    stream: Stream, choice: Choice, env: Mapping[str, str] = os.environ
) -> Style:
    """The style for a stream: what the command line chooses, else ``NO_COLOR``, ``FORCE_COLOR``, and whether it is a
    terminal. Links are for terminals only."""
    is_terminal = stream.isatty() and env.get("TERM") != "dumb"
    if choice != "auto":
        colours = choice == "always"
    elif env.get("NO_COLOR"):
        colours = False
    elif env.get("FORCE_COLOR", "0") not in ("", "0"):
        colours = True
    else:
        colours = is_terminal
    return Style(colours, links=colours and is_terminal)
