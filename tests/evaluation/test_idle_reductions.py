"""Reductions over a mesh that change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from shardlint.evaluation.judgements import judge
from tests.evaluation.test_departures import program
from tests.support import run_linter

pytestmark = pytest.mark.once  # JAX has no part in it

PROGRAM = """
import functools
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "model"))


@functools.partial(
    jax.shard_map, mesh=mesh, in_specs=(P("data"), P()), out_specs=P(), check_vma=False
)
def step(x, w):
    {body}


if __name__ == "__main__":
    w = jnp.ones(3)
    for i in range(2):
        w = step(jnp.sin(jnp.arange(24.0) + i).reshape(8, 3), w)
"""

#: Statements, and the line of the one that changes nothing.
IDLE = [
    ("g = lax.pmean(x.mean(0), 'data')\n    return w - lax.pmean(g, 'data')", "w - "),
    (
        "g = lax.psum(x.sum(0), 'data')\n    return w + lax.pmean(jnp.tanh(g) * w, 'data')",
        "w + ",
    ),
    (
        "g = lax.pmean({'a': x.mean(0), 'b': w}, ('data', 'model'))\n"
        "    return lax.pmean(g, ('data', 'model'))['a']",
        "return",
    ),
    ("g = lax.pmax(x.max(0), 'data')\n    return lax.pmax(g + 1, 'data')", "return"),
    (
        "rows = lax.all_gather(x, 'data', tiled=True)\n    return lax.pmean(rows.mean(0), 'data')",
        "return",
    ),
    (
        "g = lax.pmean(jax.grad(lambda v: (x @ v).mean())(w), 'data')\n"
        "    return w - lax.pmean(jax.tree.map(lambda leaf: leaf / 2, g), 'data')",
        "w - ",
    ),
]


@pytest.mark.parametrize(("body", "text"), IDLE)
def test_a_mean_of_what_is_already_the_same_changes_nothing(
    body: str, text: str
) -> None:
    source = PROGRAM.replace("{body}", body)
    found = judge(program(source))
    (idle,) = found.idle
    line = source.splitlines()[idle.where.place[0] - 1]
    assert text in line
    assert idle.before
    assert not found.departures


NEEDED = [
    # each device has its own
    "return w + lax.pmean(x.mean(0), 'data')",
    # over another axis
    "g = lax.pmean(x.mean(0), 'data')\n    return w + lax.pmean(g, 'model')",
    # what is the same since the beginning is brought together again, to be sure
    "return lax.pmean(w, 'data') + lax.pmean(x.mean(0), 'data')",
    # the second of the two leaves differs
    "g = lax.pmean(x.mean(0), 'data')\n    return sum(lax.pmean((g, x.mean(0)), 'data'))",
    # only the first time is it the same
    "g = lax.pmean(x.mean(0), 'data')\n"
    "    for v in (g, x.mean(0)):\n        g = g + lax.pmean(v, 'data')\n    return g",
    # the sum of equal values is another one
    "g = lax.pmean(x.mean(0), 'data')\n    return lax.psum(g, 'data') / 4",
    # copies of a state that are equal, and may not be
    "g = lax.pmean(x.mean(0), 'data')\n    own = g + 0 * x[0]\n    return lax.pmean(own, 'data')",
]


@pytest.mark.parametrize("body", NEEDED)
def test_others_do_something(body: str) -> None:
    assert judge(program(PROGRAM.replace("{body}", body))).idle == ()


def test_where_the_type_varies_jax_asks_for_it() -> None:
    body = "rows = lax.all_gather(x, 'data', tiled=True)\n    return lax.pmean(rows.mean(0), 'data')"
    source = PROGRAM.replace("{body}", body)
    assert judge(program(source.replace(", check_vma=False", ""))).idle == ()


def test_under_pmap_gradients_are_averaged_once() -> None:
    source = """
import jax
import jax.numpy as jnp
from jax import lax


def step(w, x):
    g = lax.pmean(jax.grad(lambda v: (x @ v).mean())(w), "i")
    {again}
    return w - g


if __name__ == "__main__":
    n = jax.local_device_count()
    w = jnp.ones((n, 3))
    jax.pmap(step, axis_name="i")(w, jnp.sin(jnp.arange(n * 6.0)).reshape(n, 2, 3))
"""
    again = source.replace("{again}", 'g = lax.pmean(g, axis_name="i")')
    assert [one.axes for one in judge(program(again)).idle] == [("i",)]
    # the parameters of each device are its own, for all that is known
    update = source.replace("{again}", 'w = lax.pmean(w - g, "i")')
    assert judge(program(update)).idle == ()


def test_the_command_warns_of_it(tmp_path: Path) -> None:
    body = IDLE[0][0]
    (tmp_path / "train.py").write_text(PROGRAM.replace("{body}", body))
    ended = run_linter("train.py", cwd=tmp_path)
    assert (
        "ST303 [replicated-reduction] lax.pmean over 'data' changes nothing: its operand is already the same on all "
        "devices along 'data'" in ended.stdout
    )
    assert "reduced here" in ended.stdout
    assert ended.stdout.count("ST303") == 1


def test_a_comment_that_silences_it_is_used_where_nothing_runs(tmp_path: Path) -> None:
    body = IDLE[0][0]
    (tmp_path / "train.py").write_text(
        PROGRAM.replace("{body}", f"{body}  # shardlint: ignore[ST303] to be sure")
    )
    for arguments in ((), ("--no-evaluate",)):
        ended = run_linter("train.py", *arguments, cwd=tmp_path)
        assert ended.returncode == 0, ended.stdout
