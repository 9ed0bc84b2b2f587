"""Functions of each entry, in ``jax.numpy``, ``jax.lax``, ``jax.nn`` and ``jax.scipy.special``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from shardtypes.lang import dtypes
from shardtypes.semantics import kinds
from shardtypes.semantics.array import Array
from shardtypes.semantics.comparison import (
    common_shape,
    of_common_rank,
)
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    below_zero,
    beside_constants,
    cast,
    inexact,
    is_of,
    is_zero,
    like,
    not_read,
    of_shape,
    promoted,
    shape_of,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.operators import (
    absolute,
    divide,
    multiply,
    numeric,
    remainder,
    subtract,
)
from shardtypes.semantics.lowerings.unpromoted import (
    of_one_dtype,
    of_one_rank,
    of_one_shape,
)
from shardtypes.semantics.primitive import Primitive
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives.structure import zeros_like
from shardtypes.semantics.registry import Refused, Unsupported, lowering, register
from shardtypes.semantics.rounding import is_left_out

_JNP, _LAX, _NN, _SPECIAL = "jax.numpy", "jax.lax", "jax.nn", "jax.scipy.special"


def _direct(primitive: Primitive) -> Callable[[ArrayLike], Array]:
    """A function of one array, which it takes as it is."""

    def function(x: ArrayLike) -> Array:
        return primitive(asarray(x))

    return function


def _alike(primitive: Primitive, **operands: ArrayLike) -> Array:
    """A function of ``lax``, of operands of one dtype and rank, by the names of its parameters."""
    arrays = of_one_dtype(**operands)
    of_one_rank(*arrays)
    return primitive(*arrays)


def _of_two(primitive: Primitive) -> Callable[[ArrayLike, ArrayLike], Array]:
    def function(x: ArrayLike, y: ArrayLike) -> Array:
        return _alike(primitive, x=x, y=y)

    return function


def _of_floats(primitive: Primitive) -> Callable[[ArrayLike], Array]:
    """A function of ``jax.numpy`` that takes integers as floats."""

    def function(x: ArrayLike) -> Array:
        return primitive(*inexact(asarray(x)))

    return function


def _of_two_floats(primitive: Primitive) -> Callable[[ArrayLike, ArrayLike], Array]:
    def function(x1: ArrayLike, x2: ArrayLike) -> Array:
        return primitive(*inexact(asarray(x1), asarray(x2)))

    return function


def _promoting(primitive: Primitive) -> Callable[[ArrayLike, ArrayLike], Array]:
    def function(x1: ArrayLike, x2: ArrayLike) -> Array:
        return primitive(*promoted(asarray(x1), asarray(x2)))

    return function


_DIRECT = {
    "neg": e.neg,
    "abs": e.abs_,
    "sign": e.sign,
    "square": e.square,
    "floor": e.floor,
    "ceil": e.ceil,
    "asin": e.asin,
    "acos": e.acos,
    "atan": e.atan,
    "sinh": e.sinh,
    "cosh": e.cosh,
    "asinh": e.asinh,
    "acosh": e.acosh,
    "atanh": e.atanh,
    "erf": e.erf,
    "erfc": e.erfc,
    "erf_inv": e.erf_inv,
    "lgamma": e.lgamma,
    "digamma": e.digamma,
    "bessel_i0e": e.bessel_i0e,
    "bessel_i1e": e.bessel_i1e,
    "is_finite": e.is_finite,
    "real": e.real,
    "imag": e.imag,
    "bitwise_not": e.not_,
    "population_count": e.population_count,
    "clz": e.clz,
}
_ACCURATE = {
    "sqrt": e.sqrt,
    "rsqrt": e.rsqrt,
    "cbrt": e.cbrt,
    "exp": e.exp,
    "exp2": e.exp2,
    "expm1": e.expm1,
    "log": e.log,
    "log1p": e.log1p,
    "tanh": e.tanh,
    "logistic": e.logistic,
    "sin": e.sin,
    "cos": e.cos,
    "tan": e.tan,
}
"""Functions that may be asked to be exact."""
register(_LAX, {name: _direct(primitive) for name, primitive in _DIRECT.items()})
register(
    _LAX,
    {name: _direct(primitive) for name, primitive in _ACCURATE.items()},
    unread="accuracy",
)

_BINARY = {
    "add": e.add,
    "sub": e.sub,
    "div": e.div,
    "rem": e.rem,
    "max": e.max_,
    "min": e.min_,
    "atan2": e.atan2,
    "complex": e.complex_,
    "eq": e.eq,
    "ne": e.ne,
    "lt": e.lt,
    "le": e.le,
    "gt": e.gt,
    "ge": e.ge,
    "bitwise_and": e.and_,
    "bitwise_or": e.or_,
    "bitwise_xor": e.xor,
    "shift_left": e.shift_left,
    "shift_right_arithmetic": e.shift_right_arithmetic,
    "shift_right_logical": e.shift_right_logical,
}
register(_LAX, {name: _of_two(primitive) for name, primitive in _BINARY.items()})


@lowering(f"{_LAX}.mul")
def lax_mul(x: ArrayLike, y: ArrayLike, *, out_dtype: Any = None) -> Array:
    not_read(out_dtype=out_dtype)
    return _alike(e.mul, x=x, y=y)


@lowering(f"{_LAX}.nextafter")
def lax_nextafter(x1: ArrayLike, x2: ArrayLike) -> Array:
    return _alike(e.nextafter, x1=x1, x2=x2)


@lowering(f"{_LAX}.igamma")
def igamma(a: ArrayLike, x: ArrayLike) -> Array:
    return _alike(e.igamma, a=a, x=x)


@lowering(f"{_LAX}.igammac")
def igammac(a: ArrayLike, x: ArrayLike) -> Array:
    return _alike(e.igammac, a=a, x=x)


@lowering(f"{_LAX}.polygamma")
def lax_polygamma(m: ArrayLike, x: ArrayLike) -> Array:
    return _alike(e.polygamma, m=m, x=x)


@lowering(f"{_LAX}.zeta")
def zeta(x: ArrayLike, q: ArrayLike) -> Array:
    return _alike(e.zeta, x=x, q=q)


@lowering(f"{_LAX}.pow")
def lax_pow(x: ArrayLike, y: ArrayLike) -> Array:
    """The exponents may be integers."""
    base = asarray(x)
    exponents = asarray(y)
    kinds.INEXACT.require(base.dtype)
    if dtypes.is_kind(exponents.dtype, "signed", "unsigned") is False:
        base, exponents = of_one_dtype(x=x, y=y)
    of_one_rank(base, exponents)
    return e.pow_(base, exponents)


@lowering(f"{_LAX}.conj")
def lax_conj(x: ArrayLike) -> Array:
    """Of floats, too, the result is complex."""
    array = asarray(x)
    if dtypes.is_kind(array.dtype, "floating"):
        return e.complex_(array, weak_as(zeros_like(array), array))
    return e.conj(array)


@lowering(f"{_LAX}.betainc")
def lax_betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    return _alike(e.betainc, a=a, b=b, x=x)


@lowering(f"{_LAX}.clamp")
def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """The bounds are scalars, or have the shape of the array."""
    low, array, high = of_one_dtype(min=min, x=x, max=max)
    bounds = [bound for bound in (low, high) if bound.shape != ()]
    if array.shape == () and bounds:
        of_one_shape(*bounds)
        raise Unsupported("bounds of a scalar: JAX takes them where vmap maps these")
    of_one_shape(array, *bounds)
    return e.clamp(low, array, high)


_FLOATING = {
    "sqrt": e.sqrt,
    "cbrt": e.cbrt,
    "exp": e.exp,
    "exp2": e.exp2,
    "expm1": e.expm1,
    "log": e.log,
    "log1p": e.log1p,
    "tanh": e.tanh,
    "sin": e.sin,
    "cos": e.cos,
    "tan": e.tan,
    "arcsin": e.asin,
    "asin": e.asin,
    "arccos": e.acos,
    "acos": e.acos,
    "arctan": e.atan,
    "atan": e.atan,
    "sinh": e.sinh,
    "cosh": e.cosh,
    "arcsinh": e.asinh,
    "asinh": e.asinh,
    "arccosh": e.acosh,
    "acosh": e.acosh,
    "arctanh": e.atanh,
    "atanh": e.atanh,
}
register(_JNP, {name: _of_floats(primitive) for name, primitive in _FLOATING.items()})
register(
    _JNP,
    {
        "arctan2": _of_two_floats(e.atan2),
        "atan2": _of_two_floats(e.atan2),
        "nextafter": _of_two_floats(e.nextafter),
    },
)
register(
    _SPECIAL,
    {
        "erf": _of_floats(e.erf),
        "erfc": _of_floats(e.erfc),
        "erfinv": _of_floats(e.erf_inv),
        "gammaln": _of_floats(e.lgamma),
        "digamma": _of_floats(e.digamma),
        "expit": _of_floats(e.logistic),
        "i0e": _of_floats(e.bessel_i0e),
        "i1e": _of_floats(e.bessel_i1e),
    },
)
register(
    _JNP,
    {
        "maximum": _promoting(e.max_),
        "minimum": _promoting(e.min_),
        "sign": _direct(e.sign),
        "positive": _direct(e.copy),
    },
)


@lowering(f"{_JNP}.fmod")
def fmod(x: ArrayLike, y: ArrayLike) -> Array:
    return e.rem(*numeric(x, y))


@lowering(f"{_JNP}.square")
def square(x: ArrayLike) -> Array:
    return e.square(*numeric(x))


@lowering(f"{_SPECIAL}.gammainc")
def gammainc(a: ArrayLike, x: ArrayLike) -> Array:
    return e.igamma(*inexact(asarray(a), asarray(x)))


@lowering(f"{_SPECIAL}.gammaincc")
def gammaincc(a: ArrayLike, x: ArrayLike) -> Array:
    return e.igammac(*inexact(asarray(a), asarray(x)))


@lowering(f"{_SPECIAL}.betainc")
def betainc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    return e.betainc(*inexact(asarray(a), asarray(b), asarray(x)))


@lowering(f"{_SPECIAL}.polygamma")
def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    order = asarray(n)
    if dtypes.is_kind(order.dtype, "signed", "unsigned") is False:
        raise TypeError(f"the order of polygamma is an integer, not {order.dtype}")
    return e.polygamma(*inexact(order, asarray(x)))


def _rounding(primitive: Primitive) -> Callable[[ArrayLike], Array]:
    def function(x: ArrayLike) -> Array:
        array = asarray(x)
        whole = dtypes.is_kind(array.dtype, "signed", "unsigned", "bool")
        if whole or is_left_out():
            return array
        return primitive(array)

    return function


register(
    _JNP,
    {
        "floor": _rounding(e.floor),
        "ceil": _rounding(e.ceil),
        "trunc": _rounding(e.special_trunc),
        "fix": _rounding(e.special_trunc),
    },
)


@lowering(f"{_JNP}.round", f"{_JNP}.around")
def round_(a: ArrayLike, decimals: int = 0, out: None = None) -> Array:
    array = asarray(a)
    kinds.NUMBERS.require(array.dtype)
    if is_of(array, "bool", "signed", "unsigned") or is_left_out():
        return array
    factor = asarray(10.0**decimals)
    scaled = e.mul(*promoted(array, factor))
    return e.div(*promoted(_to_even(scaled), factor))


@lowering(f"{_JNP}.rint")
def rint(x: ArrayLike) -> Array:
    given = asarray(x)
    if dtypes.is_kind(given.dtype, "floating", "complex"):
        array = given
    else:
        (array,) = inexact(given)
        array = strong(array)
    if is_left_out():
        return array
    return _to_even(array)


def _to_even(array: Array) -> Array:
    """Rounded to whole numbers, complex ones in both parts."""
    if dtypes.is_kind(array.dtype, "complex"):
        parts = (e.round_(one(array), rounding_method=1) for one in (e.real, e.imag))
        return e.complex_(*parts)
    return e.round_(array, rounding_method=1)


@lowering(f"{_LAX}.round")
def lax_round(x: ArrayLike, rounding_method: Any = 0) -> Array:
    array = asarray(x)
    method = int(getattr(rounding_method, "value", rounding_method))
    if is_left_out():
        return array
    return e.round_(array, rounding_method=method)


@lowering(f"{_LAX}.integer_pow")
def integer_pow(x: ArrayLike, y: int) -> Array:
    return e.integer_pow(asarray(x), y=int(y))


@lowering(f"{_LAX}.convert_element_type")
def convert_element_type(operand: ArrayLike, new_dtype: Any) -> Array:
    return asarray(operand, new_dtype)


@lowering(f"{_LAX}.reduce_precision")
def reduce_precision(
    operand: ArrayLike, exponent_bits: int, mantissa_bits: int
) -> Array:
    return asarray(operand)


@lowering(f"{_JNP}.astype")
def astype(
    x: ArrayLike, dtype: Any, /, *, copy: bool = False, device: object = None
) -> Array:
    return asarray(x, dtype)


@lowering(f"{_JNP}.clip")
def clip(
    arr: ArrayLike | None = None,
    /,
    min: ArrayLike | None = None,
    max: ArrayLike | None = None,
    *,
    a: ArrayLike | None = None,
    a_min: ArrayLike | None = None,
    a_max: ArrayLike | None = None,
) -> Array:
    """By the names that it has, and those that it had."""
    given = a if arr is None else arr
    if given is None:
        raise TypeError("clip takes an array")
    array = asarray(given)
    low = a_min if min is None else min
    high = a_max if max is None else max
    for one in (array, low, high):
        if one is not None:
            kinds.ORDERED.require(asarray(one).dtype)
    if low is not None:
        array = e.max_(*promoted(array, asarray(low)))
    if high is not None:
        array = e.min_(*promoted(array, asarray(high)))
    return array


def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike) -> Array:
    """``x`` where a condition holds, else ``y``."""
    chosen = asarray(condition)
    if chosen.dtype == "bool":
        mask = chosen
    else:
        mask = e.ne(chosen, like(0, chosen))
    a, b = promoted(asarray(x), asarray(y))
    common_shape([one.shape for one in (mask, a, b) if one.shape is not None])
    return e.select_n(mask, b, a, cases=2)


@lowering(f"{_LAX}.select")
def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    cases = of_one_dtype(on_true=on_true, on_false=on_false)
    return _selected(asarray(pred), list(reversed(cases)))


@lowering(f"{_LAX}.select_n")
def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    named = {f"cases[{i}]": case for i, case in enumerate(cases)}
    return _selected(asarray(which), of_one_dtype(**named))


def _selected(which: Array, cases: list[Array]) -> Array:
    """One of several arrays of one shape; what chooses has it too, or is a scalar."""
    kinds.BITS.require(which.dtype)
    if which.dtype == "bool" and len(cases) > 2:
        raise Refused("chooses by booleans among more than 2")
    if which.shape:
        which, *cases = of_common_rank([which, *cases])
    else:
        cases = of_common_rank(cases)
    why = Refused("shapes differ", "joins")
    of_one_shape(*cases, why=why)
    if which.shape != () and cases[0].shape == ():
        raise Unsupported(
            "a choice of scalars: JAX takes it where vmap maps what chooses"
        )
    if which.shape is None and cases[0].shape is not None:
        return of_shape(cases[0], cases[0].shape)
    if which.shape != ():
        of_one_shape(which, *cases, why=why)
    return e.select_n(which, *cases, cases=len(cases))


def truth(x: ArrayLike) -> Array:
    """The array as booleans: what is not zero is true."""
    array = asarray(x)
    if array.dtype == "bool":
        return array
    return e.ne(array, like(0, array))


@lowering(f"{_JNP}.logical_not")
def logical_not(x: ArrayLike) -> Array:
    return e.not_(truth(x))


@lowering(f"{_JNP}.logical_and")
def logical_and(x: ArrayLike, y: ArrayLike) -> Array:
    return e.and_(truth(x), truth(y))


@lowering(f"{_JNP}.logical_or")
def logical_or(x: ArrayLike, y: ArrayLike) -> Array:
    return e.or_(truth(x), truth(y))


@lowering(f"{_JNP}.logical_xor")
def logical_xor(x: ArrayLike, y: ArrayLike) -> Array:
    return e.xor(truth(x), truth(y))


@lowering(f"{_JNP}.isfinite")
def isfinite(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    if dtypes.is_kind(array.dtype, "complex"):
        parts = e.is_finite(e.real(array)), e.is_finite(e.imag(array))
        return e.and_(*parts)
    return e.is_finite(array)


@lowering(f"{_JNP}.isnan")
def isnan(x: ArrayLike) -> Array:
    array = asarray(x)
    return e.ne(array, array)


@lowering(f"{_JNP}.isinf")
def isinf(x: ArrayLike) -> Array:
    array = absolute(x)
    if dtypes.is_kind(array.dtype, "signed", "unsigned", "bool"):
        return e.ne(array, array)
    return e.eq(array, like(math.inf, array))


@lowering(f"{_JNP}.nan_to_num")
def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: float = 0.0,
    posinf: Any = None,
    neginf: Any = None,
) -> Array:
    array = asarray(x)
    if not dtypes.is_kind(array.dtype, "floating", "complex"):
        return array
    largest = 3.4028234663852886e38
    array = where(isnan(array), nan, array)
    array = where(
        e.eq(array, like(math.inf, array)), largest if posinf is None else posinf, array
    )
    array = where(
        e.eq(array, like(-math.inf, array)),
        -largest if neginf is None else neginf,
        array,
    )
    return strong(array)


@lowering(f"{_JNP}.reciprocal")
def reciprocal(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    one, array = promoted(asarray(1.0), array)
    return e.div(one, array)


@lowering(f"{_JNP}.float_power")
def float_power(x: ArrayLike, y: ArrayLike) -> Array:
    return e.pow_(*inexact(asarray(x), asarray(y)))


@lowering(f"{_JNP}.fabs")
def fabs(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    kinds.FLOATS.require(array.dtype)
    return e.abs_(array)


@lowering(f"{_JNP}.log2")
def log2(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    found = e.log(strong(array))
    return e.div(found, like(math.log(2), found))


@lowering(f"{_JNP}.log10")
def log10(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    found = e.log(strong(array))
    return e.div(found, like(math.log(10), found))


@lowering(f"{_JNP}.hypot")
def hypot(x: ArrayLike, y: ArrayLike) -> Array:
    a, b = inexact(asarray(x), asarray(y))
    squares = e.add(e.square(a), e.square(b))
    return beside_constants(e.sqrt(squares))


@lowering(f"{_JNP}.logaddexp")
def logaddexp(x: ArrayLike, y: ArrayLike) -> Array:
    a, b = inexact(asarray(x), asarray(y))
    largest = e.max_(a, b)
    distance = e.abs_(e.sub(a, b))
    less = e.exp(e.neg(distance))
    return e.add(largest, e.log1p(less))


@lowering(f"{_JNP}.sinc")
def sinc(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    angle = e.mul(array, like(math.pi, array))
    zero = is_zero(angle)
    safe = where(zero, 1.0, angle)
    return where(zero, 1.0, e.div(e.sin(safe), safe))


@lowering(f"{_JNP}.deg2rad", f"{_JNP}.radians")
def deg2rad(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    return e.mul(array, like(math.pi / 180, array))


@lowering(f"{_JNP}.rad2deg", f"{_JNP}.degrees")
def rad2deg(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    return e.mul(array, like(180 / math.pi, array))


@lowering(f"{_JNP}.copy")
def copy(a: ArrayLike, order: str | None = None) -> Array:
    return e.copy(asarray(a))


@lowering(f"{_JNP}.copysign")
def copysign(x: ArrayLike, y: ArrayLike) -> Array:
    a, b = inexact(asarray(x), asarray(y))
    size = e.abs_(a)
    is_negative = below_zero(b)
    return where(is_negative, e.neg(size), size)


@lowering(f"{_JNP}.spacing")
def spacing(x: ArrayLike) -> Array:
    """How far the next number is that is larger in size."""
    (array,) = inexact(asarray(x))
    kinds.FLOATS.require(array.dtype)
    outwards = copysign(math.inf, array)
    return strong(e.sub(e.nextafter(array, outwards), array))


@lowering(f"{_JNP}.heaviside")
def heaviside(x: ArrayLike, y: ArrayLike) -> Array:
    a, b = map(beside_constants, inexact(asarray(x), asarray(y)))
    zero = like(0.0, a)
    return where(e.lt(a, zero), 0.0, where(e.gt(a, zero), 1.0, b))


@lowering(f"{_JNP}.isclose")
def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    x, y = inexact(asarray(a), asarray(b))
    bound = multiply(absolute(y), rtol) + atol
    near = e.and_(isfinite(y), e.le(absolute(subtract(x, y)), bound))
    same = e.or_(e.eq(x, y), near)
    if equal_nan:
        return e.or_(same, e.and_(isnan(x), isnan(y)))
    return same


@lowering(f"{_JNP}.divmod")
def divmod_(x: ArrayLike, y: ArrayLike) -> tuple[Array, Array]:
    from shardtypes.semantics.lowerings.operators import floor_divide

    return floor_divide(x, y), remainder(x, y)


# --- activations --------------------------------------------------------------------------------------------------


@lowering(f"{_NN}.relu")
def relu(x: ArrayLike) -> Array:
    return e.max_(*promoted(asarray(x), asarray(0)))


@lowering(f"{_NN}.relu6")
def relu6(x: ArrayLike) -> Array:
    return e.min_(*promoted(relu(x), asarray(6.0)))


@lowering(f"{_NN}.sigmoid")
def sigmoid(x: ArrayLike) -> Array:
    return e.logistic(asarray(x))


@lowering(f"{_NN}.softplus")
def softplus(x: ArrayLike) -> Array:
    return logaddexp(x, 0)


@lowering(f"{_NN}.silu", f"{_NN}.swish")
def silu(x: ArrayLike) -> Array:
    return multiply(x, sigmoid(x))


@lowering(f"{_NN}.mish")
def mish(x: ArrayLike) -> Array:
    return multiply(x, e.tanh(softplus(x)))


@lowering(f"{_NN}.log_sigmoid")
def log_sigmoid(x: ArrayLike) -> Array:
    return e.neg(softplus(e.neg(asarray(x))))


@lowering(f"{_NN}.gelu")
def gelu(x: ArrayLike, approximate: bool = True) -> Array:
    (array,) = inexact(asarray(x))
    array = strong(array)
    if approximate:
        inner = multiply(
            math.sqrt(2 / math.pi), array + 0.044715 * e.integer_pow(array, y=3)
        )
        return multiply(0.5, multiply(array, 1.0 + e.tanh(inner)))
    scaled = divide(e.neg(array), math.sqrt(2))
    chance = multiply(array, e.erfc(scaled))
    return multiply(0.5, chance)


@lowering(f"{_NN}.elu")
def elu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    array = asarray(x)
    positive = e.gt(array, like(0, array))
    return where(positive, array, multiply(alpha, e.expm1(where(positive, 0.0, array))))


@lowering(f"{_NN}.selu")
def selu(x: ArrayLike) -> Array:
    return multiply(1.0507009873554805, elu(x, 1.6732632423543772))


@lowering(f"{_NN}.celu")
def celu(x: ArrayLike, alpha: ArrayLike = 1.0) -> Array:
    return e.max_(*promoted(asarray(x), asarray(0.0))) + multiply(
        alpha, e.expm1(divide(e.min_(*promoted(asarray(x), asarray(0.0))), alpha))
    )


@lowering(f"{_NN}.leaky_relu")
def leaky_relu(x: ArrayLike, negative_slope: ArrayLike = 0.01) -> Array:
    array = asarray(x)
    return where(e.ge(array, like(0, array)), array, multiply(negative_slope, array))


@lowering(f"{_NN}.soft_sign")
def soft_sign(x: ArrayLike) -> Array:
    return divide(x, 1 + absolute(x))


@lowering(f"{_NN}.hard_tanh")
def hard_tanh(x: ArrayLike) -> Array:
    return clip(x, -1, 1)


@lowering(f"{_NN}.hard_sigmoid")
def hard_sigmoid(x: ArrayLike) -> Array:
    return divide(relu6(asarray(x) + 3.0), 6.0)


@lowering(f"{_NN}.hard_silu", f"{_NN}.hard_swish")
def hard_silu(x: ArrayLike) -> Array:
    return multiply(x, hard_sigmoid(x))


@lowering(f"{_NN}.squareplus")
def squareplus(x: ArrayLike, b: ArrayLike = 4) -> Array:
    (array,) = inexact(asarray(x))
    return divide(array + e.sqrt(e.square(array) + b), 2.0)


@lowering(f"{_NN}.identity")
def identity(x: ArrayLike) -> Array:
    return asarray(x)


@lowering(f"{_NN}.one_hot", unread="out_sharding")
def one_hot(
    x: ArrayLike, num_classes: int, *, dtype: Any = float, axis: int = -1
) -> Array:
    from shardtypes.semantics.lowerings.shapes import moveaxis
    from shardtypes.semantics.primitives.structure import expand_dims, iota

    array = asarray(x)
    if dtypes.is_kind(array.dtype, "floating") and not _is_whole(array):
        raise Unsupported("one_hot of floats that are no positions")
    wide = expand_dims(array, axes=(array.rank,))
    classes = cast(
        iota(shape=shape_of(num_classes), dimension=0, dtype="int32"),
        array.dtype,
    )
    made = asarray(e.eq(wide, classes), dtype)
    if axis in (-1, array.rank):
        return made
    return moveaxis(made, -1, axis)


def _is_whole(array: Array) -> bool:
    """Whether all entries are known, and whole numbers."""
    if array.value is None:
        return False
    return all(
        float(one).is_integer() for part in array.value.parts for one in _flat(part)
    )


def _flat(part: Any) -> list[Any]:
    if hasattr(part, "ravel"):
        found: list[Any] = part.ravel().tolist()
    else:
        found = [part]
    return found


@lowering(f"{_SPECIAL}.logit")
def logit(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    found = e.sub(e.log(array), e.log1p(e.neg(array)))
    return beside_constants(found)


@lowering(f"{_SPECIAL}.xlogy")
def xlogy(x: ArrayLike, y: ArrayLike) -> Array:
    a, b = inexact(asarray(x), asarray(y))
    zero = is_zero(a)
    return where(zero, 0.0, e.mul(a, e.log(where(zero, 1.0, b))))


@lowering(f"{_SPECIAL}.entr")
def entr(x: ArrayLike) -> Array:
    (array,) = inexact(asarray(x))
    return e.neg(xlogy(array, array))
