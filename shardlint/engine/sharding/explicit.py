"""Meshes with explicit axes in force: whose annotations are believed there, and what JAX refuses of calls that place
values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.axis_switches import switched
from shardlint.engine.frames import Frame
from shardlint.engine.sharding.rules_in_force import may_name_axes
from shardlint.engine.sharding.site import Site
from shardlint.engine.sharding.specs import axes_named, shown, spec_of
from shardlint.ops.sharding.explicit import UNPLACED, explicit_axes, placed
from shardlint.project import SWITCHED
from shardlint.values import (
    ArrayValue,
    MeshValue,
    SequenceValue,
    ShardingValue,
    SpecValue,
    Value,
)
from shardtypes.lang import format_shape

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


def of_function(it: Interpreter, closure: Frame, name: str) -> MeshValue | None:
    """The mesh that a function runs on which is checked by itself: the one that its module puts in force for good, else
    the one of the settings.

    None where the program may run it with other axis types.
    """
    mesh = closure.mesh if closure.mesh is not None else it.configured
    return mesh if explicit_axes(mesh) and name not in _switched(it) else None


def _switched(it: Interpreter) -> frozenset[str]:
    if not it.project.some_outline("switches_axes"):
        return frozenset()
    return it.project.note(SWITCHED, lambda: switched(it.project))


def promised(it: Interpreter, value: ArrayValue) -> ArrayValue:
    """What an annotation that names axes says on explicit axes; one that names none may speak of shapes alone."""
    if it.explicit is None or not any(dim.axes for dim in value.dims or ()):
        return value
    return believed(it, it.explicit, value)


def parameter(it: Interpreter, value: Value) -> Value:
    """A parameter of a function whose annotations speak of axes: one without any is not split."""
    if it.explicit is None or may_name_axes(it):
        return value
    match value:
        case ArrayValue():
            return believed(it, it.explicit, value)
        case SequenceValue(items=items):
            return replace(value, items=tuple(parameter(it, item) for item in items))
        case _:
            return value


def believed(it: Interpreter, mesh: MeshValue, value: ArrayValue) -> ArrayValue:
    """The array, on that mesh split as its annotation says. Axes of size 1 need not be in its type, automatic ones
    never are."""
    axes = explicit_axes(mesh) or {}
    known = dict(mesh.axes or ())
    if value.dims is None or any(
        axis not in known for dim in value.dims for axis in dim.axes or ()
    ):
        return value
    open_ = may_name_axes(it)
    dims = tuple(
        replace(dim, axes=None)
        if dim.axes is None
        or any(known[axis] == 1 for axis in dim.axes)
        or (open_ and not dim.axes)
        else replace(dim, axes=tuple(axis for axis in dim.axes if axis in axes))
        for dim in value.dims
    )
    # else it may be on no mesh at all
    split = any(axis in axes for dim in value.dims for axis in dim.axes or ())
    return replace(
        value,
        dims=dims,
        mesh=mesh,
        marks=value.marks if split else value.marks | {UNPLACED},
    )


def mixed(mesh: MeshValue | None) -> bool:
    """Whether some axes of the mesh are explicit and some automatic."""
    return mesh is not None and {"Explicit", "Auto"} == set(mesh.types or ())


def check_constraint(
    site: Site, value: ArrayValue, sharding: Value, operand: ir.Expr | None
) -> bool:
    """``with_sharding_constraint`` where axes are explicit: it moves nothing. Where all of them are it asserts,
    beside automatic axes it may name none of them. False after a report."""
    spec, mesh = spec_of(sharding), site.frame.mesh
    if spec is None:
        return True
    own = sharding.mesh if isinstance(sharding, ShardingValue) else mesh
    if mixed(own) and not value.manual:
        return _names_no_explicit_axis(site, spec, own, operand)
    elsewhere = isinstance(sharding, ShardingValue) and sharding.mesh != mesh
    if elsewhere or not _is_asserted(value, mesh):
        return True
    if spec.entries is None or None in spec.entries or value.dims is None:
        return True
    have = [dim.axes for dim in value.dims]
    want = [*spec.entries, *[()] * (len(have) - len(spec.entries))]
    if None in have or have == want:
        return True
    at = site.place(spec, operand)
    shape = format_shape(
        [dim.size for dim in value.dims], [axes or () for axes in have]
    )
    text = (
        f"the value is {shape!r}, but {shown(spec)} is given: on Explicit axes {site.name} only asserts; "
        "use jax.sharding.reshard"
    )
    site.report("ST313", at, text, site.origin(spec, at))
    return False


def _names_no_explicit_axis(
    site: Site, spec: SpecValue, mesh: MeshValue | None, operand: ir.Expr | None
) -> bool:
    """False after a report."""
    explicit = explicit_axes(mesh) or {}
    wrong = next((axis for axis in axes_named(spec) if axis in explicit), None)
    if wrong is None:
        return True
    at = site.place(spec, operand)
    text = f"{site.name}: {shown(spec)} names {wrong!r}, an Explicit axis: use jax.sharding.reshard"
    site.report("ST313", at, text, site.origin(spec, at))
    return False


def _is_asserted(value: ArrayValue, mesh: MeshValue | None) -> bool:
    """Whether a constraint on the value asserts how it lies: all axes of its mesh are explicit."""
    if mesh is None or set(mesh.types or ()) != {"Explicit"}:
        return False
    return value.mesh == mesh and placed(value)


def check_types(site: Site, sharding: Value, operand: ir.Expr | None) -> bool:
    """``reshard`` and ``out_sharding``: only explicit axes may be named. False after a report."""
    spec = spec_of(sharding)
    mesh = sharding.mesh if isinstance(sharding, ShardingValue) else site.frame.mesh
    if spec is None or mesh is None or mesh.axes is None or mesh.types is None:
        return True
    kinds = {axis: kind for (axis, _), kind in zip(mesh.axes, mesh.types, strict=True)}
    wrong = next((axis for axis in axes_named(spec) if kinds.get(axis) == "Auto"), None)
    if wrong is None:
        return True
    at = site.place(spec, operand)
    how = (
        "with_sharding_constraint"
        if site.qualname.endswith("reshard")
        else "with_sharding_constraint on the result"
    )
    text = f"{site.name}: {shown(spec)} names {wrong!r}, an Auto axis: use {how}"
    site.report("ST313", at, text, site.origin(spec, at))
    return False
