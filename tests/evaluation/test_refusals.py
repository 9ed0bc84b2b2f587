"""What JAX refuses when a program runs is reported at the call, with what it says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from shardlint.evaluation.departures import Judgement
from tests.evaluation.test_departures import judged
from tests.support import run

PROGRAM = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

ROWS = {rows}


def centre(x):
    total = lax.psum(x.sum(0), "d")
    return {{"mean": total / ROWS, "peak": {peak}}}


def main():
    mesh = jax.make_mesh(({devices},), ("d",), axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(centre, mesh=mesh, in_specs=P({spec}), out_specs=P())
    {call}


if __name__ == "__main__":
    main()
"""
RIGHT = {
    "rows": 8,
    "peak": 'lax.pmax(x.max(), "d")',
    "devices": 4,
    "spec": '"d"',
    "call": "mapped(jnp.ones((ROWS, 4)))",
}
WRONG = {
    "ST301": {"peak": "x.max()"},
    "ST104": {"rows": 10},
    "ST306": {"spec": '"d", None, None'},
}


@pytest.mark.once  # JAX has no part in it
@pytest.mark.parametrize("code", WRONG)
def test_a_refusal_is_found_at_the_call(code: str) -> None:
    text = PROGRAM.format(**(RIGHT | WRONG[code]))
    judgement = judged(text)
    assert judgement.refusal is not None
    assert judgement.refusal.code == code
    assert judgement.refusal.message.startswith("JAX refuses this call: ")
    assert "mapped(jnp" in text.splitlines()[judgement.refusal.where.place[0] - 1]


@pytest.mark.once
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"peak": "x.max()", "call": "try:\n        mapped(jnp.ones((8, 4)))\n    except ValueError:\n        pass"},
        {"rows": 10, "devices": "jax.device_count()"},
    ],
    ids=["right", "caught by the program", "another number of devices would do"],
)
def test_what_need_not_be_refused_is_not_reported(changed: dict[str, object]) -> None:
    assert judged(PROGRAM.format(**(RIGHT | changed))).refusal is None


@pytest.mark.parametrize("changed", [{}, *WRONG.values()], ids=["right", *WRONG])
def test_jax_says_the_same(changed: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(f"import jax\njax.config.update('jax_num_cpu_devices', 8)\n{PROGRAM.format(**(RIGHT | changed))}")
    ended = run([sys.executable, path])
    assert (ended.returncode == 0) == (not changed), ended.stderr
    if changed:
        assert "ValueError" in ended.stderr


@pytest.mark.once
def test_a_program_without_a_mistake_is_compared() -> None:
    assert judged(PROGRAM.format(**RIGHT)) == Judgement((), ("d",), ())
