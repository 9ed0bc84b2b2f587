"""``jax.random``: several keys of one of which it is not known whether it is typed, and what has no lowering yet."""

from __future__ import annotations

from shardlint.ops.arrays import (
    UNKNOWN_ARRAY,
    as_array,
    sizes_argument,
)
from shardlint.ops.registry import (
    Call,
    UnknownArgument,
    model,
)
from shardlint.values import (
    ArrayValue,
    Dimension,
    SequenceValue,
    Unknown,
    Value,
)


@model(
    "key, n, p, *, out_sharding=None, shape=None, dtype=None, unroll=1",
    "jax.random.multinomial",
)
def open_result(call: Call) -> Value:
    return UNKNOWN_ARRAY


# --- keys ----------------------------------------------------------------------------------------------------------


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
