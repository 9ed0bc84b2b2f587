"""Sharding constraints, with a warning where JAX would silently drop one."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path
from typing import Any

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardtypes import messages
from shardtypes.errors import DroppedConstraint
from shardtypes.meshes import AnyMesh, axes_of_type, entries_of, mesh_sizes


def constrain(x: Any, spec: PartitionSpec, mesh: AnyMesh | None) -> Any:
    """``with_sharding_constraint``, and on a mesh of Explicit axes ``reshard``, where the former only asserts.

    Warns with ``DroppedConstraint`` without a mesh, and in a trace for a size that the axes do not divide.
    """
    if mesh is None:
        _warn(messages.dropped_without_mesh(spec))
        return x
    explicit = axes_of_type(mesh, "Explicit")
    placed: Any = NamedSharding(mesh, spec) if isinstance(mesh, Mesh) else spec
    if explicit and len(explicit) == len(mesh.axis_names):
        return jax.sharding.reshard(x, placed)
    if isinstance(x, jax.core.Tracer):
        sizes = mesh_sizes(mesh)
        for dim, (entry, size) in enumerate(
            zip(entries_of(spec), x.shape, strict=False)
        ):
            axes = (
                (entry,)
                if isinstance(entry, str)
                else entry
                if isinstance(entry, tuple)
                else ()
            )
            parts = math.prod(sizes.get(axis, 1) for axis in axes)
            if isinstance(size, int) and size % parts:
                _warn(messages.dropped_by_size(dim, size, parts, axes, spec))
    return jax.lax.with_sharding_constraint(x, placed)


_INSIDE = tuple(f"{Path(module).parent}/" for module in (__file__, jax.__file__))


def _warn(message: str) -> None:
    """Warn at the line that called us, which is outside this package and JAX."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_back.f_code.co_filename.startswith(
        _INSIDE
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DroppedConstraint, stacklevel=level + 1)
