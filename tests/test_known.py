"""The measure of how much the linter knows: what it counts as an array, and as known."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.known import measure

pytestmark = pytest.mark.once

PROGRAM = """
import jax
import jax.numpy as jnp
import torch

def f(x, config, batch):
    key, other = jax.random.split(config.key)  # keys
    y = jnp.ones((3, x.shape[0]))  # known
    z = jnp.sum(x)  # a scalar
    steps = config.steps  # a number, perhaps
    table = config.table  # an array of unknown rank
    w = y @ table
    t = torch.ones(3)  # of another library
    u = torch.relu(t)
    return y + z
"""


def test_only_arrays_are_counted(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    count = measure(str(tmp_path))
    assert (count.arrays, count.ranks, count.dims) == (4, 2, 2)
    assert sum(count.reasons.values()) == 2
