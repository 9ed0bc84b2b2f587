"""Pictures of layouts: the devices of a mesh as a grid, each with the part of the array that it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from itertools import product

from pytest_shardtypes.axes import MeshAxes
from shardtypes.lang import Shape, parse
from shardtypes.lang.messages import partial_sum

DRAWN_AT_MOST = 64


def draw(annotation: str, mesh: str) -> str:
    """The picture of ``f32['B/d M']`` on the mesh ``d=2, t=4``, as HTML; devices of one colour hold the same part."""
    axes, shape = MeshAxes.parse(mesh), _shape(annotation)
    title = f"<figcaption><code>{escape(annotation)}</code> on <code>{escape(mesh)}</code></figcaption>"
    if axes.size > DRAWN_AT_MOST:
        return f"<figure>{title}<p>{axes.size} devices: too many to draw.</p></figure>"
    cells = "".join(_cell(shape, axes, at) for at in product(*map(range, axes.shape)))
    return f"<figure>{title}<div class=grid style='--columns:{axes.shape[-1]}'>{cells}</div></figure>"


def is_split(annotation: str, mesh: str) -> bool:
    """Whether there is something to draw: devices that hold different parts."""
    if not mesh:
        return False
    sizes = dict(MeshAxes.parse(mesh).axes)
    return any(sizes.get(axis, 1) > 1 for axis in _shape(annotation).axes)


def _shape(annotation: str) -> Shape:
    return parse(annotation.partition("[")[2].rstrip("]").strip("'\""))


def _cell(shape: Shape, axes: MeshAxes, at: tuple[int, ...]) -> str:
    where = dict(zip(axes.names, at, strict=True))
    sizes = dict(axes.axes)
    number, count, held = 0, 1, []
    for dim in shape.dims:
        if not dim.axes:
            continue
        index, parts = (
            _index(dim.axes, where, sizes),
            math.prod(sizes.get(axis, 1) for axis in dim.axes),
        )
        held.append(f"{dim.name or dim.size or '_'}: {index + 1} of {parts}")
        number, count = number * parts + index, count * parts
    pending = f"<i>{escape(partial_sum(shape.pending))}</i>" if shape.pending else ""
    label = " ".join(f"{name}{index}" for name, index in where.items())
    text = "<br>".join(map(escape, held)) or "the whole array"
    hue = round(360 * number / count)
    return f"<div class=device style='--hue:{hue}'><b>{escape(label)}</b>{text}{pending}</div>"


def _index(
    axes: tuple[str, ...], where: Mapping[str, int], sizes: Mapping[str, int]
) -> int:
    """Which part, with the axes from major to minor."""
    index = 0
    for axis in axes:
        index = index * sizes.get(axis, 1) + where.get(axis, 0)
    return index
