"""The comparison of what the compiler says of a value's sharding with its annotation."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
from jax._src import core  # no public way to say in which trace an operation belongs

from shardtypes import _stats, messages
from shardtypes.array_text import described
from shardtypes.beneath import beneath
from shardtypes.compiled import collector_in_force, looking
from shardtypes.declared_array import DeclaredArray
from shardtypes.errors import ShardingError
from shardtypes.jit_border import install, is_compiled
from shardtypes.layouts import Layout, layout_of
from shardtypes.meshes import format_mesh, mesh_sizes, parts_of
from shardtypes.provenance import note_check
from shardtypes.questions import ask
from shardtypes.scopes import Table
from shardtypes.sharding_comparison import (
    SKIPPED,
    Claim,
    compare_maps,
    compare_named,
    is_not_placed,
)
from shardtypes.sharding_reports import (
    NOT_PLACED_YET,
    count_agreement,
    makes_its_result,
)
from shardtypes.sites import Site

# A reason why a comparison could not be made, as `sharding_check` writes them.
PADDED = "?a size that its axes do not divide, which the compiler pads"


def request(
    spec: DeclaredArray,
    value: Any,
    declared: Sequence[Any],
    mesh: Any,
    automatic: Collection[str],
    table: Table,
    site: Site,
) -> None:
    """Have a traced value's sharding compared when it is compiled. ``automatic`` are the Auto axes: the type
    tells of partial sums over the others."""
    under = beneath(value)
    if under is None:
        _stats.count_not_possible("a ragged value inside vmap", site)
        return
    traced = under.value
    noted = note_check(getattr(traced, "_trace", None))
    collector = collector_in_force()
    if collector is None:
        if (
            not (install() and noted and is_compiled(sys._getframe(1)))
            and not looking.get()
        ):
            _stats.count_not_possible(
                "inside a trace on Auto mesh axes, without a checking compile", site
            )
        return
    if not collector.may_ask_in(getattr(traced, "_trace", None)):
        _stats.count_not_possible(
            "in a program that was not there when it was traced first", site
        )
        return
    collector.asked += 1
    dtype, sizes = value.dtype, mesh_sizes(mesh)
    bindings = table.bound(spec.names)
    is_made = makes_its_result(table, site)

    def answer(
        sharding: Any,
        found: Any,
        shape: tuple[int, ...],
        mapped: tuple[int, ...] | None,
    ) -> None:
        collector.add(difference(sharding, found, shape, mapped))

    def difference(
        sharding: Any,
        found: Any,
        shape: tuple[int, ...],
        mapped: tuple[int, ...] | None,
    ) -> ShardingError | None:
        if mapped is None:
            _stats.count_not_possible("a ragged value inside vmap", site)
            return None
        if collector.is_free(traced) and not any(declared):
            _stats.count_not_possible(
                "an argument that was not placed, so that the compiler may choose its sharding",
                site,
            )
            return None
        sharding = collector.placement(traced, site, sharding)
        if sharding is None:
            _stats.count_not_possible(
                "an intermediate value, under out_shardings that place the results",
                site,
            )
            return None
        concrete = mesh if isinstance(mesh, jax.sharding.Mesh) else found
        actual = layout_of(sharding, mesh=concrete, shape=shape)
        hidden = (*mapped, *under.mapped)
        if actual.dims is None:
            reason = _compare_split_axes(declared, actual, hidden, concrete)
        else:
            pending = [axis for axis in spec.shape.pending if axis in automatic]
            actual = actual.without(hidden)
            actual = replace(actual, pending=actual.pending.intersection(automatic))
            claims, actual, padded = _without_padded(
                declared, actual, sizes, collector.is_result(traced)
            )
            reason = compare_named(claims, pending, actual, sizes, actual.sizes)
            if padded and not reason:
                reason = PADDED
        if reason.startswith(SKIPPED):
            _stats.count_not_possible(reason[len(SKIPPED) :], site)
            return None
        if not reason:
            if _stats.recording:
                count_agreement(spec, sizes, site)
            return None
        if is_made and is_not_placed(reason):
            _stats.count_not_possible(NOT_PLACED_YET, site)
            return None
        shown = described(dtype, actual)
        advice = "correct the annotation or the in_shardings, or add a with_sharding_constraint"
        error = ShardingError(
            messages.sharding_differs(reason, spec.text, shown, format_mesh(mesh)),
            site,
            advice,
        )
        error.bindings = bindings
        return error

    with core.set_current_trace(traced._trace):
        ask(traced, answer)


def _compare_split_axes(
    declared: Sequence[Claim], actual: Layout, hidden: Sequence[int], mesh: Any
) -> str:
    """Why a layout is not the declared one that mesh axes cannot say, as where half of one splits a dimension."""
    if hidden:
        return SKIPPED + "inside vmap, a sharding that the mesh axes cannot say"
    sizes = mesh_sizes(mesh)
    if any(
        size % parts_of(claim or (), sizes)
        for claim, size in zip(declared, actual.sizes, strict=True)
    ):
        return PADDED
    return compare_maps(declared, actual, mesh)


def _without_padded(
    declared: Sequence[Claim], actual: Layout, sizes: Mapping[str, int], is_result: bool
) -> tuple[Sequence[Claim], Layout, bool]:
    """The claims and the layout without the dimensions that the compiler splits into parts of which the last is padded,
    and whether there are such.

    Inside a program that is how they are sharded. Where they leave it JAX shards them over fewer axes, and never over
    those that were declared.
    """
    assert actual.dims is not None
    claims, dims = list(declared), list(actual.dims)
    for dim, (claim, axes, size) in enumerate(
        zip(declared, actual.dims, actual.sizes, strict=True)
    ):
        if size % parts_of(axes, sizes) == 0:
            continue
        if is_result and claim is not None and size % parts_of(claim, sizes):
            dims[dim] = ()
        else:
            claims[dim] = None
    return (
        claims,
        replace(actual, dims=tuple(dims)),
        dims != list(actual.dims) or claims != list(declared),
    )
