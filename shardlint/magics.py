"""Cells of IPython and Jupyter are checked as they are run: ``%load_ext shardlint``.

What the session has run so far is read as a notebook whose last cell is the one to check, so that a cell knows the
names of those before it. Its cells have the numbers of the session's inputs; those that failed are empty, for what they
defined is open.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from shardlint import config as configuration
from shardlint.config import Config, ConfigError
from shardlint.render import Outcome, full
from shardlint.render.style import Style
from shardlint.run import check
from shardlint.selection import UNPARSABLE

_USAGE = "%shardlint checks the cells that were run; %shardlint off and %shardlint on are for each cell before it runs"


class SessionChecks:
    """The checks of one session of IPython."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        # by the number of the input
        self._cells: dict[int, str] = {}
        self._last = 0
        self._is_on = True

    def install(self) -> None:
        """Have each cell checked before it runs, and the magics known."""
        self._shell.events.register("pre_run_cell", self._before)
        self._shell.events.register("post_run_cell", self._after)
        self._shell.register_magic_function(self._line, "line", "shardlint")
        self._shell.register_magic_function(self._cell, "cell", "shardlint")

    def uninstall(self) -> None:
        """Leave the session as it was."""
        self._shell.events.unregister("pre_run_cell", self._before)
        self._shell.events.unregister("post_run_cell", self._after)
        for magics in self._shell.magics_manager.magics.values():
            magics.pop("shardlint", None)

    def _before(self, info: Any) -> None:
        # what runs silently is no cell of the user's
        if self._is_on and not info.silent and not _is_magic(info.raw_cell):
            # no programs are run in numbers: that may take seconds, and is for when it is asked for
            self._show(info.raw_cell, evaluate=False)

    def _after(self, result: Any) -> None:
        info = result.info
        # the shell's own count is that of the next input in some releases while a cell runs
        self._last = result.execution_count or self._last
        if result.success and not info.silent and not _is_magic(info.raw_cell):
            self._cells[result.execution_count] = info.raw_cell

    def _line(self, line: str) -> None:
        """``%shardlint``, with ``on`` or ``off`` behind it."""
        word = line.strip()
        if word in ("on", "off"):
            self._is_on = word == "on"
        elif word:
            raise _usage(f"%shardlint {word}: {_USAGE}")
        elif not self._show(None, evaluate=True):
            cells = "1 cell" if len(self._cells) == 1 else f"{len(self._cells)} cells"
            self._print(f"{cells}, no findings\n")

    def _cell(self, line: str, cell: str) -> None:
        """``%%shardlint``: check the cell, and do not run it."""
        if line.strip():
            raise _usage(f"%%shardlint {line.strip()}: it takes nothing behind it")
        if not self._show(cell, evaluate=True):
            self._print("no findings\n")

    def _show(self, cell: str | None, *, evaluate: bool) -> bool:
        """Print the findings in a cell that is to run, or in all that ran. Whether there were any."""
        number = self._last + 1
        cells = dict(self._cells)
        if cell is not None:
            cells[number] = cell

        def settings(folder: Path) -> Config:
            found = configuration.find(folder)
            return replace(found, jobs=1, evaluate=found.evaluate and evaluate)

        overlay = {Path.cwd() / "session.ipynb": _notebook(cells)}
        try:
            report = check((), settings, cache=False, overlay=overlay, around=False)
        except ConfigError as error:
            self._print(f"shardlint: {error}\n")
            return True
        shown = report.diagnostics
        if cell is not None:
            shown = [one for one in shown if one.place.cell == number]
        if not evaluate:
            # IPython says itself that it cannot read the cell
            shown = [one for one in shown if one.code != UNPARSABLE]
        style = Style(colours=str(self._shell.colors).lower() != "nocolor")
        self._print(full.render(Outcome(shown, report.lines, (), style)))
        for problem in report.problems:
            self._print(f"shardlint: {problem}\n")
        return bool(shown or report.problems)

    def _print(self, text: str) -> None:
        """Write below the cell, as what it prints itself."""
        sys.stdout.write(text)


def _usage(text: str) -> Exception:
    from IPython.core.error import UsageError  # whoever calls this has it

    error: Exception = UsageError(text)
    return error


def _is_magic(cell: str) -> bool:
    return cell.lstrip().startswith(("%shardlint", "%%shardlint", "%load_ext"))


def _notebook(cells: Mapping[int, str]) -> bytes:
    """A notebook with these cells at their numbers, counted from one."""
    texts: Sequence[str] = [
        cells.get(at + 1, "") for at in range(max(cells, default=0))
    ]
    code = [{"cell_type": "code", "source": text, "metadata": {}} for text in texts]
    document = {"cells": code, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(document).encode()
