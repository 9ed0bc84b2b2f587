"""A small project with two findings, and the command line that a team runs on it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.support import run_linter

HEAD = "import jax.numpy as jnp\nfrom shardtypes import f32\n\n\n"
NORM = """\
def norm(x: f32["B/d L M"], scale: f32["M"]) -> f32["B/d L M"]:
    return x / jnp.sqrt(jnp.mean(x * x, axis=-1)) * scale
"""
SWAPPED = """\
def swapped(x: f32["B L"]) -> f32["L B"]:
    return jnp.exp(
        x,
    )
"""
RIGHT = """\
def twice(x: f32["B L"]) -> f32["B L"]:
    return 2 * x
"""
MODEL = f"{HEAD}{NORM}\n\n{SWAPPED}"

#: What colours or hides depends on none of the machine's own settings.
_OWN = ("NO_COLOR", "FORCE_COLOR", "GIT_DIR", "GIT_INDEX_FILE", "GIT_WORK_TREE")


def lint(
    cwd: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run ``shardlint`` in a folder."""
    unset = [name for name in _OWN if name in os.environ]
    kept = {name: os.environ.pop(name) for name in unset}
    try:
        return run_linter(*arguments, cwd=cwd, env=env)
    finally:
        os.environ.update(kept)


def concise(cwd: Path, *arguments: str) -> list[str]:
    """The place and the code of each finding: ``a.py:6:12 ST204``."""
    done = lint(cwd, "--format", "concise", "--quiet", *arguments)
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr == ""
    found = []
    for line in done.stdout.splitlines():
        place, _, rest = line.partition(": ")
        found.append(f"{place} {rest.split(' ')[0]}")
    return found


def project(folder: Path, files: Mapping[str, str]) -> Path:
    """Write files into a folder that is a repository by its look."""
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder
