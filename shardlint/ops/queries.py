"""Questions about arrays and dtypes, and the assertions of ``numpy.testing``: results that are not arrays, mostly."""

from __future__ import annotations

from shardlint.ops.arrays import (
    SCALARS,
    UNKNOWN_ARRAY,
    array,
    as_array,
    dtype_name,
    number_kind,
    result_dtype,
    with_dtype,
)
from shardlint.ops.creation import nested
from shardlint.ops.registry import (
    NONE,
    Call,
    OpContext,
    OpError,
    UnknownArgument,
    is_number,
    model,
    names,
)
from shardlint.values import (
    ArrayValue,
    DTypeValue,
    ExternalValue,
    Literal,
    ScalarValue,
    SequenceValue,
    StringValue,
    Unknown,
    Value,
)
from shardtypes.lang import dtypes


@model(
    "*args, **kwargs",
    *names(
        "numpy.testing",
        "assert_allclose assert_array_equal assert_equal assert_ "
        "assert_array_almost_equal assert_almost_equal assert_array_less "
        "assert_approx_equal assert_array_almost_equal_nulp",
    ),
    *names(
        "jax.debug",
        "print callback breakpoint visualize_array_sharding inspect_array_sharding",
    ),
    "jax.experimental.checkify.check",
    "jax.experimental.checkify.debug_check",
    *names("numpy", "save savez"),
)
def nothing(call: Call) -> Value:
    """Returns None. What an assertion compares is the program's business: a test may want it to fail."""
    return NONE


@model("*args, **kwargs", *names("numpy.testing", "assert_raises assert_array_max_ulp"))
def something(call: Call) -> Value:
    """Assertions that give something back."""
    return Unknown(f"what {call.name} gives")


@model("element", "jax.numpy.isscalar")
@model("element, /", "numpy.isscalar")
@model("a1, a2, equal_nan=False", "numpy.array_equal")
@model("a1, a2", "numpy.array_equiv")
@model("x", "numpy.iscomplexobj", "numpy.isrealobj")
@model("arg1, arg2", *names("jax.numpy", "issubdtype"), "numpy.issubdtype")
@model("dtype, kind", "jax.numpy.isdtype")
@model("from_, to, casting='safe'", "jax.numpy.can_cast")
def yes_or_no(call: Call) -> Value:
    """A bool that depends on values or dtypes."""
    return ScalarValue("bool")


@model("*args", *names("jax.numpy", "result_type"), "jax.dtypes.result_type")
@model("a, b", "jax.numpy.promote_types")
def result_type(call: Call) -> Value:
    """The dtype that arrays and dtypes promote to."""
    given = call.get("args")
    items = (
        given.items
        if isinstance(given, SequenceValue)
        else (call.get("a"), call.get("b"))
    )
    operands: list[ArrayValue] = []
    for item in items:
        value = as_array(item, call.ctx.x64)
        if value is None:
            value = with_dtype(UNKNOWN_ARRAY, dtype_name(item, call.ctx))
        operands.append(value)
    try:
        name, _ = result_dtype(call.name, operands, call.ctx)
    except OpError:
        return DTypeValue(None)  # a program may ask in order to find out
    return DTypeValue(name)


@model("dtype, align=False, copy=False", "jax.numpy.dtype", "numpy.dtype")
def dtype(call: Call) -> Value:
    """NumPy has all 64 bits."""
    value = call["dtype"]
    jax_has_it = isinstance(value, ExternalValue) and value.qualname.startswith("jax.")
    wide = call.qualname.startswith("numpy.") and not jax_has_it
    return DTypeValue(dtype_name(value, OpContext(x64=True) if wide else call.ctx))


@model("dtype", *names("jax.numpy", "finfo iinfo"), *names("numpy", "finfo iinfo"))
def limits(call: Call) -> Value:
    return Unknown(f"the limits of a dtype, {call.name}")


@model("x=0, /", *names("jax.numpy", " ".join(SCALARS)))
@model(
    "x=0, /",
    *names(
        "numpy",
        "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
        "complex64 complex128 single double",
    ),
)
def scalar_type(call: Call) -> Value:
    """``jnp.float32(x)``: an array of that dtype. NumPy keeps 64 bits."""
    numpy = call.qualname.startswith("numpy.")
    name = dtypes.dtype_from_name(call.last, x64=numpy or call.ctx.x64)
    if (
        number_kind(call["x"]) == "complex"
        and dtypes.is_kind(name, "bool", "complex") is False
    ):
        raise UnknownArgument  # which JAX refuses
    value = call["x"] if is_number(call["x"]) else nested(call, call["x"])
    known = as_array(value, call.ctx.x64) or UNKNOWN_ARRAY
    if name in ("int2", "int4", "uint2", "uint4") and is_number(call["x"]):
        name = None  # some numbers are out of range
    return ArrayValue(known.dims, name, False, known.pending, numpy=numpy)


@model(
    "obj",
    "jax.numpy.array_str",
    "jax.numpy.array_repr",
    "numpy.array_str",
    "numpy.array_repr",
)
def text(call: Call) -> Value:
    return StringValue()


@model("x", "jax.numpy.iterable", "numpy.iterable")
def iterable(call: Call) -> Value:
    value = array(call, "x")
    return ScalarValue("bool") if value.dims is None else Literal(bool(value.dims))
