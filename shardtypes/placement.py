"""``shard(x, T)``: put a value where its type says."""

from __future__ import annotations

from typing import Any

import jax

from shardtypes import messages
from shardtypes.constraints import constrain
from shardtypes.meshes import format_mesh
from shardtypes.partition_specs import make_shardings


def shard(x: Any, annotation: Any, mesh: Any = None) -> Any:
    """A value, or tree of values, placed as its type declares, on the mesh in force (or ``mesh``).

    In eager code the arrays are put on the devices; in a trace the sharding is constrained. Raises ``ValueError`` for
    a size that the axes do not divide.
    """
    return jax.tree_util.tree_map(
        _place, make_shardings(annotation, mesh), x, is_leaf=lambda s: isinstance(s, jax.sharding.Sharding)
    )


def _place(sharding: jax.sharding.NamedSharding, value: Any) -> Any:
    def place(leaf: Any) -> Any:
        if isinstance(leaf, jax.core.Tracer):
            return constrain(leaf, sharding.spec, sharding.mesh)
        if not isinstance(sharding.mesh, jax.sharding.Mesh):
            raise ValueError(messages.abstract_mesh(format_mesh(sharding.mesh), sharding.mesh.size))
        return jax.device_put(leaf, sharding)

    return jax.tree_util.tree_map(place, value)
