"""Numbers that NumPy has no function for: error and gamma functions, casts, bits.

Series and continued fractions are those of Abramowitz and Stegun, "Handbook of Mathematical Functions", and of
"Numerical Recipes"; all in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics import work
from shardtypes.semantics.lazy import np

# of a series or a continued fraction; all converge long before for moderate arguments
_TERMS = 500
_TINY = 1e-300
#: Of an array, of each of which a function of Python's is called: so many are one unit of work.
_ENTRIES = 80


def _each(function: Callable[..., float], *arrays: Any) -> Any:
    """A function of numbers, of each entry of arrays that broadcast."""
    work.tell(max(np.size(array) for array in arrays) // _ENTRIES)
    of_each = np.frompyfunc(function, len(arrays), 1)
    return np.asarray(of_each(*arrays), np.float64)


def held(x: Any, dtype: str | None) -> Any:
    """An array as a simulated device holds it: floats in double precision, whatever their dtype."""
    if dtype not in dtypes.CONCRETE:
        return x
    if dtype == "bool":
        return x != 0
    if dtype.startswith("complex"):
        return x.astype(np.complex128)
    if dtype.startswith(("float", "bfloat")):
        return np.real(x).astype(np.float64)
    if dtype.startswith(("int", "uint")):
        if x.dtype.kind in "fc":
            whole = np.trunc(np.real(x))
        else:
            whole = x
        stored = dtype if dtypes.bits(dtype) >= 8 else np.int8
        return whole.astype(np.int64).astype(stored)
    return x


def sign(x: Any) -> Any:
    """-1, 0 or 1; of complex numbers those of absolute value 1 in their direction."""
    if x.dtype.kind != "c":
        return np.sign(x)
    size = np.abs(x)
    safe = np.where(size == 0, 1, size)
    return np.where(size == 0, 0, x / safe)


def rounded(x: Any, method: int) -> Any:
    """``lax.round``: away from zero (0) or to the nearest even (1)."""
    if method:
        return np.round(x)
    return np.copysign(np.floor(np.abs(x) + 0.5), x)


def divided(x: Any, y: Any) -> Any:
    """Division; of integers towards zero, as ``lax.div`` does."""
    if np.result_type(x, y).kind in "iu":
        with np.errstate(divide="ignore"):
            return np.trunc(np.divide(x, y)).astype(np.result_type(x, y))
    with np.errstate(divide="ignore", invalid="ignore"):
        return x / y


def erf(x: Any) -> Any:
    return _each(math.erf, x)


def erfc(x: Any) -> Any:
    return _each(math.erfc, x)


#: Powers of ``w - 2.5`` and of ``sqrt(w) - 3``, from the highest, in the approximations of M. Giles ("Approximating the
#: erfinv function"), which are right to seven digits.
_INVERSE_CENTRE = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503, -0.00417768164,
    0.246640727, 1.50140941,
)  # fmt: skip
_INVERSE_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613, 0.00943887047,
    1.00167406, 2.83297682,
)  # fmt: skip
#: So close to one the approximation has few digits.
_CLOSE = 1e-5


def erf_inv(y: Any) -> Any:
    """A step of Halley's method, which triples the digits, from an approximation by polynomials; more of them close to
    one, for which these are not made."""
    y = np.asarray(y, np.float64)
    size = np.abs(y)
    rest = 1 - size
    with np.errstate(divide="ignore", invalid="ignore"):
        near_one = -np.log(rest * (1 + size))
        near_zero = -np.log1p(-y * y)
        w = np.where(size > 0.5, near_one, near_zero)
        centre = np.polyval(_INVERSE_CENTRE, w - 2.5)
        tail = np.polyval(_INVERSE_TAIL, np.sqrt(w) - 3)
        x = size * np.where(w < 5, centre, tail)
        x = _halley(x, size, rest)
        is_close = rest < _CLOSE
        for _ in range(4 * is_close.any()):
            x[is_close] = _halley(x[is_close], size[is_close], rest[is_close])
        edge = np.where(size == 1, np.inf, np.nan)
        x = np.where(size < 1, x, edge)
        return np.copysign(x, y)


def _halley(x: Any, size: Any, rest: Any) -> Any:
    """A better root of ``erf(x) - size``."""
    slope = 2 / math.sqrt(math.pi) * np.exp(-x * x)
    step = _excess(x, size, rest) / slope
    change = step / (1 + x * step)
    return x - np.where(np.isfinite(step), change, 0)


def _excess(x: Any, size: Any, rest: Any) -> Any:
    """By how much ``erf(x)`` is more than ``size``, which is ``1 - rest``: from the smaller of the two."""
    found = np.empty_like(x)
    is_near_one = size > 0.5
    found[is_near_one] = rest[is_near_one] - erfc(x[is_near_one])
    found[~is_near_one] = erf(x[~is_near_one]) - size[~is_near_one]
    return found


def _lgamma(x: float) -> float:
    is_pole = x <= 0 and x == math.floor(x)
    if is_pole:
        return math.inf
    return math.lgamma(x)


def lgamma(x: Any) -> Any:
    return _each(_lgamma, x)


def _digamma(x: float) -> float:
    if x <= 0 and x == math.floor(x):
        return math.nan
    if x < 0:
        reflected = math.pi / math.tan(math.pi * x)
        return _digamma(1 - x) - reflected
    total = 0.0
    while x < 8:
        total -= 1 / x
        x += 1
    inverse = 1 / (x * x)
    series = 0.0
    for divisor in (132, 240, 252, 120, 12):
        series = inverse * (1 / divisor - series)
    return total + math.log(x) - 0.5 / x - series


def digamma(x: Any) -> Any:
    return _each(_digamma, x)


#: The even ones, from the second on.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6)


def _zeta(s: float, q: float) -> float:
    """Hurwitz's zeta function, by Euler and Maclaurin."""
    if s == 1:
        return math.inf
    if s < 1 or q <= 0:
        return math.nan
    count = 12
    total = math.fsum((q + k) ** -s for k in range(count))
    a = q + count
    integral = a ** (1 - s) / (s - 1)
    total += integral + a**-s / 2
    factor = s
    power = a ** (-s - 1)
    for k, bernoulli in enumerate(_BERNOULLI, start=1):
        even = 2 * k
        share = factor * power / math.factorial(even)
        total += bernoulli * share
        factor *= (s + even - 1) * (s + even)
        power /= a * a
    return float(total)


def zeta(s: Any, q: Any) -> Any:
    return _each(_zeta, s, q)


def _polygamma(m: float, x: float) -> float:
    if m == 0:
        return _digamma(x)
    sign = (-1) ** int(m + 1)
    factorial = math.gamma(m + 1)
    return float(sign * factorial * _zeta(m + 1, x))


def polygamma(m: Any, x: Any) -> Any:
    return _each(_polygamma, m, x)


def _igamma(a: float, x: float) -> float:
    if x < 0 or a <= 0:
        return math.nan
    if x == 0:
        return 0.0
    if x < a + 1:
        return _lower_series(a, x)
    return 1 - _upper_fraction(a, x)


def _lower_series(a: float, x: float) -> float:
    term = total = 1 / a
    for k in range(1, _TERMS):
        term *= x / (a + k)
        total += term
        if abs(term) < abs(total) * 1e-17:
            break
    return total * _gamma_density(a, x)


def _gamma_density(a: float, x: float) -> float:
    """``exp(-x) x**a / Γ(a)``."""
    power = a * math.log(x)
    logarithm = power - x - math.lgamma(a)
    return math.exp(logarithm)


def _upper_fraction(a: float, x: float) -> float:
    """Lentz's method for the continued fraction of the upper incomplete gamma function."""
    b = x + 1 - a
    c = 1 / _TINY
    d = 1 / b
    h = d
    for k in range(1, _TERMS):
        numerator = -k * (k - a)
        b += 2
        d = 1 / _apart(numerator * d + b)
        c = _apart(b + numerator / c)
        change = d * c
        h *= change
        if abs(change - 1) < 1e-16:
            break
    return _gamma_density(a, x) * h


def _apart(value: float) -> float:
    if abs(value) > _TINY:
        return value
    return _TINY


def igamma(a: Any, x: Any) -> Any:
    return _each(_igamma, a, x)


def _igammac(a: float, x: float) -> float:
    if x >= a + 1 and a > 0:
        return _upper_fraction(a, x)
    return 1 - _igamma(a, x)


def igammac(a: Any, x: Any) -> Any:
    return _each(_igammac, a, x)


def _betainc(a: float, b: float, x: float) -> float:
    if not 0 <= x <= 1 or a <= 0 or b <= 0:
        return math.nan
    if x in (0, 1):
        return float(x)
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    power = a * math.log(x) + b * math.log1p(-x)
    front = math.exp(scale + power)
    crossover = (a + 1) / (a + b + 2)
    if x < crossover:
        return front * _beta_fraction(a, b, x) / a
    return 1 - front * _beta_fraction(b, a, 1 - x) / b


def _beta_fraction(a: float, b: float, x: float) -> float:
    c = 1.0
    first = (a + b) * x / (a + 1)
    d = 1 / _apart(1 - first)
    h = d
    for m in range(1, _TERMS):
        place = a + 2 * m
        before = (place - 1) * place
        behind = place * (place + 1)
        even = m * (b - m) * x / before
        odd = -(a + m) * (a + b + m) * x / behind
        for numerator in (even, odd):
            d = 1 / _apart(1 + numerator * d)
            c = _apart(1 + numerator / c)
            change = d * c
            h *= change
        if abs(change - 1) < 1e-16:
            break
    return h


def betainc(a: Any, b: Any, x: Any) -> Any:
    return _each(_betainc, a, b, x)


def _scaled_bessel(order: int, x: float) -> float:
    """``exp(-|x|) I(x)`` as the mean of a periodic function, for which the trapezoidal rule converges at once."""
    size = abs(x)
    count = 64 + int(4 * math.sqrt(size) + size / 8)
    heights = []
    for k in range(count):
        angle = 2 * math.pi * k / count
        growth = math.exp(x * math.cos(angle) - size)
        heights.append(growth * math.cos(order * angle))
    return math.fsum(heights) / count


def bessel_i0e(x: Any) -> Any:
    return _each(lambda v: _scaled_bessel(0, v), x)


def bessel_i1e(x: Any) -> Any:
    return _each(lambda v: _scaled_bessel(1, v), x)


def _unsigned(x: Any) -> Any:
    return x.view(f"uint{8 * x.dtype.itemsize}")


def shifted_right(x: Any, by: Any) -> Any:
    """Shifts in zeros, also for signed numbers."""
    places = np.asarray(by, x.dtype)
    shifted = np.right_shift(_unsigned(x), _unsigned(places))
    return shifted.view(x.dtype)


def population_count(x: Any) -> Any:
    count = np.vectorize(lambda v: int(v).bit_count(), otypes=[x.dtype])
    return count(_unsigned(x))


def leading_zeros(x: Any) -> Any:
    bits = 8 * x.dtype.itemsize
    count = np.vectorize(lambda v: bits - int(v).bit_length(), otypes=[x.dtype])
    return count(_unsigned(x))


# --- integrals and series of each entry -------------------------------------------------------------------------------

_EULER = 0.57721566490153286061


def _log_ndtr(x: float) -> float:
    if x > -10:
        return math.log(0.5 * math.erfc(-x / math.sqrt(2)))
    scaled = _erfcx(-x / math.sqrt(2))
    return -0.5 * x * x + math.log(0.5 * scaled)


def log_ndtr(x: Any) -> Any:
    return _each(_log_ndtr, x)


def _erfcx(x: float) -> float:
    """``exp(x**2) erfc(x)``: a continued fraction where the factors would be huge and tiny."""
    if x < 5:
        if x > -26:
            return math.exp(x * x) * math.erfc(x)
        return math.inf
    fraction = 0.0
    for k in range(60, 0, -1):
        fraction = (k / 2) / (x + fraction)
    return 1 / (math.sqrt(math.pi) * (x + fraction))


def erfcx(x: Any) -> Any:
    return _each(_erfcx, x)


def _dawsn(x: float) -> float:
    """Rybicki's sum, which converges exponentially in its step."""
    if abs(x) > 1e4:
        return 0.5 / x
    step = 0.2
    middle = 2 * round(abs(x) / (2 * step))
    rest = abs(x) - middle * step
    terms = []
    for n in range(-61, 62, 2):
        distance = rest - n * step
        terms.append(math.exp(-(distance**2)) / (n + middle))
    total = math.fsum(terms)
    return math.copysign(total / math.sqrt(math.pi), x)


def dawsn(x: Any) -> Any:
    return _each(_dawsn, x)


def _expi(x: float) -> float:
    if x == 0:
        return -math.inf
    if x < -2:
        return -_expn_fraction(1, -x)
    term = 1.0
    total = 0.0
    for k in range(1, _TERMS):
        term *= x / k
        total += term / k
        if abs(term) < 1e-17 * abs(total) * k:
            break
    return _EULER + math.log(abs(x)) + total


def expi(x: Any) -> Any:
    return _each(_expi, x)


def _expn(n: float, x: float) -> float:
    """``E_n`` of whole n, from ``E1`` by recurrence, which loses digits only where x is large."""
    if x < 0 or n < 0:
        return math.nan
    if x == 0:
        return 1 / (n - 1) if n > 1 else math.inf
    if n == 0:
        return math.exp(-x) / x
    if x > 1:
        return _expn_fraction(int(n), x)
    found = -_expi(-x)
    for k in range(1, int(n)):
        found = (math.exp(-x) - x * found) / k
    return found


def _expn_fraction(n: int, x: float) -> float:
    """``E_n`` by its continued fraction."""
    fraction = 0.0
    for k in range(200, 0, -1):
        fraction = (n + k - 1) / (1 + k / (x + fraction))
    return math.exp(-x) / (x + fraction)


def expn(n: Any, x: Any) -> Any:
    return _each(_expn, n, x)


def _spence(x: float) -> float:
    if x < 0:
        return math.nan
    if x == 0:
        return math.pi**2 / 6
    if x > 1.5:
        logarithm = math.log(x)
        return -0.5 * logarithm**2 - _spence(1 / x)
    if x < 0.5:
        logarithms = math.log(x) * math.log1p(-x)
        return math.pi**2 / 6 - logarithms - _spence(1 - x)
    return math.fsum((1 - x) ** k / k**2 for k in range(1, 80))


def spence(x: Any) -> Any:
    return _each(_spence, x)


def _integral(function: Callable[[Any], Any], x: Any) -> Any:
    """From 0 to each entry, by Gauss and Legendre's rule on as many pieces as the largest needs."""
    x = np.asarray(x, np.float64)
    nodes, weights = np.polynomial.legendre.leggauss(24)
    largest = np.max(np.minimum(np.abs(x), 60.0), initial=0.0)
    pieces = 1 + int(largest**2 / 2)
    starts = np.arange(pieces)
    inside = (nodes + 1) / 2
    places = (inside + starts[:, None]).ravel() / pieces
    shares = np.tile(weights / 2, pieces) / pieces
    wide = x[..., None]
    values = function(wide * places)
    return np.sum(values * wide * shares, axis=-1)


def fresnel(x: Any) -> tuple[Any, Any]:
    """The integrals of ``sin(π t**2 / 2)`` and ``cos(π t**2 / 2)``."""
    right_angle = math.pi / 2
    sine = _integral(lambda t: np.sin(right_angle * t * t), x)
    cosine = _integral(lambda t: np.cos(right_angle * t * t), x)
    return sine, cosine


def sici(x: Any) -> tuple[Any, Any]:
    """The integrals of ``sin t / t`` and ``cos t / t``."""
    sine = _integral(lambda t: np.sinc(t / math.pi), x)
    with np.errstate(divide="ignore", invalid="ignore"):
        cosine = _EULER + np.log(x) - _integral(_versed, x)
    return sine, cosine


def _versed(t: Any) -> Any:
    """``(1 - cos t) / t``, also at zero."""
    half = t / 2
    return np.sin(half) * np.sinc(half / math.pi)


def _hyp1f1(a: float, b: float, x: float) -> float:
    if x < 0:
        return math.exp(x) * _hyp1f1(b - a, b, -x)  # Kummer: the terms of one sign
    term = total = 1.0
    for k in range(_TERMS):
        term *= (a + k) * x / ((b + k) * (k + 1))
        total += term
        if abs(term) < abs(total) * 1e-17:
            break
    return total


def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    return _each(_hyp1f1, a, b, x)
