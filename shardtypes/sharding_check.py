"""The comparison of a declared with an actual sharding, by meaning.

An alarm is raised only for what is certainly wrong; what could not be compared is counted with its reason.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
from jax.sharding import NamedSharding, SingleDeviceSharding

from shardtypes import _stats, messages
from shardtypes.beneath import Beneath, beneath
from shardtypes.errors import ShardingError
from shardtypes.lang.messages import indivisible, mesh_without_axis, wrong_axes
from shardtypes.layouts import (
    Axes,
    Layout,
    axes_of_spec,
    layout,
    normalise,
    same_indices,
)
from shardtypes.logical_axes import resolve_axes, rules_in_force
from shardtypes.meshes import (
    Sums,
    View,
    axes_of_type,
    bound_axes,
    current_mesh,
    format_mesh,
    make_spec,
    mesh_sizes,
    parts_of,
)
from shardtypes.scopes import Site, Table

if TYPE_CHECKING:
    from shardtypes.array_check import ArraySpec

# Declared axes of one dimension; None where the annotation makes no claim ('_' and '...').
Claim = Axes | None

AGREES = ""  # the empty reason: nothing is wrong


class UnplacedTable(Table):
    """The names of values that are being made: where they lie is not compared, for they may be placed afterwards."""

    __slots__ = ()


def claims(spec: ArraySpec, rank: int) -> tuple[Claim, ...] | None:
    """What the annotation declares for each dimension of a value of this rank."""
    resolved = resolve_axes(spec.shape)
    at = spec.variadic
    entries: list[Claim] = [
        None if not axes and dim.kind in ("anonymous", "variadic") else axes
        for dim, axes in zip(spec.shape.dims, resolved, strict=True)
    ]
    if at is None:
        return tuple(entries) if rank == len(entries) else None
    extra = rank - len(entries) + 1
    return (
        None
        if extra < 0
        else tuple(entries[:at] + [entries[at]] * extra + entries[at + 1 :])
    )


def nothing_known(value: Any, aval: Any) -> bool:
    """Whether nothing at all is known about the sharding of a traced value: no mesh, in force or in its type."""
    if type(value).__name__ != "DynamicJaxprTracer" or current_mesh() is not None:
        return False
    sharding = getattr(aval, "sharding", None)
    return sharding is None or sharding.mesh.empty


def check_sharding(
    spec: ArraySpec, value: Any, table: Table, view: View, site: Site
) -> None:
    """Compare the sharding of a value with the annotation. Raises ``ShardingError``."""
    __tracebackhide__ = True
    if type(table) is UnplacedTable:
        if spec.sharded:
            _stats.count_not_possible(
                "the sharding of the fields of an object under construction: it may be placed afterwards"
            )
        return
    if isinstance(value, jax.core.Tracer):
        if view.manual:
            from shardtypes.manual_view import check_manual  # the two call each other

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
            _stats.count_not_possible("a value without a sharding")
        return
    mesh = current_mesh()
    if mesh is None and type(sharding) is SingleDeviceSharding:
        _stats.count_not_possible(NO_MESH)
        return
    reason = _verdict(spec, under, mesh, view)
    if reason is not AGREES:
        report(spec, reason, value, mesh, site)
    elif _stats.recording:
        count_agreement(spec, _sizes_of_mesh(sharding, mesh), site)


def verdict(spec: ArraySpec, value: Any, mesh: Any, view: View) -> str:
    """Why an array, outside of every trace, is not sharded as declared; empty if it is."""
    return _verdict(spec, Beneath(value), mesh, view)


def _verdict(spec: ArraySpec, under: Beneath, mesh: Any, view: View) -> str:
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


def _sizes_of_mesh(sharding: Any, mesh: Any) -> dict[str, int]:
    return mesh_sizes(mesh or getattr(sharding, "mesh", None))


NO_MESH = "no mesh in force, and the value is on one device"
SKIPPED = "?"  # first character of a reason why the comparison could not be made


# Where a value may be pending though its annotation does not say so: whoever gets it may reduce it.
_MAY_BE_PENDING = ("the result", "the yielded value", "variable ")


def report(spec: ArraySpec, reason: str, value: Any, mesh: Any, site: Site) -> None:
    """Raise what a comparison found, or count it where it proves nothing."""
    __tracebackhide__ = True
    if reason.startswith(SKIPPED):
        _stats.count_not_possible(reason[len(SKIPPED) :])
    elif reason.startswith(messages.UNDECLARED) and site.role.startswith(
        _MAY_BE_PENDING
    ):
        _stats.count_not_possible(
            "a result or a local is a partial sum over axes that its annotation does not declare"
        )
    else:
        raise difference(spec, reason, value, mesh, site)


def count_agreement(spec: ArraySpec, sizes: Mapping[str, int], site: Site) -> None:
    """Count that a value is sharded as declared, on a mesh with axes of these sizes, and record it."""
    _stats.count("sharding")
    _cover(spec, sizes, site)


def cover(spec: ArraySpec, sharding: Any, mesh: Any, site: Site) -> None:
    """Record that an array of this sharding is sharded as declared; it is counted elsewhere."""
    _cover(spec, _sizes_of_mesh(sharding, mesh), site)


def _cover(spec: ArraySpec, sizes: Mapping[str, int], site: Site) -> None:
    for dim, axes in enumerate(spec.axes):
        for axis in axes:
            _stats.cover_dimension(
                site.qualified, site.role, dim, axis, sizes.get(axis, 1) > 1
            )
    if spec.sharded:
        mesh = ", ".join(f"{name}={size}" for name, size in sizes.items())
        _stats.cover_layout(site.qualified, site.role, spec.text, mesh)


def difference(
    spec: ArraySpec, reason: str, value: Any, mesh: Any, site: Site
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
        reason, spec.text, messages.describe(value), format_mesh(mesh)
    )
    return ShardingError(text, site, advice)


def unknown_axis(
    spec: ArraySpec, declared: Sequence[Claim], sizes: Mapping[str, int]
) -> str:
    """The message about an axis that the mesh does not have."""
    for axes in (*declared, spec.shape.pending):
        for axis in axes or ():
            if axis not in sizes:
                return mesh_without_axis(axis, sizes)
    return AGREES


def _compare_concrete(spec: ArraySpec, under: Beneath, mesh: Any, view: View) -> str:
    value = under.value
    sharding, shape = value.sharding, under.example(value.shape)
    declared = claims(spec, len(shape))
    if declared is None:
        return AGREES
    if view.bound:  # what is declared over an axis of vmap is mapped away
        declared = tuple(
            None if axes and view.bound.keys() & set(axes) else axes
            for axes in declared
        )
    own = sharding.mesh if isinstance(sharding, NamedSharding) else None
    reference = mesh if mesh is not None else own
    sizes = mesh_sizes(reference)
    if reference is None:
        if not spec.sharded and sharding.is_fully_replicated:
            return AGREES
        if type(sharding) is SingleDeviceSharding:
            return SKIPPED + NO_MESH
        return _compare_unnamed(declared, sharding)
    unknown = unknown_axis(spec, declared, {**sizes, **view.bound})
    if unknown:
        return unknown
    if type(sharding) is SingleDeviceSharding:
        if (
            any(sizes[a] > 1 for axes in declared for a in axes or ())
            or spec.shape.pending
        ):
            return f"expected a sharded array, got one on a single device ({next(iter(sharding.device_set))})"
        return AGREES
    actual = layout(value, mesh)
    if actual.dims is not None:
        own_sizes = mesh_sizes(actual.mesh)
        used = {a for axes in actual.dims for a in axes}
        if used <= sizes.keys() and all(
            own_sizes.get(a) == sizes[a]
            for a in used | axes_in(declared)
            if a in own_sizes
        ):
            return compare_named(
                declared, spec.shape.pending, actual.without(under.mapped), sizes, shape
            )
    if under.mapped:
        return SKIPPED + "axis names differ, inside vmap"
    if actual.pending or spec.shape.pending:
        return SKIPPED + "axis names differ, and the value is a partial sum"
    return compare_maps(declared, actual, reference)


def axes_in(declared: Sequence[Claim]) -> set[str]:
    """All axes that an annotation names."""
    return {axis for axes in declared for axis in axes or ()}


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


def compare_maps(declared: Sequence[Claim], actual: Layout, mesh: Any) -> str:
    """Without the axis names of the mesh: equal if every device holds what the declaration puts there."""
    if not isinstance(mesh, jax.sharding.Mesh):
        return SKIPPED + "axis names differ and the mesh in force has no devices"
    if any(axes is None for axes in declared):
        return SKIPPED + "axis names differ, and the annotation leaves a dimension open"
    try:
        wanted = NamedSharding(
            mesh, make_spec(axes or () for axes in declared)
        ).devices_indices_map(actual.sizes)
    except ValueError as error:  # a size that the axes do not divide
        return f"the declared sharding is not possible: {error}"
    if actual.sharding is not None and same_indices(
        wanted, actual.sharding.devices_indices_map(actual.sizes), actual.sizes
    ):
        return AGREES
    return "the devices hold other shards than declared"


def compare_named(
    declared: Sequence[Claim],
    pending: Collection[str],
    actual: Layout,
    sizes: Mapping[str, int],
    shape: Sequence[int],
    open_axes: bool = False,
) -> str:
    """Why two named layouts differ; empty if they mean the same. With ``open_axes`` there are axes of which neither
    says anything."""
    assert actual.dims is not None
    wanted = normalise([axes or () for axes in declared], sizes)
    found = normalise(actual.dims, sizes)
    for dim, (claim, want, got) in enumerate(zip(declared, wanted, found, strict=True)):
        if claim is None or want == got:
            continue
        reason = wrong_axes(dim, want, got)
        if want and not any(found) and not open_axes:
            reason += "; the array is fully replicated"
        parts = parts_of(want, sizes)
        if not got and shape[dim] % parts:
            reason += f" ({indivisible(shape[dim], parts, want)}: JAX drops such a constraint)"
        return reason
    return compare_sums(pending, actual.sums, sizes)


def compare_sums(
    pending: Collection[str], actual: Sums, sizes: Mapping[str, int]
) -> str:
    """Why a value is not pending as declared; empty if it is."""
    outstanding = {a for a in actual.pending if sizes.get(a, 2) > 1}
    promised = {a for a in pending if sizes.get(a, 2) > 1}
    if promised - outstanding:
        return messages.no_partial_sum(promised - outstanding)
    if promised and actual.reduction != "sum":
        return messages.other_reduction(promised, actual.reduction)
    if outstanding - promised:
        return messages.undeclared_sum(outstanding - promised)
    return AGREES


def compare_types(
    spec: ArraySpec,
    declared: Sequence[Claim],
    aval: Any,
    mesh: Any,
    axes: frozenset[str],
) -> str:
    """Why a type of JAX's is not the declared one, over these axes of its mesh; empty if it is."""
    dims = axes_of_spec(aval.sharding.spec, len(aval.shape))
    if dims is None:
        return AGREES
    wanted = [
        None if claim is None else tuple(a for a in claim if a in axes)
        for claim in declared
    ]
    sums = Sums.of(aval.sharding.spec)
    actual = Layout(
        tuple(aval.shape), dims, mesh, sums.pending & axes, reduction=sums.reduction
    )
    sizes, pending = mesh_sizes(mesh), axes.intersection(spec.shape.pending)
    return compare_named(
        wanted, pending, actual, sizes, aval.shape, open_axes=not axes.issuperset(sizes)
    )


def _check_traced(
    spec: ArraySpec, value: Any, table: Table, view: View, site: Site
) -> None:
    """Under ``jit``: Explicit axes are part of the type; of Auto axes only the compiler knows."""
    __tracebackhide__ = True
    aval = jax.typeof(value)
    sharding = getattr(aval, "sharding", None)
    own = getattr(sharding, "mesh", None)
    if own is not None and own.empty:
        own = None
    mesh = current_mesh() or own
    declared = claims(spec, len(aval.shape))
    if declared is None:
        return
    if mesh is None:
        if spec.sharded:
            _stats.count_not_possible("traced without a mesh in force")
        return
    sizes = mesh_sizes(mesh)
    unknown = unknown_axis(spec, declared, {**sizes, **bound_axes()})
    if unknown:
        raise difference(spec, unknown, value, mesh, site)
    explicit = axes_of_type(own, "Explicit") if own is not None else frozenset()
    if explicit:
        reason = compare_types(spec, declared, aval, own, explicit)
        if reason:
            report(spec, reason, value, own, site)
        elif _stats.recording:
            count_agreement(
                spec, {a: n for a, n in sizes.items() if a in explicit}, site
            )
    # The type's own mesh says it where `auto_axes` or `explicit_axes` changed the kinds of the axes.
    automatic = {
        a for a in axes_of_type(own or mesh, "Auto") if sizes.get(a, 1) > 1
    } - view.bound.keys()
    if automatic:
        from shardtypes.compiled import request

        request(spec, value, declared, mesh, automatic, table.bound(spec.names), site)
