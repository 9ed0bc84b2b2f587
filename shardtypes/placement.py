"""``shard(x, T)``: put a value where its type says."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from shardtypes import messages
from shardtypes.array_check import abandon
from shardtypes.constraints import constrain
from shardtypes.dtypes import ArrayType, array_spec
from shardtypes.meshes import Sums, current_view, entries_of, format_mesh
from shardtypes.partition_specs import make_shardings, map_type
from shardtypes.scopes import Table
from shardtypes.sites import Site

C = TypeVar("C")


@overload
def shard(
    x: np.ndarray[Any, Any] | complex, annotation: Any, mesh: Any = None
) -> jax.Array: ...
@overload
def shard(x: C, annotation: Any, mesh: Any = None) -> C: ...


def shard(x: Any, annotation: Any, mesh: Any = None) -> Any:
    """A value, or tree of values, placed as its type declares, on the mesh in force (or ``mesh``).

    In eager code the arrays are put on the devices; in a trace the sharding is constrained. Names stand for one size
    throughout the tree.

    Args:
        x: An array, or a tree of them, of the global shape.
        annotation: The type of ``x``, such as ``f32['B/d M']`` or a ``pytree_dataclass``.
        mesh: By default that in force.

    Raises:
        ShapeError: another dtype, rank or size than declared.
        ValueError: a size that the axes do not divide.
    """
    shardings = make_shardings(annotation, mesh, x)
    types = map_type(annotation, lambda array: array, example=x)
    table, view = Table(), current_view()

    def check_and_place(
        path: Any, sharding: NamedSharding, declared: ArrayType, value: Any
    ) -> Any:
        def one(rest: Any, leaf: Any) -> Any:
            site = Site("", "value" + jax.tree_util.keystr((*path, *rest)))
            array_spec(declared).check_shape(_described(leaf), table, view, site)
            return _place(leaf, sharding)

        return jax.tree_util.tree_map_with_path(one, value)

    placed = jax.tree_util.tree_map_with_path(
        check_and_place,
        shardings,
        types,
        x,
        is_leaf=lambda s: isinstance(s, jax.sharding.Sharding),
    )
    abandon(table)
    return placed


def _described(leaf: Any) -> Any:
    """What JAX makes of a value: numbers and NumPy's arrays may be placed too."""
    if isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)):
        return leaf
    try:
        return jax.eval_shape(jnp.asarray, leaf)
    except TypeError:
        return leaf  # nothing that JAX could place: the check says so


def _place(leaf: Any, sharding: NamedSharding) -> Any:
    pending = Sums.of(sharding.spec).pending
    if pending and jax.__version_info__ < (0, 9):
        raise ValueError(messages.pending_in_old_jax(jax.__version__))
    if isinstance(leaf, jax.core.Tracer):
        return constrain(leaf, sharding.spec, sharding.mesh)
    if not isinstance(sharding.mesh, jax.sharding.Mesh):
        raise ValueError(
            messages.abstract_mesh(format_mesh(sharding.mesh), sharding.mesh.size)
        )
    if not pending:
        return jax.device_put(leaf, sharding)
    whole = NamedSharding(
        sharding.mesh, jax.sharding.PartitionSpec(*entries_of(sharding.spec))
    )
    # JAX puts not every value down unreduced
    return jax.sharding.reshard(jax.device_put(leaf, whole), sharding)
