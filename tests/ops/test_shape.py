"""Functions that rearrange dimensions, against JAX."""

from __future__ import annotations

import math

import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint import ops
from shardlint.ops.registry import constant
from tests.ops.oracle import agree, sampled
from tests.ops.strategies import arrays, axes, axis_or_axes, positive, shapes


@st.composite
def reshapes(draw):
    x = draw(arrays(positive))
    total = math.prod(x.shape)
    target = []
    while total > 1 and len(target) < 4:
        factor = draw(st.sampled_from([n for n in range(1, total + 1) if total % n == 0]))
        target.append(factor)
        total //= factor
    if draw(st.booleans()) and target:
        target[draw(st.integers(0, len(target) - 1))] = -1
    else:
        target.append(total)
    if draw(st.integers(0, 3)) == 0:
        target[draw(st.integers(0, len(target) - 1))] = draw(st.integers(-2, 5))
    return x, tuple(target)


@sampled
@given(reshapes())
def test_reshape(case):
    x, target = case
    agree("jax.numpy.reshape", jnp.reshape, [x, target])
    numbers = [constant(n) for n in target]
    agree("jax.Array.reshape", lambda x: x.reshape(*target), [x],
          run=lambda v, _: ops.method(v[0], "reshape", numbers, {}, ops.OpContext()))  # fmt: skip


@sampled
@given(x=arrays(), target=shapes)
def test_reshape_anything(x, target):
    agree("jax.numpy.reshape", jnp.reshape, [x, target])


@sampled
@given(x=arrays(), order=st.one_of(st.none(), st.lists(axes, max_size=4).map(tuple)))
def test_transpose(x, order):
    agree("jax.numpy.transpose", jnp.transpose, [x, order])


@sampled
@given(x=arrays(), data=st.data())
def test_transpose_permutation(x, data):
    order = tuple(data.draw(st.permutations(range(len(x.shape)))))
    agree("jax.numpy.transpose", jnp.transpose, [x, order])


@pytest.mark.parametrize("name", ["swapaxes", "moveaxis"])
@sampled
@given(x=arrays(), a=axes, b=axes)
def test_two_axes(name, x, a, b):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x, a, b])


@sampled
@given(x=arrays(), a=st.lists(axes, max_size=3).map(tuple), b=st.lists(axes, max_size=3).map(tuple))
def test_moveaxis_several(x, a, b):
    agree("jax.numpy.moveaxis", jnp.moveaxis, [x, a, b])


@pytest.mark.parametrize("name", ["squeeze", "flip"])
@sampled
@given(x=arrays(), axis=axis_or_axes)
def test_axes(name, x, axis):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x, axis])


@sampled
@given(x=arrays(), axis=st.one_of(axes, st.lists(axes, max_size=3).map(tuple)))
def test_expand_dims(x, axis):
    agree("jax.numpy.expand_dims", jnp.expand_dims, [x, axis])


@sampled
@given(x=arrays(), target=shapes)
def test_broadcast_to(x, target):
    agree("jax.numpy.broadcast_to", jnp.broadcast_to, [x, target])


@pytest.mark.parametrize("name", ["ravel", "flipud", "fliplr", "matrix_transpose", "atleast_1d", "atleast_2d",
                                  "atleast_3d", "tril", "triu"])  # fmt: skip
@sampled
@given(x=arrays())
def test_one_array(name, x):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x])


@sampled
@given(x=arrays(), shift=st.integers(-3, 3), axis=st.one_of(st.none(), axes))
def test_roll(x, shift, axis):
    agree("jax.numpy.roll", jnp.roll, [x, shift], {"axis": axis})


@sampled
@given(x=arrays(), reps=st.one_of(st.integers(0, 3), st.lists(st.integers(0, 3), max_size=4).map(tuple)))
def test_tile(x, reps):
    agree("jax.numpy.tile", jnp.tile, [x, reps])


@sampled
@given(x=arrays(), repeats=st.integers(0, 3), axis=st.one_of(st.none(), axes))
def test_repeat(x, repeats, axis):
    agree("jax.numpy.repeat", jnp.repeat, [x, repeats], {"axis": axis})


@pytest.mark.parametrize("name", ["split", "array_split"])
@sampled
@given(x=arrays(), where=st.one_of(st.integers(1, 4), st.lists(st.integers(-3, 5), max_size=3).map(tuple)), axis=axes)
def test_split(name, x, where, axis):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x, where, axis])


@sampled
@given(x=arrays(), widths=st.one_of(st.integers(0, 2), st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)),
                                                               max_size=3)))  # fmt: skip
def test_pad(x, widths):
    agree("jax.numpy.pad", jnp.pad, [x, widths])
