"""Pictures of arrays, for notebooks and reports: of what was measured (a ``Layout``), and of what an annotation
declares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Protocol

from shardtypes.lang import Shape
from shardtypes.lang.drawing import Cut, Drawing, cuts_of, declared
from shardtypes.meshes import format_mesh, mesh_sizes

#: Devices are named by their numbers, too, where there are so few.
_NUMBERED = 64


class Drawable(Protocol):
    """What a picture needs of a layout; see ``layouts.Layout``."""

    @property
    def shape(self) -> tuple[int | str, ...]: ...
    @property
    def sizes(self) -> tuple[int, ...]: ...
    @property
    def shard_shape(self) -> tuple[int, ...]: ...
    @property
    def dims(self) -> tuple[tuple[str, ...], ...] | None: ...
    @property
    def mesh(self) -> Any: ...
    @property
    def pending(self) -> frozenset[str]: ...
    def indices(self) -> dict[Any, tuple[slice, ...]]: ...


def picture(layout: Drawable) -> str:
    """Where the parts of an array are, as it was measured."""
    title = f"<code>{escape(str(layout))}</code>"
    if layout.mesh is not None:
        title += f" on mesh <code>{escape(format_mesh(layout.mesh))}</code>"
    sizes = mesh_sizes(layout.mesh)
    if any(isinstance(size, str) for size in layout.shape):
        if layout.dims is None or layout.mesh is None:
            return f"<figure><figcaption>{title}</figcaption></figure>"
        return Drawing(
            title, cuts_of(layout.shape, layout.dims, sizes), sizes, layout.pending
        ).html()
    held = layout.shard_shape
    axes: Sequence[tuple[str, ...] | None] = layout.dims or [None] * len(held)
    cuts = [
        Cut(str(size), names, -(-size // part) if part else 1)
        for size, part, names in zip(layout.sizes, held, axes, strict=True)
    ]
    each = f"each device holds {' × '.join(map(str, held)) or 'a scalar'}"
    devices = _holders(layout)
    return Drawing(title, cuts, sizes, layout.pending, devices, [each]).html()


def declared_picture(annotation: str, shape: Shape, sizes: Mapping[str, int]) -> str:
    """Where the parts of an array are on a mesh of these sizes, as an annotation declares it."""
    return declared(annotation, shape, sizes).html()


def _holders(layout: Drawable) -> dict[tuple[int, ...], list[int]] | None:
    """Which devices hold each part, by its number along each dimension; None where they are not known, or too many."""
    count: int = getattr(layout.mesh, "size", 0)
    if count > _NUMBERED:
        return None
    found: dict[tuple[int, ...], list[int]] = {}
    for device, index in layout.indices().items():
        starts = [
            part.indices(size)[0]
            for part, size in zip(index, layout.sizes, strict=True)
        ]
        number = tuple(
            start // held if held else 0
            for start, held in zip(starts, layout.shard_shape, strict=True)
        )
        found.setdefault(number, []).append(device.id)
    return found or None
