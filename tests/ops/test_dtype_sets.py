"""Dtypes that are known as sets, against JAX's promotion of each member."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardtypes.lang import dtypes
from tests.ops.oracle import sampled
from tests.ops.strategies import DTYPES

names = st.sampled_from([*DTYPES, *dtypes.FAMILIES])
sets = st.one_of(
    names, st.lists(st.sampled_from(DTYPES), min_size=1, max_size=3).map(dtypes.any_of)
)
JAX = {dtypes.canonical(name) for name in dtypes.CONCRETE if hasattr(jnp, name)} - {
    "bool"
}


def in_jax(a: str, b: str) -> set[str]:
    """The dtypes of all pairs of members that go together."""
    found = set()
    for left, right in itertools.product(dtypes.members(a), dtypes.members(b)):
        pair = [dtypes.canonical(name) for name in (left, right)]
        if not {*pair} <= JAX | {"bool"}:
            continue
        try:
            found.add(
                dtypes.canonical(
                    jnp.promote_types(*(jnp.dtype(name) for name in pair)).name
                )
            )
        except (TypeError, ValueError):  # no implicit promotion
            continue
    return found


@sampled
@given(sets, sets)
def test_promotion_of_sets(a, b):
    wanted = in_jax(a, b)
    try:
        promoted = dtypes.promote(a, False, b, False)
    except dtypes.NoPromotion:
        assert not wanted
        return
    if promoted is not None:
        assert wanted <= dtypes.members(promoted[0])
        exact = len(dtypes.members(a)) == len(dtypes.members(b)) == 1
        assert not exact or wanted == {promoted[0]}


@pytest.mark.once
@pytest.mark.parametrize(
    ("a", "b", "promoted"),
    [
        ("floating", "float32", ("float32", False)),
        ("floating", "bfloat16", ("bfloat16|float32", False)),
        ("integer", "bfloat16", ("bfloat16", False)),
        ("signedinteger", "signedinteger", ("signedinteger", False)),
        ("complexfloating", "floating", ("complex64", False)),
    ],
)
def test_promotion_is_no_vaguer(a, b, promoted):
    assert dtypes.promote(a, False, b, False) == promoted


@pytest.mark.once
def test_python_numbers_leave_families():
    assert dtypes.promote("floating", False, "float32", True) == ("floating", False)
    assert dtypes.promote("integer", False, "int32", True) == ("integer", False)
    assert dtypes.promote("integer", False, "float32", True) == ("float32", True)


@pytest.mark.once
def test_sets():
    assert dtypes.any_of(("float32", "bfloat16")) == "bfloat16|float32"
    assert dtypes.any_of(dtypes.members("integer")) == "integer"
    assert dtypes.any_of(("float32", None)) is None
    assert dtypes.any_of(()) is None
    assert dtypes.both("floating", "float32") == "float32"
    assert dtypes.both("bfloat16|float32", "floating") == "bfloat16|float32"
    assert dtypes.either("float32", False, "int8", False) == "float32|int8"
    assert dtypes.either("float32", True, "int8", False) is None
    assert dtypes.equal("floating", "integer") is False
    assert dtypes.equal("floating", "floating") is None
    assert dtypes.equal("float32", "float32") is True
    assert dtypes.written("bfloat16|float32") == "bfloat16 or float32"
    assert dtypes.inexact("integer") == "float32"
    assert not dtypes.fits("integer", "bfloat16|float32")
    assert dtypes.fits("floating", "float32|int8")
