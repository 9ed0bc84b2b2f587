"""Python's operators on arrays, which are functions of ``jax.numpy``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import (
    ArrayLike,
    asarray,
    cast_each,
    inexact,
    like,
    promoted,
    strong,
    weak_as,
    without_bool,
)
from shardtypes.semantics.primitive import Primitive
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.primitives.structure import zeros_like
from shardtypes.semantics.registry import lowering

_JNP = "jax.numpy"


def _is_bool(x: Array) -> bool:
    return x.dtype == "bool"


def numeric(*operands: ArrayLike) -> list[Array]:
    """The operands promoted, booleans to integers."""
    arrays = promoted(*map(asarray, operands))
    return [cast_each(array, without_bool) for array in arrays]


@lowering(f"{_JNP}.add")
def add(x: ArrayLike, y: ArrayLike) -> Array:
    a, b = promoted(asarray(x), asarray(y))
    if _is_bool(a):
        return e.or_(a, b)
    return e.add(a, b)


@lowering(f"{_JNP}.subtract")
def subtract(x: ArrayLike, y: ArrayLike) -> Array:
    return e.sub(*promoted(asarray(x), asarray(y)))


@lowering(f"{_JNP}.multiply")
def multiply(x: ArrayLike, y: ArrayLike) -> Array:
    a, b = promoted(asarray(x), asarray(y))
    if _is_bool(a):
        return e.and_(a, b)
    return e.mul(a, b)


@lowering(f"{_JNP}.divide", f"{_JNP}.true_divide")
def divide(x: ArrayLike, y: ArrayLike) -> Array:
    return e.div(*inexact(asarray(x), asarray(y)))


@lowering(f"{_JNP}.floor_divide")
def floor_divide(x: ArrayLike, y: ArrayLike) -> Array:
    a, b = numeric(x, y)
    if dtypes.is_kind(a.dtype, "signed", "unsigned"):
        whole = e.div(a, b)
        negative = e.ne(e.sign(a), e.sign(b))
        inexact_ = e.and_(negative, e.ne(e.rem(a, b), like(0, a)))
        below = weak_as(e.sub(whole, like(1, whole)), whole)
        return e.select_n(inexact_, whole, below, cases=2)
    rest = remainder(a, b)
    return e.round_(e.div(e.sub(a, rest), b), rounding_method=1)


@lowering(f"{_JNP}.remainder", f"{_JNP}.mod")
def remainder(x: ArrayLike, y: ArrayLike) -> Array:
    """The remainder with the sign of the divisor."""
    a, b = numeric(x, y)
    rest = e.rem(a, b)
    zero = like(0, rest)
    signs_differ = e.ne(e.lt(rest, zero), e.lt(b, zero))
    other_sign = e.and_(signs_differ, e.ne(rest, zero))
    return e.select_n(other_sign, rest, e.add(rest, b), cases=2)


@lowering(f"{_JNP}.power", f"{_JNP}.pow")
def power(x: ArrayLike, y: ArrayLike) -> Array:
    if isinstance(y, int):
        (base,) = numeric(x)
        return e.integer_pow(base, y=int(y))
    base, exponent = asarray(x), asarray(y)
    whole = dtypes.is_kind(exponent.dtype, "signed", "unsigned")
    if whole and dtypes.is_kind(base.dtype, "floating", "complex"):
        return e.pow_(base, exponent)
    return _power(*numeric(base, exponent))


def _power(base: Array, exponent: Array) -> Array:
    if dtypes.is_kind(base.dtype, "signed", "unsigned"):
        return strong(e.pow_(base, exponent))
    return e.pow_(base, exponent)


@lowering(f"{_JNP}.negative")
def negative(x: ArrayLike) -> Array:
    return e.neg(asarray(x))


@lowering(f"{_JNP}.abs", f"{_JNP}.absolute")
def absolute(x: ArrayLike) -> Array:
    array = asarray(x)
    if dtypes.is_kind(array.dtype, "bool", "unsigned"):
        return array
    return e.abs_(array)


@lowering(f"{_JNP}.real")
def real(x: ArrayLike) -> Array:
    array = asarray(x)
    if dtypes.is_kind(array.dtype, "complex") is False:
        return array
    return e.real(array)


@lowering(f"{_JNP}.imag")
def imag(x: ArrayLike) -> Array:
    array = asarray(x)
    if dtypes.is_kind(array.dtype, "complex") is False:
        zeros = zeros_like(array)
        return replace(zeros, weak=array.weak)
    return e.imag(array)


@lowering(f"{_JNP}.conj", f"{_JNP}.conjugate")
def conjugate(x: ArrayLike) -> Array:
    array = asarray(x)
    if dtypes.is_kind(array.dtype, "complex") is False:
        return array
    return e.conj(array)


@lowering(f"{_JNP}.invert", f"{_JNP}.bitwise_not", f"{_JNP}.bitwise_invert")
def invert(x: ArrayLike) -> Array:
    return e.not_(asarray(x))


def _comparison(primitive: Primitive, name: str) -> None:
    @lowering(f"{_JNP}.{name}")
    def compare(x: ArrayLike, y: ArrayLike) -> Array:
        return primitive(*promoted(asarray(x), asarray(y)))

    COMPARISONS[name] = compare


COMPARISONS: dict[str, Callable[[ArrayLike, ArrayLike], Array]] = {}
for _primitive, _name in (
    (e.eq, "equal"),
    (e.ne, "not_equal"),
    (e.lt, "less"),
    (e.le, "less_equal"),
    (e.gt, "greater"),
    (e.ge, "greater_equal"),
):
    _comparison(_primitive, _name)


equal = COMPARISONS["equal"]
less_equal = COMPARISONS["less_equal"]
greater_equal = COMPARISONS["greater_equal"]


def _bits(primitive: Primitive, *names: str) -> None:
    @lowering(*(f"{_JNP}.{name}" for name in names))
    def combine(x: ArrayLike, y: ArrayLike) -> Array:
        return primitive(*promoted(asarray(x), asarray(y)))


def _shift(primitive: Primitive, *names: str) -> None:
    @lowering(*(f"{_JNP}.{name}" for name in names))
    def shift(x: ArrayLike, y: ArrayLike) -> Array:
        return primitive(*numeric(x, y))


_bits(e.and_, "bitwise_and")
_bits(e.or_, "bitwise_or")
_bits(e.xor, "bitwise_xor")
_shift(e.shift_left, "left_shift", "bitwise_left_shift")
_shift(e.shift_right_arithmetic, "right_shift", "bitwise_right_shift")
