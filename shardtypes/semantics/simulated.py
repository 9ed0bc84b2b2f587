"""Numbers on simulated devices: what each device of a small mesh holds, as NumPy arrays.

A value that does not depend on the device is held once, whatever the mesh. What ``vmap`` maps over is an axis like
those of a mesh, so that a function is evaluated for all examples, and on all devices, at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from shardtypes.semantics.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.generic]

Axis: TypeAlias = tuple[str, int]
"""A simulated axis: its name and the number of devices, or of examples, along it. This is an int and no number that
knows what it is of, which would cost time wherever numbers are computed."""


EXAMPLES = "vmap:"
"""How the names of axes begin that are no mesh axes, but what ``vmap`` maps over."""


def is_of_examples(axis: Axis) -> bool:
    return axis[0].startswith(EXAMPLES)


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """One array on simulated devices: ``parts`` are row-major over ``axes``, which are in order of their names. They
    may be one array with a dimension of all devices in front."""

    axes: tuple[Axis, ...]
    parts: tuple[Numbers | complex, ...] | Numbers

    @staticmethod
    def everywhere(numbers: Numbers | complex) -> Simulated:
        """A value that all devices hold."""
        return Simulated((), (numbers,))

    @staticmethod
    def along(axis: Axis, parts: Sequence[Simulated]) -> Simulated:
        """A value from what the devices along one axis hold, each given on the other axes."""
        name, _ = axis
        if all(part is parts[0] for part in parts):
            return parts[0]
        axes = merged([*(part.axes for part in parts), (axis,)])
        place = [other for other, _ in axes].index(name)
        held = (
            parts[at[place]].at(dict(zip((n for n, _ in axes), at, strict=True)))
            for at in _positions(axes)
        )
        return Simulated(axes, tuple(held))

    def at(self, position: dict[str, int]) -> Numbers:
        """What the device at this position holds; axes that the value does not vary along may be given or not."""
        index = 0
        for name, size in self.axes:
            index = index * size + position[name]
        return np.asarray(self.parts[index])

    def devices(self, axis: Axis) -> list[Simulated]:
        """What the devices along one axis hold, each on the other axes."""
        name, size = axis
        rest = tuple(other for other in self.axes if other[0] != name)
        if len(rest) == len(self.axes):
            return [self] * size
        names = [other for other, _ in rest]
        found = []
        for i in range(size):
            positions = (dict(zip(names, at, strict=True)) for at in _positions(rest))
            found.append(
                Simulated(
                    rest,
                    tuple(self.at({**position, name: i}) for position in positions),
                )
            )
        return found

    def varies_along(self, name: str) -> bool:
        return any(axis == name for axis, _ in self.axes)

    def flattened(self, axes: Sequence[Axis]) -> list[Simulated]:
        """What the devices along several axes hold, the first axis being the major one."""
        found = [self]
        for axis in axes:
            found = [device for value in found for device in value.devices(axis)]
        return found

    @staticmethod
    def assembled(parts: Sequence[Simulated], axes: Sequence[Axis]) -> Simulated:
        """The opposite of ``flattened``."""
        found = list(parts)
        for axis in reversed(axes):
            _, size = axis
            groups = [found[i : i + size] for i in range(0, len(found), size)]
            found = [Simulated.along(axis, group) for group in groups]
        return found[0]


def merged(groups: Sequence[Sequence[Axis]]) -> tuple[Axis, ...]:
    """The axes of several values, in order of their names."""
    return tuple(sorted({axis for group in groups for axis in group}))


def _positions(axes: Sequence[Axis]) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(size) for _, size in axes))


def on_devices(
    function: Callable[..., Sequence[Numbers]],
    operands: Sequence[Simulated],
    results: int,
    stacked: Callable[..., Any] | None = None,
) -> tuple[Simulated, ...]:
    """Evaluate a function on each device's operands. One with a single result may be given ``stacked``, too: it takes
    and gives arrays with a dimension of all devices in front."""
    axes = merged([operand.axes for operand in operands if operand.axes])
    count = math.prod(size for _, size in axes)
    if stacked is not None and count > 1:
        together = [_stacked(operand, axes, count) for operand in operands]
        return (Simulated(axes, np.asarray(stacked(*together))),)
    aligned = [_aligned(operand, axes, count) for operand in operands]
    found: list[list[Numbers]] = [[] for _ in range(results)]
    for i in range(count):
        made = function(*[parts[i] for parts in aligned])
        for kept, result in zip(found, made, strict=True):
            kept.append(np.asarray(result))
    return tuple(Simulated(axes, tuple(parts)) for parts in found)


def _stacked(value: Simulated, axes: tuple[Axis, ...], count: int) -> Numbers:
    """What all devices along some axes hold, in order, in one array."""
    if not value.axes:
        (part,) = value.parts
        return np.broadcast_to(part, (count, *np.shape(part)))
    parts = np.asarray(value.parts)
    if value.axes == axes:
        return parts
    dims = parts.shape[1:]
    own = dict(value.axes)
    sizes = [own.get(name, 1) for name, _ in axes]
    spread = np.broadcast_to(
        parts.reshape(*sizes, *dims), (*(size for _, size in axes), *dims)
    )
    return spread.reshape(count, *dims)


def _aligned(value: Simulated, axes: tuple[Axis, ...], count: int) -> Sequence[Numbers]:
    """What each device along some axes holds, in order."""
    parts = [np.asarray(part) for part in value.parts]
    if value.axes == axes:
        return parts
    if not value.axes:
        return parts * count
    names = [name for name, _ in axes]
    return [value.at(dict(zip(names, at, strict=True))) for at in _positions(axes)]
