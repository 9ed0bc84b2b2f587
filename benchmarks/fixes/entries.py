"""The fixes of public projects that are recorded in ``fixes.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_name("fixes.toml")


@dataclass(frozen=True)
class Fix:
    """A commit that fixes a bug. ``lines`` are the wrong ones of ``file`` in its parent. ``certain``: the code of the
    project alone tells that they are wrong; if not, ``reason`` says what else it takes."""

    project: str
    commit: str
    file: str
    lines: tuple[int, ...]
    kind: str
    wrong: str
    certain: bool
    reason: str

    @property
    def name(self) -> str:
        """Short, and different for each fix."""
        return f"{self.project.partition('/')[2]}-{self.commit[:8]}"

    @property
    def address(self) -> str:
        """Where the commit can be read."""
        return f"https://github.com/{self.project}/commit/{self.commit}"

    @property
    def folder(self) -> str:
        """The name of the project's history."""
        return self.project.replace("/", "+")


def fixes(path: Path = DATA) -> list[Fix]:
    """All fixes of a file."""
    entries = tomllib.loads(path.read_text(encoding="utf-8"))["fix"]
    return [_fix(entry) for entry in entries]


def _fix(entry: dict[str, Any]) -> Fix:
    reason = entry.get("reason", "")
    lines = tuple(entry["lines"])
    return Fix(**{**entry, "lines": lines, "reason": reason})


def chosen(every: Sequence[Fix], names: Sequence[str]) -> list[Fix]:
    """The fixes whose names begin with one of these; without names, all.

    Raises:
        ValueError: nothing has such a name.
    """
    if not names:
        return list(every)
    for name in names:
        if not any(fix.name.startswith(name) for fix in every):
            raise ValueError(f"no fix has a name that begins with {name!r}")
    return [fix for fix in every if fix.name.startswith(tuple(names))]
