"""Functions of each entry that have no lowering yet."""

from __future__ import annotations

from shardlint.ops.arrays import array, arrays, cleared, elementwise, with_dtype
from shardlint.ops.registry import Call, model
from shardlint.values import Value


@model("x, /", "jax.numpy.spacing")
def spacing(call: Call) -> Value:
    return with_dtype(cleared(array(call, "x")), None)


@model("n, x", "jax.scipy.special.expn")
def exponential_integral(call: Call) -> Value:
    return with_dtype(elementwise(call.name, arrays(call, "n", "x"), call.ctx), None)
