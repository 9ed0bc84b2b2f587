"""Blocks that go to the neighbours and no further reach as far as the blocks are wide: a program may be right on its
own mesh alone. Where they go all the way round, or a change mends it, it is wrong."""

from __future__ import annotations

import pytest

from shardlint.evaluation.departures import OF_NEIGHBOURS
from tests.evaluation.test_departures import judged
from tests.evaluation.test_suspects import END, HEAD

pytestmark = pytest.mark.once  # JAX has no part in it

WINDOW = """
REACH = 3.0


def energy(x):
    n = lax.axis_size("slabs")
    left = lax.ppermute(x, "slabs", [(i, (i + 1) % n) for i in range(n)])
    right = lax.ppermute(x, "slabs", [(i, (i {sign} 1) % n) for i in range(n)])
    near = jnp.concatenate([x, left, right])
    apart = x[:, None] - near[None, :]
    apart = apart - 32.0 * jnp.round(apart / 32.0)
    return lax.psum(jnp.sum(jnp.where(jnp.abs(apart) < REACH, x[:, None] * apart**2, 0.0)), "slabs")


def main():
    mapped = jax.shard_map(energy, mesh=mesh(slabs={slabs}), in_specs=P("slabs"), out_specs=P(), check_vma=False)
    return mapped(np.arange(32.0) + 0.1 * numbers(32))
"""

RING = """
def scores(q, k):
    n = lax.axis_size("slabs")
    total = jnp.zeros(q.shape[0])
    for step in range(n):
        total = total + jnp.sum(jnp.exp(q @ k.T), axis=1)
        k = lax.ppermute(k, "slabs", [(i, (i + 1) % n) for i in range(n)])
    return {total}


def main():
    mapped = jax.shard_map(
        scores, mesh=mesh(slabs=4), in_specs=(P("slabs"), P("slabs")), out_specs=P("slabs"), check_vma=False
    )
    return mapped(numbers(16, 3), numbers(16, 3))
"""


def test_blocks_of_both_neighbours_may_reach_far_enough() -> None:
    # on two devices both neighbours are the same one
    text = WINDOW.format(sign="-", slabs=4)
    found = judged(HEAD + text + END)
    assert not found.departures
    assert found.reasons == (f"slabs: {OF_NEIGHBOURS}",)


def test_blocks_that_are_sent_the_wrong_way_are_found_by_the_change() -> None:
    right = WINDOW.format(sign="-", slabs=8)
    assert not judged(HEAD + right + END).departures
    wrong = WINDOW.format(sign="+", slabs=8)
    (departure,) = judged(HEAD + wrong + END).departures
    assert departure.mended is not None
    assert departure.mended.text == "the pairs of this lax.ppermute the other way round"


def test_what_goes_all_the_way_round_is_compared() -> None:
    assert not judged(HEAD + RING.format(total="total") + END).departures
    wrong = HEAD + RING.format(total="total * jnp.arange(q.shape[0])") + END
    (departure,) = judged(wrong).departures
    assert departure.axis == "slabs"
