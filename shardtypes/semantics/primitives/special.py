"""Functions of each entry that are integrals or series, with their derivatives."""

from __future__ import annotations

import math

from shardtypes.semantics import special
from shardtypes.semantics.array import Array
from shardtypes.semantics.primitive import Primitive
from shardtypes.semantics.primitives.elementwise import (
    CURVED,
    GROWING,
    add,
    cos,
    div,
    elementwise,
    exp,
    log,
    mul,
    neg,
    number,
    sin,
    square,
    sub,
)
from shardtypes.semantics.values import Values


def _normal_slope(x: Array, y: Array) -> Array:
    """The density over the distribution function: from logarithms, so that both may be tiny."""
    density = sub(
        mul(number(-0.5, x), square(x)), number(0.5 * math.log(2 * math.pi), x)
    )
    return exp(sub(density, y))


log_ndtr: Primitive = elementwise(
    "log_ndtr", lambda x: special.log_ndtr(x), GROWING, [_normal_slope]
)
erfcx: Primitive = elementwise(
    "erfcx",
    lambda x: special.erfcx(x),
    Values(degrees=(None,), monotone=(-1,)),
    [
        lambda x, y: sub(
            mul(mul(number(2.0, x), x), y), number(2 / math.sqrt(math.pi), x)
        )
    ],
)
dawsn: Primitive = elementwise(
    "dawsn",
    lambda x: special.dawsn(x),
    CURVED,
    [lambda x, y: sub(number(1.0, x), mul(mul(number(2.0, x), x), y))],
)
expi: Primitive = elementwise(
    "expi", lambda x: special.expi(x), CURVED, [lambda x, y: div(exp(x), x)]
)


def _integral_slope(n: Array, x: Array, y: Array) -> Array:
    return neg(expn(sub(n, number(1.0, n)), x))


expn: Primitive = elementwise(
    "expn",
    lambda n, x: special.expn(n, x),
    Values(degrees=(None, None)),
    [None, _integral_slope],
)
spence: Primitive = elementwise(
    "spence",
    lambda x: special.spence(x),
    Values(degrees=(None,), monotone=(-1,)),
    [lambda x, y: div(log(x), sub(number(1.0, x), x))],
)
fresnel_sine: Primitive = elementwise(
    "fresnel_sine",
    lambda x: special.fresnel(x)[0],
    CURVED,
    [lambda x, y: sin(mul(number(math.pi / 2, x), square(x)))],
)
fresnel_cosine: Primitive = elementwise(
    "fresnel_cosine",
    lambda x: special.fresnel(x)[1],
    CURVED,
    [lambda x, y: cos(mul(number(math.pi / 2, x), square(x)))],
)
sine_integral: Primitive = elementwise(
    "sine_integral", lambda x: special.sici(x)[0], CURVED, [lambda x, y: div(sin(x), x)]
)
cosine_integral: Primitive = elementwise(
    "cosine_integral",
    lambda x: special.sici(x)[1],
    CURVED,
    [lambda x, y: div(cos(x), x)],
)


def _hypergeometric_slope(a: Array, b: Array, x: Array, y: Array) -> Array:
    one = number(1.0, x)
    return mul(div(a, b), hyp1f1(add(a, one), add(b, one), x))


hyp1f1: Primitive = elementwise(
    "hyp1f1",
    lambda a, b, x: special.hyp1f1(a, b, x),
    Values(degrees=(None, None, None)),
    [None, None, _hypergeometric_slope],
)
