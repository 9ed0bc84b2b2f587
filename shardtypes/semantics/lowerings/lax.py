"""Functions of ``jax.lax`` that stand in no other room."""

from __future__ import annotations

from typing import Any

from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import lowering
from shardtypes.semantics.trees import map_leaves


@lowering("jax.lax.optimization_barrier")
def optimization_barrier(operand: Any) -> Any:
    return operand


@lowering("jax.lax.stop_gradient")
def stop_gradient(x: Any) -> Any:
    return map_leaves(lambda leaf: e.stop_gradient(asarray(leaf)), x)


@lowering(
    "jax.lax.with_sharding_constraint",
    "jax.ad_checkpoint.checkpoint_name",
    "jax.block_until_ready",
    "jax.device_put",
    "jax.device_get",
    "jax.reshard",
    "jax.sharding.reshard",
)
def placed(x: Any, *placement: Any, **options: Any) -> Any:
    """Where a value lies changes nothing of its numbers."""
    return x
