"""Elementwise models against JAX."""

from __future__ import annotations

import jax.numpy as jnp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardlint import ops
from tests.ops.oracle import agree, sampled
from tests.ops.strategies import COMMON, DTYPES, arrays, broadcastable, shapes
from tests.ops.tables import case, family

UNARY = """exp exp2 expm1 log log1p log2 log10 sqrt sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh
arctanh sinc cbrt negative positive conj square sign reciprocal floor ceil trunc rint abs fabs invert degrees
radians round real imag isnan isinf isfinite logical_not signbit isreal isneginf isposinf nan_to_num deg2rad rad2deg
bitwise_not absolute"""
SPECIAL = "erf erfc expit logit gammaln digamma ndtr ndtri log_ndtr i0 i0e i1 i1e entr"
BINARY = """add subtract multiply maximum minimum remainder mod fmod floor_divide bitwise_and bitwise_or bitwise_xor
left_shift right_shift fmax fmin gcd lcm power pow float_power divide true_divide arctan2 hypot logaddexp logaddexp2
copysign nextafter heaviside equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor
isclose allclose"""
OPERATORS = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "//": lambda a, b: a // b, "%": lambda a, b: a % b, "**": lambda a, b: a**b, "@": lambda a, b: a @ b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}  # fmt: skip
COMPARISONS = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b, "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip


test_elementwise = family(
    case("jax.numpy", UNARY, arrays(shapes, DTYPES)),
    case("jax.scipy.special", SPECIAL, arrays(shapes, COMMON)),
    case("jax.numpy", BINARY, drawn=broadcastable(2, COMMON).map(lambda xs: (xs, {}))),
    case(
        "jax.numpy",
        "add multiply",
        drawn=broadcastable(2, DTYPES).map(lambda xs: (xs, {})),
    ),
    case(
        "jax.numpy",
        "where clip",
        drawn=broadcastable(3, DTYPES).map(lambda xs: (xs, {})),
    ),
)


@pytest.mark.parametrize("op", OPERATORS)
@sampled
@given(xs=broadcastable(2))
def test_operator(op, xs):
    if any(hasattr(x, "shape") for x in xs):
        agree(
            f"jax {op}",
            OPERATORS[op],
            xs,
            run=lambda v, _: ops.binary(op, v[0], v[1], ops.OpContext()),
        )


@pytest.mark.parametrize("op", COMPARISONS)
@sampled
@given(xs=broadcastable(2))
def test_comparison_operator(op, xs):
    if any(hasattr(x, "shape") for x in xs):
        agree(
            f"jax {op}",
            COMPARISONS[op],
            xs,
            run=lambda v, _: ops.compare(op, v[0], v[1], ops.OpContext()),
        )


@sampled
@given(
    x=arrays(shapes, DTYPES),
    to=st.sampled_from(["float32", "int8", "bfloat16", "float64", "bool"]),
)
def test_astype(x, to):
    dtype = jnp.dtype(to)
    agree("jax.Array.astype", lambda x: x.astype(dtype), [x],
          run=lambda v, _: ops.method(v[0], "astype", [ops_dtype(to)], {}, ops.OpContext()))  # fmt: skip


def ops_dtype(name):
    from shardlint.values import DTypeValue

    return DTypeValue(name)
