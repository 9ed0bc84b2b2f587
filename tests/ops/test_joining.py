"""Joining and creation against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.oracle import agree, sampled
from tests.ops.strategies import DTYPES, arrays, axes, broadcastable, positive, shapes


@st.composite
def joinable(draw):
    """A few arrays of one rank that mostly differ in one dimension only."""
    shape = draw(positive)
    where = draw(axes)
    out = []
    for _ in range(draw(st.integers(1, 3))):
        one = list(shape)
        if one and draw(st.booleans()):
            one[where % len(one)] = draw(st.integers(0, 4))
        if draw(st.integers(0, 9)) == 0:
            one = draw(positive)
        out.append(draw(arrays(st.just(tuple(one)))))
    return out, where


@pytest.mark.parametrize("name", ["concatenate", "stack"])
@sampled
@given(joinable())
def test_join(name, case):
    xs, axis = case
    agree(f"jax.numpy.{name}", getattr(jnp, name), [xs], {"axis": axis})


@pytest.mark.parametrize("name", ["vstack", "hstack", "dstack", "column_stack"])
@sampled
@given(joinable())
def test_join_by_rank(name, case):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [case[0]])


@sampled
@given(joinable())
def test_flat_and_append(case):
    xs, axis = case
    agree("jax.numpy.concatenate", jnp.concatenate, [xs], {"axis": None})
    agree("jax.numpy.append", jnp.append, [xs[0], xs[-1]], {"axis": axis})


@sampled
@given(p=arrays(dtypes=("bool",)), xs=broadcastable(2))
def test_select(p, xs):
    if all(hasattr(x, "shape") for x in xs):
        agree("jax.lax.select", jax.lax.select, [p, *xs])


@pytest.mark.parametrize("name", ["zeros", "ones", "empty"])
@sampled
@given(shape=st.one_of(shapes, st.integers(-1, 4)), dtype=st.sampled_from([None, *DTYPES]))
def test_filled(name, shape, dtype):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [shape], {} if dtype is None else {"dtype": jnp.dtype(dtype)})


@sampled
@given(shape=shapes, fill=broadcastable(1), dtype=st.sampled_from([None, "float32", "int8"]))
def test_full(shape, fill, dtype):
    agree("jax.numpy.full", jnp.full, [shape, *fill], {} if dtype is None else {"dtype": jnp.dtype(dtype)})


@pytest.mark.parametrize("name", ["zeros_like", "ones_like", "asarray", "array"])
@sampled
@given(x=broadcastable(1), dtype=st.sampled_from([None, "float32", "int8"]))
def test_like(name, x, dtype):
    agree(f"jax.numpy.{name}", getattr(jnp, name), x, {} if dtype is None else {"dtype": jnp.dtype(dtype)})


@sampled
@given(xs=st.lists(st.one_of(st.integers(0, 3), st.floats(0, 1), arrays(st.just(()))), max_size=3))
def test_array_of_list(xs):
    agree("jax.numpy.array", jnp.array, [xs])
    agree("jax.numpy.asarray", jnp.asarray, [[xs, xs]])


@sampled
@given(args=st.lists(st.one_of(st.integers(-4, 9), st.integers(-4, 9), st.floats(0, 4)), min_size=1, max_size=3))
def test_arange(args):
    agree("jax.numpy.arange", jnp.arange, args)


@sampled
@given(num=st.integers(0, 6), start=st.one_of(st.integers(0, 3), st.floats(0, 3)))
def test_linspace(num, start):
    agree("jax.numpy.linspace", jnp.linspace, [start, 1.0, num])


@sampled
@given(n=st.integers(0, 4), m=st.one_of(st.none(), st.integers(0, 4)))
def test_eye(n, m):
    agree("jax.numpy.eye", jnp.eye, [n, m])
    agree("jax.numpy.tri", jnp.tri, [n, m])
    agree("jax.numpy.identity", jnp.identity, [n])


@sampled
@given(xs=st.lists(arrays(st.lists(st.integers(1, 3), max_size=1).map(tuple)), min_size=1, max_size=3),
       order=st.sampled_from(["xy", "ij"]))  # fmt: skip
def test_meshgrid(xs, order):
    agree("jax.numpy.meshgrid", jnp.meshgrid, xs, {"indexing": order})


@sampled
@given(x=arrays(), k=st.integers(-2, 2))
def test_diag(x, k):
    agree("jax.numpy.diag", jnp.diag, [x, k])
