"""Calls of modelled functions on a mesh with explicit axes."""

from __future__ import annotations

from dataclasses import replace

from shardlint.ops.registry import Call, ModelFunction, is_none
from shardlint.ops.sharding import explicit_sums
from shardlint.ops.sharding.explicit import (
    EXPLICIT,
    TWICE,
    UNPLACED,
    GlobalOp,
    Rule,
    Split,
    explicit_axes,
    placed,
)
from shardlint.ops.sharding.explicit_models import aligned
from shardlint.ops.sharding.kinds import kind_of
from shardlint.ops.sharding.origins import Operands, Origins, each, keeps_each_array
from shardlint.ops.sharding.state import DimAxes, kept_notes
from shardlint.values import ArrayValue, Dimension, MeshValue, Value
from shardtypes.lang.messages import sharded_twice

#: Elementwise functions that are refused otherwise.
_OF_ONE_SHAPE = frozenset({"jax.lax.clamp"})
#: The parameters that say how a result is to lie.
_ASKED = ("out_sharding", "device", "sharding")


def no_rule(op: GlobalOp, out: ArrayValue, origins: Origins) -> Split:
    """Nothing is known of what the function does to axes."""
    return None


def apply(
    call: Call, mesh: MeshValue, model: ModelFunction, otherwise: Rule = no_rule
) -> Value:
    """The result of a modelled function on a mesh with explicit axes, by its rule, or else by another.

    Raises OpError where the shapes are certainly wrong, or JAX refuses how they are split.
    """
    ctx = call.ctx
    inner = replace(ctx, explicit=None)
    if keeps_each_array(call):
        return model(call)
    operands = Operands(
        lambda value: _seen(value, mesh), lambda value: replace(value, mesh=None)
    )
    result = model(Call(call.qualname, operands.marked(call), inner))
    ctx.facts = inner.facts
    op = GlobalOp(call, mesh, tuple(operands.found), tuple(operands.positions))
    asked = any(name in call.args and not is_none(call.args[name]) for name in _ASKED)
    if asked and operands.complete:
        explicit_sums.check_asked(op)
    if not operands.complete or (asked and not op.ignores_out_sharding):
        return each(result, lambda value, origins: value)
    found = _rule(call) or otherwise
    partial = explicit_sums.sums(op)
    if not partial:
        return each(result, lambda value, origins: _placed(op, value, origins, found))
    if not explicit_sums.kept(op):
        return each(result, lambda value, origins: replace(value, pending=None))
    return each(
        result,
        lambda value, origins: replace(
            _placed(op, value, origins, found), pending=partial
        ),
    )


def _rule(call: Call) -> Rule | None:
    """The model of a function, if it has one: that of its name, or of any elementwise function."""
    found = EXPLICIT.get(call.qualname)
    if found is None and call.qualname not in _OF_ONE_SHAPE and kind_of(call):
        return aligned
    return found


def _seen(value: ArrayValue, mesh: MeshValue) -> ArrayValue:
    """The operand as its type has it: explicit axes alone; nothing is known of one that is not of this mesh."""
    if value.dims is None:
        return value
    if value.numpy:
        dims = tuple(Dimension(dim.size, ()) for dim in value.dims)
        return replace(value, dims=dims, mesh=mesh, marks=frozenset({UNPLACED}))
    axes = explicit_axes(mesh) or {}
    known = value.mesh == mesh
    dims = tuple(
        Dimension(
            dim.size,
            tuple(a for a in dim.axes if a in axes)
            if known and dim.axes is not None
            else None,
        )
        for dim in value.dims
    )
    return replace(value, dims=dims, mesh=mesh if known else None)


def _whole(op: GlobalOp, out: ArrayValue) -> Split:
    """What is made of arrays that are not split is not split, whatever the function."""
    whole = op.operands and all(
        o.dims is not None and not any(d.axes != () for d in o.dims)
        for o in op.operands
    )
    if whole:
        return [() for _ in out.dims or ()]
    return None


def _placed(
    op: GlobalOp, bare: ArrayValue, origins: Origins, found: Rule
) -> ArrayValue:
    if bare.dims is not None:
        split = found(op, bare, origins)
    else:
        split = None
    if split is None and bare.dims is not None:
        split = _whole(op, bare)
    if split is None:
        return bare
    _check_twice(op, split)
    dims = tuple(
        Dimension(d.size, axes, d.label)
        for d, axes in zip(bare.dims or (), split, strict=True)
    )
    on_mesh = not op.operands or any(o.mesh is not None for o in op.operands)
    certain = not op.operands or any(placed(o) for o in op.operands)
    if certain:
        marks = frozenset[tuple[str, str]]()
    else:
        marks = frozenset({UNPLACED})
    mesh = None
    if on_mesh:
        mesh = op.mesh
    notes = kept_notes(note for operand in op.operands for note in operand.notes)
    return replace(bare, dims=dims, mesh=mesh, marks=marks, notes=notes)


def _check_twice(op: GlobalOp, split: DimAxes) -> None:
    named = [axis for axes in split for axis in axes or ()]
    twice = next((axis for axis in named if named.count(axis) > 1), None)
    if twice is not None:
        why = sharded_twice(twice, [op.text(operand) for operand in op.operands])
        raise op.refused(why, code=TWICE.get(op.call.qualname, "ST309"))
