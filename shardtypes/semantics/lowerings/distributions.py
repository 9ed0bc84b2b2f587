"""``jax.scipy.stats``: densities and distribution functions, from their definitions.

A distribution with a place and a width is written for the standard one: ``standard`` gives the logarithm of its
density, and what else is known in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature

from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.contractions import einsum
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    below_zero,
    beside_constants,
    cast,
    default,
    inexact,
    like,
    real,
    sizes_of,
    strong,
)
from shardtypes.semantics.lowerings.elementwise import (
    clip,
    logit,
    softplus,
    where,
    xlogy,
)
from shardtypes.semantics.lowerings.reductions import sum_
from shardtypes.semantics.lowerings.special import (
    betaln,
    log_ndtr,
    ndtr,
    ndtri,
    xlog1py,
)
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import Unsupported, lowering

_STATS = "jax.scipy.stats"
Function = Callable[..., Array]


def _floats(*given: ArrayLike) -> list[Array]:
    return inexact(*[asarray(x) for x in given])


#: Where JAX writes no constant in the dtype of the numbers, integers with a Python float give a weak result.
_WEAK = frozenset(
    """
    binom.logpmf binom.pmf
    expon.pdf expon.logpdf expon.cdf expon.logcdf expon.sf expon.logsf expon.ppf
    gamma.sf gamma.logsf
    gennorm.pdf gennorm.logpdf gennorm.cdf
    gumbel_l.pdf gumbel_l.logpdf gumbel_l.cdf gumbel_l.logcdf gumbel_l.sf gumbel_l.logsf gumbel_l.ppf
    gumbel_r.pdf gumbel_r.logpdf gumbel_r.cdf gumbel_r.logcdf gumbel_r.logsf gumbel_r.ppf
    logistic.cdf logistic.sf
    pareto.logcdf
    poisson.pmf poisson.logpmf
    uniform.pdf uniform.logpdf uniform.ppf
    vonmises.pdf vonmises.logpdf
    wrapcauchy.pdf wrapcauchy.logpdf
    """.split()
)


def _distribution(name: str) -> Callable[[Function], Function]:
    """Register a function, given by ``norm.pdf``."""

    def register(made: Function) -> Function:
        if name not in _WEAK:
            made = _then(made, beside_constants)
        return lowering(f"{_STATS}.{name}")(made)

    return register


def _then(function: Function, last: Callable[[Array], Array]) -> Function:
    """A function of what another one gives, with its parameters."""

    @wraps(function)
    def made(*args: ArrayLike, **kwargs: ArrayLike) -> Array:
        return last(function(*args, **kwargs))

    return made


def _exponential(function: Function) -> Function:
    return _then(function, e.exp)


def _logarithm(function: Function) -> Function:
    return _then(function, e.log)


def _standardised(function: Function, shapes: str, density: bool) -> Function:
    """A function of ``(x - loc) / scale`` and of the ``shapes``; the logarithm of a density is less by that of the
    width."""
    names = [*shapes.split(), "loc", "scale"]

    def made(x: ArrayLike, *rest: ArrayLike, **named: ArrayLike) -> Array:
        given_by_name = {
            "loc": 0,
            "scale": 1,
            **dict(zip(names, rest, strict=False)),
            **named,
        }
        array, *given, middle, width = _floats(
            x, *(given_by_name[name] for name in names)
        )
        standard = e.div(e.sub(array, middle), width)
        found = function(standard, *given)
        if density:
            return e.sub(found, e.log(width))
        return found

    parameters = [_parameter("x"), *map(_parameter, shapes.split())]
    parameters += [_parameter("loc", 0), _parameter("scale", 1)]
    made.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # inspect reads it
    return made


def _parameter(name: str, default: object = Parameter.empty) -> Parameter:
    kind = Parameter.POSITIONAL_OR_KEYWORD
    return Parameter(name, kind, default=default, annotation="ArrayLike")


def _at_quantile(function: Function) -> Function:
    """A quantile of the standard distribution in place and width."""

    def made(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
        array, middle, width = _floats(q, loc, scale)
        found = e.mul(function(array), width)
        return e.add(found, middle)

    return made


def _by_q(function: Function) -> Function:
    return function


def _by_p(function: Function) -> Function:
    def made(p: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
        return function(p, loc, scale)

    return made


def _by_x(function: Function) -> Function:
    def made(x: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
        return function(x, loc, scale)

    return made


#: Distributions for which JAX calls a probability otherwise than most.
_NAMED_OTHERWISE = {"gumbel_r": _by_p, "gumbel_l": _by_p, "logistic": _by_x}


def _declare(distribution: str, shapes: str = "", **functions: Function) -> None:
    """Register functions of the standard distribution. A density, and a function whose logarithm or exponential is
    given, follow."""
    for name in ("pdf", "cdf", "sf"):
        if f"log{name}" in functions and name not in functions:
            functions[name] = _exponential(functions[f"log{name}"])
    for name, function in functions.items():
        if name in ("ppf", "isf"):
            named = _NAMED_OTHERWISE.get(distribution, _by_q)
            made = named(_at_quantile(function))
        elif name in ("pdf",):
            made = _exponential(_standardised(functions["logpdf"], shapes, True))
        else:
            made = _standardised(function, shapes, name == "logpdf")
        _distribution(f"{distribution}.{name}")(made)


def _inside(holds: Array, found: Array, outside: float = -math.inf) -> Array:
    return where(holds, found, outside)


# --- distributions on the line --------------------------------------------------------------------------------------


def _normal(x: Array) -> Array:
    return -0.5 * e.square(x) - 0.5 * math.log(2 * math.pi)


_declare(
    "norm",
    logpdf=_normal,
    cdf=ndtr,
    logcdf=log_ndtr,
    sf=lambda x: ndtr(e.neg(x)),
    logsf=lambda x: log_ndtr(e.neg(x)),
)


def _of_probability(function: Function) -> Function:
    """A quantile of what is no boolean."""

    def made(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
        if asarray(q).dtype == "bool":
            raise TypeError("a probability is a number")
        return function(q, loc, scale)

    return made


def _at_wide_quantile(function: Function) -> Function:
    """In 64 bits where these are on."""
    at_quantile = _at_quantile(function)

    def made(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
        found = at_quantile(q, loc, scale)
        if default(float) == "float64":
            return cast(found, "float64")
        return found

    return made


_distribution("norm.ppf")(_of_probability(_at_wide_quantile(ndtri)))
_distribution("norm.isf")(_of_probability(_at_wide_quantile(lambda q: e.neg(ndtri(q)))))


def _cauchy_cdf(x: Array) -> Array:
    return 0.5 + e.atan(x) / math.pi


_declare(
    "cauchy",
    logpdf=lambda x: e.neg(e.log1p(e.square(x))) - math.log(math.pi),
    cdf=_cauchy_cdf,
    logcdf=_logarithm(_cauchy_cdf),
    sf=lambda x: _cauchy_cdf(e.neg(x)),
    logsf=lambda x: e.log(_cauchy_cdf(e.neg(x))),
    ppf=lambda q: e.tan(math.pi * (q - 0.5)),
    isf=lambda q: e.tan(math.pi * (0.5 - q)),
)


def _laplace_cdf(x: Array) -> Array:
    below = e.le(x, like(0.0, x))
    tail = 0.5 * e.exp(e.neg(e.abs_(x)))
    return where(below, tail, 1.0 - tail)


_declare("laplace", logpdf=lambda x: e.neg(e.abs_(x)) - math.log(2), cdf=_laplace_cdf)
_declare(
    "logistic",
    logpdf=lambda x: e.neg(x) - 2.0 * softplus(e.neg(x)),
    cdf=e.logistic,
    sf=lambda x: e.logistic(e.neg(x)),
    ppf=logit,
    isf=lambda q: e.neg(logit(q)),
)


def _log_of_rest(logarithm: Array) -> Array:
    """``log(1 - exp(x))`` for a negative x."""
    return e.log1p(e.neg(e.exp(logarithm)))


def _gumbel(sign: int) -> dict[str, Function]:
    """The distribution of largest values, and its mirror image, that of smallest ones."""

    def tail(x: Array) -> Array:
        return e.neg(e.exp(x if sign < 0 else e.neg(x)))

    def quantile(q: Array) -> Array:
        if sign > 0:
            return e.neg(e.log(e.neg(e.log(q))))
        return e.log(e.neg(e.log1p(e.neg(q))))

    if sign > 0:
        far = ("logcdf", "cdf", "logsf", "sf")
    else:
        far = ("logsf", "sf", "logcdf", "cdf")
    own = (
        tail,
        _exponential(tail),
        lambda x: _log_of_rest(tail(x)),
        lambda x: e.neg(e.expm1(tail(x))),
    )
    density = lambda x: (x if sign < 0 else e.neg(x)) + tail(x)  # noqa: E731 - one line of a table
    return {"logpdf": density, "ppf": quantile, **dict(zip(far, own, strict=True))}


_declare("gumbel_r", "", **_gumbel(1))
_declare("gumbel_l", "", **_gumbel(-1))


def _student(x: Array, df: Array) -> Array:
    half = df / 2
    scale = e.lgamma(half + 0.5) - e.lgamma(half)
    scale = scale - 0.5 * e.log(math.pi * df)
    distance = e.log1p(e.square(x) / df)
    return scale - (half + 0.5) * distance


_declare("t", "df", logpdf=_student)


# --- on the positive side, and on an interval ------------------------------------------------------------------------


def _positive(x: Array) -> Array:
    return e.ge(x, like(0.0, x))


def _safe(x: Array, holds: Array, value: float = 1.0) -> Array:
    """An array without what would make logarithms infinite, where that is not looked at."""
    return where(holds, x, value)


_declare(
    "expon",
    logpdf=lambda x: _inside(_positive(x), e.neg(x)),
    cdf=lambda x: _inside(_positive(x), e.neg(e.expm1(e.neg(x))), 0.0),
    logcdf=lambda x: _inside(_positive(x), _log_of_rest(e.neg(_safe(x, _positive(x))))),
    logsf=lambda x: _inside(_positive(x), e.neg(x), 0.0),
    ppf=lambda q: e.neg(e.log1p(e.neg(q))),
)


def _gamma_log_density(x: Array, a: Array) -> Array:
    inside = _positive(x)
    power = xlogy(a - 1.0, _safe(x, inside))
    return _inside(inside, power - x - e.lgamma(a))


def _gamma_cdf(x: Array, a: Array) -> Array:
    return _inside(_positive(x), e.igamma(a, _safe(x, _positive(x))), 0.0)


def _gamma_sf(x: Array, a: Array) -> Array:
    return _inside(_positive(x), e.igammac(a, _safe(x, _positive(x))), 1.0)


_declare(
    "gamma",
    "a",
    logpdf=_gamma_log_density,
    cdf=_gamma_cdf,
    logcdf=_logarithm(_gamma_cdf),
    sf=_gamma_sf,
    logsf=_logarithm(_gamma_sf),
)
_declare(
    "chi2",
    "df",
    logpdf=lambda x, df: _gamma_log_density(x / 2, df / 2) - math.log(2),
    cdf=lambda x, df: _gamma_cdf(x / 2, df / 2),
    logcdf=lambda x, df: e.log(_gamma_cdf(x / 2, df / 2)),
    sf=lambda x, df: _gamma_sf(x / 2, df / 2),
    logsf=lambda x, df: e.log(_gamma_sf(x / 2, df / 2)),
)


def _unit(x: Array) -> Array:
    return e.and_(_positive(x), e.le(x, like(1.0, x)))


def _beta_log_density(x: Array, a: Array, b: Array) -> Array:
    inside = _unit(x)
    place = _safe(x, inside, 0.5)
    rising = xlogy(a - 1.0, place)
    falling = xlog1py(b - 1.0, e.neg(place))
    found = rising + falling - betaln(a, b)
    return _inside(inside, found)


def _beta_cdf(x: Array, a: Array, b: Array) -> Array:
    return e.betainc(a, b, clip(x, 0.0, 1.0))


def _beta_sf(x: Array, a: Array, b: Array) -> Array:
    return e.betainc(b, a, 1.0 - clip(x, 0.0, 1.0))


_declare(
    "beta",
    "a b",
    logpdf=_beta_log_density,
    cdf=_beta_cdf,
    logcdf=_logarithm(_beta_cdf),
    sf=_beta_sf,
    logsf=_logarithm(_beta_sf),
)


def _pareto_tail(x: Array, b: Array) -> Array:
    one = like(1.0, x)
    outside = e.lt(x, one)
    inside = _safe(x, e.ge(x, one))
    tail = e.neg(b * e.log(inside))
    return where(outside, 0.0, tail)


def _pareto_below(x: Array, b: Array) -> Array:
    inside = e.ge(x, like(1.0, x))
    return _inside(inside, _log_of_rest(e.neg(b * e.log(_safe(x, inside, 2.0)))))


def _pareto_log_density(x: Array, b: Array) -> Array:
    inside = e.ge(x, like(1.0, x))
    falling = (b + 1.0) * e.log(_safe(x, inside))
    return _inside(inside, e.log(b) - falling)


_declare(
    "pareto", "b", logpdf=_pareto_log_density, logcdf=_pareto_below, logsf=_pareto_tail
)


@_distribution("pareto.ppf")
def pareto_ppf(
    q: ArrayLike, b: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1
) -> Array:
    array, power, middle, width = _floats(q, b, loc, scale)
    tail = e.log1p(e.neg(array))
    grown = e.exp(e.neg(tail / power))
    return middle + width * grown


_declare(
    "uniform",
    logpdf=lambda x: _inside(_unit(x), 0.0 * x),
    cdf=lambda x: strong(clip(x, 0.0, 1.0)),
)


@_distribution("uniform.ppf")
def uniform_ppf(q: ArrayLike, loc: ArrayLike = 0, scale: ArrayLike = 1) -> Array:
    array, middle, width = _floats(q, loc, scale)
    return _inside(_unit(array), array * width + middle, math.nan)


def _between(a: Array, b: Array) -> Array:
    """``log(Φ(b) - Φ(a))``, from the side on which both are small."""
    right = e.gt(a, like(0.0, a))
    low = where(right, e.neg(b), a)
    high = where(right, e.neg(a), b)
    top = log_ndtr(high)
    return top + _log_of_rest(log_ndtr(low) - top)


def _truncated(x: Array, a: Array, b: Array) -> Array:
    return e.and_(e.ge(x, a), e.le(x, b))


def _truncated_log_cdf(x: Array, a: Array, b: Array) -> Array:
    place = clip(x, a, b)
    found = _between(a, place) - _between(a, b)
    above = e.ge(x, b)
    below = e.le(x, a)
    inside = where(below, -math.inf, found)
    return where(above, 0.0, inside)


_declare(
    "truncnorm",
    "a b",
    logpdf=lambda x, a, b: _inside(_truncated(x, a, b), _normal(x) - _between(a, b)),
    logcdf=_truncated_log_cdf,
    logsf=lambda x, a, b: _truncated_log_cdf(e.neg(x), e.neg(b), e.neg(a)),
)


# --- with shapes only -----------------------------------------------------------------------------------------------


@_distribution("gennorm.logpdf")
def gennorm_logpdf(x: ArrayLike, beta: ArrayLike) -> Array:
    array, power = _floats(x, beta)
    scale = e.log(0.5 * power) - e.lgamma(1.0 / power)
    return scale - e.pow_(e.abs_(array), power)


@_distribution("gennorm.cdf")
def gennorm_cdf(x: ArrayLike, beta: ArrayLike) -> Array:
    array, power = _floats(x, beta)
    distance = e.pow_(e.abs_(array), power)
    share = e.igamma(1.0 / power, distance)
    return 0.5 * (1.0 + e.sign(array) * share)


@_distribution("vonmises.logpdf")
def vonmises_logpdf(x: ArrayLike, kappa: ArrayLike) -> Array:
    array, strength = _floats(x, kappa)
    return (
        strength * (e.cos(array) - 1.0)
        - math.log(2 * math.pi)
        - e.log(e.bessel_i0e(strength))
    )


@_distribution("wrapcauchy.logpdf")
def wrapcauchy_logpdf(x: ArrayLike, c: ArrayLike) -> Array:
    array, strength = _floats(x, c)
    square = e.square(strength)
    inside = e.and_(_positive(array), e.le(array, like(2 * math.pi, array)))
    distance = 1.0 + square - 2.0 * strength * e.cos(array)
    found = e.log((1.0 - square) / (2 * math.pi * distance))
    return _inside(inside, found)


# --- of whole numbers -----------------------------------------------------------------------------------------------


def _choices(n: Array, k: Array) -> Array:
    """The logarithm of the number of ways to choose."""
    all_orders = e.lgamma(n + 1.0)
    of_chosen = e.lgamma(k + 1.0)
    of_others = e.lgamma(n - k + 1.0)
    return all_orders - of_chosen - of_others


@_distribution("bernoulli.logpmf")
def bernoulli_logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    array, chance, middle = _floats(k, p, loc)
    x = array - middle
    one = like(1.0, x)
    zero = like(0.0, x)
    known = e.or_(e.eq(x, zero), e.eq(x, one))
    return _inside(known, xlogy(x, chance) + xlog1py(1.0 - x, e.neg(chance)))


@_distribution("bernoulli.cdf")
def bernoulli_cdf(k: ArrayLike, p: ArrayLike) -> Array:
    array, chance = _floats(k, p)
    below = below_zero(array)
    return where(below, 0.0, where(e.lt(array, like(1.0, array)), 1.0 - chance, 1.0))


@_distribution("bernoulli.ppf")
def bernoulli_ppf(q: ArrayLike, p: ArrayLike) -> Array:
    array, chance = _floats(q, p)
    found = where(e.le(array, 1.0 - chance), like(0.0, array), like(1.0, array))
    known = e.and_(_unit(array), _unit(chance))
    return _inside(known, found, math.nan)


@_distribution("binom.logpmf")
def binom_logpmf(k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    array, count, chance, middle = _floats(k, n, p, loc)
    x = array - middle
    ways = _choices(count, x)
    hits = xlogy(x, chance)
    misses = xlog1py(count - x, e.neg(chance))
    found = ways + hits + misses
    return _inside(e.and_(_positive(x), e.le(x, count)), found)


@_distribution("betabinom.logpmf")
def betabinom_logpmf(
    k: ArrayLike, n: ArrayLike, a: ArrayLike, b: ArrayLike, loc: ArrayLike = 0
) -> Array:
    array, count, first, second, middle = _floats(k, n, a, b, loc)
    x = array - middle
    found = (
        _choices(count, x)
        + betaln(x + first, count - x + second)
        - betaln(first, second)
    )
    return _inside(e.and_(_positive(x), e.le(x, count)), found)


@_distribution("nbinom.logpmf")
def nbinom_logpmf(
    k: ArrayLike, n: ArrayLike, p: ArrayLike, loc: ArrayLike = 0
) -> Array:
    array, count, chance, middle = _floats(k, n, p, loc)
    x = array - middle
    every = e.lgamma(x + count)
    ordered = e.lgamma(x + 1.0)
    ways = every - ordered - e.lgamma(count)
    return _inside(
        _positive(x), ways + xlogy(count, chance) + xlog1py(x, e.neg(chance))
    )


@_distribution("geom.logpmf")
def geom_logpmf(k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Array:
    array, chance, middle = _floats(k, p, loc)
    x = array - middle
    is_positive = e.gt(x, like(0.0, x))
    failures = xlog1py(x - 1.0, e.neg(chance))
    return _inside(is_positive, failures + e.log(chance))


@_distribution("poisson.logpmf")
def poisson_logpmf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    array, rate, middle = _floats(k, mu, loc)
    x = array - middle
    whole = e.and_(_positive(x), e.eq(x, e.floor(x)))
    return _inside(whole, xlogy(x, rate) - e.lgamma(x + 1.0) - rate)


@_distribution("poisson.cdf")
def poisson_cdf(k: ArrayLike, mu: ArrayLike, loc: ArrayLike = 0) -> Array:
    array, rate, middle = _floats(k, mu, loc)
    x = array - middle
    return _inside(
        _positive(x), e.igammac(e.floor(_safe(x, _positive(x))) + 1.0, rate), 0.0
    )


# --- of vectors -----------------------------------------------------------------------------------------------------


@_distribution("multinomial.logpmf")
def multinomial_logpmf(x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    counts, chances, total = _floats(x, p, n)
    found = e.lgamma(total + 1.0) + sum_(
        xlogy(counts, chances) - e.lgamma(counts + 1.0), axis=-1
    )
    return _inside(e.eq(sum_(counts), total), found)


@_distribution("dirichlet.logpdf")
def dirichlet_logpdf(x: ArrayLike, alpha: ArrayLike) -> Array:
    places, weights = _floats(x, alpha)
    if (
        weights.rank != 1
        or places.rank < 1
        or sizes_of(places)[0] != sizes_of(weights)[0]
    ):
        raise Unsupported(
            "a Dirichlet density whose first dimension leaves the last share out"
        )
    scale = e.lgamma(sum_(weights)) - sum_(e.lgamma(weights))
    column = weights[(slice(None), *(None,) * (places.rank - 1))]
    total = sum_(places, axis=0)
    apart = e.abs_(total - 1.0)
    is_whole = e.lt(apart, like(1e-6, total))
    inside = e.and_(_all_positive(places), is_whole)
    return _inside(inside, scale + sum_(xlogy(column - 1.0, places), axis=0))


def _all_positive(places: Array) -> Array:
    from shardtypes.semantics.lowerings.reductions import all_

    return all_(e.gt(places, like(0.0, places)), axis=0)


@_distribution("multivariate_normal.logpdf")
def multivariate_normal_logpdf(
    x: ArrayLike, mean: ArrayLike, cov: ArrayLike, allow_singular: None = None
) -> Array:
    from shardtypes.semantics.lowerings.linalg import inv, slogdet

    places, middle, spread = _floats(x, mean, cov)
    is_usual = places.rank and middle.rank and spread.rank == 2
    if allow_singular is not None or not is_usual:
        raise Unsupported(
            "a normal density whose covariance is a number, a vector or singular"
        )
    rest = places - middle
    distance = einsum("...i,ij,...j->...", rest, inv(spread), rest)
    size = sizes_of(spread)[0]
    volume = real(size) * math.log(2 * math.pi) + slogdet(spread)[1]
    density: Array = -0.5 * (distance + volume)
    return density


_LOGS: dict[str, Function] = {
    "gennorm.pdf": gennorm_logpdf,
    "vonmises.pdf": vonmises_logpdf,
    "wrapcauchy.pdf": wrapcauchy_logpdf,
    "bernoulli.pmf": bernoulli_logpmf,
    "binom.pmf": binom_logpmf,
    "betabinom.pmf": betabinom_logpmf,
    "nbinom.pmf": nbinom_logpmf,
    "geom.pmf": geom_logpmf,
    "poisson.pmf": poisson_logpmf,
    "multinomial.pmf": multinomial_logpmf,
    "dirichlet.pdf": dirichlet_logpdf,
    "multivariate_normal.pdf": multivariate_normal_logpdf,
}
for _place, _function in _LOGS.items():
    lowering(f"{_STATS}.{_place}")(_exponential(_function))
