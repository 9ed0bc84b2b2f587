"""What follows from the comparison of a sharding: an error, or a count of what was compared or could not be."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax

from shardtypes import _stats, messages
from shardtypes.array_text import describe
from shardtypes.beneath import beneath
from shardtypes.declared_array import DeclaredArray
from shardtypes.errors import ShardingError
from shardtypes.meshes import format_mesh, mesh_sizes
from shardtypes.scopes import Table
from shardtypes.sharding_comparison import SKIPPED, is_not_placed
from shardtypes.sites import Site

# Where a value may be pending though its annotation does not say so: whoever gets it may reduce it.
_MAY_BE_PENDING = ("the result", "the yielded value", "variable ")
#: Why the sharding of a result is left open.
NOT_PLACED_YET = "what a function makes of no arrays, which may be placed afterwards"


def report(spec: DeclaredArray, reason: str, value: Any, mesh: Any, site: Site) -> None:
    """Raise what a comparison found, or count it where it proves nothing."""
    __tracebackhide__ = True
    if reason.startswith(SKIPPED):
        _stats.count_not_possible(reason[len(SKIPPED) :], site)
    elif reason.startswith(messages.UNDECLARED) and site.role.startswith(
        _MAY_BE_PENDING
    ):
        _stats.count_not_possible(
            "a result or a local is a partial sum over axes that its annotation does not declare",
            site,
        )
    else:
        raise difference(spec, reason, value, mesh, site)


def makes_its_result(table: Table, site: Site) -> bool:
    """Whether a value is the result of a function that was given no arrays whose sizes have names: it initialises
    weights, say, which its caller places. Where they are used they are compared."""
    if not site.is_result:
        return False
    return not any(
        place.role.startswith("parameter") for place, _ in table.places.values()
    )


def report_in_call(
    spec: DeclaredArray, reason: str, value: Any, mesh: Any, table: Table, site: Site
) -> None:
    """As ``report``, of a value in a call whose names the table has: what it makes may be placed afterwards."""
    __tracebackhide__ = True
    if is_not_placed(reason) and makes_its_result(table, site):
        _stats.count_not_possible(NOT_PLACED_YET, site)
    else:
        report(spec, reason, value, mesh, site)


def count_agreement(spec: DeclaredArray, sizes: Mapping[str, int], site: Site) -> None:
    """Count that a value is sharded as declared, on a mesh with axes of these sizes, and record it."""
    _stats.count("sharding")
    _cover(spec, sizes, site)


def cover(spec: DeclaredArray, sharding: Any, mesh: Any, site: Site) -> None:
    """Record that an array of this sharding is sharded as declared; it is counted elsewhere."""
    _cover(spec, sizes_of_mesh(sharding, mesh), site)


def _cover(spec: DeclaredArray, sizes: Mapping[str, int], site: Site) -> None:
    for dim, axes in enumerate(spec.axes):
        for axis in axes:
            _stats.cover_dimension(
                site.qualified, site.role, dim, axis, sizes.get(axis, 1) > 1
            )
    if spec.sharded:
        mesh = ", ".join(f"{name}={size}" for name, size in sizes.items())
        _stats.cover_layout(site.qualified, site.role, spec.text, mesh)


def difference(
    spec: DeclaredArray, reason: str, value: Any, mesh: Any, site: Site
) -> ShardingError:
    """The error that says why a value is not sharded as declared, and what to do."""
    under = beneath(value)
    advice = (
        "place it with shardtypes.shard(x, T) or jax.device_put, or correct the annotation"
        if under is not None and not isinstance(under.value, jax.core.Tracer)
        else "correct the annotation, the in_shardings, or add a with_sharding_constraint"
    )
    if reason.startswith(messages.UNDECLARED):
        advice = messages.REDUCE_IT
    text = messages.sharding_differs(
        reason, spec.text, describe(value), format_mesh(mesh)
    )
    return ShardingError(text, site, advice)


def sizes_of_mesh(sharding: Any, mesh: Any) -> dict[str, int]:
    return mesh_sizes(mesh or getattr(sharding, "mesh", None))
