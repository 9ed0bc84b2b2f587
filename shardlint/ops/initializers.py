"""``jax.nn.initializers``: factories of functions of a key and a shape; ``zeros`` and ``ones`` are such functions."""

from __future__ import annotations

from shardlint.ops.arrays import dims_of, dtype_argument, shown_sizes, sizes_argument
from shardlint.ops.elementwise import names
from shardlint.ops.registry import NONE, Call, OpError, is_none, model, static_str
from shardlint.values import ArrayValue, ExternalValue, Literal, PartialValue, SequenceValue, Value

INITIALIZERS = "jax.nn.initializers"


@model("stddev=0.01, dtype=None", f"{INITIALIZERS}.normal")
@model("scale=0.01, dtype=None", f"{INITIALIZERS}.uniform")
@model("stddev=0.01, dtype=None, lower=-2.0, upper=2.0", f"{INITIALIZERS}.truncated_normal")
@model("value, dtype=None", f"{INITIALIZERS}.constant")
@model("scale, mode, distribution, in_axis=-2, out_axis=-1, batch_axis=(), dtype=None",
       f"{INITIALIZERS}.variance_scaling")
@model("in_axis=-2, out_axis=-1, batch_axis=(), dtype=None",
       *names(INITIALIZERS, "lecun_normal lecun_uniform glorot_normal glorot_uniform xavier_normal xavier_uniform "
                            "he_normal he_uniform kaiming_normal kaiming_uniform"))
@model("scale=1.0, column_axis=-1, dtype=None", *names(INITIALIZERS, "orthogonal delta_orthogonal"))
def initializer(call: Call) -> Value:
    """A function of a key and a shape."""
    dtype = call["dtype"]
    return PartialValue(ExternalValue(f"{INITIALIZERS}.{_MADE}"), (Literal(call.last), dtype))


_MADE = "<made>"


@model("name, default, key, shape, dtype=None, out_sharding=None", f"{INITIALIZERS}.{_MADE}")
def initialized(call: Call) -> Value:
    """What a made initializer returns: an array of the shape asked for."""
    sizes = sizes_argument(call["shape"])
    chosen = call["dtype"] if not is_none(call["dtype"]) else call["default"]
    name, given = dtype_argument(call, chosen)
    dtype = name if given else ("float64" if call.ctx.x64 else "float32")
    if not isinstance(call["shape"], SequenceValue) or sizes is None:
        return ArrayValue(None, dtype, False, frozenset())
    maker = static_str(call["name"]) or ""
    least = {"orthogonal": 2, "delta_orthogonal": 3}.get(maker, 0)
    if len(sizes) < least:
        raise OpError("ST208", f"{maker}: shape {shown_sizes(sizes)} has less than {least} dimensions")
    return ArrayValue(dims_of(*sizes), dtype, False, frozenset())


@model("key, shape, dtype=None, out_sharding=None", *names(INITIALIZERS, "zeros ones"))
def constant_initializer(call: Call) -> Value:
    return initialized(Call(call.qualname, {**call.args, "name": Literal(call.last), "default": NONE}, call.ctx))
