"""Reductions, cumulative functions, sorting and softmax against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.oracle import agree, sampled
from tests.ops.strategies import DTYPES, arrays, axes, axis_or_axes, shapes

REDUCE = "sum prod mean std var max min amax amin all any median nansum nanmean nanmax nanmin count_nonzero ptp".split()


@pytest.mark.parametrize("name", REDUCE)
@sampled
@given(x=arrays(shapes, DTYPES), axis=axis_or_axes, keepdims=st.booleans())
def test_reduce(name, x, axis, keepdims):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x], {"axis": axis, "keepdims": keepdims})


@pytest.mark.parametrize("name", ["min", "max", "sum", "any"])
@sampled
@given(x=arrays(), y=arrays())
def test_array_as_axis(name, x, y):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x, y])


@sampled
@given(x=arrays(), axis=axis_or_axes, where=arrays(dtypes=("bool",)))
def test_where(x, axis, where):
    agree("jax.numpy.sum", jnp.sum, [x], {"axis": axis, "where": where})


@sampled
@given(x=arrays(), dtype=st.sampled_from(["float32", "int32", "bfloat16"]))
def test_sum_dtype(x, dtype):
    agree("jax.numpy.sum", jnp.sum, [x], {"dtype": jnp.dtype(dtype)})


@pytest.mark.parametrize("name", ["argmax", "argmin"])
@sampled
@given(x=arrays(), axis=st.one_of(st.none(), axes), keepdims=st.booleans())
def test_arg_reduce(name, x, axis, keepdims):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x], {"axis": axis, "keepdims": keepdims})


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "sort", "argsort"])
@sampled
@given(x=arrays(shapes, DTYPES), axis=st.one_of(st.none(), axes))
def test_along_axis(name, x, axis):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x], {"axis": axis})


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "standardize"])
@sampled
@given(x=arrays(), axis=st.one_of(axes, st.lists(axes, min_size=1, max_size=2).map(tuple)))
def test_nn(name, x, axis):
    agree(f"jax.nn.{name}", getattr(jax.nn, name), [x], {"axis": axis})
