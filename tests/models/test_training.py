"""``pytest --shardtypes`` on the example models: correct ones pass with all checks on, bugs do not.

``SHARDTYPES_ALL_BUGS=1`` runs every bug; by default a few, for each run starts JAX and compiles a training step.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.models.examples import MODELS, NAMES, Bug, bugs, copy
from tests.support import run_pytest

FEW = (
    "transformer/einsum-letters-swapped",
    "pmap_classifier/forgotten-psum",
    "equinox_jaxtyping/swapped-arguments",
)
CHOSEN = [
    bug for bug in bugs() if bug.id in FEW or os.environ.get("SHARDTYPES_ALL_BUGS")
]


#: They take longest to compile.
_SLOW = ("flax_logical", "equinox_jaxtyping")
_MARKS = [pytest.mark.once, pytest.mark.long]


@pytest.mark.parametrize(
    "model",
    [pytest.param(name, marks=_MARKS * (name in _SLOW)) for name in NAMES],
)
def test_correct_model_passes(model: str) -> None:
    result = run(MODELS / model)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "shardtypes" in result.stdout
    assert "could not tell" not in result.stdout


@pytest.mark.once
@pytest.mark.parametrize("bug", CHOSEN, ids=lambda bug: bug.id)
def test_bug_shows_as_documented(bug: Bug, tmp_path: Path) -> None:
    project = copy(bug.model, tmp_path)
    bug.apply(project)
    result = run(project)
    assert outcome(result) == bug.pytest, result.stdout + result.stderr


def run(project: Path) -> subprocess.CompletedProcess[str]:
    """The model's own tests with every check on, over eight forced CPU devices."""
    return run_pytest(
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "pytest_shardtypes.plugin",
        "--shardtypes",
        "--tb=short",
        cwd=project,
    )


def outcome(result: subprocess.CompletedProcess[str]) -> str:
    """Who saw the bug: an annotation, JAX itself, a test of the model, or nobody."""
    if result.returncode == 0:
        return "silent"
    raised = [line for line in result.stdout.splitlines() if line.startswith("E ")]
    if any(
        "ShapeError" in line or "ShardingError" in line or "TypeCheck" in line
        for line in raised
    ):
        return "check"
    return (
        "test"
        if any("AssertionError" in line or "assert " in line for line in raised)
        else "jax"
    )
