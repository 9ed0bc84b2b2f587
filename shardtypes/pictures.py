"""Arrays as pictures, for notebooks and reports: the array cut into parts, each with the devices that hold it.

One component draws what was measured (a ``Layout``) and what was declared (an annotation on a mesh). Its size does not
grow with the mesh: of many parts the first and the last are drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Protocol

from shardtypes.lang import Shape
from shardtypes.lang.messages import axes_text, partial_sum
from shardtypes.meshes import format_mesh, mesh_sizes, parts_of

#: Of more parts along one dimension the first and the last are drawn.
_ALL_DRAWN = 8
_FIRST_DRAWN, _LAST_DRAWN = 5, 2
#: Devices are named by their numbers, too, where there are so few, and so many in one part.
_NUMBERED = 64
_NAMED = 8

_TEXT, _LINE, _MARGIN = 7, 16, 8
_GAP = 40
_LEAST_WIDTH, _LEAST_HEIGHT = 200, 64
_GOLDEN_ANGLE = 137.508


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


@dataclass(frozen=True)
class Cut:
    """A dimension: its size or name, the mesh axes that shard it (major to minor), and into how many parts.

    ``axes`` are None where it is not known which axes do it.
    """

    text: str
    axes: tuple[str, ...] | None
    parts: int


@dataclass(frozen=True)
class Drawing:
    """An array on a mesh.

    ``sizes`` are those of the mesh axes, ``devices`` the numbers of the devices that hold each part where they are
    known, ``notes`` sentences for the legend.
    """

    title: str
    cuts: Sequence[Cut]
    sizes: Mapping[str, int]
    pending: Collection[str] = ()
    devices: Mapping[tuple[int, ...], Sequence[int]] | None = None
    notes: Sequence[str] = ()

    def html(self) -> str:
        """A figure with the drawing (SVG) and its legend, without scripts or outside resources."""
        legend = escape("; ".join(self._legend()))
        return (
            f"<figure><figcaption>{self.title}</figcaption>"
            f'<div style="overflow-x:auto">{self._svg()}</div>'
            f"<figcaption><small>{legend}</small></figcaption></figure>"
        )

    @property
    def _drawn(self) -> tuple[int | None, int | None]:
        """The dimensions that go down and across: the first two that are cut."""
        cut = [dim for dim, one in enumerate(self.cuts) if one.parts > 1]
        if len(cut) >= 2:
            return cut[0], cut[1]
        if not cut:
            return None, None
        # a last dimension goes across, as arrays are printed
        return (None, cut[0]) if cut[0] == len(self.cuts) - 1 else (cut[0], None)

    def _svg(self) -> str:
        down, across = self._drawn
        rows, columns = self._shown(down), self._shown(across)
        labels = {
            (row, column): self._label({down: row, across: column})
            for row in rows
            for column in columns
            if row is not None and column is not None
        }
        longest = max(len(line) for lines in labels.values() for line in lines)
        lines = max(len(lines) for lines in labels.values())
        # a dimension that is not cut has some extent as well
        cell = (
            max(longest * _TEXT + 2 * _MARGIN, _LEAST_WIDTH // len(columns)),
            max(lines * _LINE + _MARGIN, _LEAST_HEIGHT // len(rows)),
        )
        shapes: list[str] = []
        y = 0
        for row in rows:
            x = 0
            height = _LINE if row is None else cell[1]
            for column in columns:
                width = _GAP if column is None else cell[0]
                if row is None or column is None:
                    shapes.append(_centred(x, y, width, height, ["⋯"], "currentColor"))
                else:
                    shapes.append(
                        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" '
                        f'fill="{self._colour(row, column)}" stroke="#777"/>'
                    )
                    text = labels[row, column]
                    shapes.append(_centred(x, y, width, height, text, "#111"))
                x += width
            y += height
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{x}" height="{y}" '
            f'viewBox="0 0 {x} {y}" font-family="monospace" font-size="12" text-anchor="middle">'
            f"{''.join(shapes)}</svg>"
        )

    def _shown(self, dim: int | None) -> list[int | None]:
        """The parts along a dimension that are drawn; None stands for those between."""
        count = 1 if dim is None else self.cuts[dim].parts
        if count <= _ALL_DRAWN:
            return list(range(count))
        return [*range(_FIRST_DRAWN), None, *range(count - _LAST_DRAWN, count)]

    def _colour(self, row: int, column: int) -> str:
        across = self._drawn[1]
        columns = 1 if across is None else self.cuts[across].parts
        hue = (row * columns + column) * _GOLDEN_ANGLE % 360
        return f"hsl({hue:.0f},60%,85%)"

    def _label(self, at: Mapping[int | None, int]) -> list[str]:
        """The devices of a part, a line each: by their places on the mesh, and by their numbers."""
        places = [
            f"{axis}{index}"
            for dim, part in at.items()
            if dim is not None
            for axis, index in self._place(self.cuts[dim], part)
        ]
        lines = [" ".join(places)] if places else []
        numbers = self._numbers(at)
        if numbers:
            lines.append(numbers)
        return lines or ["all devices"]

    def _place(self, cut: Cut, part: int) -> list[tuple[str, int]]:
        """Where along its axes the devices of a part are."""
        found = []
        for axis in reversed(cut.axes or ()):
            part, index = divmod(part, self.sizes.get(axis, 1))
            if self.sizes.get(axis, 1) > 1:
                found.append((axis, index))
        return found[::-1]

    def _numbers(self, at: Mapping[int | None, int]) -> str:
        if self.devices is None:
            return ""
        held = {
            device
            for part, devices in self.devices.items()
            if all(dim is None or part[dim] == index for dim, index in at.items())
            for device in devices
        }
        named = ", ".join(map(str, sorted(held)[:_NAMED]))
        return f"{named} … ({len(held)})" if len(held) > _NAMED else named

    def _legend(self) -> list[str]:
        drawn = dict(zip(("down", "across"), self._drawn, strict=True))
        words = [
            f"{way}: dimension {dim} in {self._parts(dim)}"
            for way, dim in drawn.items()
            if dim is not None
        ]
        for dim, cut in enumerate(self.cuts):
            if cut.parts > 1 and dim not in drawn.values():
                words.append(f"not drawn: dimension {dim} in {self._parts(dim)}")
        copies = self._replicated()
        if copies:
            words.append(f"replicated over {axes_text(copies)}")
        if self.pending:
            words.append(partial_sum(sorted(self.pending)))
        return [*words, *self.notes]

    def _parts(self, dim: int) -> str:
        cut = self.cuts[dim]
        over = f" over {axes_text(cut.axes)}" if cut.axes else ""
        return f"{cut.parts:,} parts{over}"

    def _replicated(self) -> tuple[str, ...]:
        """The axes along which all devices hold the same; none where the axes of a dimension are not known."""
        if any(cut.axes is None for cut in self.cuts):
            return ()
        used = {axis for cut in self.cuts for axis in cut.axes or ()}
        return tuple(
            axis
            for axis, size in self.sizes.items()
            if size > 1 and axis not in used and axis not in self.pending
        )


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
            title, _declared(layout.shape, layout.dims, sizes), sizes, layout.pending
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
    mesh = ", ".join(f"{axis}={size}" for axis, size in sizes.items())
    title = f"<code>{escape(annotation)}</code> on <code>{escape(mesh)}</code>"
    names = [dim.name or dim.size or "_" for dim in shape.dims]
    axes = [dim.axes for dim in shape.dims]
    return Drawing(title, _declared(names, axes, sizes), sizes, shape.pending).html()


def _declared(
    names: Sequence[object],
    axes: Sequence[tuple[str, ...]],
    sizes: Mapping[str, int],
) -> list[Cut]:
    """The dimensions of an annotation; an axis that the mesh does not have shards nothing."""
    known = {axis: sizes.get(axis, 1) for each in axes for axis in each}
    return [
        Cut(str(name), each, parts_of(each, known))
        for name, each in zip(names, axes, strict=True)
    ]


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


def _centred(
    x: int, y: int, width: int, height: int, lines: Sequence[str], colour: str
) -> str:
    """Lines of text in the middle of a box."""
    middle = x + width // 2
    top = y + (height - len(lines) * _LINE) // 2 + _LINE - 4
    texts = (
        f'<text x="{middle}" y="{top + number * _LINE}" fill="{colour}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    return "".join(texts)
