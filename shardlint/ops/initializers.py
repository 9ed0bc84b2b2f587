"""``jax.nn.initializers``: factories of functions of a key and a shape; ``zeros`` and ``ones`` are such functions."""

from __future__ import annotations

from shardlint.ops.arrays import dims_of, dtype_argument, shown_sizes, sizes_argument
from shardlint.ops.registry import (
    NONE,
    Call,
    OpError,
    constant,
    is_none,
    model,
    names,
    static_str,
)
from shardlint.values import (
    ArrayValue,
    ExternalValue,
    Literal,
    PartialValue,
    SequenceValue,
    Value,
)

INITIALIZERS = "jax.nn.initializers"


@model("stddev=0.01, dtype=None", f"{INITIALIZERS}.normal")
@model("scale=0.01, dtype=None", f"{INITIALIZERS}.uniform")
@model(
    "stddev=0.01, dtype=None, lower=-2.0, upper=2.0", f"{INITIALIZERS}.truncated_normal"
)
@model("value, dtype=None", f"{INITIALIZERS}.constant")
@model(
    "scale, mode, distribution, in_axis=-2, out_axis=-1, batch_axis=(), dtype=None",
    f"{INITIALIZERS}.variance_scaling",
)
@model(
    "in_axis=-2, out_axis=-1, batch_axis=(), dtype=None",
    *names(
        INITIALIZERS,
        "lecun_normal lecun_uniform glorot_normal glorot_uniform xavier_normal xavier_uniform "
        "he_normal he_uniform kaiming_normal kaiming_uniform",
    ),
)
@model(
    "scale=1.0, column_axis=-1, dtype=None",
    *names(INITIALIZERS, "orthogonal delta_orthogonal"),
)
def initializer(call: Call) -> Value:
    """A function of a key and a shape."""
    chosen = any(
        call.get(name) != usual for name, usual in _AXES.items() if name in call.args
    )
    maker = (
        "with axes"
        if chosen
        else ("variance_scaling" if "in_axis" in call.args else call.last)
    )
    return PartialValue(
        ExternalValue(f"{INITIALIZERS}.{_MADE}"), (Literal(maker), call["dtype"])
    )


_AXES = {"in_axis": constant(-2), "out_axis": constant(-1), "batch_axis": constant(())}
_RANKS = {
    "orthogonal": (2, None),
    "delta_orthogonal": (3, 5),
    "variance_scaling": (2, None),
}


_MADE = "<made>"


@model(
    "name, default, key, shape, dtype=None, out_sharding=None",
    f"{INITIALIZERS}.{_MADE}",
)
def initialized(call: Call) -> Value:
    """What a made initializer returns: an array of the shape asked for."""
    sizes = sizes_argument(call["shape"])
    chosen = call["dtype"] if not is_none(call["dtype"]) else call["default"]
    name, given = dtype_argument(call, chosen)
    dtype = name if given else ("float64" if call.ctx.x64 else "float32")
    if not isinstance(call["shape"], SequenceValue) or sizes is None:
        return ArrayValue(None, dtype, False, frozenset())
    maker = static_str(call["name"]) or ""
    least, most = _RANKS.get(maker, (0, None))
    if len(sizes) < least or len(sizes) > (most or len(sizes)):
        wanted = (
            f"{least} dimensions at least"
            if most is None
            else f"{least} to {most} dimensions"
        )
        raise OpError(
            "ST208", f"the initializer takes {wanted}, got shape {shown_sizes(sizes)}"
        )
    if maker in ("with axes", "delta_orthogonal"):  # some sizes or axes are refused
        return ArrayValue(dims_of(*sizes))
    if maker == "orthogonal" and dtype not in ("float32", "float64"):
        dtype = None  # JAX 0.12 refuses narrow ones
    return ArrayValue(dims_of(*sizes), dtype, False, frozenset())


@model("key, shape, dtype=None, out_sharding=None", *names(INITIALIZERS, "zeros ones"))
def constant_initializer(call: Call) -> Value:
    return initialized(
        Call(
            call.qualname,
            {**call.args, "name": Literal(call.last), "default": NONE},
            call.ctx,
        )
    )
