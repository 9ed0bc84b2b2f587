"""Values of the manual view against annotations: these state global shapes, and how each dimension is split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from shardlint.engine.types import ArrayType
from shardlint.ops.sharding.elementwise import shape_text
from shardlint.ops.sharding.state import notes_about, state
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Dimension
from shardtypes.lang import Dim


@dataclass(frozen=True, slots=True)
class Conflict:
    """A value that is split otherwise than its annotation says."""

    code: str
    text: str
    witness: Mapping[str, int] = field(default_factory=dict)
    related: tuple[tuple[str, int, str], ...] = ()


def aligned(type_: ArrayType, rank: int) -> list[Dim] | None:
    """The annotation's dimension of each dimension of a value; None where ranks do not fit or nothing is said."""
    shape = type_.shape
    if shape is None or shape.dialect != "shardtypes":
        return None
    if shape.variadic is None:
        return list(shape.dims) if len(shape.dims) == rank else None
    extra = rank - len(shape.dims) + 1
    if extra < 0:
        return None
    at = shape.variadic
    return [*shape.dims[:at], *[shape.dims[at]] * extra, *shape.dims[at + 1 :]]


def as_declared(view: View, type_: ArrayType, value: ArrayValue) -> ArrayValue:
    """The value with the sizes to compare with the annotation: local ones, times the devices along the axes that it is
    known to be split over, else along those that the annotation names."""
    dims = aligned(type_, len(value.dims or ()))
    if dims is None or value.dims is None or not view.declares:
        return value
    if not view.divides((said.size, said.axes) for said in dims):
        return replace(value, dims=None)
    sizes = [view.global_size(dim.size, dim.axes or said.axes) for dim, said in zip(value.dims, dims, strict=True)]
    new = tuple(Dimension(size, dim.axes) for size, dim in zip(sizes, value.dims, strict=True))
    return replace(value, dims=new)


def with_own_sizes(view: View, value: ArrayValue) -> ArrayValue:
    """The value with the global sizes that its own axes give it."""
    dims = tuple(Dimension(view.global_size(dim.size, dim.axes or ()), dim.axes) for dim in value.dims or ())
    return value if value.dims is None else replace(value, dims=dims)


def conflict(view: View, type_: ArrayType, value: ArrayValue, what: str) -> Conflict | None:
    """A dimension that is certainly split over other axes than declared."""
    dims = aligned(type_, len(value.dims or ()))
    if dims is None or value.dims is None or value.constant or not view.declares:
        return None
    if not view.divides((said.size, said.axes) for said in dims):
        return None
    for dim, said in zip(value.dims, dims, strict=True):
        if not dim.axes or dim.axes == view.splitting(said.axes):
            continue
        text = f"{what}: declared {type_.text.strip()!r}, but it is split as {shape_text(view, value)}"
        return Conflict("ST308", text, {}, notes_about(value, dim.axes))
    return None


def whole_for_split(view: View, type_: ArrayType, value: ArrayValue, dim: int | None, what: str) -> Conflict | None:
    """Why a size is too large by a number of devices: the value is whole where a split one is declared."""
    dims = aligned(type_, len(value.dims or ()))
    if dims is None or value.dims is None or dim is None or dim >= len(dims) or value.constant:
        return None
    axes = view.splitting(dims[dim].axes)
    if not axes or value.dims[dim].axes != () or any(state(value, axis) != "replicated" for axis in axes):
        return None
    over = "/".join(axes)
    said, got = type_.text.strip(), shape_text(view, value)
    text = f"{what}: declared {said!r}, split over {over}, but every device has all of {got}"
    return Conflict("ST311", text, {}, notes_about(value, axes))
