"""Programs of which a run takes too many steps: what was run is compared, and no number is taken for another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shardlint.evaluation.guards import TOO_MANY_STEPS
from shardlint.evaluation.judgements import judge
from tests.evaluation.test_departures import program

pytestmark = pytest.mark.once  # JAX has no part in it

# Nothing says that the 4 of the rate is the number of devices along d, which is what it equals by chance.
TRAINING = """
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P


def step(w, x):
    g = jax.grad(lambda w: jnp.sum(jnp.square(x @ w - 1)))(w)
    return w - 0.1 / 4 * {gradient} / 64


def main():
    mesh = Mesh(np.asarray(jax.devices()).reshape(2, -1), ("m", "d"))
    run = jax.shard_map(step, mesh=mesh, in_specs=(P(), P("d")), out_specs=P(), check_vma=False)
    w, x = jnp.ones(4), jnp.sin(jnp.arange(64.0)).reshape(16, 4)
    for _ in range(100):
        w = run(w, x)
    return w


if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize("steps", [700, 1_000, 1_400])
def test_a_right_program_agrees_as_far_as_it_was_run(steps: int) -> None:
    cut_off = replace(
        program(TRAINING.format(gradient='lax.psum(g, "d")')), steps=steps
    )
    found = judge(cut_off)
    assert found.departures == ()
    assert found.compared == ("m", "d")
    assert found.reasons == (f"what comes after step: {TOO_MANY_STEPS}",)


@pytest.mark.parametrize("steps", [700, 1_000, 1_400])
def test_a_wrong_one_departs(steps: int) -> None:
    cut_off = replace(program(TRAINING.format(gradient="g")), steps=steps)
    (departure,) = judge(cut_off).departures
    assert departure.axis == "d"
