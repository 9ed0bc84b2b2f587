"""Functions of each entry: one family, in tables. Operands broadcast as NumPy's do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from shardtypes.lang import dtypes
from shardtypes.semantics import kinds, special
from shardtypes.semantics.array import Array, Dim, NoGradient, Params, UnknownRank
from shardtypes.semantics.comparison import aligned, common_shape
from shardtypes.semantics.lazy import np
from shardtypes.semantics.letters import Factors, Letters
from shardtypes.semantics.primitive import (
    PRIMITIVES,
    Primitive,
    by_rest,
    declare,
    dtype_of_first,
)
from shardtypes.semantics.registry import Refused
from shardtypes.semantics.values import Values

Derivative: TypeAlias = Callable[..., Array]
"""The derivative by one operand, from all operands and, last, the result."""

_TAKEN = {
    kinds.COMPLEX: "real imag",
    kinds.FLOATS: "floor ceil round trunc is_finite cbrt erf erfc erf_inv lgamma digamma bessel_i0e bessel_i1e "
    "nextafter igamma igammac zeta polygamma regularized_incomplete_beta complex",
    kinds.INEXACT: "exp exp2 expm1 log log1p tanh logistic sin cos tan asin acos atan sinh cosh asinh acosh atanh sqrt "
    "rsqrt atan2 conj",
    kinds.INTEGERS: "population_count clz shift_left shift_right_arithmetic shift_right_logical gcd",
    kinds.BITS: "not and or xor",
    kinds.REAL: "rem",
    kinds.ORDERED: "lt le gt ge",
    kinds.SIGNED: "abs",
    kinds.NUMBERS: "neg sign square integer_pow add sub mul div",
}
TAKES = {name: taken for taken, names in _TAKEN.items() for name in names.split()}
"""The kinds of dtypes that functions take; the others take any."""

JOINT = frozenset
_HALF = Fraction(1, 2)
_MOST_SHAPES = 4096  # that are remembered


def broadcast_letters(operands: Sequence[Array], params: Params) -> Letters:
    """Dimensions are paired from the right; one of size 1 beside a larger one has no letter."""
    return _broadcast_letters(*(operand.dims for operand in operands))


def broadcast_shape(
    operands: Sequence[Array], params: Params, letters: Letters | None
) -> Sequence[tuple[Dim, ...]]:
    shapes = [operand.shape for operand in operands if operand.shape is not None]
    if len(shapes) < len(operands):
        common_shape(shapes)  # which have to fit whatever the others are
        raise UnknownRank
    if len(shapes) == 1:
        return shapes
    return [common_shape(shapes)]


# A program asks for the same few shapes over and over. (Sizes may know where they come from: a result has those of its
# operands, never equal ones of an earlier call.)
@lru_cache(_MOST_SHAPES)
def _broadcast_letters(*shapes: tuple[Dim, ...]) -> Letters:
    padded = aligned(shapes)
    rank = max(map(len, shapes), default=0)
    result: list[Factors] = []
    names: list[list[Factors]] = [[] for _ in shapes]
    for k in range(rank):
        sizes = [dims[k] for dims in padded]
        stretched = all(size == 1 for size in sizes)
        letter: Factors = () if stretched else (f"d{k}",)
        result.append(letter)
        for kept, size in zip(names, sizes, strict=True):
            kept.append(() if size == 1 else letter)
    own = (
        tuple(kept[rank - len(dims) :])
        for kept, dims in zip(names, shapes, strict=True)
    )
    return Letters(tuple(own), (tuple(result),))


def unbroadcast(cotangent: Array, operand: Array) -> Array:
    """The cotangent of an operand that was broadcast: summed over the dimensions that it did not have."""
    extra = cotangent.rank - operand.rank
    stretched = [
        k
        for k in range(cotangent.rank)
        if k < extra or (operand.dims[k - extra] == 1 and cotangent.dims[k] != 1)
    ]
    if not stretched:
        return cotangent
    summed = PRIMITIVES["reduce_sum"](cotangent, axes=tuple(stretched))
    kept = tuple(k - extra for k in stretched if k >= extra)
    return PRIMITIVES["expand_dims"](summed, axes=kept) if kept else summed


def elementwise(
    name: str,
    evaluate: Callable[..., Any],
    values: Values | Callable[[Params], Values],
    derivatives: Sequence[Derivative | None] = (),
    dtype: Callable[[Sequence[Array], Params], Sequence[str | None]] | None = None,
    conjugates: bool = False,
) -> Primitive:
    """Declare a function of each entry, with its derivative by each operand. One that ``conjugates`` has the cotangent
    conjugated, as JAX does where a function of complex numbers is linear in real ones only."""

    def pull(
        cotangent: Array,
        operands: Sequence[Array],
        results: Sequence[Array],
        params: Params,
    ) -> Sequence[Array | None]:
        found: list[Array | None] = []
        for i, operand in enumerate(operands):
            if operand.node is None:
                found.append(None)
                continue
            rule = derivatives[i] if i < len(derivatives) else None
            if rule is None:
                raise NoGradient(name)
            slope: Array = rule(*operands, results[0], **params)
            taken = mul(
                conj(cotangent) if conjugates and _is_complex(cotangent) else cotangent,
                slope,
            )
            found.append(unbroadcast(_as_operand(taken, operand), operand))
        return found

    return declare(
        name,
        letters=broadcast_letters,
        shape=broadcast_shape,
        values=values,
        evaluate=evaluate,
        stacked=_for_all_devices(evaluate),
        dtype=TAKES.get(name, kinds.ANY).checked(dtype or dtype_of_first),
        pull=pull,
        broadcasts=True,
    )


def _for_all_devices(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """The function on arrays with a dimension of all devices in front, which is the same of each."""

    def stacked(*arrays: Any, **params: Any) -> Any:
        rank = max(array.ndim for array in arrays)
        aligned = [
            array.reshape(len(array), *(1,) * (rank - array.ndim), *array.shape[1:])
            for array in arrays
        ]
        return evaluate(*aligned, **params)

    return stacked


def _is_complex(array: Array) -> bool:
    return (array.dtype or "").startswith("complex")


def _as_operand(cotangent: Array, operand: Array) -> Array:
    """A cotangent has the dtype of what it is of: real numbers have real ones, and what was cast to be wider does not
    stay so."""
    if operand.dtype is None or cotangent.dtype == operand.dtype:
        return cotangent
    return convert_element_type(cotangent, new_dtype=operand.dtype)


def _bools(operands: Sequence[Array], params: Params) -> Sequence[str | None]:
    return ["bool"]


def _given(operands: Sequence[Array], params: Params) -> Sequence[str | None]:
    return [params["new_dtype"]]


def _real(operands: Sequence[Array], params: Params) -> Sequence[str | None]:
    return [dtypes.each(operands[0].dtype, dtypes.real)]


def number(value: complex, like: Array | None = None) -> Array:
    """A number of Python's as an array of rank 0, the same on all devices."""
    from shardtypes.semantics.simulated import Simulated

    dtype: str | None = _OF_PYTHON[type(value)]
    if like is not None:
        dtype = like.dtype
    held = np.asarray(value)
    if dtype in dtypes.COMPLEX:
        held = held.astype(complex)  # what is written into it may be
    return Array((), dtype, like is None, None, Simulated.everywhere(held))


_OF_PYTHON = {bool: "bool", int: "int32", float: "float32", complex: "complex64"}


# --- one operand: linear, odd, and so on -------------------------------------------------------------------------

LINEAR = Values(jointly=JOINT({0}), monotone=(1,))
_ADDITIVE = Values(jointly=JOINT({0}))  # of real numbers only: a conjugate, a real part
GROWING = Values(degrees=(None,), monotone=(1,))
FALLING = Values(degrees=(None,), monotone=(-1,))
CURVED = Values(degrees=(None,))
_SCALELESS = Values(degrees=(0,), monotone=(1,))


def _constant(value: float) -> Derivative:
    return lambda *arrays: number(value, arrays[0])


neg: Primitive = elementwise(
    "neg", lambda x: -x, Values(jointly=JOINT({0}), monotone=(-1,)), [_constant(-1.0)]
)
copy: Primitive = elementwise(
    "copy",
    lambda x: x,
    Values(jointly=JOINT({0}), monotone=(1,), moves=True),
    [_constant(1.0)],
)


def stop_gradient(x: Array) -> Array:
    """The array, forgetting how it was computed."""
    return replace(x, node=None)


real: Primitive = elementwise(
    "real", lambda x: np.real(x), LINEAR, [_constant(1.0)], dtype=_real
)
imag: Primitive = elementwise(
    "imag", lambda x: np.imag(x), _ADDITIVE, [lambda x, y: number(-1j, x)], dtype=_real
)
conj: Primitive = elementwise(
    "conj", lambda x: np.conj(x), _ADDITIVE, [_constant(1.0)], conjugates=True
)
abs_: Primitive = elementwise(
    "abs",
    lambda x: np.abs(x),
    Values(degrees=(1,)),
    [lambda x, y: _direction(x)],
    dtype=_real,
)
sign: Primitive = elementwise(
    "sign", lambda x: special.sign(x), _SCALELESS, [_constant(0.0)]
)


def _direction(x: Array) -> Array:
    return conj(sign(x)) if _is_complex(x) else sign(x)


sqrt: Primitive = elementwise(
    "sqrt",
    lambda x: np.sqrt(x),
    Values(degrees=(_HALF,), monotone=(1,)),
    [lambda x, y: div(number(0.5, y), y)],
)
rsqrt: Primitive = elementwise(
    "rsqrt",
    lambda x: 1 / np.sqrt(x),
    Values(degrees=(-_HALF,), monotone=(-1,)),
    [lambda x, y: div(mul(number(-0.5, y), y), x)],
)
cbrt: Primitive = elementwise(
    "cbrt",
    lambda x: np.cbrt(x),
    Values(degrees=(Fraction(1, 3),), monotone=(1,)),
    [lambda x, y: div(number(1 / 3, y), square(y))],
)
square: Primitive = elementwise(
    "square",
    lambda x: x * x,
    Values(degrees=(2,)),
    [lambda x, y: mul(number(2.0, x), x)],
)
floor: Primitive = elementwise(
    "floor", lambda x: np.floor(x), GROWING, [_constant(0.0)]
)
ceil: Primitive = elementwise("ceil", lambda x: np.ceil(x), GROWING, [_constant(0.0)])
round_: Primitive = elementwise(
    "round",
    lambda x, rounding_method=1: special.rounded(x, rounding_method),
    GROWING,
    [lambda x, y, **_: number(0.0, x)],
)
exp: Primitive = elementwise("exp", lambda x: np.exp(x), GROWING, [lambda x, y: y])
exp2: Primitive = elementwise(
    "exp2", lambda x: np.exp2(x), GROWING, [lambda x, y: mul(number(math.log(2), y), y)]
)
expm1: Primitive = elementwise(
    "expm1", lambda x: np.expm1(x), GROWING, [lambda x, y: exp(x)]
)
log: Primitive = elementwise(
    "log", lambda x: np.log(x), GROWING, [lambda x, y: div(number(1.0, x), x)]
)
log1p: Primitive = elementwise(
    "log1p",
    lambda x: np.log1p(x),
    GROWING,
    [lambda x, y: div(number(1.0, x), add(number(1.0, x), x))],
)
tanh: Primitive = elementwise(
    "tanh", lambda x: np.tanh(x), GROWING, [lambda x, y: sub(number(1.0, y), square(y))]
)
logistic: Primitive = elementwise(
    "logistic",
    lambda x: 1 / (1 + np.exp(-x)),
    GROWING,
    [lambda x, y: mul(y, sub(number(1.0, y), y))],
)
sin: Primitive = elementwise("sin", lambda x: np.sin(x), CURVED, [lambda x, y: cos(x)])
cos: Primitive = elementwise(
    "cos", lambda x: np.cos(x), CURVED, [lambda x, y: neg(sin(x))]
)
tan: Primitive = elementwise(
    "tan", lambda x: np.tan(x), CURVED, [lambda x, y: add(number(1.0, y), square(y))]
)
asin: Primitive = elementwise(
    "asin",
    lambda x: np.arcsin(x),
    GROWING,
    [lambda x, y: rsqrt(sub(number(1.0, x), square(x)))],
)
acos: Primitive = elementwise(
    "acos",
    lambda x: np.arccos(x),
    FALLING,
    [lambda x, y: neg(rsqrt(sub(number(1.0, x), square(x))))],
)
atan: Primitive = elementwise(
    "atan",
    lambda x: np.arctan(x),
    GROWING,
    [lambda x, y: div(number(1.0, x), add(number(1.0, x), square(x)))],
)
sinh: Primitive = elementwise(
    "sinh", lambda x: np.sinh(x), GROWING, [lambda x, y: cosh(x)]
)
cosh: Primitive = elementwise(
    "cosh", lambda x: np.cosh(x), CURVED, [lambda x, y: sinh(x)]
)
asinh: Primitive = elementwise(
    "asinh",
    lambda x: np.arcsinh(x),
    GROWING,
    [lambda x, y: rsqrt(add(square(x), number(1.0, x)))],
)
acosh: Primitive = elementwise(
    "acosh",
    lambda x: np.arccosh(x),
    GROWING,
    [lambda x, y: rsqrt(sub(square(x), number(1.0, x)))],
)
atanh: Primitive = elementwise(
    "atanh",
    lambda x: np.arctanh(x),
    GROWING,
    [lambda x, y: div(number(1.0, x), sub(number(1.0, x), square(x)))],
)
erf: Primitive = elementwise(
    "erf",
    lambda x: special.erf(x),
    GROWING,
    [lambda x, y: mul(number(2 / math.sqrt(math.pi), x), exp(neg(square(x))))],
)
erfc: Primitive = elementwise(
    "erfc",
    lambda x: special.erfc(x),
    FALLING,
    [lambda x, y: mul(number(-2 / math.sqrt(math.pi), x), exp(neg(square(x))))],
)
erf_inv: Primitive = elementwise(
    "erf_inv",
    lambda x: special.erf_inv(x),
    GROWING,
    [lambda x, y: mul(number(math.sqrt(math.pi) / 2, y), exp(square(y)))],
)
lgamma: Primitive = elementwise(
    "lgamma", lambda x: special.lgamma(x), CURVED, [lambda x, y: digamma(x)]
)
digamma: Primitive = elementwise(
    "digamma",
    lambda x: special.digamma(x),
    CURVED,
    [lambda x, y: polygamma(number(1.0, x), x)],
)
bessel_i0e: Primitive = elementwise(
    "bessel_i0e",
    lambda x: special.bessel_i0e(x),
    CURVED,
    [lambda x, y: sub(bessel_i1e(x), mul(sign(x), y))],
)
bessel_i1e: Primitive = elementwise(
    "bessel_i1e",
    lambda x: special.bessel_i1e(x),
    CURVED,
    [lambda x, y: sub(bessel_i0e(x), mul(y, add(sign(x), div(number(1.0, x), x))))],
)
is_finite: Primitive = elementwise(
    "is_finite", lambda x: np.isfinite(x), Values(degrees=(0,)), dtype=_bools
)
not_: Primitive = elementwise(
    "not",
    lambda x: np.logical_not(x) if x.dtype == bool else np.invert(x),
    Values(degrees=(None,)),
)
population_count: Primitive = elementwise(
    "population_count", lambda x: special.population_count(x), CURVED
)
clz: Primitive = elementwise("clz", lambda x: special.leading_zeros(x), CURVED)


exponent: Primitive = elementwise(
    "exponent",
    lambda x: np.frexp(x)[1].astype(np.int32),
    Values(degrees=(None,)),
    dtype=lambda operands, params: ["int32"],
)
"""The power of two of ``frexp``."""


def _converted(x: Any, new_dtype: str) -> Any:
    """Casts between kinds of numbers; all floats are held in double precision."""
    return special.held(x, new_dtype)


convert_element_type: Primitive = elementwise(
    "convert_element_type",
    _converted,
    Values(jointly=JOINT({0}), monotone=(1,), moves=True),
    [lambda x, y, **_: number(1.0, x)],
    dtype=_given,
)
truncate: Primitive = elementwise("truncate", _converted, GROWING, dtype=_given)
"""A cast to integers, which drops what is behind the point: no linear function."""


def _powered(x: Any, y: int) -> Any:
    return x**y if y >= 0 else 1 / x**-y


def _powered_dtype(operands: Sequence[Array], params: Params) -> Sequence[str | None]:
    dtype = operands[0].dtype
    if params["y"] < 0 and dtypes.is_kind(dtype, "signed", "unsigned"):
        raise Refused(f"takes no negative powers of integers, got {dtype}", "dtypes")
    return [dtype]


def _degree(params: Params) -> Values:
    return Values(degrees=(params["y"],))


integer_pow: Primitive = elementwise(
    "integer_pow",
    _powered,
    _degree,
    [lambda x, out, y: mul(number(float(y), x), integer_pow(x, y=y - 1))],
    dtype=_powered_dtype,
)

# --- two operands ------------------------------------------------------------------------------------------------

_SUM = Values(jointly=JOINT({0, 1}), monotone=(1, 1))
_QUESTION = Values(degrees=(0, 0), together=True)


def _first_wins(x: Array, y: Array, out: Array) -> Array:
    return _share(x, y, out)


def _second_wins(x: Array, y: Array, out: Array) -> Array:
    return _share(y, x, out)


def _share(chosen: Array, other: Array, out: Array) -> Array:
    """Where an operand is the extremum, 1; where both are, a half."""
    mine = convert_element_type(eq(chosen, out), new_dtype=out.dtype)
    others = convert_element_type(eq(other, out), new_dtype=out.dtype)
    return div(mine, add(mine, others))


add: Primitive = elementwise(
    "add", lambda x, y: x + y, _SUM, [_constant(1.0), _constant(1.0)]
)
sub: Primitive = elementwise(
    "sub",
    lambda x, y: x - y,
    Values(jointly=JOINT({0, 1}), monotone=(1, -1)),
    [_constant(1.0), _constant(-1.0)],
)
mul: Primitive = elementwise(
    "mul",
    lambda x, y: x & y if x.dtype == bool else x * y,
    Values(each=JOINT({0, 1})),
    [lambda x, y, out: y, lambda x, y, out: x],
)
div: Primitive = elementwise(
    "div",
    lambda x, y: special.divided(x, y),
    Values(each=JOINT({0}), degrees=(1, -1)),
    [lambda x, y, out: div(number(1.0, y), y), lambda x, y, out: neg(div(out, y))],
)
rem: Primitive = elementwise(
    "rem",
    lambda x, y: np.fmod(x, y),
    Values(degrees=(1, 1), together=True),
    [_constant(1.0), lambda x, y, out: neg(special_trunc(div(x, y)))],
)
max_: Primitive = elementwise(
    "max",
    lambda x, y: np.maximum(x, y),
    Values(degrees=(1, 1), together=True, monotone=(1, 1), idempotent="max"),
    [_first_wins, _second_wins],
)
min_: Primitive = elementwise(
    "min",
    lambda x, y: np.minimum(x, y),
    Values(degrees=(1, 1), together=True, monotone=(1, 1), idempotent="min"),
    [_first_wins, _second_wins],
)
pow_: Primitive = elementwise(
    "pow",
    lambda x, y: np.power(x, y),
    Values(degrees=(None, None)),
    [
        lambda x, y, out: mul(y, pow_(x, sub(y, number(1.0, y)))),
        lambda x, y, out: mul(log(x), out),
    ],
)
atan2: Primitive = elementwise(
    "atan2",
    lambda x, y: np.arctan2(x, y),
    Values(degrees=(0, 0), together=True),
    [
        lambda x, y, out: div(y, add(square(x), square(y))),
        lambda x, y, out: neg(div(x, add(square(x), square(y)))),
    ],
)
nextafter: Primitive = elementwise(
    "nextafter", lambda x, y: np.nextafter(x, y), Values(degrees=(None, None))
)
complex_: Primitive = elementwise(
    "complex",
    lambda x, y: x + 1j * y,
    Values(jointly=JOINT({0, 1})),
    [lambda x, y, out: number(1.0, out), lambda x, y, out: number(1j, out)],
    dtype=lambda operands, params: [dtypes.each(operands[0].dtype, dtypes.of_parts)],
)
eq: Primitive = elementwise("eq", lambda x, y: x == y, _QUESTION, dtype=_bools)
ne: Primitive = elementwise("ne", lambda x, y: x != y, _QUESTION, dtype=_bools)
lt: Primitive = elementwise("lt", lambda x, y: x < y, _QUESTION, dtype=_bools)
le: Primitive = elementwise("le", lambda x, y: x <= y, _QUESTION, dtype=_bools)
gt: Primitive = elementwise("gt", lambda x, y: x > y, _QUESTION, dtype=_bools)
ge: Primitive = elementwise("ge", lambda x, y: x >= y, _QUESTION, dtype=_bools)
and_: Primitive = elementwise(
    "and", lambda x, y: x & y, Values(degrees=(None, None), idempotent="and")
)
or_: Primitive = elementwise(
    "or", lambda x, y: x | y, Values(degrees=(None, None), idempotent="or")
)
xor: Primitive = elementwise("xor", lambda x, y: x ^ y, Values(degrees=(None, None)))
shift_left: Primitive = elementwise(
    "shift_left", lambda x, y: np.left_shift(x, y), Values(degrees=(None, None))
)
shift_right_arithmetic: Primitive = elementwise(
    "shift_right_arithmetic",
    lambda x, y: np.right_shift(x, y),
    Values(degrees=(None, None)),
)
shift_right_logical: Primitive = elementwise(
    "shift_right_logical",
    lambda x, y: special.shifted_right(x, y),
    Values(degrees=(None, None)),
)


def _gamma_density(a: Array, x: Array) -> Array:
    """``x**(a - 1) exp(-x) / Γ(a)``."""
    power = mul(sub(a, number(1.0, a)), log(x))
    return exp(sub(sub(power, x), lgamma(a)))


gcd: Primitive = elementwise(
    "gcd", lambda x, y: np.gcd(x, y), Values(degrees=(1, 1), together=True)
)


igamma: Primitive = elementwise(
    "igamma",
    lambda a, x: special.igamma(a, x),
    Values(degrees=(None, None)),
    [None, lambda a, x, out: _gamma_density(a, x)],
)
igammac: Primitive = elementwise(
    "igammac",
    lambda a, x: special.igammac(a, x),
    Values(degrees=(None, None)),
    [None, lambda a, x, out: neg(_gamma_density(a, x))],
)
zeta: Primitive = elementwise(
    "zeta",
    lambda x, q: special.zeta(x, q),
    Values(degrees=(None, None)),
    [None, lambda x, q, out: neg(mul(x, zeta(add(x, number(1.0, x)), q)))],
)
polygamma: Primitive = elementwise(
    "polygamma",
    lambda m, x: special.polygamma(m, x),
    Values(degrees=(None, None)),
    [None, lambda m, x, y: polygamma(add(m, number(1.0, m)), x)],
)
special_trunc: Primitive = elementwise(
    "trunc", lambda x: np.trunc(x), GROWING, [_constant(0.0)]
)

# --- three operands ----------------------------------------------------------------------------------------------


def _beta_density(a: Array, b: Array, x: Array) -> Array:
    """``x**(a - 1) (1 - x)**(b - 1) / B(a, b)``."""
    one = number(1.0, x)
    powers = add(mul(sub(a, one), log(x)), mul(sub(b, one), log1p(neg(x))))
    scale = sub(add(lgamma(a), lgamma(b)), lgamma(add(a, b)))
    return exp(sub(powers, scale))


betainc: Primitive = elementwise(
    "regularized_incomplete_beta",
    lambda a, b, x: special.betainc(a, b, x),
    Values(degrees=(None, None, None)),
    [None, None, lambda a, b, x, out: _beta_density(a, b, x)],
)


def _inside(low: Array, x: Array, high: Array, out: Array) -> Array:
    kept = and_(ge(x, low), le(x, high))
    return convert_element_type(kept, new_dtype=out.dtype)


clamp: Primitive = elementwise(
    "clamp",
    lambda low, x, high: np.minimum(np.maximum(x, low), high),
    Values(degrees=(1, 1, 1), together=True, monotone=(1, 1, 1)),
    [None, _inside, None],
)


def _selecting(params: Params) -> Values:
    cases = frozenset(range(1, 1 + params["cases"]))
    return Values(
        jointly=cases,
        controls=frozenset({0}),
        degrees=(0,),
        monotone=(0, *[1] * len(cases)),
        moves=True,
    )


def _chosen(which: Any, *arrays: Any, cases: int) -> Any:
    index = which.astype(np.int64)
    return (
        np.choose(index, np.broadcast_arrays(index, *arrays)[1:]) if arrays else which
    )


def _pull_select(
    cotangent: Array,
    operands: Sequence[Array],
    results: Sequence[Array],
    params: Params,
) -> Sequence[Array | None]:
    which, *cases = operands
    found: list[Array | None] = [None]
    for i, operand in enumerate(cases):
        wanted = number(bool(i) if which.dtype == "bool" else i, which)
        mask = convert_element_type(eq(which, wanted), new_dtype=cotangent.dtype)
        found.append(unbroadcast(mul(cotangent, mask), operand))
    return found


select_n: Primitive = declare(
    "select_n",
    letters=broadcast_letters,
    shape=broadcast_shape,
    values=_selecting,
    evaluate=_chosen,
    stacked=_for_all_devices(_chosen),
    dtype=lambda operands, params: [operands[1].dtype],
    typed_by=by_rest,
    pull=_pull_select,
    broadcasts=True,
)
