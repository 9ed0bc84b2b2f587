"""``shardlint baseline`` and what it hides: exactly the findings of then."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import shardlint
from tests.lint.adopting import (
    HEAD,
    MODEL,
    NORM,
    RIGHT,
    SWAPPED,
    concise,
    lint,
    project,
)

pytestmark = pytest.mark.once  # JAX has no part in it

NAME = "shardlint-baseline.json"
SETTINGS = f'baseline = "{NAME}"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    project(tmp_path, {"model.py": MODEL})
    done = lint(tmp_path, "baseline")
    assert (done.returncode, done.stdout, done.stderr) == (
        0,
        "",
        f"shardlint: {NAME}: 2 findings in 1 file; --baseline {NAME}, or `baseline` in the settings, hides them\n",
    )
    return tmp_path


def test_what_is_written(folder: Path) -> None:
    document = json.loads((folder / NAME).read_text(encoding="utf-8"))
    assert document["version"] == 1
    first, second = document["findings"]
    assert (first["path"], first["code"], first["count"]) == ("model.py", "ST201", 1)
    assert (second["code"], second["scope"]) == ("ST204", "norm")
    assert second["message"] == (
        "/: shapes 'B L M' and 'B L' do not broadcast; 'B L 1' does: use keepdims=True, or [..., None]"
    )
    before = (folder / NAME).read_bytes()
    assert lint(folder, "baseline").returncode == 0
    assert (folder / NAME).read_bytes() == before
    usual = (folder / "model.py").stat().st_mode
    assert (folder / NAME).stat().st_mode == usual


def test_its_findings_are_hidden_and_counted(folder: Path) -> None:
    done = lint(folder, "--baseline", NAME)
    assert (done.returncode, done.stdout) == (0, "No findings in 1 file.\n")
    assert done.stderr.splitlines()[0] == f"shardlint: 2 findings hidden by {NAME}"
    assert lint(folder).returncode == 1


def test_the_settings_name_it_from_any_folder(folder: Path) -> None:
    (folder / "shardlint.toml").write_text(SETTINGS)
    (folder / "sub").mkdir()
    (folder / "sub" / "b.py").write_text(f"{HEAD}{NORM}")
    assert concise(folder) == ["sub/b.py:6:12 ST204"]
    assert concise(folder / "sub") == ["b.py:6:12 ST204"]
    assert concise(folder / "sub", "../model.py") == []
    assert len(concise(folder, "--no-baseline")) == 3


def test_lines_move_and_nothing_comes_back(folder: Path) -> None:
    text = f"{HEAD}{RIGHT}\n\n# moved\n{SWAPPED}\n\n{NORM}"
    (folder / "model.py").write_text(text)
    assert concise(folder, "--baseline", NAME) == []


@pytest.mark.parametrize(
    ("more", "shown"),
    [
        # the same words about the same text, in another function and in the same
        (NORM.replace("norm", "other"), ["model.py:16:12 ST204"]),
        (NORM, ["model.py:16:12 ST204"]),
        # another finding in a function that has one
        (
            NORM.replace("norm", "third").replace("-1", "-2"),
            ["model.py:16:12 ST204"],
        ),
    ],
)
def test_what_is_new_is_shown(folder: Path, more: str, shown: list[str]) -> None:
    (folder / "model.py").write_text(f"{MODEL}\n\n{more}")
    assert concise(folder, "--baseline", NAME) == shown


def test_a_line_that_changes_is_new(folder: Path) -> None:
    (folder / "model.py").write_text(MODEL.replace("* scale", "* scale * 2"))
    assert concise(folder, "--baseline", NAME) == ["model.py:6:12 ST204"]


def test_what_no_longer_occurs_is_said_and_pruned(folder: Path) -> None:
    (folder / "model.py").write_text(f"{HEAD}{SWAPPED}")
    done = lint(folder, "--baseline", NAME)
    assert done.returncode == 0
    assert done.stderr.splitlines()[:2] == [
        f"shardlint: 1 finding hidden by {NAME}",
        f"shardlint: 1 finding of {NAME} does not occur any more; `shardlint baseline` writes it without them",
    ]
    assert lint(folder, "baseline").returncode == 0
    document = json.loads((folder / NAME).read_text(encoding="utf-8"))
    assert [entry["code"] for entry in document["findings"]] == ["ST201"]
    (folder / "model.py").unlink()
    gone = lint(folder, "--baseline", NAME)
    assert "1 finding of" in gone.stderr


@pytest.mark.parametrize(
    "arguments",
    [["--select", "ST3"], ["--ignore", "ST201,ST204"], ["other.py"]],
    ids=" ".join,
)
def test_a_run_over_less_calls_nothing_gone(folder: Path, arguments: list[str]) -> None:
    """Neither in what it says nor in what it writes."""
    project(folder, {"other.py": f"{HEAD}{RIGHT}"})
    before = (folder / NAME).read_bytes()
    done = lint(folder, "--baseline", NAME, *arguments)
    assert done.returncode == 0
    assert "any more" not in done.stderr
    assert lint(folder, "baseline", *arguments).returncode == 0
    assert (folder / NAME).read_bytes() == before


def test_a_file_that_does_not_parse_keeps_its_entries(folder: Path) -> None:
    (folder / "model.py").write_text("x = (\n")
    done = lint(folder, "--baseline", NAME)
    assert (done.returncode, "any more" in done.stderr) == (1, False)
    assert lint(folder, "baseline").returncode == 0
    document = json.loads((folder / NAME).read_text(encoding="utf-8"))
    assert sorted(entry["code"] for entry in document["findings"]) == [
        "ST201",
        "ST204",
        "ST902",
    ]


def test_each_project_has_its_own(tmp_path: Path) -> None:
    files = {"a/shardlint.toml": SETTINGS, "a/m.py": MODEL, "b/m.py": f"{HEAD}{NORM}"}
    project(tmp_path, {**files, "b/shardlint.toml": 'baseline = "known/all.json"\n'})
    done = lint(tmp_path, "baseline")
    assert done.stderr.splitlines() == [
        f"shardlint: a/{NAME}: 2 findings in 1 file",
        "shardlint: b/known/all.json: 1 finding in 1 file",
    ]
    assert concise(tmp_path) == []


def test_a_notebook(tmp_path: Path) -> None:
    """Cells may move."""
    cells = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None,
         "source": text}
        for text in (HEAD, NORM)
    ]  # fmt: skip
    rest = {"metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    project(tmp_path, {"a.ipynb": json.dumps({"cells": cells, **rest})})
    assert concise(tmp_path) == ["a.ipynb:cell 2:2:12 ST204"]
    assert lint(tmp_path, "baseline").returncode == 0
    moved = [cells[0], {**cells[0], "source": "x = 1\n"}, cells[1]]
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": moved, **rest}))
    assert concise(tmp_path, "--baseline", NAME) == []


ENTRY = {"path": "m.py", "code": "ST201", "fingerprint": "f", "count": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no such baseline; `shardlint baseline` writes one"),
        ("<<<<<<< HEAD\n", "this is no baseline: Expecting value: line 1 column 1 (char 0)"),
        ("[]", "this is no baseline: it has no 'findings'"),
        ('{"version": 2, "findings": []}', "this is no baseline: version 2 is not known here, expected 1"),
        ('{"version": 1, "findings": [3]}', "this is no baseline: finding 1 of it is no object"),
        (
            json.dumps({"version": 1, "findings": [ENTRY, {**ENTRY, "count": 0}]}),
            "this is no baseline: finding 2 of it has no path, code, fingerprint and count",
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_none(tmp_path: Path, text: str | None, message: str) -> None:
    project(tmp_path, {"model.py": MODEL, "shardlint.toml": SETTINGS})
    if text is not None:
        (tmp_path / NAME).write_text(text)
    done = lint(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"shardlint: {NAME}: {message}")
    written = lint(tmp_path, "baseline")
    assert written.returncode == (0 if text is None else 2), written.stderr


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    project(tmp_path, {"model.py": MODEL, "taken": ""})
    done = lint(tmp_path, "baseline", "--baseline", "taken/here.json")
    assert done.returncode == 2
    assert "cannot write the baseline: " in done.stderr
    assert "Traceback" not in done.stderr


def test_options_that_contradict_each_other(folder: Path) -> None:
    done = lint(folder, "--baseline", NAME, "--no-baseline")
    message = "shardlint: --baseline and --no-baseline do not go together\n"
    assert (done.returncode, done.stderr) == (2, message)


def test_unsaved_text_is_held_against_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an editor asks."""
    (folder / "shardlint.toml").write_text(SETTINGS)
    monkeypatch.chdir(folder)
    text = f"{HEAD}{RIGHT}\n\n{NORM}"
    assert shardlint.check_source(text, "model.py").findings == ()
    (found,) = shardlint.check_source(f"{text}\n\n{NORM}", "model.py").findings
    assert found.line == 14


def test_fixes_leave_what_is_hidden_alone(tmp_path: Path) -> None:
    text = "x = 1  # shardlint: ignore[ST201] no more\n"
    project(tmp_path, {"a.py": text, "shardlint.toml": SETTINGS})
    assert lint(tmp_path, "baseline").returncode == 0
    assert lint(tmp_path, "--fix").returncode == 0
    assert (tmp_path / "a.py").read_text() == text
