"""A reshape to given sizes that moves a dimension: JAX makes it, with its elements not where a transpose has them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest

CASES = (
    Path(__file__).parents[2]
    / "fixtures"
    / "lint"
    / "given_sizes"
    / "wrong"
    / "reshapes.py"
)
LENGTH, COUNT, SIZE = 5, 2, 3
ROWS = jnp.arange(LENGTH * COUNT * SIZE).reshape(LENGTH, COUNT * SIZE)


def results() -> dict[str, Any]:
    """What each function of the case gives of ``ROWS``."""
    names = runpy.run_path(str(CASES))
    heads = names["Heads"](COUNT, SIZE)
    return {
        "split": heads.split(ROWS),
        "of_parameters": names["of_parameters"](ROWS, COUNT, SIZE),
        "of_a_configuration": names["of_a_configuration"](ROWS[None], heads)[0],
        "of_jaxtyping": names["of_jaxtyping"](ROWS, COUNT, SIZE),
        "in_a_helper": names["in_a_helper"](ROWS, COUNT, SIZE),
    }


@pytest.mark.parametrize("name", results())
def test_elements_are_in_another_order(name: str) -> None:
    found = results()[name]
    meant = ROWS.reshape(LENGTH, COUNT, SIZE).transpose(1, 0, 2)
    assert found.shape == meant.shape
    assert not jnp.array_equal(found, meant)


def test_every_finding_is_run() -> None:
    assert len(results()) == CASES.read_text().count("# expect: ST207")
