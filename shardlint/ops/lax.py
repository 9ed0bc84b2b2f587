"""Elementwise functions of ``jax.lax``: no promotion, equal ranks or scalars."""

from __future__ import annotations

from shardlint.ops import same_dtypes
from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    array,
    arrays,
    as_array,
    axes_argument,
    broadcast_dims,
    cleared,
    dims_of,
    dtype_argument,
    merge_pending,
    seen_size,
    shown,
    shown_sizes,
    size_of,
    sizes_argument,
    with_dims,
    with_dtype,
)
from shardlint.ops.contraction import check_contracted, contraction_result
from shardlint.ops.joining import agree, chosen_dims
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    model,
    names,
    static_int,
)
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value
from shardtypes.lang import Size, dtypes

_BITS = frozenset(
    "bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right_arithmetic "
    "shift_right_logical clz population_count".split()
)


def refuse_floats_as_bits(call: Call, *operands: ArrayValue) -> None:
    """Functions of bits want ints."""
    for i, operand in enumerate(operands):
        if call.last in _BITS and dtypes.is_kind(operand.dtype, "floating", "complex"):
            raise OpError(
                "ST212", f"{call.name} takes integers, got {operand.dtype}", operand=i
            )


@model(
    "x, accuracy=None",
    *names(
        "jax.lax", "exp exp2 log log1p expm1 tanh logistic sin cos tan sqrt rsqrt cbrt"
    ),
)
@model(
    "x",
    *names(
        "jax.lax",
        "abs sign floor ceil square is_finite erf erfc erf_inv neg acos asin atan acosh asinh "
        "atanh cosh sinh reciprocal conj lgamma digamma bessel_i0e bessel_i1e bitwise_not clz "
        "population_count real imag",
    ),
)
@model("x, rounding_method=0", "jax.lax.round")
@model("operand, exponent_bits, mantissa_bits", "jax.lax.reduce_precision")
@model("x, y", "jax.lax.integer_pow")
def unary(call: Call) -> Value:
    value = array(call, "operand" if "operand" in call.args else "x")
    out = value if call.last == "neg" else cleared(value)
    refuse_floats_as_bits(call, value)
    if call.last in ("conj", "real", "imag"):  # results of their own for real input
        return with_dtype(out, None)
    if call.last == "is_finite":  # of floats alone
        return with_dtype(
            out, None if dtypes.is_kind(value.dtype, "floating") is False else "bool"
        )
    bits = call.last in _BITS or call.last in ("abs", "sign", "neg", "square")
    if not dtypes.is_kind(
        value.dtype, "floating", *(("signed", "unsigned") if bits else ())
    ):
        return with_dtype(out, None)
    if (
        call.last == "abs"
        and dtypes.is_kind(value.dtype, "floating", "signed") is not True
    ):
        return with_dtype(out, None)  # JAX 0.12 refuses unsigned integers
    return with_dtype(out, value.dtype, value.weak)


_COMPARING = frozenset("eq ne lt le gt ge".split())
_FLOATING = frozenset(
    "pow atan2 nextafter igamma igammac polygamma zeta complex".split()
)


@model(
    "x, y",
    *names(
        "jax.lax",
        "add sub mul div rem max min atan2 nextafter bitwise_and bitwise_or bitwise_xor "
        "shift_left shift_right_arithmetic shift_right_logical eq ne lt le gt ge complex",
    ),
    alike="x y",
)
@model("x, y", "jax.lax.pow")
@model("a, x", *names("jax.lax", "igamma igammac"), alike="a x")
@model("m, x", "jax.lax.polygamma", alike="m x")
@model("x, q", "jax.lax.zeta", alike="x q")
def binary(call: Call) -> Value:
    """Ranks are equal, or one is a scalar; a dimension of 1 stretches."""
    x, y = arrays(call, *call.args)
    refuse_floats_as_bits(call, x, y)
    dims = x.dims or y.dims
    if x.dims is None or y.dims is None:
        dims = None
    elif x.dims and y.dims:
        if len(x.dims) != len(y.dims):
            raise OpError(
                "ST204", f"{call.name}: ranks differ: {shown(x)} and {shown(y)}"
            )
        dims = broadcast_dims(call.name, [x, y], call.ctx)
    # powers may be integers
    if call.last == "pow" and dtypes.is_kind(y.dtype, "signed", "unsigned") is False:
        same_dtypes.check(call, ("x", "y"))
    kinds = (
        ("floating",) if call.last in _FLOATING else ("floating", "signed", "unsigned")
    )
    dtype = (
        x.dtype
        if x.dtype == y.dtype and dtypes.is_kind(x.dtype, *kinds) and x.weak == y.weak
        else None
    )
    if call.last == "complex":
        dtype = None
    elif call.last in _COMPARING:
        dtype = "bool" if dtype is not None else None
    pending = frozenset[str]() if x.pending == y.pending == frozenset() else None
    return ArrayValue(dims, dtype, x.weak and dtype is not None, pending)


@model("dtype, size", "jax.lax.iota")
@model("dtype, shape, dimension, *, out_sharding=None", "jax.lax.broadcasted_iota")
def iota(call: Call) -> Value:
    sizes = (
        [size_of(call["size"])]
        if "size" in call.args
        else sizes_argument(call["shape"])
    )
    dims = None if sizes is None else dims_of(*sizes)
    if "dimension" in call.args and dims is not None:
        position = static_int(call["dimension"])
        if position is not None and not 0 <= position < len(dims):
            raise OpError(
                "ST208",
                f"{call.name}: dimension {position} of {shown_sizes([d.size for d in dims])}",
            )
    return ArrayValue(dims, dtype_argument(call, call["dtype"])[0], False, frozenset())


@model("which, *cases", "jax.lax.select_n", alike="cases")
def select_n(call: Call) -> Value:
    """Cases of one shape and dtype; ``which`` has their shape or is a scalar."""
    which, cases = array(call, "which"), call["cases"]
    if not isinstance(cases, SequenceValue) or not cases.items:
        raise UnknownArgument
    parts = [as_array(item, call.ctx.x64) or UNKNOWN_ARRAY for item in cases.items]
    dims = chosen_dims(call, which, parts)
    same_dtype = len({(part.dtype, part.weak) for part in parts}) == 1
    if (
        dtypes.is_kind(which.dtype, "bool", "signed") is not True
        or len(parts) > 2
        or which.dtype == "int4"
    ):
        same_dtype = False
    pending = merge_pending(parts, "add")
    dtype = parts[0].dtype if same_dtype and not parts[0].weak else None
    return ArrayValue(None if dims is None else tuple(dims), dtype, False, pending)


@model("min, x, max", "jax.lax.clamp", alike="min x max")
def clamp(call: Call) -> Value:
    """The bounds are scalars or have the shape of ``x``."""
    low, value, high = (array(call, name) for name in ("min", "x", "max"))
    if value.dims == () and low.dims:
        if high.dims:
            agree(call, [low, high], None)
        raise UnknownArgument  # JAX refuses it, but not where a bound is mapped by vmap
    for bound in (low, high):
        if value.dims is not None and bound.dims:
            agree(call, [value, bound], None)
    alike = all(
        bound.dtype == value.dtype and bound.weak == value.weak for bound in (low, high)
    )
    usual = (
        alike
        and not value.weak
        and dtypes.is_kind(value.dtype, "floating", "signed", "unsigned")
    )
    return with_dtype(cleared(value), value.dtype if usual else None)


@model("operand, new_dtype", "jax.lax.bitcast_convert_type")
def bitcast_convert_type(call: Call) -> Value:
    """A wider dtype takes the last dimension in, a narrower one adds it."""
    value = array(call, "operand")
    name, _ = dtype_argument(call, call["new_dtype"])
    old, new = (
        dtypes.bits(dtype) if dtype in dtypes.CONCRETE else None
        for dtype in (value.dtype, name)
    )
    out = with_dtype(cleared(value), None if value.weak else name)
    if (
        value.dims is None
        or old is None
        or new is None
        or name is None
        or min(old, new) < 8
    ):
        return with_dims(out, None)
    if "bool" in (value.dtype, name) or "complex" in f"{value.dtype} {name}":
        return with_dims(with_dtype(out, None), None)
    if old == new:
        return out
    if old > new:
        return with_dims(out, (*value.dims, Dimension(Size.const(old // new), ())))
    last = seen_size(value, len(value.dims) - 1) if value.dims else None
    if value.dims and last is None:
        raise UnknownArgument
    if last is None or last.constant != new // old:
        if last is not None and last.constant is None:
            raise UnknownArgument
        what = f"{value.dtype} to {name} needs a last dimension of {new // old}, got shape {shown(value)}"
        raise OpError("ST206", f"{call.name}: {what}")
    return with_dims(out, value.dims[:-1])


@model("self, dtype=None", "jax.Array.view")
def view(call: Call) -> Value:
    """The same bytes under another dtype: the last dimension changes with the width."""
    value = array(call, "self")
    name, given = dtype_argument(call, call["dtype"])
    old, new = (
        dtypes.bits(dtype) if dtype in dtypes.CONCRETE else None
        for dtype in (value.dtype, name)
    )
    if not given or (
        old is not None and old == new and "complex" not in f"{value.dtype} {name}"
    ):
        return with_dtype(value, None if value.weak else name) if given else value
    return with_dtype(with_dims(value, None), None)


@model(
    "operand, axes, *, out_sharding=None",
    *names(
        "jax.lax",
        "reduce_max reduce_min reduce_sum reduce_prod reduce_and reduce_or reduce_xor",
    ),
)
def reduce(call: Call) -> Value:
    """The axes are non-negative."""
    value = array(call, "operand")
    if value.dims is None or not isinstance(call["axes"], SequenceValue):
        raise UnknownArgument
    numbers = [static_int(item) for item in call["axes"].items]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers) or any(number < 0 for number in known):
        raise UnknownArgument
    if len(set(known)) < len(known) and call.last.endswith(("and", "or")):
        raise UnknownArgument  # releases differ
    axes = axes_argument(call, call["axes"], value) or ()
    dims = tuple(dim for i, dim in enumerate(value.dims) if i not in axes)
    bits = call.last.endswith(("and", "or", "xor"))
    usual = dtypes.is_kind(
        value.dtype, "signed", "unsigned", *(() if bits else ("floating",))
    )
    out = value if call.last == "reduce_sum" else cleared(value)
    return with_dtype(
        with_dims(out, dims), value.dtype if usual and not value.weak else None
    )


@model("lhs, rhs, precision=None", "jax.lax.batch_matmul")
def batch_matmul(call: Call) -> Value:
    """No broadcasting: all but the last two dimensions are equal."""
    a, b = array(call, "lhs"), array(call, "rhs")
    if a.dims is None or b.dims is None:
        return UNKNOWN_ARRAY
    if len(a.dims) < 2 or len(b.dims) != len(a.dims):
        raise OpError(
            "ST204",
            f"{call.name}: shapes {shown(a)} and {shown(b)}; ranks are equal and at least 2",
        )
    agree(call, [with_dims(a, a.dims[:-2]), with_dims(b, b.dims[:-2])], None)
    check_contracted(call, a, len(a.dims) - 1, b, len(b.dims) - 2)
    return contraction_result(call, [a, b], (*a.dims[:-1], b.dims[-1]))


@model(
    "lhs, rhs, group_sizes, precision=None, preferred_element_type=None, group_offset=None",
    "jax.lax.ragged_dot",
)
def ragged_dot(call: Call) -> Value:
    """Rows in groups, each group with a matrix of its own: (m, k), (groups, k, n), (groups,) → (m, n)."""
    a, b, groups = arrays(call, "lhs", "rhs", "group_sizes")
    if a.dims is None or b.dims is None or len(a.dims) != 2 or len(b.dims) != 3:
        return UNKNOWN_ARRAY
    check_contracted(call, a, 1, b, 1)
    if (
        groups.dims is not None
        and len(groups.dims) == 1
        and is_none(call["group_offset"])
    ):
        check_contracted(call, groups, 0, b, 0)
    return with_dtype(contraction_result(call, [a, b], (a.dims[0], b.dims[2])), None)


@model("a, b, shape", "jax.lax.rng_uniform")
def rng_uniform(call: Call) -> Value:
    sizes = (
        sizes_argument(call["shape"])
        if isinstance(call["shape"], SequenceValue)
        else None
    )
    if sizes is None or any(
        (size.constant or 0) < 0 for size in sizes if size is not None
    ):
        raise UnknownArgument
    return ArrayValue(dims_of(*sizes), None)
