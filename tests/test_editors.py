"""``scripts/try_editors.py`` finds its recipes in the documentation, and says what fails. Editors need not be here."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from scripts import try_editors
from scripts.try_editors import (
    ATTEMPTS,
    CHECKS,
    COLUMN,
    FINDING,
    HOVER,
    LINE,
    MODEL,
    PAGE,
    Screen,
    recipes,
)
from tests.support import ROOT, run, run_linter

pytestmark = pytest.mark.once

SCRIPT = ROOT / "scripts" / "try_editors.py"


def tried(path: Path) -> tuple[int, str]:
    """The script with only these programs."""
    done = run([sys.executable, SCRIPT], env={"PATH": str(path)})
    return done.returncode, done.stdout


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_all_recipes_are_tried() -> None:
    known = recipes(PAGE.read_text(encoding="utf-8"))
    assert set(known) == {one.recipe for one in ATTEMPTS}
    assert all("shardlint" in recipe for recipe in known.values())
    marks = PAGE.read_text(encoding="utf-8").count("<!-- recipe:")
    assert marks == len(known)


def test_what_is_json_is_json() -> None:
    page = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```json\n(.*?)^```$", page, re.M | re.S)
    assert len(blocks) > 4
    for block in blocks:
        json.loads(block if block.startswith("{") else f"{{{block}}}")


@pytest.mark.parametrize("recipe", sorted({one.recipe for one in ATTEMPTS}))
def test_a_recipe_that_is_gone_is_named(
    recipe: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "editors.md"
    text = PAGE.read_text(encoding="utf-8")
    page.write_text(text.replace(f"<!-- recipe: {recipe} -->\n", ""), encoding="utf-8")
    monkeypatch.setattr(try_editors, "PAGE", page)
    assert try_editors.main() == 1
    assert f"has no recipe {recipe}\n" in capsys.readouterr().out


def test_without_an_editor_nothing_was_tried(tmp_path: Path) -> None:
    status, said = tried(tmp_path)
    assert status == 1
    names = ("nvim", "hx", "emacs", "jupyter")
    absent = [f"{name}: not there" for name in names]
    assert said.splitlines() == [*absent, "no editor was found"]


def test_an_editor_that_is_told_nothing_is_a_failure(tmp_path: Path) -> None:
    program(tmp_path, "nvim", 'test "$1" = --version && echo NVIM v0.9.1')
    status, said = tried(tmp_path)
    assert status == 1
    assert "nvim 0.9.1, neovim-0.8: FAILED: status 1" in said
    assert "neovim-0.7" not in said
    assert "neovim:" not in said


@pytest.mark.parametrize(
    ("codes", "hover", "said"),
    [
        ('"ST204"', "float32['B']", "ST204 and hover"),
        ('"ST204", "ST204"', "float32['B']", "FAILED: ST204 is not there once"),
        ("", "float32['B']", "FAILED: ST204 is not there once: nothing"),
        ('"ST204"', "Array", "FAILED: hover is 'Array'"),
    ],
)
def test_what_an_editor_was_told_is_looked_at(
    tmp_path: Path, codes: str, hover: str, said: str
) -> None:
    told = tmp_path / "told.json"
    told.write_text(f'{{"codes": [{codes}], "hover": "{hover}"}}')
    copy = f'/bin/cp {told} "$SEEN"'
    program(tmp_path, "nvim", f'test "$1" = --version && echo v0.9.1 || {copy}')
    status, out = tried(tmp_path)
    assert f"nvim 0.9.1, neovim-0.8: {said}" in out
    assert (status == 1) == ("FAILED" in said)


def test_the_file_that_editors_open_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    done = run_linter("model.py", "--show-types", cwd=tmp_path)
    assert FINDING in done.stdout
    assert re.search(rf"{LINE + 1} +mean +{re.escape(HOVER)}", done.stdout)
    assert MODEL.splitlines()[LINE][COLUMN - 1 :].startswith("mean")


def test_the_checks_are_there() -> None:
    assert {path.name for path in CHECKS.iterdir() if path.is_file()} == {
        "emacs.el",
        "has_package.el",
        "jupyter.py",
        "neovim.lua",
    }


def test_a_screen_shows_what_was_written_where() -> None:
    screen = Screen()
    screen.feed("\x1b[2Jgone\x1b[2J\x1b[2;3Hxxxxx\x1b[2;3H\x1b[1;31mST\x1b[2;6H04")
    screen.feed("\x1b[2;5H2")
    assert screen.text.split("\n")[1] == "  ST204"
    assert "gone" not in screen.text
