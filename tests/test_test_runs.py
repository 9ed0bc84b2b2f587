"""What a test that calls a program finds, as the benchmark of whole programs reads it."""

from __future__ import annotations

from pathlib import Path

from benchmarks.whole_programs.test_runs import test_run as run_test

PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P


def normalised(x):
    total = SUM
    return x / total


def main():
    mesh = Mesh(np.array(jax.devices()), ("d",))
    mapped = jax.shard_map(normalised, mesh=mesh, in_specs=P("d"), out_specs=P("d"))
    return mapped(jnp.arange(1.0, 17.0))
"""


def found(folder: Path, program: str) -> list[tuple[int, str, bool]]:
    (folder / "program.py").write_text(program)
    return [
        (line, message, related)
        for _, line, message, related in run_test(folder, seconds=600)
    ]


def test_a_comparison_names_its_line(tmp_path: Path) -> None:
    wrong = PROGRAM.replace("SUM", "x.sum()")
    (line, message, related), *others = found(tmp_path, wrong)
    assert "x.sum()" in wrong.splitlines()[line - 1]
    assert message.startswith("refuted: on d=8 result is ")
    assert not related
    assert all(one[2] for one in others)


def test_an_error_names_the_last_line_of_the_program(tmp_path: Path) -> None:
    wrong = PROGRAM.replace("SUM", "lax.psum(x @ jnp.ones(3), 'd')")
    ((line, message, related),) = found(tmp_path, wrong)
    assert "jnp.ones(3)" in wrong.splitlines()[line - 1]
    assert "contracting" in message
    assert not related


def test_a_right_program_passes(tmp_path: Path) -> None:
    assert found(tmp_path, PROGRAM.replace("SUM", "lax.psum(x.sum(), 'd')")) == []
