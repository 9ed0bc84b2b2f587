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


DECLARED = """
import jax.numpy as jnp
from jax import lax
from shardtypes import f32, typed_shard_map


@typed_shard_map
def gathered(x: f32["N/rows/cols"]) -> f32["{declared}"]:
    return {result}
"""
OVER_ROWS = 'lax.all_gather(x, "rows", tiled=True)'
OVER_COLS = f'lax.all_gather({OVER_ROWS}, "cols", tiled=True)'
IN_ORDER = f"{OVER_COLS}.reshape(lax.axis_size('cols'), lax.axis_size('rows'), -1).swapaxes(0, 1).reshape(-1)"


@pytest.mark.parametrize(
    ("declared", "result", "is_wrong"),
    [
        ("N/cols", OVER_ROWS, True),
        ("N", OVER_COLS, True),
        ("N", IN_ORDER, False),
        ("", f"jnp.sum({OVER_COLS})", False),
        ("N", 'lax.all_gather(x, ("rows", "cols"), tiled=True)', False),
        (
            "N",
            'lax.all_gather(lax.all_gather(x, "cols", tiled=True), "rows", tiled=True)',
            False,
        ),
    ],
)
def test_a_declared_dimension_is_in_order(
    declared: str, result: str, is_wrong: bool, tmp_path: Path
) -> None:
    (tmp_path / "gathered.py").write_text(
        DECLARED.replace("{declared}", declared).replace("{result}", result)
    )
    done = run_linter("gathered.py", "--no-evaluate", cwd=tmp_path)
    assert ("rows out of order: it is gathered over 'rows'" in done.stdout) == is_wrong
    assert done.stdout.count("ST") == is_wrong
