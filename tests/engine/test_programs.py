"""The programs in ``fixtures/lint/right/programs`` run under JAX: what the linter is silent about is right."""

from __future__ import annotations

import runpy
from pathlib import Path

import jax
import pytest

PROGRAMS = Path(__file__).parents[2] / "fixtures" / "lint" / "right" / "programs"


@pytest.mark.once
@pytest.mark.parametrize("path", sorted(PROGRAMS.glob("*.py")), ids=lambda path: path.stem)
def test_the_program_runs(path: Path) -> None:
    jax.eval_shape(runpy.run_path(str(path))["main"])
