"""The guide to contributing is true: each of its changes applies to the sources, and the commands below it pass."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support import ROOT, run

GUIDE = ROOT / "docs" / "contributing.md"
#: What the commands need.
SOURCES = (
    "shardtypes",
    "shardlint",
    "pytest_shardtypes",
    "tests",
    "docs",
    "README.md",
    "pyproject.toml",
)
_FILE = re.compile(r"^--- .*\n\+\+\+ b/(\S+)\n", re.M)

pytestmark = pytest.mark.once


@dataclass(frozen=True)
class Addition:
    """A section of the guide: its change, and its commands."""

    title: str
    change: str
    commands: tuple[str, ...]

    def part(self, tests: bool) -> str:
        """The change of the tests, or of what they test."""
        starts = [found.start() for found in _FILE.finditer(self.change)]
        pieces = [
            self.change[a:b]
            for a, b in zip(starts, [*starts[1:], len(self.change)], strict=True)
        ]
        return "".join(
            piece
            for piece in pieces
            if bool(re.search(r"^\+\+\+ b/tests/", piece, re.M)) is tests
        )


def additions() -> list[Addition]:
    """The sections with a change."""
    found = []
    for section in GUIDE.read_text().split("\n## ")[1:]:
        blocks = dict(re.findall(r"^```(diff|sh)\n(.*?)^```$", section, re.M | re.S))
        found.append(
            Addition(
                section.partition("\n")[0],
                blocks["diff"],
                tuple(blocks["sh"].splitlines()),
            )
        )
    return found


ADDITIONS = additions()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources, to be changed."""
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name)
        else:
            shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def apply(change: str, folder: Path) -> str:
    """What git says against the change, '' if it was made."""
    (folder / "change.diff").write_text(change)
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    done = run(["git", "apply", "--unidiff-zero", "change.diff"], folder, environment)
    return done.stderr if done.returncode else ""


def output(command: str, folder: Path) -> tuple[int, str]:
    """Status and output of a command of the guide, on the sources in the folder."""
    words = shlex.split(command)
    settings = dict(word.split("=") for word in words if "=" in word)
    assert words[len(settings)] == "python", command
    environment = {**os.environ, **settings, "PYTHONPATH": str(folder)}
    options = ["-p", "no:cacheprovider"] if "pytest" in words else []
    done = run(
        [sys.executable, *words[len(settings) + 1 :], *options],
        folder,
        environment,
        together=True,
    )
    return done.returncode, done.stdout


def test_the_guide_has_all_additions() -> None:
    assert [one.title for one in ADDITIONS] == [
        "An operation",
        "A rule",
        "A collective",
        "A library",
    ]
    assert all(
        one.part(tests=True) and one.part(tests=False) and one.commands
        for one in ADDITIONS
    )


@pytest.mark.long
@pytest.mark.parametrize("one", ADDITIONS, ids=lambda one: one.title)
def test_the_change_is_all_that_is_needed(one: Addition, copy: Path) -> None:
    assert apply(one.change, copy) == ""
    for command in one.commands:
        status, text = output(command, copy)
        assert status == 0, f"{command}\n{text}"


def test_the_tests_of_a_change_fail_without_the_rest(copy: Path) -> None:
    one = ADDITIONS[0]
    assert apply(one.part(tests=True), copy) == ""
    assert output(one.commands[0], copy)[0] != 0


def test_a_change_that_does_not_apply_is_noticed(copy: Path) -> None:
    change = ADDITIONS[0].change
    place = copy / "shardtypes" / "semantics" / "lowerings" / "fft.py"
    place.write_text(place.read_text().replace('"jax.lax.fft"', '"jax.lax.dft"'))
    assert "fft.py" in apply(change, copy)
