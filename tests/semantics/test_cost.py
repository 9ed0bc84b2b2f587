"""What a device sends in each collective."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shardtypes.semantics.cost import COLLECTIVES, sends, sent
from shardtypes.semantics.primitive import PRIMITIVES
from shardtypes.semantics.primitives import collectives

pytestmark = pytest.mark.once  # numbers, whatever the Python


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("all_gather", 700),
        ("psum", 175),
        ("pmax", 175),
        ("pmin", 175),
        ("reduce_scatter", Fraction(175, 2)),
        ("all_to_all", Fraction(175, 2)),
        ("ppermute", 100),
        ("psum_scatter", Fraction(175, 2)),
        ("all_reduce", 175),
        ("pmean", 175),
        ("psum_invariant", 175),
    ],
)
def test_of_a_hundred_bytes_on_each_of_eight_devices(
    name: str, wanted: int | Fraction
) -> None:
    assert sent(name, 100, 8) == wanted
    assert sent(name, 100, 1) == 0


def test_a_sum_is_a_scatter_and_a_gather_of_the_parts() -> None:
    for devices in (2, 3, 5, 8):
        scatter = sent("reduce_scatter", 120, devices)
        gather = sent("all_gather", Fraction(120, devices), devices)
        assert sent("psum", 120, devices) == scatter + gather


def test_every_collective_says_what_it_sends() -> None:
    """All that are declared beside each other, but for the cast that talks to nobody."""
    declared = {
        name for name, one in PRIMITIVES.items() if one in vars(collectives).values()
    }
    assert len(declared) == 8
    assert declared - {"pvary"} == set(COLLECTIVES.values())


def test_what_sends_nothing_is_no_collective() -> None:
    with pytest.raises(KeyError, match="pvary"):
        sends("pvary")
