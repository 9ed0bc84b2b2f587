"""A reshape to given sizes that moves a dimension: JAX makes it, with its elements not where a transpose has them."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import numpy as np
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
ROWS = np.arange(LENGTH * COUNT * SIZE).reshape(LENGTH, COUNT * SIZE)


NAMES = ("split", "of_parameters", "of_a_configuration", "of_jaxtyping", "in_a_helper")


def result(name: str) -> Any:
    """What a function of the case gives of ``ROWS``."""
    names = runpy.run_path(str(CASES))
    heads = names["Heads"](COUNT, SIZE)
    if name == "split":
        return heads.split(ROWS)
    if name == "of_a_configuration":
        return names[name](ROWS[None], heads)[0]
    return names[name](ROWS, COUNT, SIZE)


@pytest.mark.parametrize("name", NAMES)
def test_elements_are_in_another_order(name: str) -> None:
    found = result(name)
    meant = ROWS.reshape(LENGTH, COUNT, SIZE).transpose(1, 0, 2)
    assert found.shape == meant.shape
    assert not np.array_equal(found, meant)


def test_every_finding_is_run() -> None:
    assert len(NAMES) == CASES.read_text().count("# expect: ST207")
