"""Shardings inside ``shard_map`` and ``pmap``.

The arguments of the surrounding ``shard_map`` are sharded by its ``in_specs``. Of other values JAX tells over which
axes they vary, an upper bound of where they differ from device to device.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Any

import jax

from shardtypes import _stats, messages
from shardtypes.array_text import describe, described
from shardtypes.beneath import beneath
from shardtypes.declared_array import DeclaredArray
from shardtypes.errors import ShardingError
from shardtypes.function_names import display_name
from shardtypes.lang.messages import wrong_axes
from shardtypes.layouts import Layout
from shardtypes.mapped_arguments import ArgumentLayout, argument_layout
from shardtypes.meshes import (
    Sums,
    View,
    axes_of_type,
    format_mesh,
    mesh_sizes,
    outstanding,
    varying_axes,
)
from shardtypes.sharding_comparison import (
    Claim,
    axes_in,
    claims,
    compare_named,
    compare_sums,
    compare_types,
    unknown_axis,
)
from shardtypes.sharding_reports import count_agreement, difference, report
from shardtypes.sites import Site
from shardtypes.trace_forms import innermost


def check_manual(spec: DeclaredArray, value: Any, view: View, site: Site) -> None:
    """Compare what is known of a value inside ``shard_map`` with its annotation. Raises ``ShardingError``."""
    __tracebackhide__ = True
    aval = jax.typeof(value)
    declared = claims(spec, aval.shape)
    if declared is None:
        return
    sizes = {**mesh_sizes(view.mesh), **view.bound}
    unknown = unknown_axis(spec, declared, sizes)
    if unknown:
        raise difference(spec, unknown, value, view.mesh, site)
    large = frozenset(a for a in view.manual if sizes[a] > 1)
    found = argument_layout(value)
    if found is not None and not spec.shape.axes and _is_helper(site, found.function):
        _stats.count_not_possible(
            "inside shard_map: an annotation without axes, of a function that sees one shard",
            site,
        )
        return
    exact = large & found.axes if found is not None else frozenset()
    if found is not None:
        _check_argument(spec, declared, found, exact, value, view, site)
    manual = [a for axes in declared for a in axes or () if a in large]
    inexact = [a for a in manual if a not in exact]
    pending = [a for a in spec.shape.pending if a in large - exact]
    _check_sums(spec, pending, aval, large - exact, view, value, site)
    varying = varying_axes(aval)
    if varying is not None:
        _check_varying(spec, declared, inexact, pending, varying, value, view, site)
        undeclared = (large & varying) - exact - set(manual) - set(pending)
        sums = varying.intersection(pending)
        _count_open(declared, inexact, sums, undeclared, site)
    elif pending or inexact:
        _stats.count_not_possible(
            "inside shard_map or pmap with check_vma=False: JAX does not track varying axes",
            site,
        )
        return
    elif not manual:
        return
    _check_partial(spec, aval, declared, view, value, site)
    if _stats.recording:
        count_agreement(spec, sizes, site)


def _count_open(
    declared: Sequence[tuple[str, ...] | None],
    inexact: Sequence[str],
    varying_sums: Set[str],
    undeclared: Set[str],
    site: Site,
) -> None:
    """Count what the varying axes of a value leave open. ``inexact`` are declared axes of which it is not known along
    which dimension they shard it, ``varying_sums`` pending ones, ``undeclared`` ones that the annotation lacks."""
    if varying_sums:
        _stats.count_not_possible(
            "inside shard_map or pmap: whether a value that varies is a partial sum",
            site,
        )
    if len(declared) > 1 and inexact:
        _stats.count_not_possible(
            "inside shard_map or pmap: which dimension of a computed value is sharded, beyond what its sizes tell",
            site,
        )
    if undeclared and all(axes is not None for axes in declared):
        _stats.count_not_possible(
            "inside shard_map or pmap: a value may vary over an axis that its annotation lacks",
            site,
        )


def _check_sums(
    spec: DeclaredArray,
    pending: Sequence[str],
    aval: Any,
    axes: frozenset[str],
    view: View,
    value: Any,
    site: Site,
) -> None:
    """The partial sums over manual axes that JAX's type has, where it has them."""
    __tracebackhide__ = True
    typed = Sums.of(getattr(aval, "manual_axis_type", None))
    if typed.pending & axes:
        sums = Sums(typed.pending & axes, reduction=typed.reduction)
        reason = compare_sums(
            sums.pending.intersection(pending), sums, mesh_sizes(view.mesh)
        )
        if reason:
            report(spec, reason, value, view.mesh, site)


def _is_helper(site: Site, mapped: Any) -> bool:
    """Whether a place is in another function than the one that ``shard_map`` maps: one written for single devices says
    nothing of axes."""
    return (
        mapped is not None
        and bool(site.function)
        and site.function != display_name(innermost(mapped))
    )


def _check_argument(
    spec: DeclaredArray,
    declared: Sequence[Claim],
    found: ArgumentLayout,
    exact: frozenset[str],
    value: Any,
    view: View,
    site: Site,
) -> None:
    """What ``in_specs`` say of an argument, over the axes of which they say all."""
    __tracebackhide__ = True
    sizes = mesh_sizes(view.mesh)
    own_axes = [tuple(a for a in axes if a in exact) for axes in found.dims]
    whole = []
    for size, axes in zip(jax.typeof(value).shape, own_axes, strict=True):
        for axis in axes:
            size *= sizes[axis]
        whole.append(size)
    sums = found.sums
    actual = Layout(
        tuple(whole),
        tuple(own_axes),
        view.mesh,
        sums.pending & exact,
        reduction=sums.reduction,
    )
    wanted = [
        None if axes is None else tuple(a for a in axes if a in exact)
        for axes in declared
    ]
    reason = compare_named(
        wanted, exact.intersection(spec.shape.pending), actual, sizes, whole
    )
    if (
        reason
        and not site.function
        and [set(w or ()) for w in wanted] == [set(axes) for axes in own_axes]
    ):
        # Collectives checked by hand name the axes that they gather; the original lets them do so in any order.
        _stats.count_not_possible(
            "inside shard_map: an operand of a collective, with its axes in another order",
            site,
        )
        return
    if reason.startswith(messages.UNDECLARED):
        report(spec, reason, value, view.mesh, site)
    elif reason:
        message = messages.sharding_differs(
            reason,
            spec.text,
            described(jax.typeof(value).dtype, actual),
            format_mesh(view.mesh),
        )
        raise ShardingError(
            message, site, "correct the in_specs of the shard_map, or the annotation"
        )


def _check_varying(
    spec: DeclaredArray,
    declared: Sequence[Claim],
    manual: Sequence[str],
    pending: Sequence[str],
    varying: frozenset[str],
    value: Any,
    view: View,
    site: Site,
) -> None:
    __tracebackhide__ = True
    for axis in (*manual, *pending):
        if axis in varying or axis in outstanding(jax.typeof(value)).pending:
            continue
        if not _comes_from_arguments(value):
            _stats.count_not_possible(
                "a constant inside shard_map: replicated by construction", site
            )
            continue
        if axis in pending:
            reason = messages.no_partial_sum([axis])
        else:
            dim, axes = next(
                (i, axes) for i, axes in enumerate(declared) if axes and axis in axes
            )
            reason = wrong_axes(dim, axes, [name for name in axes if name in varying])
        message = messages.sharding_differs(
            reason, spec.text, describe(value), format_mesh(view.mesh)
        )
        raise ShardingError(
            message, site, "shard the argument with in_specs, or declare it unsharded"
        )


def _check_partial(
    spec: DeclaredArray,
    aval: Any,
    declared: Sequence[Claim],
    view: View,
    value: Any,
    site: Site,
) -> None:
    """The axes of a partly manual mesh that are not manual."""
    explicit = axes_of_type(view.mesh, "Explicit")
    if explicit and aval.sharding is not None:
        reason = compare_types(spec, declared, aval, view.mesh, explicit)
        if reason:
            report(spec, reason, value, view.mesh, site)
    if axes_of_type(view.mesh, "Auto") & (axes_in(declared) | set(spec.shape.pending)):
        _stats.count_not_possible("an Auto axis inside a partly manual shard_map", site)


def _comes_from_arguments(value: Any, limit: int = 5000) -> bool:
    """Whether a traced value is computed from an argument, and not from constants alone.

    False where JAX does not tell: then nothing is certain.
    """
    under = beneath(value)
    stack: list[Any] = [under.value if under is not None else value]
    seen: set[int] = set()
    while stack and len(seen) < limit:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if not isinstance(item, jax.core.Tracer):
            continue
        if not hasattr(item, "parent"):
            return False
        if item.parent is None:
            constant = getattr(getattr(item, "val", None), "initial_qdd", None)
            return constant is None
        stack.extend(item.parent.in_tracers)
    return False
