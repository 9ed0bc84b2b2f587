"""shardlint on the example models: silent on the correct ones, right about every bug."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardlint.cli import main
from tests.models.examples import MODELS, NAMES, Bug, bugs, copy
from tests.support import run_linter

ALL = bugs()


@pytest.mark.once
@pytest.mark.parametrize("model", NAMES)
def test_correct_model_is_silent(model: str) -> None:
    result = run_linter("--no-cache", "--format", "concise", ".", cwd=MODELS / model)
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr


@pytest.mark.once
def test_the_command_line_reports_a_bug(tmp_path: Path) -> None:
    """What the other tests do in this process, once as a user does it."""
    bug = next(bug for bug in ALL if bug.id == "transformer/einsum-letters-swapped")
    project = copy(bug.model, tmp_path)
    line = bug.apply(project)
    result = run_linter("--no-cache", "--format", "concise", bug.file, cwd=project)
    assert result.returncode == 1, result.stderr
    assert result.stdout.startswith(f"{bug.file}:{line}:"), result.stdout


@pytest.mark.once
@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.id)
def test_the_bug_is_reported_where_it_is_and_nothing_else(
    bug: Bug,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    project = copy(bug.model, tmp_path)
    line = bug.apply(project)
    expected = bug.findings(project, line)
    # the rest of the project is read, and takes long to check each time
    files = {bug.file} | {path for _, path, _ in expected}
    monkeypatch.chdir(project)
    findings = lint(sorted(files), capsys)
    found = {(f["code"], f["path"], f["line"]) for f in findings}
    assert found == expected, findings


def lint(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> list[dict[str, object]]:
    """The findings of the command in files of the current folder, which must have done its work."""
    status = main(["--no-cache", "--format", "json", *files])
    captured = capsys.readouterr()
    findings: list[dict[str, object]] = json.loads(captured.out)
    assert status == (1 if findings else 0), captured.err
    return findings
