"""Values of the manual view against annotations: these state global shapes, and how each dimension is split."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from shardlint.engine.types import ArrayType
from shardlint.ops.arrays import ONE
from shardlint.ops.sharding.elementwise import global_shape
from shardlint.ops.sharding.state import notes_about, state
from shardlint.ops.sharding.view import View
from shardlint.values import ArrayValue, Dimension
from shardtypes.lang import Dim
from shardtypes.lang.messages import array_text, expected_got, wrong_axes


@dataclass(frozen=True, slots=True)
class Conflict:
    """A value that is sharded differently from its annotation."""

    code: str
    text: str
    witness: Mapping[str, int] = field(default_factory=dict)
    related: tuple[tuple[str, int, str], ...] = ()


def aligned(type_: ArrayType, rank: int) -> list[Dim] | None:
    """The annotation's dimension of each dimension of a value; None where ranks do not fit or it has no axes."""
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


def read_as_declared(view: View, type_: ArrayType, value: ArrayValue) -> ArrayValue:
    """The value with its axes where the annotation has them, as far as that is the same array on every device.

    A dimension that has one row on each device may be whole, or sharded into as many rows as there are devices:
    ``x.reshape(1, 2)`` of a dimension over ``t`` is ``'1 n/t'`` as well as ``'m/t 2'``.
    """
    dims = aligned(type_, len(value.dims or ()))
    if dims is None or value.dims is None:
        return value
    new = list(value.dims)
    start = 0
    for end, dim in enumerate(value.dims):
        if dim.size == ONE:
            continue
        run = value.dims[start : end + 1]
        wanted = [view.splitting(declared.axes) for declared in dims[start : end + 1]]
        if _axes_of([one.axes for one in run]) == _axes_of(wanted):
            new[start : end + 1] = [
                replace(one, axes=axes) for one, axes in zip(run, wanted, strict=True)
            ]
        start = end + 1
    return replace(value, dims=tuple(new))


def _axes_of(dims: Sequence[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """The axes of dimensions beside each other, major to minor; None where those of one are not known."""
    if None in dims:
        return None
    return tuple(axis for axes in dims for axis in axes or ())


def as_declared(view: View, type_: ArrayType, value: ArrayValue) -> ArrayValue:
    """The value with the sizes to compare with the annotation: local ones, times the devices along the axes that it is
    known to be split over, else along those that the annotation names."""
    dims = aligned(type_, len(value.dims or ()))
    if dims is None or value.dims is None or not view.declares:
        return value
    if not view.divides((declared.size, declared.axes) for declared in dims):
        return replace(value, dims=None)
    sizes = []
    for dim, declared in zip(value.dims, dims, strict=True):
        is_whole = declared.kind == "broadcast" and dim.size == ONE and not dim.axes
        axes = () if is_whole else dim.axes or declared.axes
        sizes.append(view.global_size(dim.size, axes))
    new = tuple(
        Dimension(size, dim.axes) for size, dim in zip(sizes, value.dims, strict=True)
    )
    return replace(value, dims=new)


def with_own_sizes(view: View, value: ArrayValue) -> ArrayValue:
    """The value with the global sizes that its own axes give it."""
    dims = tuple(
        Dimension(view.global_size(dim.size, dim.axes or ()), dim.axes)
        for dim in value.dims or ()
    )
    return value if value.dims is None else replace(value, dims=dims)


def conflict(
    view: View, type_: ArrayType, value: ArrayValue, what: str
) -> Conflict | None:
    """A dimension that is certainly sharded over other axes than declared."""
    dims = aligned(type_, len(value.dims or ()))
    if dims is None or value.dims is None or value.constant or not view.declares:
        return None
    if not view.divides((declared.size, declared.axes) for declared in dims):
        return None
    for index, (dim, declared) in enumerate(zip(value.dims, dims, strict=True)):
        if not dim.axes or dim.axes == view.splitting(declared.axes):
            continue
        detail = wrong_axes(index, declared.axes, dim.axes)
        return Conflict(
            "ST308",
            _differs(view, type_, value, what, detail),
            {},
            notes_about(value, dim.axes),
        )
    return None


def replicated_for_sharded(
    view: View, type_: ArrayType, value: ArrayValue, dim: int | None, what: str
) -> Conflict | None:
    """Why a size is too large by a number of devices: the value is replicated where a sharded one is declared."""
    dims = aligned(type_, len(value.dims or ()))
    if (
        dims is None
        or value.dims is None
        or dim is None
        or dim >= len(dims)
        or value.constant
    ):
        return None
    axes = view.splitting(dims[dim].axes)
    if (
        not axes
        or value.dims[dim].axes != ()
        or any(state(value, axis) != "replicated" for axis in axes)
    ):
        return None
    text = _differs(view, type_, value, what, wrong_axes(dim, axes, ()))
    return Conflict("ST311", text, {}, notes_about(value, axes))


def _differs(
    view: View, type_: ArrayType, value: ArrayValue, what: str, detail: str
) -> str:
    return expected_got(
        what, type_.written, array_text(value.dtype, global_shape(view, value)), detail
    )
