"""What all models share: reading arguments as arrays, axes and sizes, comparing sizes, wording mismatches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shardlint.ops import advice
from shardlint.ops.registry import (
    Call,
    OpContext,
    OpError,
    UnknownArgument,
    is_none,
    static_int,
)
from shardlint.values import (
    ArrayValue,
    Dimension,
    DTypeValue,
    ExternalValue,
    IntValue,
    Literal,
    ScalarValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import (
    Different,
    Equal,
    Size,
    broadcast,
    compare,
    dtypes,
    format_shape,
)

UNKNOWN_ARRAY = ArrayValue(None)
ONE = Size.const(1)
Dims = tuple[Dimension, ...]

SCALARS = [
    *sorted(dtypes.CONCRETE - {"bool"}),
    *"bool_ float_ int_ complex_ single double csingle cdouble".split(),
]


def as_array(value: Value, x64: bool = False) -> ArrayValue | None:
    """An array, or the rank-0 array that JAX makes of a Python number; None for anything else."""
    if isinstance(value, ArrayValue):
        return value
    kind = number_kind(value)
    if kind is None:
        return None
    name = {
        "bool": "bool",
        "int": "int32",
        "float": "float32",
        "complex": "complex64",
    }.get(kind)
    if name is None:
        return None
    if x64:
        name = {"int32": "int64", "float32": "float64", "complex64": "complex128"}.get(
            name, name
        )
    return ArrayValue((), name, weak=kind != "bool", pending=frozenset())


def number_kind(value: Value) -> str | None:
    """``bool``, ``int``, ``float`` or ``complex`` for a Python number, else None."""
    if isinstance(value, IntValue):
        return "int"
    if isinstance(value, ScalarValue):
        return value.kind
    if isinstance(value, Literal) and isinstance(value.value, (bool, float, complex)):
        return type(value.value).__name__
    return None


def array(call: Call, name: str) -> ArrayValue:
    """The argument as an array; an array of unknown rank where it is not known to be one."""
    return only_array(call, call[name], list(call.args).index(name))


def only_array(call: Call, value: Value, position: int | None = None) -> ArrayValue:
    """A value as an array. Raises OpError for a tuple or list, of which NumPy makes an array and JAX does not."""
    known = as_array(value, call.ctx.x64)
    if (
        known is None
        and isinstance(value, SequenceValue)
        and value.names is None
        and value.kind in ("tuple", "list")
    ):
        if call.qualname.startswith("jax.") and not call.qualname.startswith(
            _OF_SEQUENCES
        ):
            shapes = [
                shown(item) for item in value.items if isinstance(item, ArrayValue)
            ]
            what = (
                f" ({', '.join(shapes)})"
                if 0 < len(shapes) == len(value.items) < 5
                else f" of {len(value.items)}"
            )
            advised = (
                "pass one of its items, or join them with jnp.stack"
                if shapes
                else "make it one with jnp.asarray"
            )
            message = f"{call.name}: a {value.kind}{what} is not an array; {advised}"
            raise OpError("ST219", message, operand=position)
    return known or UNKNOWN_ARRAY


#: Functions that make arrays of the sequences that they are given, or do so where nothing is traced.
_OF_SEQUENCES = tuple(
    f"jax.{name}"
    for name in """ad_checkpoint. Array. debug. device_put lax.broadcast lax.dynamic_update
    lax.expand_dims lax.full_like lax.optimization_barrier lax.sort lax.squeeze lax.stop_gradient lax.top_k
    lax.transpose lax.with_sharding_constraint nn.dot_product_attention nn.one_hot numpy.array numpy.asarray
    numpy.atleast numpy.average numpy.einsum numpy.fft.ihfft numpy.iscomplexobj numpy.isrealobj numpy.isscalar
    numpy.iterable numpy.ndim numpy.result_type numpy.shape numpy.size numpy.trim_zeros random. reshard scipy.linalg.
    scipy.special.expn scipy.special.hyp1f1 scipy.special.log_ndtr scipy.special.ndtr scipy.special.spence scipy.stats.
    sharding.""".split()
)


def arrays(call: Call, *names: str) -> list[ArrayValue]:
    return [array(call, name) for name in names]


def dims_of(*sizes: int | Size | None) -> Dims:
    """Dimensions of these sizes, their sharding unknown."""
    return tuple(Dimension(None if size is None else Size.of(size)) for size in sizes)


def sizes_of(value: ArrayValue) -> list[Size | None]:
    """The sizes of an array of known rank; none for one of unknown rank."""
    return [dim.size for dim in value.dims or ()]


def shown(value: ArrayValue) -> str:
    """``'B L M'``, quoted: an array's shape in messages."""
    if value.dims is None:
        return "'...'"
    return f"'{format_shape([d.size for d in value.dims])}'"


def shown_sizes(sizes: Sequence[Size | None]) -> str:
    return f"'{format_shape(list(sizes))}'"


def shown_size(size: Size | None) -> str:
    return format_shape([size])


def different(ctx: OpContext, a: Size | None, b: Size | None) -> dict[str, int] | None:
    """A witness if the sizes certainly differ for some call, else None."""
    if a is None or b is None:
        return None
    verdict = compare(a, b, ctx.facts)
    return verdict.witness if isinstance(verdict, Different) else None


def same(ctx: OpContext, a: Size | None, b: Size | None) -> bool:
    """Whether the sizes are certainly equal."""
    return (
        a is not None and b is not None and isinstance(compare(a, b, ctx.facts), Equal)
    )


def seen_size(value: ArrayValue, i: int) -> Size | None:
    """The size of one dimension of an array of known rank."""
    assert value.dims is not None
    return value.dims[i].size


def pick(a: Size, b: Size) -> Size:
    """Of two equal sizes the one that says more: a constant, else the shorter text."""
    return min(
        a, b, key=lambda size: (size.constant is None, "?" in str(size), len(str(size)))
    )


def merge_dims(ctx: OpContext, a: Dimension, b: Dimension) -> Dimension:
    """One dimension for two that were found equal, or not known to be different."""
    if a.size is None or b.size is None:
        size = a.size if b.size is None else b.size
    elif same(ctx, a.size, b.size):
        size = pick(a.size, b.size)
    else:
        size = next(
            (s for s in (a.size, b.size) if s.constant is not None), None
        ) or pick(a.size, b.size)
    return Dimension(size, a.axes if a.axes == b.axes else None)


def broadcast_dimension(
    ctx: OpContext, a: Dimension, b: Dimension
) -> Dimension | dict[str, int]:
    """NumPy's rule for two dimensions; a witness where it fails."""
    if a.size == ONE:
        return b
    if b.size == ONE:
        return a
    axes = a.axes if a.axes == b.axes else None
    if a.size is None or b.size is None:
        known = a.size if b.size is None else b.size
        # only a known size above 1 decides: a symbol may be 1 and stretch
        return Dimension(
            known if known is not None and (known.constant or 0) > 1 else None, axes
        )
    outcome = broadcast(a.size, b.size, ctx.facts)
    if isinstance(outcome, Different):
        return outcome.witness
    return Dimension(outcome if isinstance(outcome, Size) else None, axes)


def broadcast_dims(
    call_name: str, operands: Sequence[ArrayValue], ctx: OpContext, code: str = "ST204"
) -> Dims | None:
    """The dimensions that arrays broadcast to; None where a rank is not known. Raises OpError where they cannot."""
    result: Dims = ()
    unknown = False
    for i, operand in enumerate(operands):
        if operand.dims is None:
            unknown = True
            continue
        long, short = (
            (result, operand.dims)
            if len(result) >= len(operand.dims)
            else (operand.dims, result)
        )
        out = list(long)
        for k, dim in enumerate(short, start=len(long) - len(short)):
            other = long[k]
            merged = broadcast_dimension(ctx, other, dim)
            if not isinstance(merged, Dimension):
                previous = next(
                    o for o in operands[:i] if _clashes(ctx, o, operand, k - len(long))
                )
                text = cannot_broadcast(
                    call_name, sizes_of(previous), sizes_of(operand)
                )
                raise OpError(code, text, merged, i)
            out[k] = merged
        result = tuple(out)
    return None if unknown else result


def _clashes(ctx: OpContext, a: ArrayValue, b: ArrayValue, k: int) -> bool:
    if a.dims is None or b.dims is None or len(a.dims) < -k or len(b.dims) < -k:
        return False
    return not isinstance(broadcast_dimension(ctx, a.dims[k], b.dims[k]), Dimension)


def cannot_broadcast(
    name: str, a: Sequence[Size | None], b: Sequence[Size | None]
) -> str:
    shapes = f"{shown_sizes(a)} and {shown_sizes(b)}"
    return f"{name}: shapes {shapes} do not broadcast{advice.broadcasting(a, b)}"


def merge_pending(
    operands: Sequence[ArrayValue], kind: str = "nonlinear"
) -> frozenset[str] | None:
    """What a result still awaits. ``kind`` is ``add``, ``multiply`` (linear in each operand) or ``nonlinear``."""
    pendings = [operand.pending for operand in operands]
    if all(p == frozenset() for p in pendings):
        return frozenset()
    if kind == "add" and len(set(pendings)) == 1:
        return pendings[0]
    if kind == "multiply":
        some = [p for p in pendings if p != frozenset()]
        if len(some) == 1:
            return some[0]
    return None


def result_dtype(
    call_name: str, operands: Sequence[ArrayValue], ctx: OpContext
) -> tuple[str | None, bool]:
    """Promoted dtype and whether it is weak; (None, False) where not known. Raises OpError where JAX refuses."""
    if not operands:
        return None, False
    # weak operands last: promotion is a least upper bound of all of them, and only concrete ones decide
    if any(operand.dtype is None for operand in operands):
        return None, False
    ordered = sorted(operands, key=lambda operand: operand.weak)
    name, weak = ordered[0].dtype, ordered[0].weak
    for operand in ordered[1:]:
        assert name is not None and operand.dtype is not None
        try:
            promoted = dtypes.promote(name, weak, operand.dtype, operand.weak, ctx.x64)
        except dtypes.NoPromotion:
            both = f"{dtypes.written(name)} and {dtypes.written(operand.dtype)}"
            message = f"{call_name}: {both} do not promote; cast one with .astype"
            raise OpError("ST212", message) from None
        if promoted is None:
            return None, False
        name, weak = promoted
    return name, weak


def elementwise(
    call_name: str,
    operands: Sequence[ArrayValue],
    ctx: OpContext,
    *,
    kind: str = "nonlinear",
    code: str = "ST204",
) -> ArrayValue:
    """Broadcast and promote: the result of an elementwise function that keeps the promoted dtype."""
    dims = broadcast_dims(call_name, operands, ctx, code)
    dtype, weak = result_dtype(call_name, operands, ctx)
    return ArrayValue(dims, dtype, weak, merge_pending(operands, kind))


# --- axes ------------------------------------------------------------------------------------------------------


def axis_error(call: Call, axis: int, operand: ArrayValue, rank: int) -> OpError:
    least = f"{-rank} to {rank - 1}" if rank else "it has none"
    shape = shown(operand)
    return OpError(
        "ST208", f"{call.name}: axis {axis} is out of range for shape {shape} ({least})"
    )


def axis_given_twice(call: Call, axis: int, operand: ArrayValue) -> OpError:
    text = f"axis {axis} is given twice for shape {shown(operand)}"
    return OpError("ST208", f"{call.name}: {text}")


def one_axis(call: Call, value: Value, rank: int | None, operand: ArrayValue) -> int:
    """An axis argument, made non-negative. Raises UnknownArgument where it or the rank is not known."""
    refuse_non_axis(call, value)
    axis = static_int(value)
    if (
        axis is None
        or rank is None
        or (call.ctx.numpy and rank == 0 and axis in (0, -1))
    ):
        raise UnknownArgument  # NumPy reduces a scalar along its first axis
    if not -rank <= axis < rank:
        raise axis_error(call, axis, operand, rank)
    return axis % rank


def checked_axis(
    call: Call, value: ArrayValue, axis: Value, negative: bool = True
) -> int | None:
    """The axis, checked; None where it or the rank is not known. Some functions of ``lax`` take no negative one."""
    if value.dims is None:
        return None
    number = static_int(axis)
    if not negative and number is not None and -len(value.dims) <= number < 0:
        meant = number + len(value.dims)
        raise OpError(
            "ST208",
            f"{call.name} takes no negative axis, got {number} for {shown(value)}; use {meant}",
        )
    try:
        return one_axis(call, axis, len(value.dims), value)
    except UnknownArgument:
        return None


_ELEMENTWISE_TWINS = {"min": "minimum", "max": "maximum", "amin": "minimum", "amax": "maximum", "any": "logical_or",
                      "all": "logical_and", "sum": "add"}  # fmt: skip


def refuse_non_axis(call: Call, value: Value) -> None:
    """An array where an axis belongs fails for every call: ``jnp.min(a, b)``."""
    is_float = isinstance(value, Literal) and isinstance(value.value, (float, complex))
    is_array = isinstance(value, ArrayValue) and (
        value.dims != () or dtypes.is_kind(value.dtype, "floating") is True
    )
    if isinstance(value, ArrayValue) and value.numpy and len(value.dims or ()) < 2:
        return  # JAX takes several axes as a NumPy array too
    if not (
        is_float
        or (is_array and isinstance(value, ArrayValue) and value.dims is not None)
    ):
        return
    what = (
        f"an array of shape {shown(value)}"
        if isinstance(value, ArrayValue)
        else "a float"
    )
    twin = _ELEMENTWISE_TWINS.get(call.last)
    prefix = "np" if call.qualname.startswith("numpy.") else "jnp"
    advice = (
        f"; use {prefix}.{twin} for the elementwise function"
        if twin and is_array
        else ""
    )
    raise OpError(
        "ST213", f"{call.name}: {what} is passed as the axis{advice}", operand=1
    )


#: Functions that are compiled for each value of ``axis``.
_HASHING = frozenset(
    """count_nonzero log_softmax logmeanexp median nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile
    nanstd nansum nanvar norm percentile quantile standardize""".split()
)


def refuse_list_of_axes(call: Call, value: SequenceValue) -> None:
    """Raises OpError for axes as a list where a function is compiled for each value of them."""
    is_compiled = call.qualname.startswith("jax.") and call.last in _HASHING
    if value.kind == "list" and is_compiled:
        text = "the axes are a list, which cannot be hashed; pass a tuple"
        raise OpError("ST213", f"{call.name}: {text}")


def sizes_argument(value: Value) -> list[Size | None] | None:
    """A shape argument: an int or a sequence of ints. None where its length is not known."""
    if isinstance(value, IntValue):
        return [value.size]
    if isinstance(value, SequenceValue):
        return [size_of(item) for item in value.items]
    return None


def size_of(value: Value) -> Size | None:
    if isinstance(value, (IntValue, Unknown)):
        return value.size
    known = static_int(value)
    return None if known is None else Size.const(known)


def dtype_argument(call: Call, value: Value) -> tuple[str | None, bool]:
    """A dtype argument: its name (None where not known), and whether one was given at all."""
    if is_none(value):
        return None, False
    return dtype_name(value, call.ctx), True


def dtype_name(value: Value, ctx: OpContext) -> str | None:
    """The dtype that a value stands for where a dtype is wanted: ``jnp.float32``, ``'f4'``, ``float``, ``x.dtype``."""
    if isinstance(value, DTypeValue):
        return (
            dtypes.canonical(value.name, ctx.x64)
            if value.name in dtypes.CONCRETE
            else value.name
        )
    if isinstance(value, ExternalValue):
        return dtypes.dtype_from_name(value.qualname, ctx.x64)
    if isinstance(value, Literal) and isinstance(value.value, str):
        return dtypes.dtype_from_name(value.value, ctx.x64)
    return None


def with_dims(value: ArrayValue, dims: Dims | None) -> ArrayValue:
    """The array with other dimensions; dtype, pending sums and view stay."""
    return replace(value, dims=dims, numpy=False)


def with_dtype(value: ArrayValue, dtype: str | None, weak: bool = False) -> ArrayValue:
    """The array with another dtype."""
    return replace(value, dtype=dtype, weak=weak and dtype is not None, numpy=False)


def cleared(value: ArrayValue) -> ArrayValue:
    """After a non-linear function only "nothing was pending" survives."""
    pending = frozenset[str]() if value.pending == frozenset() else None
    return ArrayValue(value.dims, value.dtype, value.weak, pending)


def product(sizes: Sequence[Size]) -> Size:
    total = ONE
    for size in sizes:
        total = total * size
    return total


def entries_in(value: ArrayValue) -> Size | None:
    """How many entries an array has; None where that is not known."""
    if value.dims is None:
        return None
    sizes = [dim.size for dim in value.dims]
    known = [size for size in sizes if size is not None]
    return product(known) if len(known) == len(sizes) else None


def flattened(value: ArrayValue) -> Dims | None:
    """The one dimension of a flattened array, its size unknown where one of its factors is."""
    if value.dims is None:
        return (Dimension(None),)
    sizes = [dim.size for dim in value.dims]
    known = [size for size in sizes if size is not None]
    if len(value.dims) == 1:
        return value.dims
    return (Dimension(None if len(known) < len(sizes) else product(known)),)
