"""Functions that give back the value that they take, on other devices, under a name or under a barrier."""

from __future__ import annotations

from dataclasses import replace

from shardlint.ops.registry import MODELS, Call, model, names
from shardlint.values import (
    ArrayValue,
    DictValue,
    Dimension,
    InstanceValue,
    SequenceValue,
    Unknown,
    Value,
)


def each_array(value: Value, numpy: bool, moved: bool) -> Value:
    """The same tree with every array on other devices (``moved``), or as a NumPy array."""
    match value:
        case ArrayValue(dims=dims):
            if moved and dims is not None:
                dims = tuple(Dimension(dim.size) for dim in dims)
            return replace(value, dims=dims, numpy=numpy, weak=value.weak and not numpy)
        case SequenceValue(items=items):
            return replace(
                value, items=tuple(each_array(item, numpy, moved) for item in items)
            )
        case DictValue(items=pairs):
            return DictValue(
                tuple((key, each_array(item, numpy, moved)) for key, item in pairs)
            )
        case InstanceValue(fields=fields):
            return replace(
                value,
                fields=tuple(
                    (name, each_array(item, numpy, moved)) for name, item in fields
                ),
            )
        case _:
            return Unknown("something unknown on other devices")


@model("x, device=None, *, src=None, donate=False, may_alias=None", "jax.device_put")
@model("x, shardings", "jax.lax.with_sharding_constraint")
@model("xs, out_shardings", "jax.sharding.reshard", "jax.reshard")
def device_put(call: Call) -> Value:
    """Sizes and dtypes stay; how it lies is for the sharding rules to say."""
    value = call["x"] if "x" in call.args else call["xs"]
    return each_array(value, numpy=False, moved=True)


@model("x", "jax.device_get")
@model(
    "in_tree, is_source=None", "jax.experimental.multihost_utils.broadcast_one_to_all"
)
def device_get(call: Call) -> Value:
    """NumPy arrays."""
    return each_array(next(iter(call.args.values())), numpy=True, moved=False)


@model("x, name", "jax.ad_checkpoint.checkpoint_name")
@model("x", "jax.lax.stop_gradient")
@model(
    "x, *args, **kwargs", *names("jax", "block_until_ready lax.optimization_barrier")
)
def same_value(call: Call) -> Value:
    return next(iter(call.args.values()))


IDENTITIES = frozenset(
    name for name, known in MODELS.items() if known.function is same_value
)
"""Functions that give each array of a tree as it is."""


@model("x", "jax.typeof")
def type_of(call: Call) -> Value:
    return Unknown("the type of an array")
