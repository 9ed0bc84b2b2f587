"""``jax.random``: keys and samplers."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    as_array,
    broadcast_dims,
    dims_of,
    dtype_argument,
    sizes_argument,
    with_dims,
)
from shardlint.ops.elementwise import names
from shardlint.ops.registry import Call, UnknownArgument, is_none, model
from shardlint.values import ArrayValue, IntValue, SequenceValue, Value


def _sampled(call: Call, dtype: str | None) -> ArrayValue:
    """An array of the shape asked for."""
    sizes = sizes_argument(call["shape"])
    name, given = dtype_argument(call, call.get("dtype"))
    return ArrayValue(None if sizes is None else dims_of(*sizes), name if given else dtype, False, frozenset())


@model("key, shape=(), dtype=None, *, out_sharding=None",
       *names("jax.random", "normal gumbel exponential laplace logistic cauchy"))
@model("key, shape=(), dtype=None, minval=0.0, maxval=1.0, *, out_sharding=None", "jax.random.uniform")
@model("key, lower, upper, shape=None, dtype=None, *, out_sharding=None", "jax.random.truncated_normal")
def floats(call: Call) -> Value:
    default = "float64" if call.ctx.x64 else "float32"
    bounds = [as_array(call.get(name)) for name in ("lower", "upper")]
    if call.last == "truncated_normal" and is_none(call["shape"]):
        known = [bound or UNKNOWN_ARRAY for bound in bounds]
        return ArrayValue(broadcast_dims(call.name, known, call.ctx), None)
    return _sampled(call, default)


@model("key, shape, minval, maxval, dtype=None, *, out_sharding=None", "jax.random.randint")
@model("key, shape=(), dtype=None, *, out_sharding=None", "jax.random.bits")
@model("key, shape=(), dtype=None", "jax.random.rademacher")
def ints(call: Call) -> Value:
    wide = call.ctx.x64
    defaults = {"randint": "int64" if wide else "int32", "bits": "uint64" if wide else "uint32"}
    return _sampled(call, defaults.get(call.last, "int64" if wide else "int32"))


@model("key, p=0.5, shape=None, mode='low', *, out_sharding=None", "jax.random.bernoulli")
def bernoulli(call: Call) -> Value:
    if is_none(call["shape"]):
        p = as_array(call["p"]) or UNKNOWN_ARRAY
        return ArrayValue(p.dims, "bool", False, frozenset())
    sizes = sizes_argument(call["shape"])
    return ArrayValue(None if sizes is None else dims_of(*sizes), "bool", False, frozenset())


@model("key, x, axis=0, independent=False, *, out_sharding=None", "jax.random.permutation")
def permutation(call: Call) -> Value:
    x = call["x"]
    if isinstance(x, IntValue):
        return ArrayValue(dims_of(x.size), "int64" if call.ctx.x64 else "int32", False, frozenset())
    value = as_array(x) or UNKNOWN_ARRAY
    return with_dims(value, value.dims)


@model("key, logits, axis=-1, shape=None, replace=True, mode=None", "jax.random.categorical")
def categorical(call: Call) -> Value:
    from shardlint.ops.arrays import one_axis

    logits = as_array(call["logits"]) or UNKNOWN_ARRAY
    dtype = "int64" if call.ctx.x64 else "int32"
    if not is_none(call["shape"]):
        sizes = sizes_argument(call["shape"])
        return ArrayValue(None if sizes is None else dims_of(*sizes), dtype, False, frozenset())
    if logits.dims is None:
        return ArrayValue(None, dtype)
    axis = one_axis(call, call["axis"], len(logits.dims), logits)
    return ArrayValue(logits.dims[:axis] + logits.dims[axis + 1 :], dtype, False, logits.pending, logits.manual)


@model("key, num=2", "jax.random.split")
def split(call: Call) -> Value:
    """Several keys. Old-style keys carry a dimension of their own, so that only the length is certain."""
    sizes = sizes_argument(call["num"])
    if sizes is not None and len(sizes) == 1 and sizes[0] is not None and sizes[0].constant is not None:
        count = sizes[0].constant
        if 0 <= count <= 64:
            return SequenceValue((ArrayValue(None),) * count, "list")
    raise UnknownArgument


@model("key, data", "jax.random.fold_in")
@model("seed, *, impl=None", *names("jax.random", "key PRNGKey"))
def key(call: Call) -> Value:
    return UNKNOWN_ARRAY
