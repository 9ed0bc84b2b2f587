"""What ``--show-types`` prints: for every file a table of its locals, or one line each for tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Protocol

from shardtypes.lang.diagnostics import Place


class Shown(Protocol):
    """The type of one local, and why it is unknown if it is."""

    @property
    def place(self) -> Place: ...

    @property
    def name(self) -> str: ...

    @property
    def text(self) -> str: ...

    @property
    def why(self) -> str | None: ...


def render_types(types: Sequence[Shown], style: str) -> str:
    """``style`` is the format of the run: ``full`` gives tables, any other lines of ``path:line:column``."""
    return "".join(_tables(types) if style == "full" else map(_line, types))


def _line(shown: Shown) -> str:
    kind = _type(shown)
    return f"{shown.place}: {shown.name}: {kind}\n"


def _tables(types: Sequence[Shown]) -> Iterator[str]:
    for path, found in groupby(types, key=lambda shown: shown.place.shown_path):
        rows = list(found)
        numbers = [str(shown.place.line) for shown in rows]
        digits = max(map(len, numbers))
        longest = max(len(shown.name) for shown in rows)
        width = min(longest, 24)
        yield f"{path}\n"
        for number, shown in zip(numbers, rows, strict=True):
            line = number.rjust(digits)
            name = shown.name.ljust(width)
            kind = _type(shown)
            yield f"  {line}  {name}  {kind}\n"
        yield "\n"


def _type(shown: Shown) -> str:
    return f"{shown.text} ({shown.why})" if shown.why else shown.text
