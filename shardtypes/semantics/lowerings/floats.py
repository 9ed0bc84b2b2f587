"""The parts of numbers, and whole numbers' divisors."""

from __future__ import annotations

import math
from collections.abc import Iterable

from shardtypes.lang import dtypes
from shardtypes.semantics import kinds
from shardtypes.semantics.array import Array, Dim
from shardtypes.semantics.comparison import aligned
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    below_zero,
    beside_constants,
    cast,
    constant,
    inexact,
    is_of,
    is_zero,
    like,
    promoted,
    strong,
    weak_as,
)
from shardtypes.semantics.lowerings.elementwise import isclose, isnan, truth, where
from shardtypes.semantics.lowerings.operators import (
    absolute,
    equal,
    floor_divide,
    multiply,
    numeric,
)
from shardtypes.semantics.lowerings.reductions import all_
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import Refused, Unsupported, lowering

_JNP = "jax.numpy"


@lowering(f"{_JNP}.angle")
def angle(z: ArrayLike, deg: bool = False) -> Array:
    given = asarray(z)
    (array,) = inexact(given)
    if is_of(array, "complex"):
        found = e.atan2(e.imag(array), e.real(array))
    else:
        found = where(below_zero(array), math.pi, 0.0)
        if array.rank:
            found = cast(found, array.dtype)
        else:
            found = strong(found)
        if array.rank and dtypes.is_kind(given.dtype, "floating"):
            found = weak_as(found, array)
    if deg:
        return multiply(found, 180 / math.pi)
    return found


@lowering(f"{_JNP}.bitwise_count")
def bitwise_count(x: ArrayLike) -> Array:
    (array,) = numeric(x)
    return cast(e.population_count(array), "uint8")


@lowering(f"{_JNP}.fmax")
def fmax(x1: ArrayLike, x2: ArrayLike) -> Array:
    """The larger one; a number rather than NaN."""
    a, b = promoted(asarray(x1), asarray(x2))
    return where(e.or_(e.gt(a, b), isnan(b)), a, b)


@lowering(f"{_JNP}.fmin")
def fmin(x1: ArrayLike, x2: ArrayLike) -> Array:
    a, b = promoted(asarray(x1), asarray(x2))
    return where(e.or_(e.lt(a, b), isnan(b)), a, b)


@lowering(f"{_JNP}.logaddexp2")
def logaddexp2(x1: ArrayLike, x2: ArrayLike) -> Array:
    a, b = inexact(asarray(x1), asarray(x2))
    less = e.exp2(e.neg(e.abs_(e.sub(a, b))))
    grown = e.log1p(less)
    scaled = e.div(grown, like(math.log(2), grown))
    larger = e.max_(a, b)
    return e.add(larger, scaled)


@lowering(f"{_JNP}.modf")
def modf(x: ArrayLike, out: None = None) -> tuple[Array, Array]:
    (array,) = inexact(asarray(x))
    whole = e.special_trunc(array)
    return e.sub(array, whole), whole


@lowering(f"{_JNP}.frexp")
def frexp(x: ArrayLike) -> tuple[Array, Array]:
    """A fraction from a half up to one, and a power of two."""
    (array,) = inexact(asarray(x))
    kinds.FLOATS.require(array.dtype)
    power = e.exponent(array)
    scale = e.exp2(e.neg(cast(power, array.dtype)))
    return e.mul(array, scale), strong(power)


@lowering(f"{_JNP}.ldexp")
def ldexp(x1: ArrayLike, x2: ArrayLike) -> Array:
    (array,) = inexact(asarray(x1))
    power = asarray(x2)
    if dtypes.is_kind(power.dtype, "floating", "complex"):
        raise TypeError(f"the exponent of ldexp is an integer, not {power.dtype}")
    return e.mul(array, e.exp2(cast(power, array.dtype)))


@lowering(f"{_JNP}.signbit")
def signbit(x: ArrayLike) -> Array:
    """Also of a negative zero."""
    array = asarray(x)
    is_float = array.dtype in dtypes.CONCRETE and dtypes.is_kind(
        array.dtype, "floating"
    )
    if is_float and array.dtype and dtypes.bits(array.dtype) < 16:
        raise Refused(f"takes numbers of 16 bits and more, got {array.dtype}", "dtypes")
    zero = like(0, array)
    negative = e.lt(array, zero)
    if not is_float:
        return negative
    inverse = e.div(like(1, array), array)
    is_below = e.lt(inverse, zero)
    is_negative_zero = e.and_(e.eq(array, zero), is_below)
    return e.or_(negative, is_negative_zero)


@lowering(f"{_JNP}.isposinf")
def isposinf(x: ArrayLike, out: None = None) -> Array:
    (array,) = inexact(asarray(x))
    kinds.FLOATS.require(array.dtype)
    return e.eq(array, like(math.inf, array))


@lowering(f"{_JNP}.isneginf")
def isneginf(x: ArrayLike, out: None = None) -> Array:
    (array,) = inexact(asarray(x))
    kinds.FLOATS.require(array.dtype)
    return e.eq(array, like(-math.inf, array))


@lowering(f"{_JNP}.iscomplex")
def iscomplex(x: ArrayLike) -> Array:
    return e.not_(isreal(x))


@lowering(f"{_JNP}.isreal")
def isreal(x: ArrayLike) -> Array:
    array = asarray(x)
    if not iscomplexobj(array):
        return constant(True, array.dims, "bool")
    imaginary = e.imag(array)
    return is_zero(imaginary)


@lowering(f"{_JNP}.iscomplexobj")
def iscomplexobj(x: ArrayLike) -> bool:
    return is_of(asarray(x), "complex")


@lowering(f"{_JNP}.isrealobj")
def isrealobj(x: ArrayLike) -> bool:
    return not iscomplexobj(x)


@lowering(f"{_JNP}.gcd")
def gcd(x1: ArrayLike, x2: ArrayLike) -> Array:
    return beside_constants(e.gcd(*promoted(asarray(x1), asarray(x2))))


@lowering(f"{_JNP}.lcm")
def lcm(x1: ArrayLike, x2: ArrayLike) -> Array:
    a, b = promoted(absolute(x1), absolute(x2))
    divisor = e.gcd(a, b)
    safe = where(is_zero(divisor), like(1, divisor), divisor)
    return e.mul(floor_divide(a, safe), b)


@lowering("jax.lax.reciprocal")
def reciprocal(x: ArrayLike) -> Array:
    array = asarray(x)
    kinds.INEXACT.require(array.dtype)
    return e.integer_pow(array, y=-1)


@lowering(f"{_JNP}.allclose")
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    return all_(isclose(a, b, rtol, atol, equal_nan))


@lowering(f"{_JNP}.array_equal")
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    x, y = promoted(asarray(a1), asarray(a2))
    if x.rank != y.rank or not _are_equal(zip(x.dims, y.dims, strict=True)):
        return asarray(False)
    alike = e.eq(x, y)
    if equal_nan:
        both = e.and_(isnan(x), isnan(y))
        alike = e.or_(alike, both)
    return all_(alike)


def _are_equal(pairs: Iterable[tuple[Dim, Dim]]) -> bool:
    """Raises Unsupported where that depends on the values of names."""
    different = [pair for pair in pairs if pair[0] != pair[1]]
    if not all(isinstance(size, int) for pair in different for size in pair):
        raise Unsupported("sizes that may be equal")
    return not different


@lowering(f"{_JNP}.array_equiv")
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """False where the shapes do not broadcast."""
    x, y = asarray(a1), asarray(a2)
    pairs = zip(*aligned([x.dims, y.dims]), strict=True)
    if _are_equal(pair for pair in pairs if 1 not in pair):
        return all_(equal(x, y))
    return asarray(False)


@lowering(f"{_JNP}.isin")
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "",
) -> Array:
    from shardtypes.semantics.lowerings.reductions import any_
    from shardtypes.semantics.lowerings.shapes import expand_dims, ravel

    x, y = promoted(asarray(element), ravel(test_elements))
    found = any_(e.eq(expand_dims(x, -1), y), axis=-1)
    if invert:
        return e.not_(found)
    return truth(found)
