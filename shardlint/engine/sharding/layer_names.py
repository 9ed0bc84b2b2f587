"""Names that flax's own layers are given with the initializers of their parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.engine.sharding import labels, logical
from shardlint.engine.sharding.site import Site
from shardlint.values import (
    ArrayValue,
    Dimension,
    IntValue,
    SequenceValue,
    Value,
    WrappedValue,
)

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

_NORMS = "LayerNorm RMSNorm BatchNorm GroupNorm".split()
#: The ranks of the parameters that these layers make, by the option that names their initializer.
_RANKS: dict[str, dict[str, int]] = {
    **{f"flax.{part}.Embed": {"embedding_init": 2} for part in ("linen", "nnx")},
    **{
        f"flax.{part}.{name}": {"scale_init": 1, "bias_init": 1}
        for part in ("linen", "nnx")
        for name in _NORMS
    },
    "flax.linen.Dense": {"kernel_init": 2, "bias_init": 1},
    "flax.nnx.Linear": {"kernel_init": 2, "bias_init": 1},
}
#: The parameters of layers whose ranks depend on their options.
_NAMES = {
    "flax.linen.Conv": ("features", "kernel_size"),
    "flax.nnx.Conv": ("in_features", "out_features", "kernel_size"),
    "flax.linen.DenseGeneral": ("features", "axis", "batch_dims"),
    "flax.nnx.LinearGeneral": ("in_features", "out_features", "axis", "batch_axis"),
}


def applied(
    it: Interpreter,
    frame: Frame,
    made: WrappedValue,
    args: list[Value],
    at: int,
    result: Value,
) -> Value:
    """Check the names that a layer was made with; its result's last dimension is called as the kernel's is."""
    options = dict(made.options)
    site = Site(it, frame, made.kind, args, {}, at)
    for option, rank in ranks(made.kind, (), options).items():
        spec = logical.names_of(options.get(option))
        if spec is None or spec.entries is None:
            continue
        parameter = ArrayValue((Dimension(None),) * rank)
        if (
            not logical.check_rank(site, spec, parameter, None)
            or option != "kernel_init"
        ):
            continue
        if made.kind.endswith("General"):
            continue  # which of its dimensions are summed over is another matter
        kernel = labels.named(parameter, spec)
        if kernel.dims and args and isinstance(args[0], ArrayValue):
            labels.check_contraction(Site(it, frame, "@", [args[0], kernel], {}, at))
            result = _called(result, kernel.dims[-1])
    return result


#: Layers that are made with names for the dimensions of their parameters.
NAMED = frozenset([*_RANKS, *_NAMES])


def ranks(
    qualname: str, args: Sequence[Value], kwargs: Mapping[str, Value]
) -> dict[str, int]:
    """The ranks of the parameters of a layer that is made like this, by the option that names their initializer."""
    if qualname not in _NAMES:
        return _RANKS.get(qualname, {})
    options = {**dict(zip(_NAMES[qualname], args, strict=False)), **kwargs}
    if qualname.endswith(".Conv"):
        size = options.get("kernel_size")
        return (
            {"kernel_init": len(size.items) + 2, "bias_init": 1}
            if isinstance(size, SequenceValue)
            else {}
        )
    if qualname == "flax.linen.DenseGeneral":
        out, axis, batch = (
            _count(options.get(name)) for name in ("features", "axis", "batch_dims")
        )
        axis, batch = (
            1 if "axis" not in options else axis,
            0 if "batch_dims" not in options else batch,
        )
    else:
        axis, out = (
            _count(options.get(name)) for name in ("in_features", "out_features")
        )
        batch = 0 if "batch_axis" not in options else None
    if out is None or axis is None or batch is None:
        return {}
    return {"kernel_init": batch + axis + out, "bias_init": batch + out}


def _count(value: Value | None) -> int | None:
    """How many dimensions an option gives: one, or a tuple of them."""
    if isinstance(value, SequenceValue):
        return len(value.items)
    return 1 if isinstance(value, IntValue) else None


def _called(result: Value, last: Dimension) -> Value:
    if not isinstance(result, ArrayValue) or not result.dims:
        return result
    dims = (
        *result.dims[:-1],
        Dimension(result.dims[-1].size, result.dims[-1].axes, last.label),
    )
    return ArrayValue(dims, result.dtype, result.weak, result.pending)
