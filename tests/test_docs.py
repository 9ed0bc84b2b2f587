"""The README and the docs are true: their files are written out, their commands run, the output compared.

A code block after ``<!-- file: NAME -->`` is written to NAME in a fresh directory; in a ``console`` block each line
that starts with ``$ `` is run there, and what follows it must be what the command prints. Run with ``UPDATE_DOCS=1``
to write the real output into the pages.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from shardlint.rules.pages import all_in_one
from tests.support import ROOT, run_linter, run_pytest
from tests.support import run as run_command

PAGES = sorted(
    p
    for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if "$ " in p.read_text()
)
BLOCK = re.compile(
    r"(?:<!-- file: (?P<name>\S+) -->\n)?```(?P<language>\w*)\n(?P<body>.*?)^```$",
    re.M | re.S,
)
TOOLS = {
    "mypy": ["-m", "mypy"],
    "python": [],
}


@dataclass
class Command:
    """One ``$`` line with its output as the page has it."""

    line: str
    output: str


def commands(body: str) -> Iterator[Command]:
    for part in re.split(r"^\$ ", body, flags=re.M)[1:]:
        line, _, output = part.partition("\n")
        yield Command(line, output)


@pytest.fixture(autouse=True)
def of_no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pytest sees a CI it does not shorten lines."""
    for name in ("PYTEST_ADDOPTS", "CI", "BUILD_NUMBER"):
        monkeypatch.delenv(name, raising=False)


def run(line: str, cwd: Path) -> str:
    """The command's output, without what changes from run to run and without blank space at the ends of lines."""
    tool, *args = shlex.split(line)
    added = {"PYTHONPATH": str(ROOT), "COLUMNS": "100", "NO_COLOR": "1"}
    if tool != "python":
        added["PYTHONSAFEPATH"] = "1"  # as the command does, other than ``python -m``
    if tool == "shardlint":
        done = run_linter(*args, cwd=cwd, env=added, together=True)
    elif tool == "pytest":
        done = run_pytest(*args, cwd=cwd, env=added, together=True)
    else:
        command = [sys.executable, *TOOLS[tool], *args]
        done = run_command(command, cwd, {**os.environ, **added}, together=True)
    text = re.sub(r"\bin \d+\.\d+s( \(\S+\))?", "in 1.00s", done.stdout)
    text = re.sub(r"^=+ (.*?) =+$", r"=== \1 ===", text, flags=re.M)
    return "".join(f"{row.rstrip()}\n" for row in text.strip("\n").splitlines())


def test_the_page_of_rules_is_what_the_rules_say() -> None:
    page = ROOT / "docs" / "rules.md"
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(all_in_one())
    assert page.read_text() == all_in_one(), "UPDATE_DOCS=1 writes the page anew"


def test_there_are_pages_to_check() -> None:
    assert ROOT / "README.md" in PAGES


@pytest.mark.long
@pytest.mark.once
@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_what_the_page_shows_is_what_happens(page: Path, tmp_path: Path) -> None:
    text = page.read_text()
    pieces: list[str] = []
    last = 0
    for block in BLOCK.finditer(text):
        body = block["body"]
        if block["name"]:
            target = tmp_path / block["name"]
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(body)
        elif block["language"] == "console":
            shown = ""
            for command in commands(body):
                gap = "\n" if command.output.endswith("\n\n") else ""
                shown += f"$ {command.line}\n{run(command.line, tmp_path)}{gap}"
            pieces += [text[last : block.start("body")], shown]
            last = block.end("body")
    truth = "".join(pieces) + text[last:]
    if os.environ.get("UPDATE_DOCS"):
        page.write_text(truth)
    assert text == truth
