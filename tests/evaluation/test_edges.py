"""Rows at the edge of a shard and recurrences of a part, which are made shards again later, are not blamed; and a mask
is no block that each device takes of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.evaluation.running import NUMBERS, findings, in_jax

EDGES = """import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P


def before(x):
    n = lax.axis_size("d")
    return lax.ppermute(x[-1:], "d", [(i, i + 1) for i in range(n - 1)])


def slopes(x):
    padded = jnp.concatenate([before(x), x])
    return padded[1:] - padded[:-1]


def recurrence(x):
    def step(h, row):
        h = 0.5 * h + row
        return h, h

    last, own = lax.scan(step, jnp.zeros(4), x)
    ends, d = lax.all_gather(last, "d"), lax.axis_index("d")
    decay = 0.5 ** jnp.arange(1, len(x) + 1)[:, None]
    chain = lambda h, end: (0.5 ** len(x) * h + end, h)
    entering = lax.scan(chain, jnp.zeros(4), ends)[1][d]
    return own + decay * entering


def frames(x):
    first = {first}
    return first + jnp.arange(len(x))


def program(x):
    y = jnp.tanh({made}(x)).at[:, 0].set(0.0)
    y = y * (frames(x) < 3)[:, None]
    return lax.psum(jnp.sum(y * y), "d")


def main():
    mesh = jax.make_mesh((4,), ("d",), devices=jax.devices()[:4], axis_types=(AxisType.Auto,))
    mapped = jax.shard_map(
        program, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=False
    )
    # so that neither the largest nor the smallest of the devices' sums is the same on two and on four
    size = jnp.array([1.0, 3.0, 1.0, 0.1]).repeat(4)[:, None]
    return mapped(size * jax.random.normal(jax.random.key(0), (16, 4)))


if __name__ == "__main__":
    main()
"""
RIGHT_FIRST = 'lax.axis_index("d") * len(x)'
WRONG_FIRST = "0"
MADE = ["slopes", "recurrence"]


@pytest.mark.parametrize("made", MADE)
def test_right_programs_have_no_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, made: str
) -> None:
    text = EDGES.format(first=RIGHT_FIRST, made=made)
    assert findings(capsys, tmp_path, text) == []


@pytest.mark.usefixtures("no_changes_tried")
@pytest.mark.parametrize("made", MADE)
def test_the_mask_is_blamed(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    made: str,
) -> None:
    text = EDGES.format(first=WRONG_FIRST, made=made)
    (finding,) = findings(capsys, tmp_path, text)
    assert finding["code"] == "ST316"
    assert "frames(x) < 3" in text.splitlines()[int(str(finding["line"])) - 1]


@pytest.mark.once
def test_jax_computes_something_else(tmp_path: Path) -> None:
    right, wrong = (
        in_jax(
            tmp_path,
            {made: EDGES.format(first=first, made=made) for made in MADE},
            NUMBERS,
        )
        for first in (RIGHT_FIRST, WRONG_FIRST)
    )
    assert all(right[made] != wrong[made] for made in MADE)
