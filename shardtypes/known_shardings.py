"""Shardings that were compared before, known again by identity.

Programs give a function arrays that lie alike, with the same sharding object: then nothing is compared once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jax._src.core import trace_ctx  # no public way to ask for bound axis names

from shardtypes import _stats
from shardtypes.array_check import ArraySpec
from shardtypes.meshes import GLOBAL_VIEW, current_mesh
from shardtypes.sharding_check import NO_MESH, verdict
from shardtypes.sharding_comparison import AGREES
from shardtypes.sharding_reports import cover
from shardtypes.sites import Site


class _Nowhere:
    """Stands for a mesh where there is none, or where shapes are local ones."""


WITHOUT_MESH = _Nowhere()
IN_MANUAL_VIEW = _Nowhere()

# The sharding, the mesh in force and the shape that agreed last.
_Entry = tuple[Any, Any, Any]
_NOTHING: _Entry = (None, None, None)


def mesh_here() -> Any:
    """The mesh in force, or what stands for none."""
    if trace_ctx.axis_env.axis_sizes:
        return IN_MANUAL_VIEW
    mesh = current_mesh()
    return WITHOUT_MESH if mesh is None else mesh


class Last:
    """What agreed last with the annotation of one parameter."""

    __slots__ = ("_site", "_spec", "entry")

    def __init__(self, spec: ArraySpec, site: Site) -> None:
        self._spec = spec
        self._site = site
        self.entry = _NOTHING

    def forget(self) -> None:
        """Compare anew, so that what is recorded is recorded again."""
        self.entry = _NOTHING

    def agrees(self, value: Any, mesh: Any) -> bool:
        """Whether an array is certainly sharded as declared, outside of every trace and without logical rules."""
        if mesh is IN_MANUAL_VIEW:
            return False
        known = None if mesh is WITHOUT_MESH else mesh
        if verdict(self._spec, value, known, GLOBAL_VIEW) is not AGREES:
            return False
        if _stats.recording:
            cover(self._spec, value.sharding, known, self._site)
        self.entry = value.sharding, mesh, value.shape
        return True


def count_unplaced(sites: Iterable[Site]) -> None:
    """Count arrays whose declared sharding was not compared, for no mesh is in force and they are on one device."""
    for site in sites:
        _stats.count_not_possible(NO_MESH, site)
