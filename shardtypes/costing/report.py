"""What ``cost`` answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shardtypes.lang.columns import in_columns
from shardtypes.lang.messages import axes_text
from shardtypes.proving.places import Place
from shardtypes.proving.relation import Axes
from shardtypes.proving.words import mesh_text


@dataclass(frozen=True)
class Held:
    """One argument or result: ``bytes`` are those that each device holds of it. ``whole`` if every one of several
    devices holds all of it. ``placed`` is False where the program does not say how it is sharded: then it is taken to
    be whole, and the compiler may choose otherwise."""

    name: str
    array: str
    bytes: int
    whole: bool
    placed: bool = True

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return dict(vars(self))


@dataclass(frozen=True)
class Moved:
    """A collective on a line: ``bytes`` are those that each device sends in all ``count`` times that it runs. ``by`` is
    what asks for it, a collective by hand or an operation whose types do. ``at_least`` where it is in a ``while`` loop,
    of which one round is counted."""

    collective: str
    axes: Axes
    bytes: int
    count: int
    place: Place
    by: str
    at_least: bool = False

    @property
    def source(self) -> str:
        """``file:line``; empty where JAX does not say."""
        return f"{self.place.file}:{self.place.line}" if self.place.file else ""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "collective": self.collective,
            "axes": list(self.axes),
            "bytes": self.bytes,
            "count": self.count,
            "source": self.source,
            "by": self.by,
            "at_least": self.at_least,
        }


@dataclass(frozen=True)
class Cost:
    """What a function costs on a mesh, for arguments of these shapes; all bytes are those of one device.

    ``uncounted`` are the operations of which it cannot be told what they send, each with the reason.
    """

    function: str
    sizes: Mapping[str, int]
    arguments: tuple[Held, ...]
    results: tuple[Held, ...]
    moved: tuple[Moved, ...]
    uncounted: tuple[tuple[Place, str], ...] = field(default=())

    @property
    def bytes_moved(self) -> int:
        """What one device sends in all."""
        return sum(one.bytes for one in self.moved)

    @property
    def bytes_held(self) -> int:
        """What one device holds of the arguments and results."""
        return sum(one.bytes for one in (*self.arguments, *self.results))

    @property
    def by_line(self) -> dict[str, int]:
        """The bytes that the collectives of a line send, by ``file:line``; most first."""
        return _summed((one.source, one.bytes) for one in self.moved)

    @property
    def by_axes(self) -> dict[Axes, int]:
        """The bytes that are sent along the same mesh axes; most first."""
        return _summed((one.axes, one.bytes) for one in self.moved)

    def whole(self, above: int = 0) -> list[Held]:
        """The arguments and results of more than ``above`` bytes of which every one of several devices holds all."""
        found = []
        for one in (*self.arguments, *self.results):
            if one.whole and one.bytes > above:
                found.append(one)
        found.sort(key=lambda one: -one.bytes)
        return found

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "function": self.function,
            "mesh": dict(self.sizes),
            "bytes_held": self.bytes_held,
            "bytes_moved": self.bytes_moved,
            "arguments": [one.to_dict() for one in self.arguments],
            "results": [one.to_dict() for one in self.results],
            "moved": [one.to_dict() for one in self.moved],
            "uncounted": [[str(place), why] for place, why in self.uncounted],
        }

    def __str__(self) -> str:
        where = mesh_text(self.sizes) or "one device"
        both = f"holds {self.bytes_held:,} bytes and sends {self.bytes_moved:,}"
        lines = [f"{self.function} on {where}: each device {both}"]
        for title, rows in (("arguments", self.arguments), ("results", self.results)):
            total = sum(row.bytes for row in rows)
            lines.append(f"  {title}: {total:,} bytes")
            columns = [(row.name, row.array, _held(row)) for row in rows]
            lines += in_columns(columns)
        lines.append(f"  sent: {self.bytes_moved:,} bytes")
        columns = [(str(row.place), _what(row), _sent(row)) for row in self.moved]
        lines += in_columns(columns)
        if len(self.by_axes) > 1:
            lines += [
                f"  along {axes_text(axes)}: {total:,} bytes"
                for axes, total in self.by_axes.items()
            ]
        if self.uncounted:
            lines.append("  not counted")
            lines += [f"    {place}: {why}" for place, why in self.uncounted]
        return "\n".join(lines)


def _summed(pairs: Iterable[tuple[Any, int]]) -> dict[Any, int]:
    totals: Counter[Any] = Counter()
    for key, count in pairs:
        totals[key] += count
    return dict(totals.most_common())


def _held(row: Held) -> str:
    text = f"{row.bytes:,} bytes"
    if not row.placed:
        return f"{text}, if the compiler does not shard it"
    if row.whole:
        return f"{text}, whole on every device"
    return text


def _what(row: Moved) -> str:
    over = f"{row.collective} over {axes_text(row.axes)}"
    return over if row.by == row.collective else f"{over}, for {row.by}"


def _sent(row: Moved) -> str:
    text = f"{row.bytes:,} bytes"
    if row.count > 1:
        text = f"{text} ({row.count} times)"
    return f"{text} a round" if row.at_least else text
