"""Logical axes: the same answers as flax's, for every list of rules."""

from __future__ import annotations

from typing import Any

import flax.linen as nn
from hypothesis import given, settings
from hypothesis import strategies as some

import shardtypes as st

names = some.lists(some.sampled_from(["a", "b", "c", "e", None]), max_size=4).map(tuple)
axes = some.one_of(
    some.none(),
    some.sampled_from(["x", "y", "z"]),
    some.lists(some.sampled_from("xyz"), min_size=1, max_size=2, unique=True).map(tuple),
)
rules = some.lists(some.tuples(some.sampled_from("abce"), axes), max_size=6)


def answer(function: Any, *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except ValueError as error:
        return type(error)


@settings(max_examples=150, deadline=None)
@given(names, rules)
def test_flax_is_the_oracle(names: tuple[str | None, ...], rules: list[tuple[str, Any]]) -> None:
    wanted = answer(nn.logical_to_mesh_axes, names, rules)
    assert answer(st.logical_to_mesh_axes, names, rules) == wanted
    with nn.logical_axis_rules(rules):
        if rules:
            assert answer(st.logical_to_mesh_axes, names) == wanted
    with st.axis_rules(rules):
        assert answer(st.logical_to_mesh_axes, names) == wanted
