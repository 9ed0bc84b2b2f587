"""The comparison of declared with actual axes, by meaning: why they differ, as text; empty where they agree."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding

from shardtypes import messages
from shardtypes.declared_array import DeclaredArray
from shardtypes.lang import Dim
from shardtypes.lang.messages import indivisible, mesh_without_axis, wrong_axes
from shardtypes.layouts import Axes, Layout, axes_of_spec, normalise, same_indices
from shardtypes.logical_rules import resolve_axes
from shardtypes.meshes import Sums, make_spec, mesh_sizes, parts_of

# Declared axes of one dimension; None where the annotation makes no claim ('_' and '...').
Claim = Axes | None

AGREES = ""  # the empty reason: nothing is wrong
SKIPPED = "?"  # first character of a reason why the comparison could not be made


def claims(spec: DeclaredArray, shape: Sequence[Any]) -> tuple[Claim, ...] | None:
    """What the annotation declares for each dimension of a value of this shape; nothing of one that is 1 and may
    broadcast."""
    resolved = resolve_axes(spec.shape)
    written: list[tuple[Dim, Claim]] = [
        (dim, None if not axes and dim.kind in ("anonymous", "variadic") else axes)
        for dim, axes in zip(spec.shape.dims, resolved, strict=True)
    ]
    aligned = spec.aligned(written, len(shape))
    if aligned is None:
        return None
    return tuple(
        None if dim.kind == "broadcast" and size == 1 else claim
        for (dim, claim), size in zip(aligned, shape, strict=True)
    )


def unknown_axis(
    spec: DeclaredArray, declared: Sequence[Claim], sizes: Mapping[str, int]
) -> str:
    """The message about an axis that the mesh does not have."""
    for axes in (*declared, spec.shape.pending):
        for axis in axes or ():
            if axis not in sizes:
                return mesh_without_axis(axis, sizes)
    return AGREES


def axes_in(declared: Sequence[Claim]) -> set[str]:
    """All axes that an annotation names."""
    return {axis for axes in declared for axis in axes or ()}


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


_REPLICATED = "; the array is fully replicated"
_ON_ONE_DEVICE = "expected a sharded array, got one on a single device"


def only_on_one_device(device: Any) -> str:
    """Why an array that lies on one device is not sharded as declared."""
    return f"{_ON_ONE_DEVICE} ({device})"


def is_not_placed(reason: str) -> bool:
    """Whether an array differs from its declaration in that nothing has sharded it yet."""
    return reason.endswith(_REPLICATED) or reason.startswith(_ON_ONE_DEVICE)


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
            reason += _REPLICATED
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
    spec: DeclaredArray,
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
