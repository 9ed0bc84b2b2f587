"""Elementwise functions of ``jax.numpy``, ``jax.lax``, ``jax.nn`` and ``jax.scipy.special``."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    array,
    arrays,
    broadcast_dims,
    dtype_argument,
    elementwise,
    merge_pending,
    only_array,
    result_dtype,
    with_dtype,
)
from shardlint.ops.registry import Call, OpContext, OpError, is_none, model
from shardlint.values import ArrayValue, SequenceValue, Unknown, Value
from shardtypes.lang import dtypes


def names(prefix: str, text: str) -> list[str]:
    """``names('jax.numpy', 'exp log')`` → qualified names."""
    return [f"{prefix}.{name}" for name in text.split()]


def to_inexact(value: ArrayValue, ctx: OpContext) -> ArrayValue:
    """The same array in the dtype in which JAX computes transcendental functions."""
    name = dtypes.inexact(value.dtype, x64=ctx.x64)
    return with_dtype(value, name, value.weak)


def cleared(value: ArrayValue) -> ArrayValue:
    """After a non-linear function only "nothing was pending" survives."""
    pending = frozenset[str]() if value.pending == frozenset() else None
    return ArrayValue(value.dims, value.dtype, value.weak, pending)


# Whether their result is weak for a weak argument differs between releases: its dtype stays open.
STRONG = frozenset(
    "log2 log10 sinc rint degrees radians rad2deg deg2rad logit ndtr ndtri log_ndtr gelu nan_to_num "
    "hypot logaddexp2 heaviside gcd lcm".split()
)
_REAL_ONLY = frozenset(
    "cbrt erf erfc erfinv gammaln digamma i0 i0e i1 i1e entr ndtr ndtri log_ndtr fabs floor ceil "
    "trunc fix".split()
)


_FLOAT32_ONLY = frozenset(
    "ndtr ndtri log_ndtr gamma loggamma gammasgn spence expi exp1 erfcx dawsn i0".split()
)


def finish(call: Call, value: ArrayValue, source: ArrayValue) -> ArrayValue:
    """Weakness as the function has it; dtypes that JAX may refuse stay open."""
    if call.last in _REAL_ONLY and dtypes.is_kind(source.dtype, "complex") is not False:
        return with_dtype(value, None)
    if value.weak and call.last in STRONG:
        return with_dtype(value, None)
    return value


@model(
    "x, /",
    *names(
        "jax.numpy",
        "exp exp2 expm1 log log1p log2 log10 sqrt sin cos tan arcsin arccos arctan sinh "
        "cosh tanh arcsinh arccosh arctanh asin acos atan asinh acosh atanh sinc cbrt fabs rint "
        "reciprocal degrees radians rad2deg deg2rad",
    ),
    *names(
        "jax.scipy.special",
        "erf erfc erfinv expit logit gammaln digamma ndtr ndtri log_ndtr i0 i0e i1 i1e "
        "entr gamma loggamma gammasgn spence expi exp1 "
        "erfcx dawsn",
    ),
    "jax.nn.tanh",
    "jax.numpy.i0",
)
def unary_inexact(call: Call) -> Value:
    """Ints are computed in float32; floats keep their dtype."""
    value = array(call, "x")
    out = finish(call, cleared(to_inexact(value, call.ctx)), value)
    if call.last in _FLOAT32_ONLY and (value.dtype != "float32" or value.weak):
        return with_dtype(out, None)
    return out


@model("val, /", *names("jax.numpy", "real imag"))
@model("z, deg=False", "jax.numpy.angle")
@model("x, /", *names("jax.numpy", "bitwise_count spacing"))
@model("x, b=4", "jax.nn.squareplus")
@model("x", *names("jax.nn", "log1mexp"))
def shape_only(call: Call) -> Value:
    """The dtype is one of its own, and stays open but where it is certain."""
    value = only_array(call, next(iter(call.args.values())), 0)
    real = dtypes.is_kind(value.dtype, "floating") and not value.weak
    if call.last in ("bitwise_count", "spacing") or (
        call.last == "angle" and value.dtype != "float32"
    ):
        real = False
    linear = value if call.last in ("real", "imag") else cleared(value)
    return with_dtype(linear, value.dtype if real else None)


@model("x", "jax.nn.identity")
def identity(call: Call) -> Value:
    return array(call, "x")


@model("x, /", "jax.numpy.frexp")
@model("x, /, out=None", "jax.numpy.modf")
def two_parts(call: Call) -> Value:
    """Two arrays of the shape of the argument."""
    value = array(call, "x")
    if dtypes.is_kind(value.dtype, "complex") is not False:
        return Unknown("of complex numbers")
    part = with_dtype(cleared(value), None)
    return SequenceValue((part, part))


@model("x1, x2, /", "jax.numpy.divmod")
def divmod_(call: Call) -> Value:
    part = with_dtype(elementwise(call.name, arrays(call, "x1", "x2"), call.ctx), None)
    return SequenceValue((part, part))


@model(
    "x",
    *names(
        "jax.nn",
        "sigmoid soft_sign silu swish log_sigmoid mish softplus hard_sigmoid hard_silu "
        "hard_swish selu hard_tanh sparse_plus sparse_sigmoid relu relu6",
    ),
)
@model("x, alpha=1.0", *names("jax.nn", "elu celu"))
@model("x, negative_slope=0.01", "jax.nn.leaky_relu")
@model("x, approximate=True", "jax.nn.gelu")
def activation(call: Call) -> Value:
    """Floats keep their dtype; what becomes of ints and bools differs from one to the next and stays open."""
    value = array(call, "x")
    out = finish(call, cleared(value), value)
    setting = next((v for k, v in call.args.items() if k != "x"), None)
    if isinstance(setting, ArrayValue):
        out = elementwise(call.name, [out, setting], call.ctx)
    usual = (
        dtypes.is_kind(value.dtype, "floating")
        and value.dtype not in dtypes.SMALL_FLOATS
    )
    return out if usual else with_dtype(out, None)


@model("x, /", *names("jax.numpy", "negative positive conjugate conj"))
def unary_linear(call: Call) -> Value:
    value = array(call, "x")
    if dtypes.is_kind(value.dtype, "bool") is not False:
        return with_dtype(value, None)
    return with_dtype(value, value.dtype, value.weak)


@model(
    "x, /",
    *names(
        "jax.numpy",
        "square sign floor ceil trunc fix abs absolute invert bitwise_not bitwise_invert",
    ),
)
@model("a, decimals=0, out=None", *names("jax.numpy", "round around"))
def unary_other(call: Call) -> Value:
    """Functions of one array that keep its dtype; refused or changed dtypes stay open."""
    value = array(call, "a" if "a" in call.args else "x")
    out = finish(call, cleared(value), value)
    if call.last in ("invert", "bitwise_not", "bitwise_invert"):
        refuse_floats(call, [value])
        return out
    if call.last in ("abs", "absolute") and value.dtype not in (
        "bool",
        "int2",
        "int4",
        "uint2",
        "uint4",
    ):
        return (
            out
            if dtypes.is_kind(value.dtype, "complex") is False
            else with_dtype(out, None)
        )
    return (
        out
        if dtypes.is_kind(value.dtype, "bool") is False and value.dtype != "int4"
        else with_dtype(out, None)
    )


@model(
    "x, /",
    *names("jax.numpy", "isnan isinf isfinite logical_not signbit isreal iscomplex"),
)
@model("x, /, out=None", *names("jax.numpy", "isneginf isposinf"))
def predicate(call: Call) -> Value:
    value = array(call, "x")
    picky = call.last in ("signbit", "isneginf", "isposinf")
    if picky and (
        dtypes.is_kind(value.dtype, "complex") is not False
        or value.dtype in dtypes.SMALL_FLOATS
    ):
        return with_dtype(cleared(value), None)
    return with_dtype(cleared(array(call, "x")), "bool")


@model(
    "x1, x2, /",
    *names(
        "jax.numpy",
        "add subtract multiply maximum minimum remainder mod fmod floor_divide "
        "bitwise_and bitwise_or bitwise_xor left_shift right_shift bitwise_left_shift "
        "bitwise_right_shift fmax fmin gcd lcm power pow float_power",
    ),
)
def binary_promoted(call: Call) -> Value:
    operands = [only_array(call, v, i) for i, v in enumerate(call.args.values())]
    kinds = {"add": "add", "subtract": "add", "multiply": "multiply"}
    if call.last.startswith(("bitwise_", "left", "right")) or call.last in (
        "gcd",
        "lcm",
    ):
        refuse_floats(call, operands)
    out = elementwise(
        call.name, operands, call.ctx, kind=kinds.get(call.last, "nonlinear")
    )
    if call.last == "float_power":
        return to_inexact(out, call.ctx)
    if call.last in ("power", "pow") and any(operand.weak for operand in operands):
        return with_dtype(out, None) if out.weak else out
    if (
        call.last in ("power", "pow")
        and dtypes.is_kind(out.dtype, "floating", "complex") is not True
    ):
        return with_dtype(out, None)
    if (
        call.last in ("fmod", "remainder", "mod", "floor_divide")
        and dtypes.is_kind(out.dtype, "complex") is not False
    ):
        return with_dtype(out, None)
    if call.last in (
        "fmod",
        "remainder",
        "mod",
        "floor_divide",
        "left_shift",
        "right_shift",
        "bitwise_left_shift",
        "bitwise_right_shift",
        "subtract",
        "gcd",
        "lcm",
    ):
        out = number_only(out)
    return with_dtype(out, None) if out.weak and call.last in STRONG else out


def number_only(value: ArrayValue) -> ArrayValue:
    """Arithmetic on two bools has rules of its own: leave its dtype open."""
    return (
        value
        if dtypes.is_kind(value.dtype, "bool") is False
        else with_dtype(value, None)
    )


def refuse_floats(call: Call, operands: list[ArrayValue]) -> None:
    """Bitwise operators want ints or bools."""
    for i, operand in enumerate(operands):
        if dtypes.is_kind(operand.dtype, "floating", "complex"):
            raise OpError(
                "ST212",
                f"{call.name} takes integers or booleans, got {operand.dtype}",
                operand=i,
            )


@model(
    "x1, x2, /",
    *names(
        "jax.numpy",
        "divide true_divide arctan2 atan2 hypot logaddexp logaddexp2 copysign nextafter heaviside",
    ),
)
def binary_inexact(call: Call) -> Value:
    operands = arrays(call, "x1", "x2")
    out = elementwise(call.name, operands, call.ctx)
    divided = (
        call.last in ("divide", "true_divide") and operands[1].pending == frozenset()
    )
    out = ArrayValue(
        out.dims, out.dtype, out.weak, operands[0].pending if divided else out.pending
    )
    out = to_inexact(out, call.ctx)
    real_only = call.last in ("hypot", "copysign", "nextafter", "heaviside")
    if real_only and dtypes.is_kind(out.dtype, "complex") is not False:
        return with_dtype(out, None)
    return with_dtype(out, None) if out.weak and call.last in STRONG else out


@model("n, x", "jax.scipy.special.expn")
def exponential_integral(call: Call) -> Value:
    return with_dtype(elementwise(call.name, arrays(call, "n", "x"), call.ctx), None)


@model(
    "x1, x2, /",
    *names(
        "jax.numpy",
        "equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor",
    ),
)
def comparison(call: Call) -> Value:
    return with_dtype(
        elementwise(call.name, arrays(call, "x1", "x2"), call.ctx), "bool"
    )


@model(
    "a, b, rtol=1e-05, atol=1e-08, equal_nan=False",
    "jax.numpy.isclose",
    "jax.numpy.allclose",
)
def is_close(call: Call) -> Value:
    out = with_dtype(elementwise(call.name, arrays(call, "a", "b"), call.ctx), "bool")
    return (
        ArrayValue((), "bool", pending=out.pending) if call.last == "allclose" else out
    )


@model(
    "arr=None, /, min=None, max=None, *, a=None, a_min=None, a_max=None",
    "jax.numpy.clip",
)
def clip(call: Call) -> Value:
    given = [v for v in call.args.values() if not is_none(v)]
    operands = [only_array(call, v) for v in given]
    if not operands:
        return UNKNOWN_ARRAY
    out = number_only(elementwise(call.name, operands, call.ctx))
    return (
        out if dtypes.is_kind(out.dtype, "complex") is False else with_dtype(out, None)
    )


@model("x, copy=True, nan=0.0, posinf=None, neginf=None", "jax.numpy.nan_to_num")
def nan_to_num(call: Call) -> Value:
    value = array(call, "x")
    return with_dtype(
        cleared(value),
        value.dtype,
        value.weak and dtypes.is_kind(value.dtype, "signed") is True,
    )


@model("condition, x=None, y=None, /, *, size=None, fill_value=None", "jax.numpy.where")
def where(call: Call) -> Value:
    """``where(c, x, y)`` broadcasts all three; with one argument it is ``nonzero``."""
    if is_none(call["x"]) or is_none(call["y"]):
        return Unknown("nonzero")
    condition, x, y = arrays(call, "condition", "x", "y")
    dims = broadcast_dims(call.name, [condition, x, y], call.ctx, "ST209")
    dtype, weak = result_dtype(call.name, [x, y], call.ctx)
    return ArrayValue(dims, dtype, weak, merge_pending([x, y], "add"))


@model("x, dtype, /, *, copy=False, device=None", "jax.numpy.astype")
@model("operand, new_dtype", "jax.lax.convert_element_type")
def astype(call: Call) -> Value:
    value = only_array(call, next(iter(call.args.values())), 0)
    name, _ = dtype_argument(
        call, call.get("new_dtype") if "new_dtype" in call.args else call["dtype"]
    )
    return with_dtype(value, name)
