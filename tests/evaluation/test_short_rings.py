"""A ring that is one round short brings each device's part to all others but one."""

from __future__ import annotations

import pytest

from shardlint.evaluation.wording import departure_text
from tests.evaluation.test_departures import judged
from tests.evaluation.test_suspects import END, HEAD

pytestmark = pytest.mark.once  # JAX has no part in it

START = """
def round_of(q, held):
    k, v, total = held
    return total + jnp.exp(q @ k.T) @ v


def sent(x):
    n = lax.axis_size("s")
    return lax.ppermute(x, "s", [(i, (i + 1) % n) for i in range(n)])


def attend(q, k, v):
    n = lax.axis_size("s")
"""
REST = """

def main():
    specs = P("s"), P("s"), P("s")
    mapped = jax.shard_map(attend, mesh=mesh(s=4), in_specs=specs, out_specs=P("s"), check_vma=False)
    return mapped(numbers(16, 3), numbers(16, 3), numbers(16, 2))
"""

RINGS = {
    "unrolled": """
    total = jnp.zeros_like(v)
    for _ in range({rounds}):
        total = round_of(q, (k, v, total))
        k, v = sent(k), sent(v)
    return total
""",
    "scanned": """
    def step(held, _):
        k, v, total = held
        return (sent(k), sent(v), round_of(q, held)), None

    (_, _, total), _ = lax.scan(step, (k, v, jnp.zeros_like(v)), length={rounds})
    return total
""",
    "counted": """
    def step(i, held):
        k, v, total = held
        total = round_of(q, held)
        k, v = lax.ppermute((k, v), "s", [(j, (j + 1) % n) for j in range(n)])
        return k, v, total

    return lax.fori_loop(0, {rounds}, step, (k, v, jnp.zeros_like(v)))[2]
""",
    "own block first": """
    total = round_of(q, (k, v, jnp.zeros_like(v)))
    for _ in range({rounds} - 1):
        k, v = sent(k), sent(v)
        total = round_of(q, (k, v, total))
    return total
""",
}


def ring(name: str, rounds: str, devices: int = 4) -> str:
    rest = REST.replace("s=4", f"s={devices}")
    return HEAD + START + RINGS[name].format(rounds=rounds) + rest + END


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        *((name, 4) for name in RINGS),
        *((name, 2) for name in RINGS if name != "own block first"),
    ],
)
def test_a_round_that_is_missing_is_found(name: str, devices: int) -> None:
    text = ring(name, "(n - 1)", devices)
    (departure,) = judged(text).departures
    assert departure.culprit.is_short_ring
    assert "the ring along 's' lacks a round" in departure_text(departure)
    line = text.splitlines()[departure.culprit.step.value.where.place[0] - 1]
    assert "lax.ppermute" in line


@pytest.mark.parametrize("name", RINGS)
@pytest.mark.parametrize(
    "rounds",
    [
        "n",
        "min(n, 2)",  # a window of two blocks
        "min(n, 3)",
    ],
)
def test_other_rings_lack_none(name: str, rounds: str) -> None:
    found = judged(ring(name, rounds)).departures
    assert not any(departure.culprit.is_short_ring for departure in found)
    assert rounds != "n" or not found
