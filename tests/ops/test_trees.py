"""``jax.tree`` over known structures, and functions that answer questions, against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import strategies as st

from shardlint import ops
from shardlint.values import (
    ArrayValue,
    ExternalValue,
    InstanceValue,
    Literal,
    MethodValue,
    ScalarValue,
    SequenceValue,
    Unknown,
)
from tests.ops.oracle import abstract, agree, context
from tests.ops.strategies import arrays
from tests.ops.tables import case, family, optional

trees = st.recursive(
    st.one_of(arrays(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from("cab"), inner, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


TREE, UTIL = "jax.tree", "jax.tree_util"
functions = st.sampled_from((jnp.exp, jnp.abs, jnp.zeros_like))

test_trees = family(
    case(TREE, "map", functions, trees, times=3),
    case(TREE, "map", drawn=trees.map(lambda tree: ([jnp.add, tree, tree], {}))),
    case(TREE, "leaves flatten", trees, times=2),
    case(UTIL, "tree_leaves tree_flatten", trees),
    case(TREE, "reduce", st.just(jnp.add), trees, optional(st.just(0.0)), times=2),
    case(UTIL, "tree_reduce", st.just(jnp.add), trees, st.just(0.0)),
    case("jax.flatten_util", "ravel_pytree", trees, times=2),
)
CONTEXT = context()


@pytest.mark.parametrize(
    "leaf", [Unknown(), InstanceValue(None), MethodValue(Unknown(), "f")]
)
def test_what_may_be_a_tree_is_not_followed(leaf):
    tree = SequenceValue((ArrayValue(()), leaf))
    for name, args in (
        ("map", [ExternalValue("jax.numpy.exp"), tree]),
        ("leaves", [tree]),
    ):
        assert isinstance(ops.apply(f"jax.tree.{name}", args, {}, CONTEXT), Unknown)
    given = [
        ExternalValue("jax.numpy.add"),
        SequenceValue((ArrayValue(()),)),
        SequenceValue((), "list"),
    ]
    assert isinstance(ops.apply("jax.tree.map", given, {}, CONTEXT), Unknown)


def test_answers():
    x = abstract(jax.ShapeDtypeStruct((2, 3), jnp.float32))
    assert ops.apply(
        "numpy.testing.assert_allclose", [x, x], {}, ops.OpContext()
    ) == Literal(None)
    assert ops.apply("numpy.array_equal", [x, x], {}, ops.OpContext()) == ScalarValue(
        "bool"
    )
    agree(
        "jax.numpy.array_equal",
        jnp.array_equal,
        [jax.ShapeDtypeStruct((2,), jnp.int32)] * 2,
    )
    fetched = ops.apply("jax.device_get", [SequenceValue((x,))], {}, ops.OpContext())
    assert isinstance(fetched, SequenceValue)
    assert all(isinstance(item, ArrayValue) and item.numpy for item in fetched.items)
