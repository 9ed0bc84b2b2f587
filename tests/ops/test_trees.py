"""``jax.tree`` over known structures, and functions that answer questions, against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree

from shardlint import ops
from shardlint.values import (
    ArrayValue,
    DictValue,
    DTypeValue,
    ExternalValue,
    InstanceValue,
    IntValue,
    Literal,
    MethodValue,
    ScalarValue,
    SequenceValue,
    Unknown,
)
from tests.ops.oracle import abstract, agree, assert_same, in_jax, sampled
from tests.ops.strategies import arrays

trees = st.recursive(
    st.one_of(arrays(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from("cab"), inner, min_size=1, max_size=3),
    ),
    max_leaves=5,
)


def tree_value(tree):
    if isinstance(tree, dict):
        return DictValue(tuple((key, tree_value(item)) for key, item in tree.items()))
    if isinstance(tree, (list, tuple)):
        return SequenceValue(tuple(tree_value(item) for item in tree), type(tree).__name__)
    return abstract(tree)


def as_dicts(value):
    """Dicts as sorted lists of their values, for comparison."""
    if isinstance(value, DictValue):
        return SequenceValue(tuple(as_dicts(item) for _, item in sorted(value.items)), "list")
    if isinstance(value, SequenceValue):
        return SequenceValue(tuple(as_dicts(item) for item in value.items), value.kind)
    return value


def flat(tree):
    if isinstance(tree, dict):
        return [flat(tree[key]) for key in sorted(tree)]
    if isinstance(tree, (list, tuple)):
        return [flat(item) for item in tree]
    return tree


def same_tree(value, truth):
    if truth is None:
        assert value == Literal(None)
    elif isinstance(truth, list):
        assert isinstance(value, SequenceValue)
        assert len(value.items) == len(truth)
        for part, expected in zip(value.items, truth, strict=True):
            same_tree(part, expected)
    else:
        assert_same("tree", value, truth)


CONTEXT = ops.OpContext(call=lambda f, args, kwargs: ops.apply(f.qualname, args, kwargs, ops.OpContext()))


@sampled
@given(trees)
def test_map(tree):
    truth = in_jax(lambda t: jax.tree.map(jnp.exp, t), [tree], {})
    result = ops.apply("jax.tree.map", [ExternalValue("jax.numpy.exp"), tree_value(tree)], {}, CONTEXT)
    same_tree(as_dicts(result), flat(truth))
    both = [ExternalValue("jax.numpy.add"), tree_value(tree), tree_value(tree)]
    truth = in_jax(lambda t: jax.tree.map(jnp.add, t, t), [tree], {})
    same_tree(as_dicts(ops.apply("jax.tree.map", both, {}, CONTEXT)), flat(truth))


@sampled
@given(trees)
def test_leaves(tree):
    for name in ("jax.tree.leaves", "jax.tree_util.tree_leaves"):
        same_tree(ops.apply(name, [tree_value(tree)], {}, CONTEXT), jax.tree.leaves(tree))


@sampled
@given(trees)
def test_reduce(tree):
    truth = in_jax(lambda t: jax.tree.reduce(jnp.add, t, 0.0), [tree], {})
    given = [ExternalValue("jax.numpy.add"), tree_value(tree), Literal(0.0)]
    if isinstance(truth, Exception):
        with pytest.raises(ops.OpError):
            ops.apply("jax.tree.reduce", given, {}, CONTEXT)
    elif jax.tree.leaves(tree):
        assert_same("reduce", ops.apply("jax.tree.reduce", given, {}, CONTEXT), truth)


@sampled
@given(trees)
def test_ravel(tree):
    result = ops.apply("jax.flatten_util.ravel_pytree", [tree_value(tree)], {}, CONTEXT)
    truth = in_jax(lambda t: ravel_pytree(t)[0], [tree], {})
    assert isinstance(result, SequenceValue)
    if not isinstance(truth, Exception):
        assert_same("ravel", result.items[0], truth)


@pytest.mark.parametrize("leaf", [Unknown(), InstanceValue(None), MethodValue(Unknown(), "f")])
def test_what_may_be_a_tree_is_not_followed(leaf):
    tree = SequenceValue((ArrayValue(()), leaf))
    for name, args in (("map", [ExternalValue("jax.numpy.exp"), tree]), ("leaves", [tree])):
        assert isinstance(ops.apply(f"jax.tree.{name}", args, {}, CONTEXT), Unknown)
    given = [ExternalValue("jax.numpy.add"), SequenceValue((ArrayValue(()),)), SequenceValue((), "list")]
    assert isinstance(ops.apply("jax.tree.map", given, {}, CONTEXT), Unknown)


@sampled
@given(arrays())
def test_measures(x):
    for name, expected in (("ndim", len(x.shape)), ("size", int(np.prod(x.shape)))):
        result = ops.apply(f"jax.numpy.{name}", [abstract(x)], {}, ops.OpContext())
        assert isinstance(result, IntValue)
        assert result.size == expected
    shape = ops.apply("jax.numpy.shape", [abstract(x)], {}, ops.OpContext())
    assert isinstance(shape, SequenceValue)
    assert [item.size for item in shape.items] == list(x.shape)


@sampled
@given(x=arrays(), y=arrays())
def test_result_type(x, y):
    result = ops.apply("jax.numpy.result_type", [abstract(x), abstract(y)], {}, ops.OpContext())
    truth = in_jax(lambda x, y: jnp.zeros((), jnp.result_type(x, y)), [x, y], {})
    assert result == DTypeValue(truth.dtype.name)


@pytest.mark.parametrize("name", ["float32", "int32", "bfloat16", "bool_", "float64", "uint8"])
@sampled
@given(arrays())
def test_scalar_types(name, x):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x])


def test_answers():
    x = abstract(jax.ShapeDtypeStruct((2, 3), jnp.float32))
    assert ops.apply("numpy.testing.assert_allclose", [x, x], {}, ops.OpContext()) == Literal(None)
    assert ops.apply("numpy.array_equal", [x, x], {}, ops.OpContext()) == ScalarValue("bool")
    agree("jax.numpy.array_equal", jnp.array_equal, [jax.ShapeDtypeStruct((2,), jnp.int32)] * 2)
    fetched = ops.apply("jax.device_get", [SequenceValue((x,))], {}, ops.OpContext())
    assert isinstance(fetched, SequenceValue)
    assert all(isinstance(item, ArrayValue) and item.numpy for item in fetched.items)
