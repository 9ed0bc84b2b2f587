"""A dimension with one row on each device is whole, or sharded into as many rows as there are devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import run_linter

pytestmark = pytest.mark.once  # JAX has no part in it

GROUPED = """
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P
from shardtypes import f32

mesh = jax.make_mesh((4,), ("t",), axis_types=(jax.sharding.AxisType.Auto,))


def grouped(q: f32["L H/t D"], k: f32["L K/t D"]) -> f32["{result}"]:
    groups = q.shape[1] // k.shape[1]
    y: f32["{local}"] = q.reshape(q.shape[0], k.shape[1], groups, q.shape[2])
    return y


f = jax.shard_map(grouped, mesh=mesh, in_specs=P(None, "t"), out_specs={spec})
f(jnp.ones((2, 8, 6)), jnp.ones((2, 4, 6)))
"""
MAJOR = "L K/t H//K D"
MINOR = "L 1 H/t D"


def findings(tmp_path: Path, local: str, result: str, spec: str) -> str:
    program = (
        GROUPED.replace("{local}", local)
        .replace("{result}", result)
        .replace("{spec}", spec)
    )
    (tmp_path / "grouped.py").write_text(program)
    return run_linter("grouped.py", "--no-evaluate", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("declared", "spec"),
    [
        (MAJOR, "P(None, 't')"),
        ("L K/t G D", "P(None, 't')"),
        ("... K/t G D", "P(None, 't')"),
        (MINOR, "P(None, None, 't')"),
    ],
)
def test_either_dimension_may_be_sharded(
    declared: str, spec: str, tmp_path: Path
) -> None:
    assert "ST" not in findings(tmp_path, declared, declared, spec)


@pytest.mark.parametrize(
    ("declared", "code"),
    [("L/t K G D", "ST308"), ("L K H D/t", "ST308"), ("L K/t 3 D", "ST203")],
)
def test_another_dimension_may_not(declared: str, code: str, tmp_path: Path) -> None:
    assert f"{code} " in findings(tmp_path, declared, declared, "P(None, 't')")


STACKED = """
from jax import lax
from shardtypes import f32, typed_shard_map


@typed_shard_map
def product(x: f32["B E/t"], w: f32["E/t F"]) -> f32["B F"]:
    terms: f32["T/t B F"] = (x @ w)[None]
    return {result}
"""


@pytest.mark.parametrize(
    ("result", "codes"),
    [
        ('lax.all_gather(terms, "t", tiled=True).sum(0)', []),
        ('lax.psum(terms.sum(0), "t")', []),
        ('lax.psum(terms, "t")[0]', []),
        ("terms.sum(0)", ["ST301"]),
        ('lax.psum(lax.psum(terms.sum(0), "t"), "t")', ["ST303"]),
    ],
)
def test_the_terms_of_a_sum_are_the_rows_of_an_array(
    result: str, codes: list[str], tmp_path: Path
) -> None:
    (tmp_path / "stacked.py").write_text(STACKED.replace("{result}", result))
    done = run_linter(
        "stacked.py", "--no-evaluate", "--quiet", "--format=concise", cwd=tmp_path
    )
    assert [line.split()[1] for line in done.stdout.splitlines()] == codes
