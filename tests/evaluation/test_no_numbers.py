"""What is no number equals itself on any mesh: such results are compared with those of one device."""

from __future__ import annotations

import pytest

from tests.evaluation.test_departures import judged
from tests.evaluation.test_suspects import END, HEAD

pytestmark = pytest.mark.once  # JAX has no part in it

PROGRAM = """
def gaps(x):
    place = {first} + jnp.arange(len(x)) + 1.5
    return lax.psum(jnp.sum(jnp.{function}(place - x)), "rows")


def main():
    mapped = jax.shard_map(gaps, mesh=mesh(rows=8), in_specs=P("rows"), out_specs=P(), check_vma=False)
    return mapped(jnp.arange(16.0) + 1)
"""
OFFSET = 'lax.axis_index("rows") * len(x)'


def text(first: str, function: str = "sqrt") -> str:
    program = PROGRAM.replace("{first}", first).replace("{function}", function)
    return HEAD + program + END


def test_it_is_compared_with_one_device() -> None:
    (departure,) = judged(text("0")).departures
    assert departure.counts == (8, 1)
    line = text("0").splitlines()[departure.culprit.step.value.where.place[0] - 1]
    assert "place" in line


def test_what_is_no_number_on_one_device_either_says_nothing() -> None:
    assert judged(text(OFFSET)).departures == ()
    assert judged(text("-100", "log")).departures == ()
