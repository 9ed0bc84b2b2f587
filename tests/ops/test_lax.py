"""``jax.lax`` elementwise functions against JAX."""

from __future__ import annotations

import jax
import pytest
from hypothesis import given

from tests.ops.oracle import agree, sampled
from tests.ops.strategies import COMMON, arrays, broadcastable, shapes


@pytest.mark.parametrize("name", "exp log tanh logistic sqrt rsqrt abs sign floor square is_finite erf neg".split())
@sampled
@given(x=arrays(shapes, ("float32", "bfloat16")))
def test_unary(name, x):
    agree(f"jax.lax.{name}", getattr(jax.lax, name), [x])


@pytest.mark.parametrize("name", "add sub mul div max min pow".split())
@sampled
@given(xs=broadcastable(2, COMMON))
def test_binary(name, xs):
    if all(hasattr(x, "shape") for x in xs):
        agree(f"jax.lax.{name}", getattr(jax.lax, name), xs)
