"""Programs of several processes: the one that runs here has all devices, and all data."""

from __future__ import annotations

from typing import Any

from shardlint.evaluation.meshes import Sharding
from shardlint.evaluation.outside import known, provide
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.trees import map_leaves


@provide("jax.multihost_utils.process_allgather")
def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """The arrays of all processes: one after another if tiled, else with a dimension for the processes."""

    def gathered(leaf: Any) -> Any:
        array = asarray(leaf)
        return array if tiled else known("jax.numpy.expand_dims")(array, 0)

    return map_leaves(gathered, in_tree)


@provide("jax.multihost_utils.broadcast_one_to_all")
def broadcast_one_to_all(in_tree: Any, is_source: Any = None) -> Any:
    """What the first process has."""
    return map_leaves(asarray, in_tree)


@provide("jax.multihost_utils.host_local_array_to_global_array")
def host_local_array_to_global_array(
    local_inputs: Any, global_mesh: Any, pspecs: Any
) -> Any:
    """The arrays of all processes, as the specs say."""
    return known("jax.device_put")(local_inputs, _shardings(global_mesh, pspecs))


@provide("jax.multihost_utils.global_array_to_host_local_array")
def global_array_to_host_local_array(
    global_inputs: Any, global_mesh: Any, pspecs: Any
) -> Any:
    """What of the arrays this process has, which is all."""
    return global_inputs


def _shardings(mesh: Any, specs: Any) -> Any:
    return map_leaves(lambda spec: Sharding(mesh, spec), specs)
