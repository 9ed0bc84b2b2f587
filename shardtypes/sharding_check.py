"""The comparison of a declared with an actual sharding, by meaning.

An alarm is raised only for what is certainly wrong; what could not be compared is counted with its reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, SingleDeviceSharding

from shardtypes import _stats
from shardtypes.beneath import Beneath, beneath
from shardtypes.compiler_answers import request
from shardtypes.declared_array import DeclaredArray
from shardtypes.jit_border import is_placed_by_jit
from shardtypes.layouts import Layout, layout_of
from shardtypes.logical_rules import rules_in_force
from shardtypes.manual_view import check_manual
from shardtypes.meshes import (
    View,
    axes_of_type,
    bound_axes,
    current_mesh,
    mesh_sizes,
)
from shardtypes.scopes import Table
from shardtypes.sharding_comparison import (
    AGREES,
    SKIPPED,
    Claim,
    axes_in,
    claims,
    compare_maps,
    compare_named,
    compare_types,
    only_on_one_device,
    unknown_axis,
)
from shardtypes.sharding_reports import (
    count_agreement,
    difference,
    report_in_call,
    sizes_of_mesh,
)
from shardtypes.sites import Site

NO_MESH = "no mesh in force, and the value is on one device"
TRACED_WITHOUT_MESH = "traced without a mesh in force"


class UnplacedTable(Table):
    """The names of values that are being made: where they lie is not compared, for they may be placed afterwards."""

    __slots__ = ()


def nothing_known(value: Any, aval: Any) -> bool:
    """Whether nothing at all is known about the sharding of a traced value: no mesh, in force or in its type."""
    if type(value).__name__ != "DynamicJaxprTracer" or current_mesh() is not None:
        return False
    sharding = getattr(aval, "sharding", None)
    return sharding is None or sharding.mesh.empty


def check_sharding(
    spec: DeclaredArray, value: Any, table: Table, view: View, site: Site
) -> None:
    """Compare the sharding of a value with the annotation. Raises ``ShardingError``."""
    __tracebackhide__ = True
    if type(table) is UnplacedTable:
        if spec.sharded:
            _stats.count_not_possible(
                "the sharding of the fields of an object under construction: it may be placed afterwards",
                site,
            )
        return
    if isinstance(value, jax.core.Tracer):
        if view.manual:
            check_manual(spec, value, view, site)
            return
        under = beneath(value)
        if under is None or isinstance(under.value, jax.core.Tracer):
            if not view.bound or spec.sharded:
                _check_traced(spec, value, table, view, site)
            return
    else:
        under = Beneath(value)
    sharding = getattr(under.value, "sharding", None)
    if (
        type(sharding) is SingleDeviceSharding
        and not spec.sharded
        and not rules_in_force()
    ):
        return
    if sharding is None or view.manual:
        if spec.sharded:
            _stats.count_not_possible("a value without a sharding", site)
        return
    mesh = current_mesh()
    if mesh is None and type(sharding) is SingleDeviceSharding:
        _stats.count_not_possible(NO_MESH, site)
        return
    reason = _verdict(spec, under, mesh, view)
    if reason is not AGREES:
        report_in_call(spec, reason, value, mesh, table, site)
    elif _stats.recording:
        count_agreement(spec, sizes_of_mesh(sharding, mesh), site)


def verdict(spec: DeclaredArray, value: Any, mesh: Any, view: View) -> str:
    """Why an array, outside of every trace, is not sharded as declared; empty if it is."""
    return _verdict(spec, Beneath(value), mesh, view)


def _verdict(spec: DeclaredArray, under: Beneath, mesh: Any, view: View) -> str:
    value = under.value
    key = (
        value.sharding,
        mesh,
        value.shape,
        under.mapped,
        tuple(view.bound),
        rules_in_force(),
    )
    reason = spec.verdicts.get(key)
    if reason is None:
        reason = _compare_concrete(spec, under, mesh, view)
        if len(spec.verdicts) > 256:
            spec.verdicts.clear()
        spec.verdicts[key] = reason
    # One object, by which callers know it.
    return reason or AGREES


def _compare_concrete(
    spec: DeclaredArray, under: Beneath, mesh: Any, view: View
) -> str:
    value = under.value
    sharding, shape = value.sharding, under.example(value.shape)
    declared = claims(spec, shape)
    if declared is None:
        return AGREES
    if view.bound:  # what is declared over an axis of vmap is mapped away
        declared = tuple(
            None if axes and view.bound.keys() & set(axes) else axes
            for axes in declared
        )
    own = sharding.mesh if isinstance(sharding, NamedSharding) else None
    reference = mesh if mesh is not None else own
    is_single = type(sharding) is SingleDeviceSharding
    if reference is None:
        if not spec.sharded and sharding.is_fully_replicated:
            return AGREES
        if is_single:
            return SKIPPED + NO_MESH
        return _compare_unnamed(declared, sharding)
    sizes = mesh_sizes(reference)
    unknown = unknown_axis(spec, declared, {**sizes, **view.bound})
    if unknown:
        return unknown
    pending = spec.shape.pending
    if is_single:
        if pending or any(sizes[axis] > 1 for axis in axes_in(declared)):
            return only_on_one_device(next(iter(sharding.device_set)))
        return AGREES
    actual = layout_of(value, mesh)
    if _names_agree(actual, declared, sizes):
        own_layout = actual.without(under.mapped)
        return compare_named(declared, pending, own_layout, sizes, shape)
    if under.mapped:
        return SKIPPED + "axis names differ, inside vmap"
    if actual.pending or pending:
        return SKIPPED + "axis names differ, and the value is a partial sum"
    return compare_maps(declared, actual, reference)


def _names_agree(
    actual: Layout, declared: Sequence[Claim], sizes: dict[str, int]
) -> bool:
    """Whether the axes that a layout names are axes of the mesh, of the same sizes."""
    if actual.dims is None:
        return False
    own_sizes = mesh_sizes(actual.mesh)
    used = {axis for axes in actual.dims for axis in axes}
    if not used <= sizes.keys():
        return False
    met = (used | axes_in(declared)) & own_sizes.keys()
    return all(own_sizes[axis] == sizes[axis] for axis in met)


def _compare_unnamed(declared: Sequence[Claim], sharding: Any) -> str:
    """A sharding without axis names, and no mesh: only 'replicated' can be compared."""
    if sharding.is_fully_replicated:
        if axes_in(declared):
            return "expected a sharded array, got a replicated one"
        return AGREES
    return (
        f"{type(sharding).__name__} has no axis names, and no mesh is in force to supply them: "
        "put the mesh in force with jax.set_mesh(mesh)"
    )


def _check_traced(
    spec: DeclaredArray, value: Any, table: Table, view: View, site: Site
) -> None:
    """Under ``jit``: Explicit axes are part of the type; of Auto axes only the compiler knows."""
    __tracebackhide__ = True
    aval = jax.typeof(value)
    sharding = getattr(aval, "sharding", None)
    own = getattr(sharding, "mesh", None)
    if own is not None and own.empty:
        own = None
    mesh = current_mesh() or own
    declared = claims(spec, aval.shape)
    if declared is None:
        return
    if mesh is None:
        if spec.sharded:
            _stats.count_not_possible(TRACED_WITHOUT_MESH, site)
        return
    sizes = mesh_sizes(mesh)
    unknown = unknown_axis(spec, declared, {**sizes, **bound_axes()})
    if unknown:
        raise difference(spec, unknown, value, mesh, site)
    explicit = axes_of_type(own, "Explicit") if own is not None else frozenset()
    if explicit:
        reason = compare_types(spec, declared, aval, own, explicit)
        if reason and site.is_result and is_placed_by_jit(site.function):
            _stats.count_not_possible("what out_shardings make of a result", site)
        elif reason:
            report_in_call(spec, reason, value, own, table, site)
        elif _stats.recording:
            count_agreement(
                spec, {a: n for a, n in sizes.items() if a in explicit}, site
            )
    # The type's own mesh says it where `auto_axes` or `explicit_axes` changed the kinds of the axes.
    automatic = {
        a for a in axes_of_type(own or mesh, "Auto") if sizes.get(a, 1) > 1
    } - view.bound.keys()
    if automatic:
        request(spec, value, declared, mesh, automatic, table, site)
