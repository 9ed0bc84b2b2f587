"""Elementwise models against JAX."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint import ops
from tests.ops.oracle import agree, sampled
from tests.ops.strategies import COMMON, DTYPES, arrays, broadcastable, shapes

UNARY = """exp exp2 expm1 log log1p log2 log10 sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
arctanh sinc cbrt negative positive conj square sign reciprocal floor ceil trunc rint abs fabs invert degrees
radians round real imag isnan isinf isfinite logical_not signbit isreal isneginf isposinf nan_to_num deg2rad rad2deg
bitwise_not absolute""".split()
NN = """sigmoid soft_sign silu swish log_sigmoid mish softplus hard_sigmoid hard_silu hard_swish selu hard_tanh relu
relu6 gelu elu celu leaky_relu tanh sparse_plus sparse_sigmoid""".split()
SPECIAL = "erf erfc expit logit gammaln digamma ndtr ndtri log_ndtr i0 i0e i1 i1e entr".split()
BINARY = """add subtract multiply maximum minimum remainder mod fmod floor_divide bitwise_and bitwise_or bitwise_xor
left_shift right_shift fmax fmin gcd lcm power pow float_power divide true_divide arctan2 hypot logaddexp logaddexp2
copysign nextafter heaviside equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
isclose allclose""".split()
OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b, "@": lambda a, b: a @ b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}  # fmt: skip
COMPARISONS = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
@sampled
@given(x=arrays(shapes, DTYPES))
def test_unary(name, x):
    agree(f"jax.numpy.{name}", getattr(jnp, name), [x])


@pytest.mark.parametrize("name", NN)
@sampled
@given(x=arrays(shapes, COMMON))
def test_nn(name, x):
    agree(f"jax.nn.{name}", getattr(jax.nn, name), [x])


@pytest.mark.parametrize("name", SPECIAL)
@sampled
@given(x=arrays(shapes, COMMON))
def test_special(name, x):
    agree(f"jax.scipy.special.{name}", getattr(jax.scipy.special, name), [x])


@pytest.mark.parametrize("name", BINARY)
@sampled
@given(xs=broadcastable(2, COMMON))
def test_binary(name, xs):
    agree(f"jax.numpy.{name}", getattr(jnp, name), xs)


@pytest.mark.parametrize("name", ["add", "multiply", "where"])
@sampled
@given(xs=broadcastable(2, DTYPES), c=broadcastable(1))
def test_promotion(name, xs, c):
    args = [*c, *xs] if name == "where" else xs
    agree(f"jax.numpy.{name}", getattr(jnp, name), args)


@sampled
@given(xs=broadcastable(3), cs=st.booleans())
def test_where_and_clip(xs, cs):
    agree("jax.numpy.where", jnp.where, xs)
    agree("jax.numpy.clip", jnp.clip, xs)


@pytest.mark.parametrize("op", OPERATORS)
@sampled
@given(xs=broadcastable(2))
def test_operator(op, xs):
    if any(hasattr(x, "shape") for x in xs):
        agree(f"jax {op}", OPERATORS[op], xs, run=lambda v, _: ops.binary(op, v[0], v[1], ops.OpContext()))


@pytest.mark.parametrize("op", COMPARISONS)
@sampled
@given(xs=broadcastable(2))
def test_comparison_operator(op, xs):
    if any(hasattr(x, "shape") for x in xs):
        agree(f"jax {op}", COMPARISONS[op], xs, run=lambda v, _: ops.compare(op, v[0], v[1], ops.OpContext()))


@sampled
@given(x=arrays(shapes, DTYPES), to=st.sampled_from(["float32", "int8", "bfloat16", "float64", "bool"]))
def test_astype(x, to):
    dtype = jnp.dtype(to)
    agree("jax.Array.astype", lambda x: x.astype(dtype), [x],
          run=lambda v, _: ops.method(v[0], "astype", [ops_dtype(to)], {}, ops.OpContext()))  # fmt: skip


def ops_dtype(name):
    from shardlint.values import DTypeValue

    return DTypeValue(name)
