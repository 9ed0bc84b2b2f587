"""Elementwise functions of ``jax.numpy``, ``jax.lax``, ``jax.nn`` and ``jax.scipy.special``."""

from __future__ import annotations

from shardlint import dtypes
from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    array,
    arrays,
    as_array,
    broadcast_dims,
    dtype_argument,
    elementwise,
    merge_pending,
    result_dtype,
    with_dtype,
)
from shardlint.ops.registry import Call, OpContext, OpError, is_none, model
from shardlint.values import ArrayValue, Unknown, Value


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
    return ArrayValue(value.dims, value.dtype, value.weak, pending, value.manual)


@model("x, /", *names("jax.numpy", "exp exp2 expm1 log log1p log2 log10 sqrt sin cos tan arcsin arccos arctan sinh cosh "
                      "tanh arcsinh arccosh arctanh asin acos atan asinh acosh atanh sinc cbrt"),
       *names("jax.scipy.special", "erf erfc erf_inv expit logit gammaln digamma ndtr ndtri log_ndtr i0 i0e i1 i1e entr"),
       *names("jax.nn", "sigmoid soft_sign silu swish log_sigmoid mish softplus hard_sigmoid hard_silu hard_swish "
                        "selu hard_tanh sparse_plus sparse_sigmoid log1mexp"))  # fmt: skip
def unary_inexact(call: Call) -> Value:
    """Ints are computed in float32; floats keep their dtype."""
    return cleared(to_inexact(next(as_array(v, call.ctx.x64) or UNKNOWN_ARRAY for v in call.args.values()), call.ctx))


@model("x", *names("jax.nn", "tanh"))
def unary_inexact_by_name(call: Call) -> Value:
    return unary_inexact(call)


@model("x, alpha=1.0", *names("jax.nn", "elu celu"))
@model("x, negative_slope=0.01", "jax.nn.leaky_relu")
@model("x, approximate=True", "jax.nn.gelu")
def activation(call: Call) -> Value:
    """Activations with one setting, which may itself be an array."""
    value = to_inexact(array(call, "x"), call.ctx)
    setting = next(v for k, v in call.args.items() if k != "x")
    if call.last == "gelu" or not isinstance(setting, ArrayValue):
        return cleared(value)
    return elementwise(call.name, [value, setting], call.ctx)


@model("x", *names("jax.nn", "relu relu6"))
def relu(call: Call) -> Value:
    value = cleared(array(call, "x"))
    if call.last == "relu6":
        return value if dtypes.is_kind(value.dtype, "bool") is False else with_dtype(value, None)
    return value if dtypes.is_kind(value.dtype, "bool", "complex") is False else with_dtype(value, None)


@model("x, /", *names("jax.numpy", "negative positive conjugate conj"))
def unary_linear(call: Call) -> Value:
    value = array(call, "x")
    if call.last in ("negative", "positive") and dtypes.is_kind(value.dtype, "bool") is not False:
        return with_dtype(value, None)
    return with_dtype(value, value.dtype, value.weak)


@model("x, /", *names("jax.numpy", "square sign reciprocal floor ceil trunc rint fix abs absolute fabs invert bitwise_not "
                      "bitwise_invert degrees radians rad2deg deg2rad"))
@model("a, decimals=0, out=None", *names("jax.numpy", "round around"))
def unary_other(call: Call) -> Value:
    """Functions of one array whose dtype rules differ from one another."""
    value = array(call, "a" if "a" in call.args else "x")
    out = cleared(value)
    if call.last in ("square", "sign"):
        return out
    if call.last in ("fabs", "rint", "reciprocal", "degrees", "radians", "rad2deg", "deg2rad"):
        return to_inexact(out, call.ctx)
    if call.last in ("floor", "ceil", "trunc", "fix", "round", "around"):
        return out if dtypes.is_kind(value.dtype, "floating") else with_dtype(out, None)
    if call.last in ("abs", "absolute") and dtypes.is_kind(value.dtype, "complex") is not False:
        return with_dtype(out, None)
    if call.last in ("invert", "bitwise_not", "bitwise_invert"):
        refuse_floats(call, [value])
    return out


@model("val, /", *names("jax.numpy", "real imag"))
def real_part(call: Call) -> Value:
    value = array(call, "val")
    if value.dtype in dtypes.COMPLEX:
        return with_dtype(value, "float32" if value.dtype == "complex64" else "float64", value.weak)
    return value if dtypes.is_kind(value.dtype, "complex") is False else with_dtype(value, None)


@model("x, /", *names("jax.numpy", "isnan isinf isfinite logical_not signbit isreal iscomplex"))
@model("x, /, out=None", *names("jax.numpy", "isneginf isposinf"))
def predicate(call: Call) -> Value:
    return with_dtype(cleared(array(call, "x")), "bool")


@model("x1, x2, /", *names("jax.numpy", "add subtract multiply maximum minimum remainder mod fmod floor_divide "
                           "bitwise_and bitwise_or bitwise_xor left_shift right_shift bitwise_left_shift "
                           "bitwise_right_shift fmax fmin gcd lcm power pow float_power"))
def binary_promoted(call: Call) -> Value:
    operands = [as_array(v, call.ctx.x64) or UNKNOWN_ARRAY for v in call.args.values()]
    kinds = {"add": "add", "subtract": "add", "multiply": "multiply"}
    if call.last.startswith(("bitwise_", "left", "right")) or call.last in ("gcd", "lcm"):
        refuse_floats(call, operands)
    out = elementwise(call.name, operands, call.ctx, kind=kinds.get(call.last, "nonlinear"))
    if call.last in ("fmod", "remainder", "mod", "floor_divide", "power", "pow", "left_shift", "right_shift",
                     "bitwise_left_shift", "bitwise_right_shift", "subtract"):  # fmt: skip
        return number_only(out)
    return to_inexact(out, call.ctx) if call.last == "float_power" else out


def number_only(value: ArrayValue) -> ArrayValue:
    """Arithmetic on two bools has rules of its own: leave its dtype open."""
    return value if dtypes.is_kind(value.dtype, "bool") is False else with_dtype(value, None)


def refuse_floats(call: Call, operands: list[ArrayValue]) -> None:
    """Bitwise operators want ints or bools."""
    for i, operand in enumerate(operands):
        if dtypes.is_kind(operand.dtype, "floating", "complex"):
            raise OpError("ST212", f"{call.name} takes integers or booleans, got {operand.dtype}", operand=i)


@model("x1, x2, /", *names("jax.numpy", "divide true_divide arctan2 atan2 hypot logaddexp logaddexp2 copysign nextafter "
                           "heaviside"))
def binary_inexact(call: Call) -> Value:
    operands = arrays(call, "x1", "x2")
    out = elementwise(call.name, operands, call.ctx)
    divided = call.last in ("divide", "true_divide") and operands[1].pending == frozenset()
    out = ArrayValue(out.dims, out.dtype, out.weak, operands[0].pending if divided else out.pending, out.manual)
    return to_inexact(out, call.ctx)


@model("x1, x2, /", *names("jax.numpy", "equal not_equal less less_equal greater greater_equal logical_and logical_or "
                           "logical_xor"))
def comparison(call: Call) -> Value:
    return with_dtype(elementwise(call.name, arrays(call, "x1", "x2"), call.ctx), "bool")


@model("a, b, rtol=1e-05, atol=1e-08, equal_nan=False", "jax.numpy.isclose", "jax.numpy.allclose")
def is_close(call: Call) -> Value:
    out = with_dtype(elementwise(call.name, arrays(call, "a", "b"), call.ctx), "bool")
    return ArrayValue((), "bool", pending=out.pending, manual=out.manual) if call.last == "allclose" else out


@model("arr=None, /, min=None, max=None, *, a=None, a_min=None, a_max=None", "jax.numpy.clip")
def clip(call: Call) -> Value:
    given = [v for v in call.args.values() if not is_none(v)]
    operands = [as_array(v, call.ctx.x64) or UNKNOWN_ARRAY for v in given]
    return number_only(elementwise(call.name, operands, call.ctx)) if operands else UNKNOWN_ARRAY


@model("x, copy=True, nan=0.0, posinf=None, neginf=None", "jax.numpy.nan_to_num")
def nan_to_num(call: Call) -> Value:
    return cleared(array(call, "x"))


@model("condition, x=None, y=None, /, *, size=None, fill_value=None", "jax.numpy.where")
def where(call: Call) -> Value:
    """``where(c, x, y)`` broadcasts all three; with one argument it is ``nonzero``."""
    if is_none(call["x"]) or is_none(call["y"]):
        return Unknown("nonzero")
    condition, x, y = arrays(call, "condition", "x", "y")
    dims = broadcast_dims(call.name, [condition, x, y], call.ctx, "ST209")
    dtype, weak = result_dtype(call.name, [x, y], call.ctx)
    return ArrayValue(dims, dtype, weak, merge_pending([x, y], "add"), any(v.manual for v in (condition, x, y)))


@model("x, dtype, /, *, copy=False, device=None", "jax.numpy.astype")
@model("operand, new_dtype", "jax.lax.convert_element_type")
def astype(call: Call) -> Value:
    value = as_array(next(iter(call.args.values())), call.ctx.x64) or UNKNOWN_ARRAY
    name, _ = dtype_argument(call, call.get("new_dtype") if "new_dtype" in call.args else call["dtype"])
    return with_dtype(value, name)


@model("x", "jax.lax.stop_gradient")
@model("x, *args, **kwargs", "jax.block_until_ready", "jax.lax.optimization_barrier")
def same_value(call: Call) -> Value:
    return call["x"]
