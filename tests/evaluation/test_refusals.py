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


SIZES = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

WIDTH = 16


def block(x, w, v):
    h = jnp.tanh(x @ w)
    {body}


def main():
    mesh = jax.make_mesh(({devices},), ("t",), axis_types=(AxisType.Auto,))
    specs = (P(), P(None, "t"), P({spec}))
    apply = jax.jit(jax.shard_map(block, mesh=mesh, in_specs=specs, out_specs=P(), check_vma=False))
    {call}


if __name__ == "__main__":
    main()
"""
FITTING = {
    "body": 'return lax.psum(h @ v, "t")',
    "devices": 4,
    "spec": '"t"',
    "call": "apply(jnp.ones((2, WIDTH)), jnp.ones((WIDTH, 32)), jnp.ones((32, WIDTH)))",
}
UNFIT = {
    "columns": {"spec": 'None, "t"'},
    "einsum": {"body": 'return lax.psum(jnp.einsum("bh,hm->bm", h, v.T), "t")'},
    "sum": {"body": "return h + x"},
    "reshape": {"body": "return h.reshape(2, 32)"},
    "joined": {"body": "return jnp.concatenate([h, v])"},
    "selected": {"body": "return jnp.where(h > 0, x, h)"},
}


@pytest.mark.once
@pytest.mark.parametrize("name", UNFIT)
def test_shapes_that_do_not_go_together_are_refused(name: str) -> None:
    refusal = judged(SIZES.format(**(FITTING | UNFIT[name]))).refusal
    assert refusal is not None
    assert refusal.code == "ST204"
    assert refusal.message.startswith("JAX refuses this call: ")
    line = SIZES.format(**(FITTING | UNFIT[name])).splitlines()[refusal.where.place[0] - 1]
    assert line.strip() == (FITTING | UNFIT[name])["body"]


@pytest.mark.once
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"body": "return h + x[:, :4]", "devices": "jax.device_count()"},
        {
            "spec": 'None, "t"',
            "call": "try:\n        " + str(FITTING["call"]) + "\n    except TypeError:\n        pass",
        },
    ],
    ids=["right", "another number of devices would do", "caught by the program"],
)
def test_shapes_that_may_go_together_are_not(changed: dict[str, object]) -> None:
    assert judged(SIZES.format(**(FITTING | changed))).refusal is None


@pytest.mark.parametrize("changed", [{}, *UNFIT.values()], ids=["right", *UNFIT])
def test_jax_says_the_same_of_shapes(changed: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(f"import jax\njax.config.update('jax_num_cpu_devices', 8)\n{SIZES.format(**(FITTING | changed))}")
    ended = run([sys.executable, path])
    assert (ended.returncode == 0) == (not changed), ended.stderr
    if changed:
        assert "TypeError" in ended.stderr or "ValueError" in ended.stderr


@pytest.mark.once
def test_a_program_without_a_mistake_is_compared() -> None:
    assert judged(PROGRAM.format(**RIGHT)) == Judgement((), ("d",), ())
