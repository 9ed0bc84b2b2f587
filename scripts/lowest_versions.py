"""Prints the oldest release of each direct dependency that ``pyproject.toml`` admits, as constraints for pip.

lowest_versions.py [EXTRA...]
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_REQUIREMENT = re.compile(r"([\w.-]+)>=([\d.]+)")
_OTHER_EXTRAS = re.compile(r"shardtypes\[([\w,]+)\]")


def main(extras: Sequence[str]) -> None:
    """Print one a line: ``jax==0.7.2``."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    project = tomllib.loads(text)["project"]
    for name, version in lowest(project, extras).items():
        sys.stdout.write(f"{name}=={version}\n")


def lowest(project: dict[str, Any], extras: Sequence[str]) -> dict[str, str]:
    """The oldest releases by name: of what the base needs and of what extras do, where the later of two bounds holds.

    Raises:
        ValueError: a dependency that says no oldest release.
        KeyError: there is no such extra.
    """
    waiting = list(project["dependencies"])
    for extra in extras:
        waiting += project["optional-dependencies"][extra]
    found: dict[str, str] = {}
    while waiting:
        text = waiting.pop(0)
        others = _OTHER_EXTRAS.fullmatch(text)
        if others is not None:
            for extra in others[1].split(","):
                waiting += project["optional-dependencies"][extra]
            continue
        written = _REQUIREMENT.fullmatch(text)
        if written is None:
            raise ValueError(f"{text}: write the oldest release, as in name>=1.2")
        name, version = written.groups()
        found[name] = max(found.get(name, version), version, key=_numbers)
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    main(sys.argv[1:])
