"""Functions of each entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.semantics.call import Call, numbers, positions

X, Y = numbers((3, 4)), numbers((4,), seed=1)
POSITIVE, ABOVE_ONE, INSIDE = (
    numbers((3, 4), 0.2, 3),
    numbers((3, 4), 1.1, 3),
    numbers((3, 4), -0.9, 0.9),
)
WHOLE, OTHER = positions((3, 4), 9), positions((3, 4), 4, seed=1) + 1
MASK = X > 0


def each(
    module: str,
    names: str,
    *args: Any,
    smooth: bool = True,
    close: float = 1e-7,
    **kwargs: Any,
) -> list[Call]:
    """The same call of several functions."""
    return [
        Call(f"{module}.{name}", args, kwargs, smooth, close=close)
        for name in names.split()
    ]


_LAX = [
    *each(
        "jax.lax",
        "abs sign square floor ceil exp exp2 expm1 tanh logistic sin cos tan atan sinh cosh asinh erf",
        X,
    ),
    *each("jax.lax", "erfc bessel_i0e bessel_i1e neg", X),
    *each("jax.lax", "sqrt rsqrt cbrt log log1p lgamma digamma", POSITIVE),
    *each("jax.lax", "asin acos atanh erf_inv", INSIDE),
    *each("jax.lax", "acosh", ABOVE_ONE),
    *each("jax.lax", "add sub mul max min atan2", X, X[::-1].copy()),
    *each("jax.lax", "div rem", X, POSITIVE),
    *each("jax.lax", "pow", POSITIVE, X),
    *each("jax.lax", "eq ne lt le gt ge", X, X[::-1].copy()),
    *each("jax.lax", "is_finite", X),
    *each("jax.lax", "complex", X, POSITIVE),
    *each("jax.lax", "real imag conj abs sign exp", X + 1j * POSITIVE),
    *each("jax.lax", "bitwise_not population_count clz", WHOLE),
    *each(
        "jax.lax",
        "bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic",
        WHOLE,
        OTHER,
    ),
    *each("jax.lax", "shift_right_logical", WHOLE, OTHER),
    *each("jax.lax", "igamma igammac", 2.5, POSITIVE),
    *each("jax.lax", "zeta", 2.5, POSITIVE, smooth=False),
    *each("jax.lax", "polygamma", 2.0, POSITIVE),
    *each("jax.lax", "betainc", 0.5, 1.5, np.abs(INSIDE)),
    *each("jax.lax", "clamp", -1.0, X, 1.0),
    *each("jax.lax", "nextafter", X, X[::-1].copy(), smooth=False, close=1e-6),
    *each("jax.lax", "integer_pow", X, 3),
    *each("jax.lax", "round", X),
    *each("jax.lax", "convert_element_type", X, "int32"),
    *each("jax.lax", "reduce_precision", X, 11, 52),
    *each("jax.lax", "select", MASK, X, POSITIVE),
    *each("jax.lax", "select_n", MASK, X, POSITIVE),
    *each("jax.lax", "stop_gradient", X),
]
_NUMPY = [
    *each(
        "jax.numpy",
        "abs absolute arctan arcsinh asinh atan cos cosh deg2rad degrees exp exp2 expm1 fabs",
        X,
    ),
    *each(
        "jax.numpy",
        "negative positive rad2deg radians reciprocal sign sin sinc sinh square tan tanh conj",
        X,
    ),
    *each(
        "jax.numpy",
        "conjugate copy real ceil floor trunc rint round around nan_to_num",
        X,
    ),
    *each("jax.numpy", "isfinite isinf isnan logical_not", X),
    *each("jax.numpy", "isfinite rint round", X * (1 + 2j), smooth=False),
    *each("jax.numpy", "sqrt cbrt log log2 log10 log1p", POSITIVE),
    *each("jax.numpy", "arccos acos arcsin asin arctanh atanh", INSIDE),
    *each("jax.numpy", "arccosh acosh", ABOVE_ONE),
    *each("jax.numpy", "real imag conj abs", X + 1j * POSITIVE),
    *each(
        "jax.numpy",
        "add subtract multiply maximum minimum arctan2 atan2 hypot logaddexp copysign heaviside",
        X,
        Y,
    ),
    *each(
        "jax.numpy",
        "divide true_divide fmod mod remainder floor_divide divmod",
        X,
        POSITIVE,
    ),
    *each("jax.numpy", "power pow float_power", POSITIVE, Y),
    *each("jax.numpy", "power", X, 2),
    *each(
        "jax.numpy",
        "equal not_equal less less_equal greater greater_equal isclose",
        X,
        Y,
    ),
    *each(
        "jax.numpy",
        "isclose allclose",
        np.array([1.0, np.inf, np.nan, 0.0]),
        np.array([1.0, np.inf, np.nan, np.inf]),
        equal_nan=True,
        smooth=False,
    ),
    *each("jax.numpy", "logical_and logical_or logical_xor", X, WHOLE),
    *each("jax.numpy", "bitwise_not bitwise_invert invert exp sqrt", WHOLE),
    *each(
        "jax.numpy",
        "bitwise_and bitwise_or bitwise_xor bitwise_left_shift left_shift",
        WHOLE,
        OTHER,
    ),
    *each(
        "jax.numpy",
        "right_shift bitwise_right_shift floor_divide mod divide add",
        WHOLE,
        OTHER,
    ),
    *each("jax.numpy", "nextafter", X, Y, smooth=False, close=1e-6),
    *each("jax.numpy", "spacing", X, smooth=False, close=1e-6),
    *each("jax.numpy", "astype", X, "int32"),
    *each("jax.numpy", "clip", X, -1.0, 0.5),
    *each("jax.numpy", "where", MASK, X, POSITIVE),
    *each("jax.numpy", "asarray array", X),
]
_NN = [
    *each(
        "jax.nn",
        "celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh identity leaky_relu log_sigmoid",
        X,
    ),
    *each(
        "jax.nn",
        "mish relu relu6 selu sigmoid silu swish soft_sign softplus squareplus",
        X,
    ),
    *each("jax.nn", "gelu", X, approximate=False),
    *each("jax.nn", "one_hot", positions((5,), 3), 3),
]
_SPECIAL = [
    *each("jax.scipy.special", "erf erfc i0e i1e expit", X),
    *each("jax.scipy.special", "digamma gammaln entr", POSITIVE),
    *each("jax.scipy.special", "erfinv", INSIDE),
    *each("jax.scipy.special", "logit", np.abs(INSIDE)),
    *each("jax.scipy.special", "xlogy", X, POSITIVE),
    *each("jax.scipy.special", "gammainc gammaincc", 2.5, POSITIVE),
    *each("jax.scipy.special", "polygamma", 2, POSITIVE),
    *each("jax.scipy.special", "betainc", 0.5, 1.5, np.abs(INSIDE)),
]
CALLS = [*_LAX, *_NUMPY, *_NN, *_SPECIAL]
