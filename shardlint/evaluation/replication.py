"""Copies for ``pmap``, and one of them, in guarded code: of JAX and flax."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from shardlint.evaluation.meshes import device_count
from shardlint.evaluation.outside import known, provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.trees import map_leaves

UNREPLICATE = "flax.jax_utils.unreplicate"
METRICS = "flax.training.common_utils.get_metrics"
#: What takes one device's entry of each array.
TAKES_ONE = frozenset({UNREPLICATE, METRICS})


@provide("flax.jax_utils.replicate")
def replicate(tree: Any, devices: Any = None, axis_name: Any = None) -> Any:
    """One copy for each device, one after another."""
    count = device_count() if devices is None else len(devices)

    def copies(leaf: Any) -> Any:
        array = asarray(leaf)
        return known("jax.numpy.broadcast_to")(array, (count, *array.dims))

    return map_leaves(copies, tree)


@provide("jax.device_put_replicated")
def device_put_replicated(x: Any, devices: Any) -> Any:
    """One copy for each device; JAX up to 0.9 has it."""
    return replicate(x, devices)


@provide("jax.device_put_sharded")
def device_put_sharded(shards: list[Any], devices: Any) -> Any:
    """A tree for each device, as one tree of arrays with a dimension more; JAX up to 0.9 has it."""
    return stack_forest(shards)


@provide(UNREPLICATE)
def unreplicate(tree: Any) -> Any:
    """The first device's."""
    return map_leaves(lambda leaf: leaf if asarray(leaf).rank == 0 else leaf[0], tree)


@provide("flax.jax_utils.prefetch_to_device")
def prefetch_to_device(iterator: Iterable[Any], *_: Any, **__: Any) -> Iterable[Any]:
    """The same values, earlier."""
    return iter(iterator)


@provide("flax.training.common_utils.shard")
def shard(xs: Any) -> Any:
    """As many rows for each device."""
    count = device_count()
    return map_leaves(lambda leaf: _rows(asarray(leaf), count), xs)


def _rows(array: Array, count: int) -> Any:
    return known("jax.numpy.reshape")(array, (count, -1, *array.dims[1:]))


@provide("flax.training.common_utils.shard_prng_key")
def shard_prng_key(prng_key: Any) -> Any:
    """A key for each device."""
    return known("jax.random.split")(prng_key, device_count())


@provide("flax.training.common_utils.stack_forest")
def stack_forest(forest: Any) -> Any:
    """The trees of a list as one tree of arrays with a dimension more."""
    return map_leaves(lambda *leaves: known("jax.numpy.stack")(leaves), *forest)


@provide(METRICS)
def get_metrics(device_metrics: Any) -> Any:
    """What the first device has of each step."""
    return stack_forest(map_leaves(lambda leaf: leaf[0], device_metrics))
