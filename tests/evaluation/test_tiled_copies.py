"""Results that are the same on all devices, and of which ``out_specs`` puts the copies one after another."""

from __future__ import annotations

import pytest

from shardlint.evaluation.wording import departure_text
from tests.evaluation.test_entries import judged_as_program

PROGRAM = """
import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AxisType, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("d", "t"), axis_types=(AxisType.Auto,) * 2)

def statistics(x):
    {body}

apply = jax.shard_map(
    statistics, mesh=mesh, in_specs=P("d", "t"), out_specs={out}, check_vma=False
)

if __name__ == "__main__":
    apply(jnp.sin(jnp.arange(64.0)).reshape(8, 8))
"""

WRONG = {
    "a sum": ('return lax.psum(x.sum(0), "d")', 'P(("d", "t"))'),
    "gathered rows": ('return lax.all_gather(x, "d", tiled=True)', 'P("d", "t")'),
    "computed from a mean": (
        'mean = lax.pmean(x.mean(0), "d"); return {"mean": 2 * mean}',
        '{"mean": P(("d", "t"))}',
    ),
}
RIGHT = {
    "a sum": ('return lax.psum(x.sum(0), "d")', 'P("t")'),
    "one entry for each device": (
        'return lax.psum(x.sum(0), "d")[None]',
        'P("d", "t")',
    ),
    "room for each device": ("return jnp.zeros((3,))", 'P("d")'),
    "shards": ("return 2 * x", 'P("d", "t")'),
}


@pytest.mark.parametrize("name", WRONG)
def test_copies_that_are_put_one_after_another_are_reported(name: str) -> None:
    body, out = WRONG[name]
    (departure,) = judged_as_program(PROGRAM.format(body=body, out=out)).departures
    text = departure_text(departure)
    assert "gives a replicated value, which is returned as sharded over 'd'" in text
    assert departure.axis == "d"
    assert not departure.is_wrong_alone  # a caller may take the first copy


@pytest.mark.parametrize("name", RIGHT)
def test_what_may_be_meant_is_left_alone(name: str) -> None:
    body, out = RIGHT[name]
    assert judged_as_program(PROGRAM.format(body=body, out=out)).departures == ()
