"""Values that a program has placed itself, against the annotations of what they become.

How the compiler lays out any other value in the global view is its own affair, and no ground for a finding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardlint import ir
from shardlint.engine.sharding import checks, meshes
from shardlint.engine.sharding.rules_in_force import may_name_axes
from shardlint.engine.sharding.site import Site
from shardlint.engine.sharding.specs import shown, spec_of
from shardlint.engine.types import ArrayType
from shardlint.ops.sharding.explicit import explicit_axes, placed
from shardlint.values import ArrayValue, SpecValue, Value
from shardtypes.lang import format_shape

if TYPE_CHECKING:
    from shardlint.engine.interpreter import Interpreter


@dataclass(frozen=True, slots=True)
class Placement:
    """A value as a call left it; every operation on it makes another value."""

    value: ArrayValue
    spec: SpecValue
    axes: dict[str, int | None] | None


def note(site: Site, result: Value, shardings: Value) -> Value:
    """Remember how each array of a placed tree lies."""
    for array, one, _ in checks.pairs(result, shardings, ""):
        spec = spec_of(one)
        if spec is not None and spec.entries is not None and not array.manual:
            site.it.placements[id(array)] = Placement(array, spec, checks.mesh_axes(site, one))
    return result


def conflict(it: Interpreter, type_: ArrayType, value: ArrayValue, what: str) -> str | None:
    """A message where an annotation that says how its array is split says otherwise."""
    placement = it.placements.get(id(value))
    shape = type_.shape
    if shape is None or shape.dialect != "shardtypes" or shape.rank is None or not any(dim.axes for dim in shape.dims):
        return None
    if placement is not None:
        entries, axes, why = placement.spec.entries or (), placement.axes, f"placed by {shown(placement.spec)}"
    elif placed(value) and value.dims is not None and len(value.dims) == shape.rank:
        entries, axes = tuple(dim.axes for dim in value.dims), meshes.sizes(value.mesh)
        why = f"split as {format_shape([dim.size for dim in value.dims], [entry or () for entry in entries])!r}"
    else:
        return None
    typed = explicit_axes(value.mesh)  # the compiler may split over others besides
    for index, dim in enumerate(shape.dims):
        entry = entries[index] if index < len(entries) else ()
        if entry is None or (not dim.axes and may_name_axes(it)):
            continue
        said, found = (one if typed is None else tuple(a for a in one if a in typed) for one in (dim.axes, entry))
        if not checks.same_axes(said, found, axes):
            return f"{what}: declared {type_.text.strip()!r}, but {why}"
    return None


def replaced(node: ir.Function | ir.Lambda) -> bool:
    """Whether a decorator places the results of a function anew."""
    decorators = node.decorators if isinstance(node, ir.Function) else ()
    return any(
        isinstance(decorator, ir.Call) and any(arg.keyword == "out_shardings" for arg in decorator.args)
        for decorator in decorators
    )
