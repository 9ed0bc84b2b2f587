"""The distributions of ``jax.random`` beyond the uniform and the normal one.

They are made of these from their definitions. Which numbers are drawn is not what JAX draws: they are the same for the
same key and shape.
"""

from __future__ import annotations

import math
from typing import Any

from shardtypes.lang.size import Size
from shardtypes.semantics import kinds
from shardtypes.semantics.array import Array, Shape
from shardtypes.semantics.comparison import common_shape
from shardtypes.semantics.lowerings.contractions import einsum
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    inexact,
    int_of,
    number_of,
    of_shape,
    shape_of,
    sizes_of,
)
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.linalg import cholesky, norm, qr
from shardtypes.semantics.lowerings.operators import power
from shardtypes.semantics.lowerings.random import (
    bernoulli,
    drawn_as,
    exponential,
    normal,
    split,
    uniform,
)
from shardtypes.semantics.lowerings.reductions import sum_
from shardtypes.semantics.lowerings.shapes import (
    broadcast_to,
    expand_dims,
    matrix_transpose,
)
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import samples as p
from shardtypes.semantics.registry import Unsupported, lowering

_RANDOM = "jax.random"


def _spread(shape: Any, *given: ArrayLike) -> tuple[Shape, list[Array]]:
    """The shape of the result, and the parameters in it."""
    arrays = inexact(*[asarray(one) for one in given])
    if shape is None:
        sizes = common_shape([array.dims for array in arrays])
    else:
        sizes = shape_of(shape)
    return sizes, [broadcast_to(array, sizes) for array in arrays]


def _unit(key: Array, sizes: Shape) -> Array:
    """Above 0 and below 1."""
    return uniform(key, sizes, float, 1e-7, 1.0)


def _in_dtype(drawn: Array, dtype: Any) -> Array:
    return drawn_as(drawn, dtype or float)


def _whole(drawn: Array, dtype: Any) -> Array:
    return drawn_as(drawn, int if dtype is None else dtype, kinds.INTEGERS)


@lowering(f"{_RANDOM}.cauchy", unread="out_sharding")
def cauchy(key: Array, shape: Any = (), dtype: Any = float) -> Array:
    drawn = _unit(key, shape_of(shape))
    angle = math.pi * (drawn - 0.5)
    return _in_dtype(e.tan(angle), dtype)


@lowering(f"{_RANDOM}.laplace", unread="out_sharding")
def laplace(key: Array, shape: Any = (), dtype: Any = float) -> Array:
    drawn = uniform(key, shape, float, -1.0 + 1e-7, 1.0)
    size = e.log1p(e.neg(e.abs_(drawn)))
    found = e.neg(e.mul(e.sign(drawn), size))
    return _in_dtype(found, dtype)


@lowering(f"{_RANDOM}.logistic", unread="out_sharding")
def logistic(key: Array, shape: Any = (), dtype: Any = float) -> Array:
    drawn = _unit(key, shape_of(shape))
    rest = e.log1p(e.neg(drawn))
    return _in_dtype(e.sub(e.log(drawn), rest), dtype)


@lowering(f"{_RANDOM}.rademacher", unread="out_sharding")
def rademacher(key: Array, shape: Any = (), dtype: Any = None) -> Array:
    drawn = where(bernoulli(key, 0.5, shape), 1, -1)
    return asarray(drawn, int if dtype is None else dtype)


@lowering(f"{_RANDOM}.lognormal", unread="out_sharding")
def lognormal(
    key: Array,
    sigma: ArrayLike = 1.0,
    shape: Any = None,
    dtype: Any = float,
) -> Array:
    sizes, (width,) = _spread(shape, sigma)
    return drawn_as(e.exp(normal(key, sizes) * width), dtype or float, kinds.INEXACT)


@lowering(f"{_RANDOM}.rayleigh", unread="out_sharding")
def rayleigh(
    key: Array, scale: ArrayLike, shape: Any = None, dtype: Any = float
) -> Array:
    sizes, (width,) = _spread(shape, scale)
    drawn = e.log(_unit(key, sizes))
    return _in_dtype(width * e.sqrt(-2.0 * drawn), dtype)


@lowering(f"{_RANDOM}.weibull_min")
def weibull_min(
    key: Array,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Any = (),
    dtype: Any = float,
) -> Array:
    """The parameters need not fit the shape: the result is of that to which all of them broadcast."""
    width, exponent = inexact(asarray(scale), asarray(concentration))
    sizes = shape_of(shape)
    drawn = power(exponential(key, sizes), 1.0 / exponent)
    return _in_dtype(drawn * width, dtype)


@lowering(f"{_RANDOM}.pareto", unread="out_sharding")
def pareto(key: Array, b: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    sizes, (power,) = _spread(shape, b)
    return _in_dtype(e.exp(exponential(key, sizes) / power), dtype)


@lowering(f"{_RANDOM}.triangular", unread="out_sharding")
def triangular(
    key: Array,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
) -> Array:
    sizes, (low, top, high) = _spread(shape, left, mode, right)
    drawn = _unit(key, sizes)
    width = high - low
    rising = low + e.sqrt(drawn * width * (top - low))
    falling = high - e.sqrt((1.0 - drawn) * width * (high - top))
    return _in_dtype(where(drawn < (top - low) / width, rising, falling), dtype)


@lowering(f"{_RANDOM}.maxwell", unread="out_sharding")
def maxwell(key: Array, shape: Any = (), dtype: Any = float) -> Array:
    drawn = normal(key, (*shape_of(shape), 3))
    lengths = norm(drawn, axis=-1)
    return _in_dtype(lengths, dtype)


@lowering(f"{_RANDOM}.double_sided_maxwell")
def double_sided_maxwell(
    key: Array,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: Any = (),
    dtype: Any = float,
) -> Array:
    """The shape stands in front of that of the parameters, which is there twice where none is given."""
    middle, width = inexact(asarray(loc), asarray(scale))
    own = common_shape([middle.dims, width.dims])
    sizes = (*(shape_of(shape) or own), *own)
    keys = split(key)
    sides = rademacher(keys[1], sizes)
    return _in_dtype(sides * maxwell(keys[0], sizes) * width + middle, dtype)


@lowering(f"{_RANDOM}.geometric", unread="out_sharding")
def geometric(key: Array, p: ArrayLike, shape: Any = None, dtype: Any = None) -> Array:
    sizes, (chance,) = _spread(shape, p)
    drawn = e.log(_unit(key, sizes))
    drawn = e.floor(drawn / e.log1p(e.neg(chance))) + 1
    return _whole(drawn, dtype)


# --- by rejection ---------------------------------------------------------------------------------------------------


@lowering(f"{_RANDOM}.gamma", unread="method out_sharding")
def gamma(key: Array, a: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    sizes, (concentration,) = _spread(shape, a)
    return _in_dtype(
        p.sample(key, concentration, shape=sizes, kind="gamma"), dtype or float
    )


@lowering(f"{_RANDOM}.loggamma", unread="method out_sharding")
def loggamma(key: Array, a: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    return e.log(gamma(key, a, shape, dtype))


@lowering(f"{_RANDOM}.poisson", unread="method out_sharding")
def poisson(key: Array, lam: ArrayLike, shape: Any = None, dtype: Any = None) -> Array:
    sizes, (rate,) = _spread(shape, lam)
    return _whole(p.sample(key, rate, shape=sizes, kind="poisson"), dtype)


@lowering(f"{_RANDOM}.binomial")
def binomial(
    key: Array,
    n: ArrayLike,
    p: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
) -> Array:
    sizes, (count, chance) = _spread(shape, n, p)
    return _in_dtype(_binomial(key, count, chance, sizes), dtype)


def _binomial(key: Array, count: Array, chance: Array, sizes: Shape) -> Array:
    return p.sample(key, count, chance, shape=sizes, kind="binomial")


@lowering(f"{_RANDOM}.beta", unread="method out_sharding")
def beta(
    key: Array,
    a: ArrayLike,
    b: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
) -> Array:
    sizes, (first, second) = _spread(shape, a, b)
    keys = split(key)
    x = gamma(keys[0], first, sizes)
    y = gamma(keys[1], second, sizes)
    return _in_dtype(x / (x + y), dtype)


@lowering(f"{_RANDOM}.chisquare", unread="method out_sharding")
def chisquare(
    key: Array, df: ArrayLike, shape: Any = None, dtype: Any = float
) -> Array:
    return 2.0 * gamma(key, asarray(df) / 2, shape, dtype)


@lowering(f"{_RANDOM}.f", unread="out_sharding")
def f(
    key: Array,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
) -> Array:
    sizes, (first, second) = _spread(shape, dfnum, dfden)
    keys = split(key)
    ratio = (chisquare(keys[0], first, sizes) / first) / (
        chisquare(keys[1], second, sizes) / second
    )
    return _in_dtype(ratio, dtype)


@lowering(f"{_RANDOM}.t", unread="out_sharding")
def t(key: Array, df: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    sizes, (degrees,) = _spread(shape, df)
    keys = split(key)
    spread = e.rsqrt(chisquare(keys[1], degrees, sizes) / degrees)
    return _in_dtype(normal(keys[0], sizes) * spread, dtype)


@lowering(f"{_RANDOM}.wald", unread="out_sharding")
def wald(key: Array, mean: ArrayLike, shape: Any = None, dtype: Any = float) -> Array:
    """By the method of Michael, Schucany and Haas."""
    sizes, (middle,) = _spread(shape, mean)
    keys = split(key)
    square = e.square(normal(keys[0], sizes)) * middle
    root = middle + 0.5 * middle * (square - e.sqrt(square * (4.0 + square)))
    chosen = uniform(keys[1], sizes) <= middle / (middle + root)
    return _in_dtype(where(chosen, root, e.square(middle) / root), dtype)


@lowering(f"{_RANDOM}.generalized_normal", unread="out_sharding")
def generalized_normal(
    key: Array, p: ArrayLike, shape: Any = (), dtype: Any = float
) -> Array:
    sizes, (power,) = _spread(shape, p)
    keys = split(key)
    size = e.pow_(gamma(keys[0], 1.0 / power, sizes), 1.0 / power)
    return _in_dtype(rademacher(keys[1], sizes) * size, dtype)


# --- vectors and matrices -------------------------------------------------------------------------------------------


@lowering(f"{_RANDOM}.dirichlet", unread="out_sharding")
def dirichlet(
    key: Array, alpha: ArrayLike, shape: Any = None, dtype: Any = float
) -> Array:
    (weights,) = inexact(asarray(alpha))
    if shape is None:
        sizes = sizes_of(weights)
    else:
        sizes = (*shape_of(shape), sizes_of(weights)[-1])
    drawn = gamma(key, weights, sizes)
    return _in_dtype(drawn / sum_(drawn, axis=-1, keepdims=True), dtype)


@lowering(f"{_RANDOM}.multivariate_normal", unread="out_sharding")
def multivariate_normal(
    key: Array,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Any = None,
    dtype: Any = float,
    method: str = "cholesky",
) -> Array:
    middle, spread = inexact(asarray(mean), asarray(cov))
    if method != "cholesky":
        raise Unsupported(f"a normal draw by method {method}")
    size = sizes_of(middle)[-1]
    if shape is None:
        batch = common_shape([middle.dims[:-1], spread.dims[:-2]])
    else:
        batch = shape_of(shape)
    drawn = _in_dtype(normal(key, (*batch, size)), dtype)
    return middle + einsum("...ij,...j->...i", cholesky(spread), drawn)


@lowering(f"{_RANDOM}.ball", unread="out_sharding")
def ball(
    key: Array,
    d: int,
    p: ArrayLike = 2,
    shape: Any = (),
    dtype: Any = float,
) -> Array:
    keys = split(key)
    power = asarray(p, float)
    size = int_of(d)
    drawn = generalized_normal(keys[0], power, (*shape_of(shape), size))
    rest = exponential(keys[1], shape)
    powers = e.pow_(e.abs_(drawn), broadcast_to(power, drawn.dims))
    total = sum_(powers, axis=-1) + rest
    inverse = broadcast_to(1.0 / power, total.dims)
    length = e.pow_(total, inverse)
    return _in_dtype(drawn / expand_dims(length, -1), dtype)


@lowering(f"{_RANDOM}.orthogonal", unread="out_sharding")
def orthogonal(
    key: Array,
    n: int,
    shape: Any = (),
    dtype: Any = float,
    m: int | None = None,
) -> Array:
    """Orthonormal columns, or rows where there are fewer of them."""
    rows = number_of(n)
    if m is None:
        columns = rows
    else:
        columns = number_of(m)
    if isinstance(rows, Size) or isinstance(columns, Size):
        one = normal(key, (), dtype or float)
        return of_shape(one, (*shape_of(shape), rows, columns))
    long = max(rows, columns)
    short = min(rows, columns)
    drawn = normal(key, (*shape_of(shape), long, short))
    factor, upper = qr(drawn)
    from shardtypes.semantics.lowerings.contractions import diagonal

    on_diagonal = diagonal(upper, 0, -2, -1)
    signs = e.sign(on_diagonal)
    found = drawn_as(factor * expand_dims(signs, -2), dtype or float, kinds.INEXACT)
    if rows < columns:
        return matrix_transpose(found)
    return found
