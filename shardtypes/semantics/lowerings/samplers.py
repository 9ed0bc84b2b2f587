"""The distributions of ``jax.random`` beyond the uniform and the normal one.

They are made of these from their definitions. Which numbers are drawn is not what JAX draws: they are the same for the
same key and shape.
"""

from __future__ import annotations

import math
from typing import Any

from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.contractions import einsum
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    inexact,
    int_of,
    shape_of,
    sizes_of,
)
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.linalg import cholesky, norm, qr
from shardtypes.semantics.lowerings.random import (
    bernoulli,
    exponential,
    normal,
    split,
    uniform,
)
from shardtypes.semantics.lowerings.reductions import sum_
from shardtypes.semantics.lowerings.shapes import (
    broadcast_to,
    common_shape,
    expand_dims,
    matrix_transpose,
)
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import samples as p
from shardtypes.semantics.registry import Unsupported, lowering

_RANDOM = "jax.random"


def _spread(shape: Any, *given: ArrayLike) -> tuple[tuple[int, ...], list[Array]]:
    """The shape of the result, and the parameters in it."""
    arrays = inexact(*[asarray(one) for one in given])
    if shape is None:
        sizes = common_shape([array.dims for array in arrays])
    else:
        sizes = shape_of(shape)
    return sizes, [broadcast_to(array, sizes) for array in arrays]


def _unit(key: Array, sizes: tuple[int, ...]) -> Array:
    """Above 0 and below 1."""
    return uniform(key, sizes, float, 1e-7, 1.0)


@lowering(f"{_RANDOM}.cauchy")
def cauchy(key: Array, shape: Any = (), dtype: Any = float, **options: Any) -> Array:
    return asarray(e.tan(math.pi * (_unit(key, shape_of(shape)) - 0.5)), dtype or float)


@lowering(f"{_RANDOM}.laplace")
def laplace(key: Array, shape: Any = (), dtype: Any = float, **options: Any) -> Array:
    drawn = uniform(key, shape, float, -1.0 + 1e-7, 1.0)
    return asarray(
        e.neg(e.mul(e.sign(drawn), e.log1p(e.neg(e.abs_(drawn))))), dtype or float
    )


@lowering(f"{_RANDOM}.logistic")
def logistic(key: Array, shape: Any = (), dtype: Any = float, **options: Any) -> Array:
    drawn = _unit(key, shape_of(shape))
    return asarray(e.sub(e.log(drawn), e.log1p(e.neg(drawn))), dtype or float)


@lowering(f"{_RANDOM}.rademacher")
def rademacher(key: Array, shape: Any = (), dtype: Any = None, **options: Any) -> Array:
    drawn = where(bernoulli(key, 0.5, shape), 1, -1)
    return asarray(drawn, int if dtype is None else dtype)


@lowering(f"{_RANDOM}.lognormal")
def lognormal(
    key: Array,
    sigma: ArrayLike = 1.0,
    shape: Any = None,
    dtype: Any = float,
    **options: Any,
) -> Array:
    sizes, (width,) = _spread(shape, sigma)
    return asarray(e.exp(normal(key, sizes) * width), dtype or float)


@lowering(f"{_RANDOM}.rayleigh")
def rayleigh(
    key: Array, scale: ArrayLike, shape: Any = None, dtype: Any = float, **options: Any
) -> Array:
    sizes, (width,) = _spread(shape, scale)
    return asarray(width * e.sqrt(-2.0 * e.log(_unit(key, sizes))), dtype or float)


@lowering(f"{_RANDOM}.weibull_min")
def weibull_min(
    key: Array,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Any = (),
    dtype: Any = float,
    **options: Any,
) -> Array:
    sizes, (width, power) = _spread(shape, scale, concentration)
    return asarray(width * e.pow_(exponential(key, sizes), 1.0 / power), dtype or float)


@lowering(f"{_RANDOM}.pareto")
def pareto(
    key: Array, b: ArrayLike, shape: Any = None, dtype: Any = float, **options: Any
) -> Array:
    sizes, (power,) = _spread(shape, b)
    return asarray(e.exp(exponential(key, sizes) / power), dtype or float)


@lowering(f"{_RANDOM}.triangular")
def triangular(
    key: Array,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
    **options: Any,
) -> Array:
    sizes, (low, top, high) = _spread(shape, left, mode, right)
    drawn = _unit(key, sizes)
    width = high - low
    rising = low + e.sqrt(drawn * width * (top - low))
    falling = high - e.sqrt((1.0 - drawn) * width * (high - top))
    return asarray(where(drawn < (top - low) / width, rising, falling), dtype or float)


@lowering(f"{_RANDOM}.maxwell")
def maxwell(key: Array, shape: Any = (), dtype: Any = float, **options: Any) -> Array:
    return asarray(norm(normal(key, (*shape_of(shape), 3)), axis=-1), dtype or float)


@lowering(f"{_RANDOM}.double_sided_maxwell")
def double_sided_maxwell(
    key: Array,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: Any = (),
    dtype: Any = float,
    **options: Any,
) -> Array:
    keys = split(key)
    sides = rademacher(keys[1], shape)
    return asarray(loc + sides * maxwell(keys[0], shape) * scale, dtype or float)


@lowering(f"{_RANDOM}.geometric")
def geometric(
    key: Array, p: ArrayLike, shape: Any = None, dtype: Any = None, **options: Any
) -> Array:
    sizes, (chance,) = _spread(shape, p)
    drawn = e.floor(e.log(_unit(key, sizes)) / e.log1p(e.neg(chance))) + 1
    return asarray(drawn, int if dtype is None else dtype)


# --- by rejection ---------------------------------------------------------------------------------------------------


@lowering(f"{_RANDOM}.gamma")
def gamma(
    key: Array, a: ArrayLike, shape: Any = None, dtype: Any = float, **options: Any
) -> Array:
    sizes, (concentration,) = _spread(shape, a)
    return asarray(
        p.sample(key, concentration, shape=sizes, kind="gamma"), dtype or float
    )


@lowering(f"{_RANDOM}.loggamma")
def loggamma(
    key: Array, a: ArrayLike, shape: Any = None, dtype: Any = float, **options: Any
) -> Array:
    return e.log(gamma(key, a, shape, dtype))


@lowering(f"{_RANDOM}.poisson")
def poisson(
    key: Array, lam: ArrayLike, shape: Any = None, dtype: Any = None, **options: Any
) -> Array:
    sizes, (rate,) = _spread(shape, lam)
    return asarray(
        p.sample(key, rate, shape=sizes, kind="poisson"),
        int if dtype is None else dtype,
    )


@lowering(f"{_RANDOM}.binomial")
def binomial(
    key: Array,
    n: ArrayLike,
    p: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
    **options: Any,
) -> Array:
    sizes, (count, chance) = _spread(shape, n, p)
    return asarray(_binomial(key, count, chance, sizes), dtype or float)


def _binomial(key: Array, count: Array, chance: Array, sizes: tuple[int, ...]) -> Array:
    return p.sample(key, count, chance, shape=sizes, kind="binomial")


@lowering(f"{_RANDOM}.beta")
def beta(
    key: Array,
    a: ArrayLike,
    b: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
    **options: Any,
) -> Array:
    sizes, (first, second) = _spread(shape, a, b)
    keys = split(key)
    x = gamma(keys[0], first, sizes)
    y = gamma(keys[1], second, sizes)
    return asarray(x / (x + y), dtype or float)


@lowering(f"{_RANDOM}.chisquare")
def chisquare(
    key: Array, df: ArrayLike, shape: Any = None, dtype: Any = float, **options: Any
) -> Array:
    return 2.0 * gamma(key, asarray(df) / 2, shape, dtype)


@lowering(f"{_RANDOM}.f")
def f(
    key: Array,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
    **options: Any,
) -> Array:
    sizes, (first, second) = _spread(shape, dfnum, dfden)
    keys = split(key)
    ratio = (chisquare(keys[0], first, sizes) / first) / (
        chisquare(keys[1], second, sizes) / second
    )
    return asarray(ratio, dtype or float)


@lowering(f"{_RANDOM}.t")
def t(
    key: Array, df: ArrayLike, shape: Any = (), dtype: Any = float, **options: Any
) -> Array:
    sizes, (degrees,) = _spread(shape, df)
    keys = split(key)
    return asarray(
        normal(keys[0], sizes) * e.rsqrt(chisquare(keys[1], degrees, sizes) / degrees),
        dtype or float,
    )


@lowering(f"{_RANDOM}.wald")
def wald(
    key: Array, mean: ArrayLike, shape: Any = None, dtype: Any = float, **options: Any
) -> Array:
    """By the method of Michael, Schucany and Haas."""
    sizes, (middle,) = _spread(shape, mean)
    keys = split(key)
    square = e.square(normal(keys[0], sizes)) * middle
    root = middle + 0.5 * middle * (square - e.sqrt(square * (4.0 + square)))
    chosen = uniform(keys[1], sizes) <= middle / (middle + root)
    return asarray(where(chosen, root, e.square(middle) / root), dtype or float)


@lowering(f"{_RANDOM}.generalized_normal")
def generalized_normal(
    key: Array, p: ArrayLike, shape: Any = (), dtype: Any = float, **options: Any
) -> Array:
    sizes, (power,) = _spread(shape, p)
    keys = split(key)
    size = e.pow_(gamma(keys[0], 1.0 / power, sizes), 1.0 / power)
    return asarray(rademacher(keys[1], sizes) * size, dtype or float)


# --- vectors and matrices -------------------------------------------------------------------------------------------


@lowering(f"{_RANDOM}.dirichlet")
def dirichlet(
    key: Array, alpha: ArrayLike, shape: Any = None, dtype: Any = float, **options: Any
) -> Array:
    (weights,) = inexact(asarray(alpha))
    if shape is None:
        sizes = sizes_of(weights)
    else:
        sizes = (*shape_of(shape), sizes_of(weights)[-1])
    drawn = gamma(key, weights, sizes)
    return asarray(drawn / sum_(drawn, axis=-1, keepdims=True), dtype or float)


@lowering(f"{_RANDOM}.multivariate_normal")
def multivariate_normal(
    key: Array,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
    method: str = "cholesky",
    **options: Any,
) -> Array:
    middle, spread = inexact(asarray(mean), asarray(cov))
    if method != "cholesky":
        raise Unsupported(f"a normal draw by method {method}")
    size = sizes_of(middle)[-1]
    if shape is None:
        batch = common_shape([middle.dims[:-1], spread.dims[:-2]])
    else:
        batch = shape_of(shape)
    drawn = normal(key, (*batch, size))
    return asarray(
        middle + einsum("...ij,...j->...i", cholesky(spread), drawn), dtype or float
    )


@lowering(f"{_RANDOM}.ball")
def ball(
    key: Array,
    d: int,
    p: ArrayLike = 2,
    shape: Any = (),
    dtype: Any = float,
    **options: Any,
) -> Array:
    keys = split(key)
    power = asarray(p, float)
    size = int_of(d)
    drawn = generalized_normal(keys[0], power, (*shape_of(shape), size))
    rest = exponential(keys[1], shape)
    total = sum_(e.pow_(e.abs_(drawn), broadcast_to(power, drawn.dims)), axis=-1) + rest
    return asarray(
        drawn / expand_dims(e.pow_(total, broadcast_to(1.0 / power, total.dims)), -1),
        dtype or float,
    )


@lowering(f"{_RANDOM}.orthogonal")
def orthogonal(
    key: Array,
    n: int,
    shape: Any = (),
    dtype: Any = float,
    m: int | None = None,
    **options: Any,
) -> Array:
    """Orthonormal columns, or rows where there are fewer of them."""
    rows = int_of(n)
    if m is None:
        columns = rows
    else:
        columns = int_of(m)
    long = max(rows, columns)
    short = min(rows, columns)
    drawn = normal(key, (*shape_of(shape), long, short))
    factor, upper = qr(drawn)
    from shardtypes.semantics.lowerings.contractions import diagonal

    on_diagonal = diagonal(upper, 0, -2, -1)
    signs = e.sign(on_diagonal)
    found = asarray(factor * expand_dims(signs, -2), dtype or float)
    if rows < columns:
        return matrix_transpose(found)
    return found
