"""Layouts as pictures, in HTML for notebooks and reports: the array cut into parts, each with the devices it is on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Protocol

from shardtypes.lang.messages import axes_text, partial_sum
from shardtypes.meshes import format_mesh

PARTS_DRAWN = 256
DEVICES_NAMED = 8

_CELL = "border:1px solid #777;padding:4px 8px;text-align:center;font:12px monospace;color:#111;background:"


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
    def replicated(self) -> tuple[str, ...]: ...
    @property
    def pending(self) -> frozenset[str]: ...
    def indices(self) -> dict[Any, tuple[slice, ...]]: ...


def picture(layout: Drawable) -> str:
    """A table of the array's parts. Parts of one colour are one part; each names the devices that hold it."""
    title = f"<code>{escape(str(layout))}</code>"
    if layout.mesh is not None:
        title += f" on mesh <code>{escape(format_mesh(layout.mesh))}</code>"
    if any(isinstance(size, str) for size in layout.shape):
        return f"<figure><figcaption>{title}</figcaption></figure>"
    counts = [
        -(-n // m) if m else 1
        for n, m in zip(layout.sizes, layout.shard_shape, strict=True)
    ]
    if math.prod(counts) > PARTS_DRAWN:
        return f"<figure><figcaption>{title}: {math.prod(counts):,} parts</figcaption></figure>"
    rows, columns = _drawn(counts)
    holders = _holders(layout)
    body = []
    for row in range(counts[rows] if rows is not None else 1):
        cells = []
        for column in range(counts[columns] if columns is not None else 1):
            at = {d: i for d, i in ((rows, row), (columns, column)) if d is not None}
            hue = (
                round(360 * (row * 7 + column) / max(math.prod(counts), 1) * 0.618)
                % 360
            )
            cells.append(
                f'<td style="{_CELL}hsl({hue},60%,85%)">{_label(at, counts, holders)}</td>'
            )
        body.append(f"<tr>{''.join(cells)}</tr>")
    return (
        f'<figure><figcaption>{title}</figcaption><table style="border-collapse:collapse">{"".join(body)}</table>'
        f"<figcaption>{_legend(layout, rows, columns)}</figcaption></figure>"
    )


def _drawn(counts: Sequence[int]) -> tuple[int | None, int | None]:
    """The dimensions drawn downwards and across: the first two that are cut, else the last two."""
    cut = [dim for dim, count in enumerate(counts) if count > 1]
    if len(cut) >= 2:
        return cut[0], cut[1]
    if len(cut) == 1:
        return (cut[0], None) if cut[0] < len(counts) - 1 else (None, cut[0])
    return None, None


def _holders(layout: Drawable) -> dict[tuple[int, ...], list[int]]:
    """Which devices hold each part, by its number along each dimension."""
    found: dict[tuple[int, ...], list[int]] = {}
    for device, index in layout.indices().items():
        starts = [
            part.indices(size)[0]
            for part, size in zip(index, layout.sizes, strict=True)
        ]
        number = tuple(
            start // m if m else 0
            for start, m in zip(starts, layout.shard_shape, strict=True)
        )
        found.setdefault(number, []).append(device.id)
    return found


def _label(
    at: Mapping[int, int],
    counts: Sequence[int],
    holders: Mapping[tuple[int, ...], list[int]],
) -> str:
    if not holders:
        return "·".join(f"{i + 1}/{counts[dim]}" for dim, i in at.items()) or "all"
    ids = sorted(
        {
            device
            for part, devices in holders.items()
            if all(part[d] == i for d, i in at.items())
            for device in devices
        }
    )
    shown = ", ".join(map(str, ids[:DEVICES_NAMED]))
    return shown + (f" … ({len(ids)})" if len(ids) > DEVICES_NAMED else "")


def _legend(layout: Drawable, rows: int | None, columns: int | None) -> str:
    words = []
    for way, dim in (("down", rows), ("across", columns)):
        if dim is not None:
            words.append(f"{way}: dimension {dim}" + _over(layout, dim))
    others = [
        d
        for d in range(len(layout.shape))
        if d not in (rows, columns) and _over(layout, d)
    ]
    words += [f"not drawn: dimension {d}{_over(layout, d)}" for d in others]
    if layout.dims is not None and layout.replicated:
        words.append(f"replicated over {axes_text(layout.replicated)}")
    if layout.pending:
        words.append(partial_sum(sorted(layout.pending)))
    words.append(
        f"each device holds {' × '.join(map(str, layout.shard_shape)) or 'a scalar'}"
    )
    return escape("; ".join(words))


def _over(layout: Drawable, dim: int) -> str:
    axes: Any = layout.dims[dim] if layout.dims is not None else ()
    return f" over {axes_text(axes)}" if axes else ""
