"""Functions of ``jax.lax`` that stand in no other room, and those that place a value: of its numbers they change
nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.registry import lowering
from shardtypes.semantics.trees import map_leaves


@lowering("jax.lax.optimization_barrier")
def optimization_barrier(operand: Any) -> Any:
    return operand


@lowering("jax.lax.stop_gradient")
def stop_gradient(x: Any) -> Any:
    """What comes of it depends on nothing, to a derivative."""

    def stopped(leaf: Any) -> Array:
        return replace(e.stop_gradient(asarray(leaf)), node=None)

    return map_leaves(stopped, x)


@lowering("jax.block_until_ready", "jax.device_get")
def fetched(x: Any) -> Any:
    return x


@lowering("jax.device_put", unread="src donate may_alias")
def device_put(x: Any, device: Any = None) -> Any:
    return x


@lowering("jax.lax.with_sharding_constraint")
def with_sharding_constraint(x: Any, shardings: Any) -> Any:
    return x


@lowering("jax.reshard", "jax.sharding.reshard")
def reshard(xs: Any, out_shardings: Any) -> Any:
    return xs


@lowering("jax.ad_checkpoint.checkpoint_name")
def checkpoint_name(x: Any, name: str) -> Any:
    return x
