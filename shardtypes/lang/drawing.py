"""Arrays as drawings (SVG): the array cut into parts, each with the devices that hold it.

The size of a drawing does not grow with the mesh: of many parts the first and the last are drawn.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from shardtypes.lang.messages import axes_text, partial_sum
from shardtypes.lang.syntax import Shape

#: Of more parts along one dimension the first and the last are drawn.
_ALL_DRAWN = 8
_FIRST_DRAWN, _LAST_DRAWN = 5, 2
#: Devices are named by their numbers, too, where there are so many in one part at most.
_NAMED = 8

_TEXT, _LINE, _MARGIN = 7, 16, 8
_GAP = 40
_LEAST_WIDTH, _LEAST_HEIGHT = 200, 64
_GOLDEN_ANGLE = 137.508


@dataclass(frozen=True)
class Cut:
    """A dimension: its size or name, the mesh axes that shard it (major to minor), and into how many parts.

    ``axes`` are None where it is not known which axes do it.
    """

    text: str
    axes: tuple[str, ...] | None
    parts: int


@dataclass(frozen=True)
class _Box:
    """A place in a drawing, in pixels."""

    x: int
    y: int
    width: int
    height: int

    def rectangle(self, colour: str) -> str:
        """A box with a border."""
        return _tag(
            "rect",
            x=self.x,
            y=self.y,
            width=self.width,
            height=self.height,
            fill=colour,
            stroke="#777",
        )

    def text(self, lines: Sequence[str], colour: str) -> str:
        """Lines of text in the middle."""
        middle = self.x + self.width // 2
        blank = self.height - len(lines) * _LINE
        y = self.y + blank // 2 - 4
        texts = ""
        for line in lines:
            y += _LINE
            texts += _tag(
                "text",
                escape(line),
                x=middle,
                y=y,
                fill=colour,
            )
        return texts


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
        words = self._legend()
        legend = "; ".join(words)
        drawing = self.svg()
        lines = [
            "<figure>",
            f"<figcaption>{self.title}</figcaption>",
            f'<div style="overflow-x:auto">{drawing}</div>',
            f"<figcaption><small>{escape(legend)}</small></figcaption>",
            "</figure>",
        ]
        return "".join(lines)

    @property
    def _drawn(self) -> tuple[int | None, int | None]:
        """The dimensions that go down and across: the first two that are cut."""
        cut = []
        for dim, one in enumerate(self.cuts):
            if one.parts > 1:
                cut.append(dim)
        if not cut:
            return None, None
        if len(cut) >= 2:
            return cut[0], cut[1]
        if cut[0] == len(self.cuts) - 1:
            # a last dimension goes across, as arrays are printed
            return None, cut[0]
        return cut[0], None

    def svg(self) -> str:
        """The parts as boxes, each with the devices that hold it."""
        down, across = self._drawn
        rows = self._shown(down)
        columns = self._shown(across)
        labels: dict[tuple[int | None, int | None], list[str]] = {}
        for row in rows:
            for column in columns:
                if row is not None and column is not None:
                    labels[row, column] = self._label(row, column)
        width, height = _box(labels.values(), len(rows), len(columns))
        shapes: list[str] = []
        y = 0
        for row in rows:
            x = 0
            down_by = _LINE if row is None else height
            for column in columns:
                across_by = _GAP if column is None else width
                place = _Box(x, y, across_by, down_by)
                if row is None or column is None:
                    dots = place.text(["⋯"], "currentColor")
                    shapes.append(dots)
                else:
                    colour = self._colour(row, column)
                    box = place.rectangle(colour)
                    text = place.text(labels[row, column], "#111")
                    shapes += (box, text)
                x += across_by
            y += down_by
        return _tag(
            "svg",
            "".join(shapes),
            xmlns="http://www.w3.org/2000/svg",
            role="img",
            width=x,
            height=y,
            viewBox=f"0 0 {x} {y}",
            font_family="monospace",
            font_size=12,
            text_anchor="middle",
        )

    def _shown(self, dim: int | None) -> list[int | None]:
        """The parts along a dimension that are drawn; None stands for those between."""
        count = 1 if dim is None else self.cuts[dim].parts
        if count <= _ALL_DRAWN:
            return list(range(count))
        first = range(_FIRST_DRAWN)
        last = range(count - _LAST_DRAWN, count)
        return [*first, None, *last]

    def _colour(self, row: int, column: int) -> str:
        across = self._drawn[1]
        columns = 1 if across is None else self.cuts[across].parts
        number = row * columns + column
        turned = number * _GOLDEN_ANGLE
        hue = turned % 360
        return f"hsl({hue:.0f},60%,85%)"

    def _label(self, row: int, column: int) -> list[str]:
        """The devices of a part, a line each: by their places on the mesh, and by their numbers."""
        down, across = self._drawn
        at = {}
        if down is not None:
            at[down] = row
        if across is not None:
            at[across] = column
        places = []
        for dim, part in at.items():
            cut = self.cuts[dim]
            places += self._place(cut, part)
        lines = [" ".join(places)] if places else []
        numbers = self._numbers(at)
        if numbers:
            lines.append(numbers)
        return lines or ["all devices"]

    def _place(self, cut: Cut, part: int) -> list[str]:
        """Where along its axes the devices of a part are: ``d0 t1``."""
        found = []
        for axis in reversed(cut.axes or ()):
            size = self.sizes.get(axis, 1)
            part, index = divmod(part, size)
            if size > 1:
                found.append(f"{axis}{index}")
        return found[::-1]

    def _numbers(self, at: Mapping[int, int]) -> str:
        if self.devices is None:
            return ""
        held: set[int] = set()
        for part, devices in self.devices.items():
            if all(part[dim] == index for dim, index in at.items()):
                held.update(devices)
        numbers = sorted(held)
        first = map(str, numbers[:_NAMED])
        named = ", ".join(first)
        if len(held) > _NAMED:
            return f"{named} … ({len(held)})"
        return named

    def _legend(self) -> list[str]:
        down, across = self._drawn
        words = []
        if down is not None:
            words.append(f"down: {self._parts(down)}")
        if across is not None:
            words.append(f"across: {self._parts(across)}")
        for dim, cut in enumerate(self.cuts):
            if cut.parts > 1 and dim not in (down, across):
                words.append(f"not drawn: {self._parts(dim)}")
        copies = self._replicated()
        if copies:
            words.append(f"replicated over {axes_text(copies)}")
        if self.pending:
            pending = sorted(self.pending)
            words.append(partial_sum(pending))
        return [*words, *self.notes]

    def _parts(self, dim: int) -> str:
        cut = self.cuts[dim]
        over = f" over {axes_text(cut.axes)}" if cut.axes else ""
        return f"dimension {dim} in {cut.parts:,} parts{over}"

    def _replicated(self) -> tuple[str, ...]:
        """The axes along which all devices hold the same; none where the axes of a dimension are not known."""
        used = set(self.pending)
        for cut in self.cuts:
            if cut.axes is None:
                return ()
            used.update(cut.axes)
        found = []
        for axis, size in self.sizes.items():
            if size > 1 and axis not in used:
                found.append(axis)
        return tuple(found)


def declared(annotation: str, shape: Shape, sizes: Mapping[str, int]) -> Drawing:
    """Where the parts of an array are on a mesh of these sizes, as an annotation declares it."""
    each = []
    for axis, size in sizes.items():
        each.append(f"{axis}={size}")
    mesh = ", ".join(each)
    title = f"<code>{escape(annotation)}</code> on <code>{escape(mesh)}</code>"
    names = [dim.name or dim.size or "_" for dim in shape.dims]
    axes = [dim.axes for dim in shape.dims]
    cuts = cuts_of(names, axes, sizes)
    return Drawing(title, cuts, sizes, shape.pending)


def cuts_of(
    names: Sequence[object],
    axes: Sequence[tuple[str, ...]],
    sizes: Mapping[str, int],
) -> list[Cut]:
    """The dimensions of an annotation; an axis that the mesh does not have shards nothing."""
    cuts = []
    for name, each in zip(names, axes, strict=True):
        parts = 1
        for axis in each:
            parts *= sizes.get(axis, 1)
        cut = Cut(str(name), each, parts)
        cuts.append(cut)
    return cuts


def _box(labels: Iterable[Sequence[str]], rows: int, columns: int) -> tuple[int, int]:
    """The width and height of each part; a dimension that is not cut has some extent as well."""
    longest = 0
    most = 0
    for lines in labels:
        most = max(most, len(lines))
        for line in lines:
            longest = max(longest, len(line))
    width = longest * _TEXT + 2 * _MARGIN
    height = most * _LINE + _MARGIN
    least_width = _LEAST_WIDTH // columns
    least_height = _LEAST_HEIGHT // rows
    return max(width, least_width), max(height, least_height)


def _tag(name: str, inside: str = "", **attributes: object) -> str:
    """An element of SVG; ``_`` in the names of attributes stands for ``-``."""
    head = name
    for key, value in attributes.items():
        attribute = key.replace("_", "-")
        head += f' {attribute}="{value}"'
    if not inside:
        return f"<{head}/>"
    return f"<{head}>{inside}</{name}>"
