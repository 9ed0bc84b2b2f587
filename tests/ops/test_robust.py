"""Every model, whatever it is given: what is not understood makes the result unknown and never an error."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardlint import ops
from shardlint.ops.registry import constant
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    DTypeValue,
    ExternalValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    SliceValue,
    StringValue,
    Unknown,
    Value,
)
from shardtypes.lang import Size
from tests.ops.tables import resolve

NOTHING = [Unknown(), ArrayValue(None), SequenceValue((Unknown(), Unknown()))]
ANYTHING = [
    *NOTHING, IntValue(None), StringValue(), Literal(None), Literal(True), Literal(1.5), Literal("same"),
    constant(0), constant(-1), constant((0, 1)),
    ScalarValue("float"), DTypeValue(None), DTypeValue("float32"), DictValue(()), DictValue((("a", Unknown()),)),
    SequenceValue((), "list"), SequenceValue((ArrayValue(None), Unknown()), "list"), ExternalValue("jax.numpy.sum"),
    SliceValue(Literal(None), IntValue(None), Literal(None)), IntValue(Size.symbol("n")), IntValue(Size.symbol("?n")),
    ArrayValue((Dimension(None), Dimension(Size.symbol("B"))), "floating"), ArrayValue((), "float32"),
    ArrayValue((Dimension(Size.symbol("?n")),), None, manual=True), SequenceValue((constant(0), Unknown())),
    ArrayValue((Dimension(Size.const(2), ()), Dimension(Size.const(0), ())), "int32", True, frozenset()),
]  # fmt: skip
many = settings(max_examples=int(os.environ.get("ORACLE_CASES", "20")), deadline=None,
                derandomize="ORACLE_CASES" not in os.environ, suppress_health_check=list(HealthCheck))  # fmt: skip


def required(model: ops.Model) -> list[str]:
    return [
        p.name
        for p in model.signature.parameters
        if p.kind == "positional" and p.default is None
    ]


@pytest.mark.once
def test_nothing_known_is_never_an_error():
    """Unknown arguments, in every combination of a few kinds; of a tuple it is known that it is no array."""
    for name, model in ops.MODELS.items():
        for value in NOTHING:
            args = [value] * len(required(model))
            try:
                ops.apply(name, args, {}, ops.OpContext())
                known = ops.apply(
                    name, args, {"of_a_later_release": Unknown()}, ops.OpContext()
                )
            except ops.OpError as error:
                assert error.code == "ST219" and value is NOTHING[-1], error
                continue
            assert not isinstance(known, ArrayValue) or any(
                p.kind == "**" for p in model.signature.parameters
            )


@pytest.mark.once
@many
@given(
    st.lists(st.sampled_from(range(len(ANYTHING))), min_size=8, max_size=8),
    st.integers(0, 2),
)
def test_models_take_anything(chosen, more):
    """Values that no program would pass give a value or an OpError, no other exception."""
    values = [ANYTHING[i] for i in chosen]
    for name, model in ops.MODELS.items():
        positional = [p for p in model.signature.parameters if p.kind == "positional"]
        count = min(len(required(model)) + more, max(len(positional), 1), len(values))
        try:
            result = ops.apply(name, values[:count], {}, ops.OpContext())
        except ops.OpError:
            continue
        assert isinstance(result, Value)


@pytest.mark.once
def test_every_model_is_of_something():
    """A model under a misspelt name would never be used."""
    gone = {
        "jax.numpy.fix",
        *(
            name
            for name in ops.MODELS
            if name.startswith("numpy.random.Generator.rand")
        ),
    }
    missing = {
        name for name in ops.MODELS
        if name.startswith(("jax.", "numpy.", "einops.")) and not name.startswith("jax.Array") and "<" not in name
        and resolve(name) is None
    }  # fmt: skip
    assert missing <= gone
