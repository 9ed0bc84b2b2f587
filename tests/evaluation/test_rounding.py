"""What a program rounds may be all that depends on the number of devices: not where it is another program without."""

from __future__ import annotations

import pytest

from tests.evaluation.test_departures import judged
from tests.evaluation.test_suspects import END, HEAD

pytestmark = pytest.mark.once  # JAX has no part in it

PERIODIC = """
def energy(x):
    apart = x - x[:, :1]
    apart = apart - 0.5 * jnp.round(apart / 0.5)
    return lax.psum(jnp.sum(apart**2), "rows") / {count}


def main():
    mapped = jax.shard_map(energy, mesh=mesh(rows=4), in_specs=P("rows"), out_specs=P(), check_vma=False)
    return mapped(numbers(8, 5))
"""

COMPRESSED = """
def total(x):
    part = x.sum(axis=0)
    scale = jnp.max(jnp.abs(part)) / {levels}
    return lax.psum(jnp.round(part / scale) * scale, "rows")


def main():
    mapped = jax.shard_map(total, mesh=mesh(rows=4), in_specs=P("rows"), out_specs=P(), check_vma=False)
    return mapped(numbers(8, 5))
"""


def test_a_program_that_is_another_one_without_rounding_is_compared() -> None:
    wrong = HEAD + PERIODIC.format(count="x.shape[0]") + END
    (departure,) = judged(wrong).departures
    assert departure.axis == "rows"
    right = PERIODIC.format(count='(x.shape[0] * lax.axis_size("rows"))')
    assert not judged(HEAD + right + END).departures


@pytest.mark.parametrize("levels", [127, 15])
def test_sums_of_what_is_quantised_depend_on_how_many_parts_there_are(
    levels: int,
) -> None:
    assert not judged(HEAD + COMPRESSED.format(levels=levels) + END).departures
