"""``jax.scipy.special`` beyond error and gamma functions: formulas over them, from their definitions."""

from __future__ import annotations

import math
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import are_names_known
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    below_zero,
    cast,
    constant,
    dtype_name,
    inexact,
    int_of,
    is_zero,
    like,
    number_of,
    strong,
)
from shardtypes.semantics.lowerings.elementwise import where, xlogy
from shardtypes.semantics.lowerings.floats import iscomplexobj
from shardtypes.semantics.lowerings.operators import greater_equal, less_equal
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives import special as p
from shardtypes.semantics.registry import Refused, Unsupported, lowering

_SPECIAL, _JNP, _LAX = "jax.scipy.special", "jax.numpy", "jax.lax"


def _float(x: ArrayLike) -> Array:
    array = inexact(asarray(x))[0]
    if iscomplexobj(array):
        raise Unsupported("a special function of complex numbers")
    return array


_WIDE = frozenset({"float32", "float64"})


def _wide_float(x: ArrayLike) -> Array:
    """An array of the normal distribution's functions, which cast none."""
    return _wide(asarray(x))


def _wide(array: Array) -> Array:
    """Raises Refused for one of another dtype than of 32 or 64 bits."""
    dtype = array.dtype
    if dtype is not None and dtypes.members(dtype).isdisjoint(_WIDE):
        got = dtypes.written(dtype)
        raise Refused(f"takes float32 or float64, got {got}", "dtypes")
    return strong(array)


def _floats(*given: ArrayLike) -> list[Array]:
    arrays = inexact(*[asarray(x) for x in given])
    if any(iscomplexobj(array) for array in arrays):
        raise Unsupported("a special function of complex numbers")
    return arrays


# --- Bessel functions -----------------------------------------------------------------------------------------------


@lowering(f"{_SPECIAL}.i0", f"{_JNP}.i0")
def i0(x: ArrayLike) -> Array:
    array = _float(x)
    growth = e.exp(e.abs_(array))
    return e.mul(growth, e.bessel_i0e(array))


@lowering(f"{_SPECIAL}.i1")
def i1(x: ArrayLike) -> Array:
    array = _float(x)
    growth = e.exp(e.abs_(array))
    return e.mul(growth, e.bessel_i1e(array))


# --- gamma and beta -------------------------------------------------------------------------------------------------


@lowering(f"{_SPECIAL}.gammasgn")
def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function, which alternates below zero."""
    array = _float(x)
    whole = e.floor(array)
    zero = like(0.0, array)
    is_below = e.lt(array, zero)
    rest = e.rem(e.abs_(whole), like(2.0, array))
    alternating = where(e.ne(rest, zero), -1.0, 1.0)
    is_pole = e.and_(e.eq(whole, array), is_below)
    below = where(is_pole, math.nan, alternating)
    sign = where(is_below, below, 1.0)
    return cast(sign, array.dtype)


@lowering(f"{_SPECIAL}.gamma")
def gamma(x: ArrayLike) -> Array:
    array = _float(x)
    size = e.exp(e.lgamma(array))
    return e.mul(gammasgn(array), size)


@lowering(f"{_SPECIAL}.loggamma")
def loggamma(x: ArrayLike) -> Array:
    array = _float(x)
    is_below = below_zero(array)
    return where(is_below, math.nan, e.lgamma(array))


@lowering(f"{_SPECIAL}.factorial")
def factorial(n: ArrayLike, exact: bool = False) -> Array:
    if exact:
        raise Unsupported("factorials of whole numbers")
    array = _float(n)
    is_below = below_zero(array)
    product = e.exp(e.lgamma(array + 1))
    return where(is_below, 0.0, product)


@lowering(f"{_SPECIAL}.betaln")
def betaln(a: ArrayLike, b: ArrayLike) -> Array:
    x, y = _floats(a, b)
    apart = e.add(e.lgamma(x), e.lgamma(y))
    together = e.lgamma(e.add(x, y))
    return e.sub(apart, together)


@lowering(f"{_SPECIAL}.beta")
def beta(a: ArrayLike, b: ArrayLike) -> Array:
    x, y = _floats(a, b)
    sign = e.mul(gammasgn(x), gammasgn(y))
    sign = e.mul(sign, gammasgn(x + y))
    size = e.exp(betaln(x, y))
    return e.mul(sign, size)


@lowering(f"{_SPECIAL}.poch")
def poch(z: ArrayLike, m: ArrayLike) -> Array:
    x, y = _floats(z, m)
    more = x + y
    size = e.exp(e.sub(e.lgamma(more), e.lgamma(x)))
    sign = e.mul(gammasgn(more), gammasgn(x))
    is_one = is_zero(y)
    return where(is_one, 1.0, e.mul(size, sign))


@lowering(f"{_SPECIAL}.comb")
def comb(N: ArrayLike, k: ArrayLike, *, repetition: bool = False) -> Array:
    n, r = _floats(N, k)
    if repetition:
        n = n + r - 1
    together = e.lgamma(n + 1)
    chosen = e.lgamma(r + 1)
    others = e.lgamma(n - r + 1)
    apart = e.add(chosen, others)
    ways = e.exp(e.sub(together, apart))
    zero = like(0.0, r)
    counts = e.and_(e.ge(r, zero), e.ge(n, zero))
    possible = e.and_(counts, e.le(r, n))
    return where(possible, ways, 0.0)


@lowering(f"{_SPECIAL}.multigammaln")
def multigammaln(a: ArrayLike, d: ArrayLike) -> Array:
    array = strong(_float(a))
    count = int_of(d)
    if count < 1:
        raise Unsupported("multigammaln of no dimensions")
    total = like(count * (count - 1) / 4 * math.log(math.pi), array)
    for j in range(count):
        total = e.add(total, e.lgamma(array - j / 2))
    return total


@lowering(f"{_SPECIAL}.zeta")
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    if q is None:
        raise Unsupported("Riemann's zeta function without q")
    return e.zeta(*_floats(x, q))


# --- the normal distribution ----------------------------------------------------------------------------------------


@lowering(f"{_SPECIAL}.ndtr")
def ndtr(x: ArrayLike) -> Array:
    return 0.5 * e.erfc(-_wide_float(x) / math.sqrt(2))


@lowering(f"{_SPECIAL}.ndtri")
def ndtri(p: ArrayLike) -> Array:
    return math.sqrt(2) * e.erf_inv(2 * _wide_float(p) - 1)


@lowering(f"{_SPECIAL}.log_ndtr")
def log_ndtr(x: ArrayLike, series_order: int = 3) -> Array:
    return p.log_ndtr(_wide_float(x))


@lowering(f"{_SPECIAL}.erfcx")
def erfcx(x: ArrayLike) -> Array:
    return p.erfcx(strong(_float(x)))


@lowering(f"{_SPECIAL}.dawsn")
def dawsn(x: ArrayLike) -> Array:
    return p.dawsn(strong(_float(x)))


# --- entropies ------------------------------------------------------------------------------------------------------


@lowering(f"{_SPECIAL}.xlog1py")
def xlog1py(x: ArrayLike, y: ArrayLike) -> Array:
    a, b = _floats(x, y)
    zero = is_zero(a)
    return where(zero, 0.0, e.mul(a, e.log1p(where(zero, 0.0, b))))


@lowering(f"{_SPECIAL}.rel_entr")
def rel_entr(p: ArrayLike, q: ArrayLike) -> Array:
    """``p log(p / q)``; 0 where p is 0, infinite where they are out of range."""
    a, b = _floats(p, q)
    zero = like(0.0, a)
    both = e.and_(e.gt(a, zero), e.gt(b, zero))
    nothing = e.and_(e.eq(a, zero), e.ge(b, zero))
    x = where(both, a, 1.0)
    y = where(both, b, 1.0)
    entropy = e.sub(xlogy(x, x), xlogy(x, y))
    return where(both, entropy, where(nothing, zero, like(math.inf, a)))


@lowering(f"{_SPECIAL}.kl_div")
def kl_div(p: ArrayLike, q: ArrayLike) -> Array:
    a, b = _floats(p, q)
    return rel_entr(a, b) - a + b


@lowering(f"{_SPECIAL}.boxcox")
def boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    array, power = _floats(x, lmbda)
    return _power_of(e.log(array), power)


@lowering(f"{_SPECIAL}.boxcox1p")
def boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    array, power = _floats(x, lmbda)
    return _power_of(e.log1p(array), power)


def _power_of(logarithm: Array, power: Array) -> Array:
    zero = is_zero(power)
    safe = where(zero, 1.0, power)
    grown = e.expm1(e.mul(safe, logarithm))
    return where(zero, logarithm, e.div(grown, safe))


# --- integrals ------------------------------------------------------------------------------------------------------


@lowering(f"{_SPECIAL}.expi")
def expi(x: ArrayLike) -> Array:
    return p.expi(strong(_float(x)))


@lowering(f"{_SPECIAL}.exp1")
def exp1(x: ArrayLike) -> Array:
    array = strong(_float(x))
    below = below_zero(array)
    found = e.neg(p.expi(e.neg(array)))
    return where(below, math.nan, found)


@lowering(f"{_SPECIAL}.expn")
def expn(n: ArrayLike, x: ArrayLike) -> Array:
    return strong(p.expn(*_floats(n, x)))


@lowering(f"{_SPECIAL}.spence")
def spence(x: ArrayLike) -> Array:
    return p.spence(_wide(_float(x)))


@lowering(f"{_SPECIAL}.fresnel")
def fresnel(x: ArrayLike) -> tuple[Array, Array]:
    array = strong(_float(x))
    return p.fresnel_sine(array), p.fresnel_cosine(array)


@lowering(f"{_SPECIAL}.sici")
def sici(x: ArrayLike) -> tuple[Array, Array]:
    array = strong(_float(x))
    return p.sine_integral(array), p.cosine_integral(array)


@lowering(f"{_SPECIAL}.hyp1f1")
def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    operands = map(strong, _floats(a, b, x))
    return p.hyp1f1(*operands)


@lowering(f"{_SPECIAL}.bernoulli")
def bernoulli(n: int) -> Array:
    """Bernoulli's numbers up to the n-th, with B1 = -1/2."""
    if are_names_known():
        return constant(0, (number_of(n) + 1,), dtype_name(float))
    made = [1.0]
    for m in range(1, int_of(n) + 1):
        before = sum(math.comb(m + 1, k) * made[k] for k in range(m))
        made.append(-before / (m + 1))
    return asarray(np.asarray(made))


# --- jax.nn ---------------------------------------------------------------------------------------------------------


@lowering("jax.nn.tanh")
def tanh(x: ArrayLike) -> Array:
    return e.tanh(*inexact(asarray(x)))


@lowering("jax.nn.glu")
def glu(x: ArrayLike, axis: int = -1) -> Array:
    from shardtypes.semantics.lowerings.joining import split

    array = asarray(x)
    first, second = split(array, 2, axis)
    return e.mul(first, e.logistic(second))


@lowering("jax.nn.log1mexp")
def log1mexp(x: ArrayLike) -> Array:
    """``log(1 - exp(-x))``, exact near zero and far from it."""
    array = _float(x)
    near = e.lt(array, like(math.log(2), array))
    safe = where(near, array, 1.0)
    return where(
        near,
        e.log(e.neg(e.expm1(e.neg(safe)))),
        e.log1p(e.neg(e.exp(e.neg(where(near, 1.0, array))))),
    )


@lowering("jax.nn.logmeanexp")
def logmeanexp(
    x: ArrayLike,
    axis: Any = None,
    where: ArrayLike | None = None,
    keepdims: bool = False,
) -> Array:
    from shardtypes.semantics.lowerings.reductions import logsumexp, sum_
    from shardtypes.semantics.lowerings.shapes import broadcast_to

    array = asarray(x)
    counted = broadcast_to(
        asarray(1.0 if where is None else asarray(where)), array.dims
    )
    total = logsumexp(array, axis, keepdims=keepdims, where=where)
    return total - e.log(
        cast(asarray(sum_(counted, axis, keepdims=keepdims)), total.dtype)
    )


@lowering("jax.nn.sparse_plus")
def sparse_plus(x: ArrayLike) -> Array:
    array = asarray(x)
    middle = 0.25 * e.square(array + 1.0)
    return where(
        less_equal(array, -1.0),
        0.0,
        where(greater_equal(array, 1.0), array, middle),
    )


@lowering("jax.nn.sparse_sigmoid")
def sparse_sigmoid(x: ArrayLike) -> Array:
    from shardtypes.semantics.lowerings.elementwise import clip

    return 0.5 * clip(asarray(x) + 1.0, 0.0, 2.0)
