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

RIGHT = Path(__file__).parents[2] / "fixtures" / "lint" / "right"
PROGRAMS = RIGHT / "programs"


@pytest.mark.once
@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_the_program_runs(path: Path) -> None:
    jax.eval_shape(runpy.run_path(str(path))["main"])


def functions(path: Path) -> dict[str, tuple[ArrayType, ...]]:
    module = lower(path.read_bytes(), path.stem, str(path)).module
    return of_arrays(run(Project({path.stem: module}), module).it, module)


@pytest.mark.once
@pytest.mark.parametrize(("name", "count"), [("transforms", 30), ("flow", 2)])
def test_the_functions_run(name: str, count: int) -> None:
    path = RIGHT / f"{name}.py"
    namespace = runpy.run_path(str(path))
    found = functions(path)
    assert len(found) >= count
    for name, types in found.items():
        jax.eval_shape(namespace[name], *arguments(types))
