"""Contractions against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ops.oracle import agree, sampled
from tests.ops.strategies import COMMON, arrays, axes

small = st.lists(st.sampled_from((2, 2, 2, 3, 1)), max_size=3).map(tuple)


@pytest.mark.parametrize("name", ["matmul", "dot", "inner", "vdot", "outer", "vecdot", "cross"])
@sampled
@given(a=arrays(small), b=arrays(small))
def test_products(name, a, b):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [a, b])


@sampled
@given(a=arrays(small), b=arrays(small), n=st.integers(0, 3))
def test_tensordot(a, b, n):
    agree("jax.numpy.tensordot", jnp.tensordot, [a, b, n])


@sampled
@given(a=arrays(small), b=arrays(small), i=axes, k=axes)
def test_tensordot_axes(a, b, i, k):
    agree("jax.numpy.tensordot", jnp.tensordot, [a, b, ((i,), (k,))])


letters = st.text("abc", max_size=3)


@st.composite
def einsums(draw):
    """An equation and operands that mostly fit it."""
    count = draw(st.integers(1, 3))
    table = {letter: draw(st.integers(1, 3)) for letter in "abc"}
    terms, operands = [], []
    dots = draw(st.booleans())
    for _ in range(count):
        term = draw(letters)
        shape = [table[letter] for letter in term]
        if draw(st.integers(0, 9)) == 0 and shape:
            shape[draw(st.integers(0, len(shape) - 1))] = draw(st.integers(1, 3))
        if draw(st.integers(0, 14)) == 0:
            shape = shape[1:]
        if dots and draw(st.booleans()):
            at = draw(st.integers(0, len(term)))
            extra = draw(st.sampled_from([(), (2,), (1,), (2, 2)]))
            shape[at:at] = extra
            term = term[:at] + "..." + term[at:]
        terms.append(term)
        operands.append(draw(arrays(st.just(tuple(shape)), COMMON)))
    text = ",".join(terms)
    if draw(st.booleans()):
        out = "".join(draw(st.lists(st.sampled_from(sorted(set(text) & set("abc")) or ["a"]), max_size=3, unique=True)))
        text += "->" + ("..." if dots and draw(st.integers(0, 3)) else "") + out
    return text, operands


@sampled
@given(einsums())
def test_einsum(case):
    text, operands = case
    agree("jax.numpy.einsum", lambda *xs: jnp.einsum(text, *xs), operands, run=lambda v, _: _einsum(text, v))


def _einsum(text, values):
    from shardlint import ops
    from shardlint.values import Literal

    return ops.apply("jax.numpy.einsum", [Literal(text), *values], {}, ops.OpContext())


@sampled
@given(a=arrays(small), b=arrays(small), numbers=st.lists(st.integers(0, 2), min_size=4, max_size=4))
def test_dot_general(a, b, numbers):
    c1, c2, b1, b2 = numbers
    dimension_numbers = (((c1,), (c2,)), ((b1,), (b2,)) if b1 != c1 and b2 != c2 else ((), ()))
    agree("jax.lax.dot_general", jax.lax.dot_general, [a, b, dimension_numbers])
