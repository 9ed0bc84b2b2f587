"""shardlint on the example models: silent on the correct ones, right about every bug that its rules cover."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from shardlint.cli import main
from tests.models.examples import MODELS, NAMES, Bug, bugs, copy
from tests.support import run_python

ALL = bugs()


@pytest.mark.once
@pytest.mark.parametrize("model", NAMES)
def test_correct_model_is_silent(model: str) -> None:
    result = run_python("-m", "shardlint", "--no-cache", "--format", "concise", ".", cwd=MODELS / model)
    assert (result.returncode, result.stdout) == (0, ""), result.stdout + result.stderr


@pytest.mark.once
def test_the_command_line_reports_a_bug(tmp_path: Path) -> None:
    """What the other tests do in this process, once as a user does it."""
    bug = next(bug for bug in ALL if bug.id == "transformer/einsum-letters-swapped")
    project = copy(bug.model, tmp_path)
    line = bug.apply(project)
    result = run_python("-m", "shardlint", "--no-cache", "--format", "concise", bug.file, cwd=project)
    assert result.returncode == 1, result.stderr
    assert result.stdout.startswith(f"{bug.file}:{line}:"), result.stdout


@pytest.mark.once
@pytest.mark.parametrize("bug", [bug for bug in ALL if bug.scope == "foundation"], ids=lambda bug: bug.id)
def test_bug_is_reported_on_its_line(
    bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project = copy(bug.model, tmp_path)
    line = bug.apply(project)
    findings = lint(project, monkeypatch, capsys)
    assert {(f["code"], f["path"], f["line"]) for f in findings} == bug.findings(project, line), findings


@pytest.mark.once
@pytest.mark.parametrize("bug", [bug for bug in ALL if bug.scope == "later"], ids=lambda bug: bug.id)
def test_no_wrong_report_about_a_bug_of_later_rules(
    bug: Bug, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bug that no rule covers yet is not reported as something that it is not; a caller may be told of it."""
    project = copy(bug.model, tmp_path)
    line = bug.apply(project)
    findings = lint(project, monkeypatch, capsys)
    here = {(f["code"], f["line"]) for f in findings if f["path"] == bug.file}
    assert here <= {(c, line) for c in bug.shardlint}, findings
    assert {f["code"] for f in findings} <= {*bug.shardlint, "ST202"}, findings


def lint(project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    """The findings of the command in ``project``, which must have done its work."""
    monkeypatch.chdir(project)
    status = main(["--no-cache", "--format", "json", "."])
    captured = capsys.readouterr()
    findings: list[dict[str, object]] = json.loads(captured.out)
    assert status == (1 if findings else 0), captured.err
    return findings
