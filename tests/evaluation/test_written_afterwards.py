"""NumPy's arrays that a program hands to a mapped function and writes to afterwards, as engines of requests do."""

from __future__ import annotations

import pytest

from tests.evaluation.test_departures import judged
from tests.evaluation.test_suspects import END, HEAD

pytestmark = pytest.mark.once  # JAX has no part in it

ENGINE = """
def scored(rows, table):
    return lax.{summed}(rows[table].sum(), "t"), table.sum()


def main():
    step = jax.shard_map(scored, mesh=mesh(t=4), in_specs=(P(None, "t"), P()), out_specs=P(), check_vma=False)
    rows, table, totals, found = numbers(8, 16), np.zeros(3, np.int32), np.zeros(2), []
    for number in range(3):
        table[number] = number + 1
        total, places = step(rows, table)
        totals += jnp.stack([total, places.astype(jnp.float32)])
        found.append(total)
        table[number] = 0
    return jnp.stack(found), totals
"""


def test_what_was_given_is_compared_as_it_was_then() -> None:
    found = judged(HEAD + ENGINE.format(summed="psum") + END)
    assert found.compared == ("t",) and not found.reasons
    assert not found.departures


def test_a_wrong_reduction_is_found() -> None:
    found = judged(HEAD + ENGINE.format(summed="pmean") + END)
    assert [departure.axis for departure in found.departures] == ["t"]
