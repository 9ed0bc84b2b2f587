"""Names that flax's own layers are given with the initializers of their parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shardlint.engine.frames import Frame
from shardlint.engine.sharding import labels, logical
from shardlint.engine.sharding.site import Site
from shardlint.values import ArrayValue, Dimension, SequenceValue, Value, WrappedValue

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter

#: The ranks of the parameters that these layers make, by the option that names their initializer.
_RANKS = {
    "flax.linen.Dense": {"kernel_init": 2, "bias_init": 1},
    "flax.linen.Embed": {"embedding_init": 2},
    **{f"flax.linen.{name}": {"scale_init": 1, "bias_init": 1} for name in ("LayerNorm", "RMSNorm", "BatchNorm")},
}


def applied(
    it: Interpreter, frame: Frame, made: WrappedValue, args: list[Value], at: int, result: Value
) -> Value:  # fmt: skip
    """Check the names that a layer was made with; its result's last dimension is called as the kernel's is."""
    ranks, options = _ranks(made), dict(made.options)
    site = Site(it, frame, made.kind, args, {}, at)
    for option, rank in ranks.items():
        spec = logical.names_of(options.get(option))
        if spec is None or spec.entries is None:
            continue
        parameter = ArrayValue((Dimension(None),) * rank)
        if not logical.check_rank(site, spec, parameter, None) or option != "kernel_init":
            continue
        kernel = labels.named(parameter, spec)
        if kernel.dims and args and isinstance(args[0], ArrayValue):
            labels.check_contraction(Site(it, frame, "@", (args[0], kernel), {}, at))
            result = _called(result, kernel.dims[-1])
    return result


def _ranks(made: WrappedValue) -> dict[str, int]:
    if made.kind == "flax.linen.Conv":
        size = dict(made.options).get("kernel_size")
        return {"kernel_init": len(size.items) + 2, "bias_init": 1} if isinstance(size, SequenceValue) else {}
    return _RANKS.get(made.kind, {})


def _called(result: Value, last: Dimension) -> Value:
    if not isinstance(result, ArrayValue) or not result.dims:
        return result
    dims = (*result.dims[:-1], Dimension(result.dims[-1].size, result.dims[-1].axes, last.label))
    return ArrayValue(dims, result.dtype, result.weak, result.pending)
