"""``jax.random``: keys and samplers. Keys of the new style are arrays of a key dtype; old ones carry a dimension."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    Dims,
    array,
    as_array,
    broadcast_dims,
    checked_axis,
    different,
    dims_of,
    dtype_argument,
    one_axis,
    seen_size,
    shown,
    size_of,
    sizes_argument,
    with_dims,
    with_dtype,
)
from shardlint.ops.dimensions import broadcast_onto
from shardlint.ops.registry import (
    Call,
    OpError,
    UnknownArgument,
    is_none,
    is_number,
    model,
    names,
    static_bool,
)
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    SequenceValue,
    Unknown,
    Value,
)
from shardtypes.lang import dtypes

_SHARDING = "*, out_sharding=None"


def default_float(call: Call) -> str:
    return "float64" if call.ctx.x64 else "float32"


def default_int(call: Call) -> str:
    return "int64" if call.ctx.x64 else "int32"


def requested(call: Call) -> Dims | None:
    """The dimensions of ``shape``; None where they are not known, or no sizes."""
    sizes = sizes_argument(call["shape"])
    if sizes is None or any(
        (size.constant or 0) < 0 for size in sizes if size is not None
    ):
        return None
    return dims_of(*sizes)


def _sampled(call: Call, dtype: str | None) -> ArrayValue:
    """An array of the shape asked for."""
    name, given = dtype_argument(call, call.get("dtype"))
    return ArrayValue(requested(call), name if given else dtype, False, frozenset())


@model(
    f"key, shape=(), dtype=None, {_SHARDING}",
    *names("jax.random", "normal exponential laplace logistic cauchy"),
)
@model(f"key, shape=(), dtype=None, mode=None, {_SHARDING}", "jax.random.gumbel")
@model(f"key, shape=(), dtype=None, {_SHARDING}", "jax.random.maxwell")
@model(
    f"key, shape=(), dtype=None, minval=0.0, maxval=1.0, {_SHARDING}",
    "jax.random.uniform",
)
@model(f"key, shape, minval, maxval, dtype=None, {_SHARDING}", "jax.random.randint")
@model(f"key, shape=(), dtype=None, {_SHARDING}", "jax.random.bits")
@model(f"key, shape=(), dtype=None, {_SHARDING}", "jax.random.rademacher")
def plain(call: Call) -> Value:
    """Samplers without parameters that are arrays, but for bounds, which broadcast to the shape."""
    default = {
        "randint": default_int(call),
        "rademacher": default_int(call),
        "bits": "uint64" if call.ctx.x64 else "uint32",
    }.get(call.last, default_float(call))
    out = _sampled(call, default)
    for name in ("minval", "maxval"):
        bound = as_array(call.get(name))
        if bound is not None and bound.dims and out.dims is not None:
            if len(bound.dims) > len(out.dims):
                raise UnknownArgument  # fine where its sizes are 1
            try:
                broadcast_onto(call, bound, [dim.size for dim in out.dims])
            except OpError as error:
                if any(dim.size == 1 for dim in out.dims):
                    # samples of size 1 stretch in some cases
                    raise UnknownArgument from None
                what = f"{name} of shape {shown(bound)} does not broadcast to samples of shape {shown(out)}"
                raise OpError("ST204", f"{call.name}: {what}", error.witness) from None
    wanted = (
        ("signed", "unsigned")
        if call.last in ("randint", "bits", "rademacher")
        else ("floating",)
    )
    if out.dtype is not None and not dtypes.is_kind(out.dtype, *wanted):
        return with_dtype(out, None)  # complex normals are fine, other dtypes are not
    return out


@model(
    f"key, lower, upper, shape=None, dtype=None, {_SHARDING}",
    "jax.random.truncated_normal",
)
@model(f"key, a, b, shape=None, dtype=None, {_SHARDING}", "jax.random.beta")
@model(
    f"key, a, shape=None, dtype=None, {_SHARDING}",
    *names("jax.random", "gamma loggamma"),
)
@model(f"key, lam, shape=None, dtype=None, {_SHARDING}", "jax.random.poisson")
@model(f"key, p, shape=None, dtype=None, {_SHARDING}", "jax.random.geometric")
@model(
    f"key, df, shape=None, dtype=None, {_SHARDING}", *names("jax.random", "t chisquare")
)
@model(f"key, dfnum, dfden, shape=None, dtype=None, {_SHARDING}", "jax.random.f")
@model(f"key, b, shape=None, dtype=None, {_SHARDING}", "jax.random.pareto")
@model(f"key, scale, shape=None, dtype=None, {_SHARDING}", "jax.random.rayleigh")
@model(f"key, mean, shape=None, dtype=None, {_SHARDING}", "jax.random.wald")
@model(
    f"key, left, mode, right, shape=None, dtype=None, {_SHARDING}",
    "jax.random.triangular",
)
@model(f"key, sigma=1.0, shape=None, dtype=None, {_SHARDING}", "jax.random.lognormal")
@model("key, n, p, shape=None, dtype=None", "jax.random.binomial")
@model("key, scale, concentration, shape=(), dtype=None", "jax.random.weibull_min")
@model(f"key, p, shape=(), dtype=None, {_SHARDING}", "jax.random.generalized_normal")
def parametrized(call: Call) -> Value:
    """Parameters broadcast together, and to ``shape`` where it is given."""
    parameters = [
        as_array(value, call.ctx.x64) or UNKNOWN_ARRAY
        for name, value in call.args.items()
        if name not in ("key", "shape", "dtype", "out_sharding")
    ]
    dims = broadcast_dims(call.name, parameters, call.ctx)
    name, given = dtype_argument(call, call["dtype"])
    integers = call.last in ("poisson", "geometric")
    fixed = all(
        is_number(v)
        for k, v in call.args.items()
        if k not in ("key", "shape", "dtype", "out_sharding")
    )
    default = (
        None
        if not fixed or call.last in ("binomial", "wald")
        else (default_int(call) if integers else default_float(call))
    )
    if call.last in ("generalized_normal", "weibull_min"):
        default = None
    dtype = (
        name
        if given and dtypes.is_kind(name, "floating") and not integers
        else None
        if given
        else default
    )
    if is_none(call["shape"]):
        return ArrayValue(dims, dtype, False, frozenset())
    target = requested(call)
    if target is None or dims is None:
        return ArrayValue(None if target is None else target, dtype, False, frozenset())
    if dims:
        if call.last in ("generalized_normal", "weibull_min"):
            return ArrayValue(None, dtype)
        try:
            broadcast_onto(call, ArrayValue(dims), [dim.size for dim in target])
        except OpError as error:
            sample = shown(ArrayValue(target))
            what = f"parameters of shape {shown(ArrayValue(dims))} do not broadcast to samples of shape {sample}"
            raise OpError("ST204", f"{call.name}: {what}", error.witness) from None
    return ArrayValue(target, dtype, False, frozenset())


@model("key, loc, scale, shape=(), dtype=None", "jax.random.double_sided_maxwell")
@model(
    f"key, n, p, {_SHARDING}, shape=None, dtype=None, unroll=1",
    "jax.random.multinomial",
)
def open_result(call: Call) -> Value:
    return UNKNOWN_ARRAY


@model(f"key, p=0.5, shape=None, mode='low', {_SHARDING}", "jax.random.bernoulli")
def bernoulli(call: Call) -> Value:
    p = as_array(call["p"]) or UNKNOWN_ARRAY
    if dtypes.is_kind(p.dtype, "bool", "signed", "unsigned", "complex"):
        raise OpError(
            "ST212",
            f"{call.name}: p is a probability, so a float, got {p.dtype}",
            operand=1,
        )
    if is_none(call["shape"]):
        return ArrayValue(p.dims, "bool", False, frozenset())
    target = requested(call)
    if target is not None and p.dims:
        try:
            broadcast_onto(call, p, [dim.size for dim in target])
        except OpError as error:
            what = f"p of shape {shown(p)} does not broadcast to samples of shape {shown(ArrayValue(target))}"
            raise OpError("ST204", f"{call.name}: {what}", error.witness) from None
    return ArrayValue(target, "bool", False, frozenset())


@model(f"key, alpha, shape=None, dtype=None, {_SHARDING}", "jax.random.dirichlet")
def dirichlet(call: Call) -> Value:
    """A batch of shape ``shape``, then the last dimension of ``alpha``."""
    alpha = array(call, "alpha")
    name, given = dtype_argument(call, call["dtype"])
    dtype = name if given and dtypes.is_kind(name, "floating") else None
    if alpha.dims is None:
        return ArrayValue(None, dtype)
    if not alpha.dims:
        raise OpError(
            "ST208", f"{call.name}: alpha is a scalar; it needs at least one dimension"
        )
    if is_none(call["shape"]):
        return ArrayValue(alpha.dims, dtype, False, frozenset())
    target = requested(call)
    if target is None or len(alpha.dims) > 1:
        return ArrayValue(None, dtype)
    return ArrayValue((*target, alpha.dims[-1]), dtype, False, frozenset())


@model(
    f"key, mean, cov, shape=None, dtype=None, method='cholesky', {_SHARDING}",
    "jax.random.multivariate_normal",
)
def multivariate_normal(call: Call) -> Value:
    """A batch, then the dimension of ``mean``; ``cov`` is a square matrix of that size."""
    mean, cov = array(call, "mean"), array(call, "cov")
    if mean.dims is None or cov.dims is None:
        return UNKNOWN_ARRAY
    if not mean.dims or len(cov.dims) < 2:
        raise OpError(
            "ST208",
            f"{call.name}: mean {shown(mean)}, cov {shown(cov)}; a vector and a matrix at least",
        )
    n = seen_size(mean, -1)
    for i in (-1, -2):
        witness = different(call.ctx, n, seen_size(cov, i))
        if witness is not None:
            raise OpError(
                "ST204",
                f"{call.name}: mean {shown(mean)} and cov {shown(cov)} do not fit",
                witness,
            )
    if is_none(call["shape"]):
        batch = broadcast_dims(
            call.name,
            [with_dims(mean, mean.dims[:-1]), with_dims(cov, cov.dims[:-2])],
            call.ctx,
        )
    else:
        batch = requested(call) if len(mean.dims) == 1 and len(cov.dims) == 2 else None
    return ArrayValue(None if batch is None else (*batch, mean.dims[-1]), None)


@model(f"key, d, p=2, shape=(), dtype=None, {_SHARDING}", "jax.random.ball")
@model(f"key, n, shape=(), dtype=None, m=None, {_SHARDING}", "jax.random.orthogonal")
def of_size(call: Call) -> Value:
    """A batch of vectors of ``d`` elements, or of matrices of ``n`` rows."""
    batch = requested(call)
    if batch is None:
        return UNKNOWN_ARRAY
    if call.last == "ball":
        return ArrayValue((*batch, Dimension(size_of(call["d"]), ())), None)
    rows = size_of(call["n"])
    columns = rows if is_none(call["m"]) else size_of(call["m"])
    return ArrayValue((*batch, Dimension(rows, ()), Dimension(columns, ())), None)


@model(f"key, x, axis=0, independent=False, {_SHARDING}", "jax.random.permutation")
def permutation(call: Call) -> Value:
    x = call["x"]
    if isinstance(x, IntValue):
        out = ArrayValue(dims_of(x.size), default_int(call), False, frozenset())
        one_axis(call, call["axis"], 1, out)
        return out
    value = as_array(x) or UNKNOWN_ARRAY
    if value.dims == ():
        raise UnknownArgument  # a traced int, or a number of elements
    checked_axis(call, value, call["axis"])
    return with_dtype(value, None if value.weak else value.dtype)


@model("key, a, shape=(), replace=True, p=None, axis=0, mode=None", "jax.random.choice")
def choice(call: Call) -> Value:
    """Of the slices along ``axis``, as many as ``shape`` says, in its place."""
    target = requested(call)
    if isinstance(call["a"], IntValue):
        return ArrayValue(target, default_int(call), False, frozenset())
    value = as_array(call["a"]) or UNKNOWN_ARRAY
    if value.dims is None or target is None or not value.dims:
        return UNKNOWN_ARRAY
    axis = one_axis(call, call["axis"], len(value.dims), value)
    size = seen_size(value, axis)
    if size is None or size == 0 or static_bool(call["replace"]) is not True:
        return UNKNOWN_ARRAY
    weights = as_array(call["p"])
    if weights is not None and weights.dims is not None and not is_none(call["p"]):
        witness = (
            different(call.ctx, size, weights.dims[0].size)
            if len(weights.dims) == 1
            else {}
        )
        if witness is not None:
            what = f"p of shape {shown(weights)} does not fit dimension {axis} of {shown(value)}"
            raise OpError("ST204", f"{call.name}: {what}", witness)
    dims = (*value.dims[:axis], *target, *value.dims[axis + 1 :])
    return ArrayValue(dims, None if value.weak else value.dtype, False, frozenset())


@model(
    "key, logits, axis=-1, shape=None, replace=True, mode=None, *, out_sharding=None",
    "jax.random.categorical",
)
def categorical(call: Call) -> Value:
    """An index for each distribution along ``axis``; ``shape`` ends in the shape of the batch."""
    logits = as_array(call["logits"]) or UNKNOWN_ARRAY
    dtype = default_int(call)
    if logits.dims is None:
        return ArrayValue(None if is_none(call["shape"]) else requested(call), dtype)
    axis = one_axis(call, call["axis"], len(logits.dims), logits)
    batch = logits.dims[:axis] + logits.dims[axis + 1 :]
    if is_none(call["shape"]):
        return ArrayValue(batch, dtype, False, logits.pending)
    target = requested(call)
    if target is not None:
        try:
            broadcast_onto(call, with_dims(logits, batch), [dim.size for dim in target])
        except OpError as error:
            sample = shown(ArrayValue(target))
            what = f"logits with batch {shown(ArrayValue(batch))} do not broadcast to samples of shape {sample}"
            raise OpError("ST204", f"{call.name}: {what}", error.witness) from None
        if static_bool(call["replace"]) is not True:
            dtype = "int32"
    return ArrayValue(target, dtype, False, frozenset())


# --- keys ----------------------------------------------------------------------------------------------------------


@model("seed, *, impl=None, dtype=None", "jax.random.key")
def key(call: Call) -> Value:
    """A key array without dimensions."""
    seed = as_array(call["seed"])
    return (
        ArrayValue((), None, False, frozenset())
        if seed is not None and seed.dims == ()
        else UNKNOWN_ARRAY
    )


@model("seed, *, impl=None, dtype=None", "jax.random.PRNGKey")
@model("keys", "jax.random.key_data")
@model("key_bits_array, *, impl=None, dtype=None", "jax.random.wrap_key_data")
@model("key, data", "jax.random.fold_in")
@model("key", "jax.random.clone")
def old_key(call: Call) -> Value:
    """How many numbers a key has depends on the configuration."""
    value = as_array(call.args.get("key", UNKNOWN_ARRAY)) or UNKNOWN_ARRAY
    return (
        ArrayValue((), None, False, frozenset()) if value.dims == () else UNKNOWN_ARRAY
    )


@model("keys", "jax.random.key_impl")
def implementation(call: Call) -> Value:
    return Unknown("how keys are implemented")


@model("key, num=2", "jax.random.split")
def split(call: Call) -> Value:
    """Several keys: one dimension more than the key. Of an old-style key only the length is certain."""
    sizes = sizes_argument(call["num"])
    value = as_array(call["key"]) or UNKNOWN_ARRAY
    if sizes is None:
        raise UnknownArgument
    if any((size.constant or 0) < 0 for size in sizes if size is not None):
        raise UnknownArgument
    if value.dims == ():
        return ArrayValue(
            tuple(Dimension(size, ()) for size in sizes), None, False, frozenset()
        )
    if (
        len(sizes) == 1
        and sizes[0] is not None
        and sizes[0].constant is not None
        and sizes[0].constant <= 64
    ):
        return SequenceValue((ArrayValue(None),) * sizes[0].constant, "keys")
    raise UnknownArgument
