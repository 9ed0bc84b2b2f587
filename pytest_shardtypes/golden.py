"""Golden files: the collectives of a function as they were when somebody looked at them and found them right."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

from shardtypes.collectives import Collective
from shardtypes.whole_files import write_whole

FOLDER = "golden"


@dataclass(frozen=True)
class GoldenFiles:
    """The golden files of one test: beside its file, and one for each mesh. ``update`` writes what it finds."""

    folder: Path
    root: Path
    update: bool

    def compare(self, name: str, mesh: str, found: Iterable[Collective]) -> None:
        """Fail unless the file says the same, in words that say what changed and how to accept it."""
        if not re.fullmatch(r"[\w.-]+", name):
            raise ValueError(
                f"golden={name!r} is to be a file's name: letters, digits, '_', '-' and '.'"
            )
        path = self.folder / FOLDER / f"{name}[{mesh}].txt"
        lines = describe(found)
        shown = path.relative_to(self.root) if path.is_relative_to(self.root) else path
        if self.update:
            try:
                write_whole(path, "".join(f"{line}\n" for line in lines))
            except OSError as error:
                pytest.fail(
                    f"golden file not written: {shown}: {error.strerror or error}",
                    pytrace=False,
                )
            return
        accept = "if that is right, run once with --shardtypes-update"
        if not path.exists():
            listing = "\n".join(f"  {line}" for line in lines)
            pytest.fail(
                f"there is no golden file {shown}; the function has\n{listing}\n{accept}",
                pytrace=False,
            )
        before = path.read_text(encoding="utf-8").splitlines()
        if before != lines:
            changes = "\n".join(
                line
                for line in difflib.ndiff(before, lines)
                if not line.startswith("?")  # the marks below a changed line
            )
            pytest.fail(
                f"the collectives are no longer those of {shown}:\n{changes}\n{accept}",
                pytrace=False,
            )


def describe(found: Iterable[Collective]) -> list[str]:
    """One line for each kind, axes and size, with its count: no line numbers, which change with every edit."""
    counts = Counter(
        f"{entry.kind} over {'unknown axes' if entry.axes is None else ','.join(entry.axes)}, {entry.bytes} bytes"
        for entry in found
    )
    return [f"{count} x {text}" for text, count in sorted(counts.items())] or [
        "no collectives"
    ]
