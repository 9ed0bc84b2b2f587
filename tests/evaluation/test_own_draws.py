"""Draws with keys that are folded with the number of a row are the same on any number of devices."""

from __future__ import annotations

import pytest

from shardlint.evaluation.judgements import judge
from shardlint.evaluation.parting import trace_of
from tests.evaluation.test_departures import program

pytestmark = pytest.mark.once  # JAX has no part in it

PROGRAM = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh((8,), ("rows",))


def numbers(size):
    return {numbers}


def noise(key, number):
    return jax.random.normal(jax.random.fold_in(key, number), (3,))


def step(key, x):
    moved = x + jax.vmap(noise, (None, 0))(key, numbers(len(x)))
    logits = moved.sum(axis=1)
    weights = jnp.exp(logits - lax.pmax(logits.max(), "rows"))
    weights = weights / {total}
    return moved, lax.psum(weights @ moved, "rows")


def main():
    run = jax.shard_map(
        step, mesh=mesh, in_specs=(P(), P("rows")), out_specs=(P("rows"), P()), check_vma=False
    )
    x = jnp.zeros((16, 3))  # so that without the draws nothing depends on anything
    for i in range(2):
        moved, mean = run(jax.random.fold_in(jax.random.key(0), i), x)
    return moved, mean


if __name__ == "__main__":
    main()
"""

OF_ROWS = "lax.axis_index('rows') * size + jnp.arange(size)"
OF_DEVICES = "lax.axis_index('rows') * 100 + jnp.arange(size)"
ALL = "lax.psum(weights.sum(), 'rows')"
OWN = "weights.sum()"


def source(numbers: str, total: str) -> str:
    return PROGRAM.replace("{numbers}", numbers).replace("{total}", total)


def test_right_programs_are() -> None:
    for numbers in (OF_ROWS, OF_DEVICES):
        assert judge(program(source(numbers, ALL))).departures == ()


def test_what_depends_on_draws_of_rows_is_compared() -> None:
    text = source(OF_ROWS, OWN)
    (found,) = judge(program(text)).departures
    line = text.splitlines()[found.culprit.step.value.where.place[0] - 1]
    assert "weights" in line


@pytest.mark.parametrize(
    ("numbers", "is_own"),
    [
        (OF_ROWS, False),
        (OF_DEVICES, True),
        ("jnp.arange(size) * lax.axis_size('rows') + lax.axis_index('rows')", True),
    ],
)
def test_own_is_what_fewer_devices_draw_otherwise(numbers: str, is_own: bool) -> None:
    text = source(numbers, ALL)
    many, few = (
        program(text.replace("(8,)", f"({count},)")).run(8, record=True)
        for count in (8, 4)
    )
    trace = trace_of(many, few, "rows")
    drawn = [value for value in trace.many.values if "rows" in value.array.own]
    assert drawn
    assert trace.has_own(value.number for value in drawn) is is_own


#: Each row is there with both signs, one after the other on each device.
BOTH_SIGNS = PROGRAM.replace(
    """    moved = x + jax.vmap(noise, (None, 0))(key, numbers(len(x)))
""",
    """    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, numbers(len(x)))
    drawn = jax.vmap(lambda k: jax.random.normal(k, (3,)))(jnp.tile(keys, 2))
    moved = jnp.concatenate([x, -x]) + drawn
""",
).replace("return moved, lax.psum", "return x, lax.psum")


@pytest.mark.parametrize(("total", "count"), [(ALL, 0), (OWN, 1)])
def test_draws_of_rows_in_another_order_are_no_devices_own(
    total: str, count: int
) -> None:
    text = BOTH_SIGNS.replace("{numbers}", OF_ROWS).replace("{total}", total)
    assert len(judge(program(text)).departures) == count
