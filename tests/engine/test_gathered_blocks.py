"""Gathering over the major axis of a dimension gives every so many of its rows: the columns of a matrix in blocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import run_linter

pytestmark = pytest.mark.once  # JAX has no part in it

BLOCKS = """
import jax.numpy as jnp
from jax import lax
from shardtypes import f32, typed_shard_map


@typed_shard_map
def product(x: f32["N/rows/cols M"], v: f32["N/rows/cols"]) -> f32["N/rows/cols"]:
    of_columns = lax.all_gather(x, "{axis}", tiled=True)
    of_rows = lax.all_gather(x, "cols", tiled=True)
    block = of_rows @ of_columns.T
    part = block @ lax.all_gather(v, "{axis}", tiled=True)
    return lax.psum_scatter(part, "cols", tiled=True)
"""


@pytest.mark.parametrize("axis", ["rows", "cols"])
def test_blocks_are_no_mistake(axis: str, tmp_path: Path) -> None:
    (tmp_path / "blocks.py").write_text(BLOCKS.replace("{axis}", axis))
    done = run_linter("blocks.py", "--no-evaluate", cwd=tmp_path)
    assert "ST304" not in done.stdout
