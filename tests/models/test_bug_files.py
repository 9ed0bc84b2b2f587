"""The documented bugs: complete, applicable, and summed up in the README as they are."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.models.examples import MODELS, NAMES, Bug, bugs, copy

ALL = bugs()


@pytest.mark.once
@pytest.mark.parametrize("model", NAMES)
def test_every_model_has_shape_and_sharding_bugs(model: str) -> None:
    found = bugs(model)
    assert len(found) >= 8
    assert {bug.family for bug in found} == {"shape", "sharding"}


@pytest.mark.once
@pytest.mark.parametrize("bug", ALL, ids=lambda bug: bug.id)
def test_a_bug_applies_and_is_still_python(bug: Bug, tmp_path: Path) -> None:
    """The bugs that matter are those that a syntax check lets through."""
    project = copy(bug.model, tmp_path)
    bug.apply(project)
    ast.parse((project / bug.file).read_text())


@pytest.mark.once
def test_readme_lists_every_bug() -> None:
    text = (MODELS / "README.md").read_text()
    for bug in ALL:
        assert row(bug) in text, f"fixtures/models/README.md needs the line\n{row(bug)}"


def row(bug: Bug) -> str:
    """The README's line about one bug."""
    lint = ", ".join(bug.shardlint) or "–"
    return f"| {bug.name} | {bug.what} | {lint} | {bug.pytest} |"
