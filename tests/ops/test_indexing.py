"""Indexing and updates against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint import ops
from shardlint.values import ArrayValue
from tests.ops.oracle import abstract, agree, sampled
from tests.ops.strategies import arrays, axes, positive

bounds = st.one_of(st.none(), st.integers(-5, 5))
slices = st.builds(slice, bounds, bounds, st.sampled_from([None, None, 1, 2, -1]))
index_arrays = st.lists(st.sampled_from((1, 2)), max_size=2).map(lambda s: np.zeros(tuple(s), np.int32))
items = st.one_of(st.integers(-1, 0), slices, slices, st.none(), st.just(Ellipsis), index_arrays)
indices = st.one_of(items, st.lists(items, max_size=4).map(tuple))


def run_index(v, index):
    return ops.index(v, abstract(index), ops.OpContext())


@sampled
@given(x=arrays(positive), index=indices)
def test_index(x, index):
    agree("jax index", lambda x: x[index], [x], run=lambda v, _: run_index(v[0], index))


@sampled
@given(x=arrays(positive), data=st.data())
def test_mask(x, data):
    rank = data.draw(st.integers(0, len(x.shape)))
    shape = [n if data.draw(st.integers(0, 5)) else n + 1 for n in x.shape[:rank]]
    mask = np.ones(shape, bool)
    if shape:
        agree("jax index", lambda x: x[mask], [x], run=lambda v, _: run_index(v[0], mask))


@pytest.mark.parametrize("name", ["set", "add", "multiply", "max", "divide"])
@sampled
@given(x=arrays(positive), index=indices, y=st.one_of(arrays(positive), st.floats(0, 1)))
def test_at(name, x, index, y):
    def run(v, _):
        at = ops.index(ops.attribute(v[0], "at", ops.OpContext()), abstract(index), ops.OpContext())
        return ops.method(at, name, [v[1]], {}, ops.OpContext())

    agree(f"jax.Array.at.{name}", lambda x, y: getattr(x.at[index], name)(y), [x, y], run=run)


@sampled
@given(x=arrays(positive), index=arrays(positive, ("int32", "float32", "uint8")), axis=st.one_of(st.none(), axes))
def test_take(x, index, axis):
    agree("jax.numpy.take", jnp.take, [x, index], {"axis": axis})


@sampled
@given(x=arrays(positive), index=arrays(positive, ("int32", "float32")), axis=axes)
def test_take_along_axis(x, index, axis):
    agree("jax.numpy.take_along_axis", jnp.take_along_axis, [x, index, axis])


@sampled
@given(x=arrays(positive), sizes=positive, data=st.data())
def test_dynamic_slice(x, sizes, data):
    starts = (0,) * data.draw(st.sampled_from([len(x.shape), len(x.shape), len(sizes)]))
    agree("jax.lax.dynamic_slice", jax.lax.dynamic_slice, [x, starts, sizes])


@sampled
@given(x=arrays(positive), size=st.integers(1, 3), axis=axes)
def test_slice_in_dim(x, size, axis):
    axis_size = x.shape[axis] if x.shape and -len(x.shape) <= axis < len(x.shape) else 9
    if size <= axis_size:
        agree("jax.lax.dynamic_slice_in_dim", jax.lax.dynamic_slice_in_dim, [x, 0, size, axis])
        agree("jax.lax.dynamic_index_in_dim", jax.lax.dynamic_index_in_dim, [x, 0, axis])


def test_attributes():
    x = abstract(jax.ShapeDtypeStruct((2, 3, 4), jnp.dtype("float32")))
    ctx = ops.OpContext()
    assert str(ops.attribute(x, "size", ctx).size) == "24"
    assert [str(item.size) for item in ops.attribute(x, "shape", ctx).items] == ["2", "3", "4"]
    transposed = ops.attribute(x, "mT", ctx)
    assert isinstance(transposed, ArrayValue)
    assert [str(dim.size) for dim in transposed.dims] == ["2", "4", "3"]
