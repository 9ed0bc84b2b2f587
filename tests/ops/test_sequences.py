"""Tuples and lists where JAX wants one array: what the models refuse, JAX refuses, traced or not."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardlint import ops
from tests.ops.oracle import CASES, abstract, context, eager, in_jax, is_array, sampled

SEQUENCES = (
    lambda x: (x, x),
    lambda x: [x],
    lambda x: (1, 2),
    lambda x: [0.5],
    lambda x: [],
)
ROWS = {
    row.name: row
    for path in sorted(Path(__file__).parent.glob("test_*.py")) if path.stem != Path(__file__).stem
    for table in vars(importlib.import_module(f"tests.ops.{path.stem}")).values()
    for row in getattr(table, "rows", ()) if row.run is None and row.name.startswith("jax.")
}  # fmt: skip


@st.composite
def calls(draw):
    """A call of some function with a sequence for one of its arrays."""
    row = draw(st.sampled_from(list(ROWS.values())))
    drawn = draw(row.arguments)
    args, kwargs = list(drawn[0]), dict(drawn[1])
    places = [(args, i) for i, arg in enumerate(args) if is_array(arg)]
    places += [(kwargs, key) for key, arg in kwargs.items() if is_array(arg)]
    if places:
        container, key = draw(st.sampled_from(places))
        container[key] = draw(st.sampled_from(SEQUENCES))(container[key])
    return row, args, kwargs


@pytest.mark.once
@settings(sampled, max_examples=20 * CASES)
@given(calls())
def test_sequence_for_an_array(call):
    row, args, kwargs = call
    try:
        ops.apply(
            row.name,
            list(map(abstract, args)),
            {key: abstract(arg) for key, arg in kwargs.items()},
            context(),
        )
    except ops.OpError as error:
        if error.code == "ST219":
            for function in (row.function, eager(row.function)):
                try:
                    truth = in_jax(function, args, kwargs)
                # a function of lax that looks for the shape before all else
                except AttributeError as missing:
                    truth = missing
                assert isinstance(truth, Exception), (
                    f"{row.name}{args} {kwargs}: {error.message}, JAX gives {truth}"
                )
