"""The programs in ``fixtures/lint/right/programs`` run under JAX: what the linter is silent about is right."""

from __future__ import annotations

import runpy
from pathlib import Path

import jax
import pytest

from shardlint.engine import run
from shardlint.engine.types import ArrayType
from shardlint.lower import lower
from shardlint.project import Project
from tests.engine.replay import arguments, of_arrays

TRANSFORMS = Path(__file__).parents[2] / "fixtures" / "lint" / "right" / "transforms.py"
PROGRAMS = Path(__file__).parents[2] / "fixtures" / "lint" / "right" / "programs"


@pytest.mark.once
@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_the_program_runs(path: Path) -> None:
    jax.eval_shape(runpy.run_path(str(path))["main"])


def functions() -> dict[str, tuple[ArrayType, ...]]:
    module = lower(TRANSFORMS.read_bytes(), "transforms", str(TRANSFORMS)).module
    return of_arrays(run(Project({"transforms": module}), module).it, module)


@pytest.mark.once
def test_the_transformations_run() -> None:
    namespace = runpy.run_path(str(TRANSFORMS))
    found = functions()
    assert len(found) >= 20
    for name, types in found.items():
        jax.eval_shape(namespace[name], *arguments(types))
