"""The example models in each form: back again they are what they were, and the linter finds in them what it found."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.api import check_paths
from shardlint.converting.files import convert
from tests.models.examples import Bug, bugs, copy
from tests.support import run_linter, run_pytest

pytestmark = pytest.mark.once

#: Models with annotations of shardtypes.
MODELS = ("transformer", "flax_logical", "pmap_classifier")
FORMS = ("array", "annotated")
#: A bug of each model that the linter finds by its annotations.
FEW = "flax_logical/swapped-arguments"
MORE = (
    "transformer/wrong-local-annotation",
    "pmap_classifier/wrong-result-annotation",
)
BY_ID = {one.id: one for one in bugs()}
BUGS = (
    BY_ID[FEW],
    *(pytest.param(BY_ID[name], marks=pytest.mark.long) for name in MORE),
)


def texts(project: Path) -> dict[str, str]:
    return {
        str(path.relative_to(project)): path.read_text()
        for path in project.rglob("*.py")
    }


def converted(project: Path, form: str) -> dict[str, str]:
    done = run_linter("convert", "--to", form, ".", cwd=project)
    assert done.returncode == 0, done.stderr
    return texts(project)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
def test_there_and_back(model: str, form: str, tmp_path: Path) -> None:
    project = copy(model, tmp_path)
    before = texts(project)
    there = converted(project, form)
    assert there != before
    assert converted(project, "short") == before


def found(project: Path) -> list[tuple[str, str, str]]:
    """What the linter finds, but for the lines, which imports move, and how annotations are written."""
    result = check_paths([str(project)])
    assert not result.problems
    return [(Path(one.path).name, one.code, one.message) for one in result.findings]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_the_linter_finds_the_same(bug: Bug, form: str, tmp_path: Path) -> None:
    project = copy(bug.model, tmp_path)
    assert found(project) == []
    converted(project, form)
    assert found(project) == []
    converted(project, "short")
    bug.apply(project)
    before = found(project)
    assert before
    converted(project, form)
    assert found(project) == before


@pytest.mark.long
@pytest.mark.parametrize("form", FORMS)
def test_it_runs_with_every_annotation_checked(form: str, tmp_path: Path) -> None:
    project = copy("pmap_classifier", tmp_path)
    converted(project, form)
    done = run_pytest("-q", "--shardtypes", cwd=project)
    assert done.returncode == 0, done.stdout


def test_jaxtyping_is_left_alone(tmp_path: Path) -> None:
    project = copy("equinox_jaxtyping", tmp_path)
    for text in texts(project).values():
        made = convert(text, "array")
        assert (made.text, made.refusals) == (text, ())
