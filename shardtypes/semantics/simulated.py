"""Numbers on simulated devices: what each device of a small mesh holds, as NumPy arrays.

A value that does not depend on the device is held once, whatever the mesh. What ``vmap`` maps over is an axis like
those of a mesh, so that a function is evaluated for all examples, and on all devices, at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from shardtypes.lang.frozen import frozen
from shardtypes.semantics.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.generic]

Axis: TypeAlias = tuple[str, int]
"""A simulated axis: its name and the number of devices, or of examples, along it. This is an int and no number that
knows what it is of, which would cost time wherever numbers are computed."""

Axes: TypeAlias = tuple[Axis, ...]


EXAMPLES = "vmap:"
"""How the names of axes begin that are no mesh axes, but what ``vmap`` maps over."""


def is_of_examples(axis: Axis) -> bool:
    return axis[0].startswith(EXAMPLES)


@frozen
class Simulated:
    """One array on simulated devices: ``parts`` are row-major over ``axes``, which are in order of their names. They
    may be one array with a dimension of all devices in front."""

    axes: Axes
    parts: tuple[Numbers | complex, ...] | Numbers

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @staticmethod
    def everywhere(numbers: Numbers | complex) -> Simulated:
        """A value that all devices hold."""
        return Simulated((), (numbers,))

    @staticmethod
    def of(axes: Axes, numbers: Numbers) -> Simulated:
        """A value from numbers with a dimension for each axis in front."""
        if not axes:
            return Simulated((), (numbers,))
        count = math.prod(size for _, size in axes)
        local = numbers.shape[len(axes) :]
        return Simulated(axes, numbers.reshape(count, *local))

    @staticmethod
    def along(axis: Axis, parts: Sequence[Simulated]) -> Simulated:
        """A value from what the devices along one axis hold, each given on the other axes."""
        if all(part is parts[0] for part in parts):
            return parts[0]
        rest = merged([part.axes for part in parts])
        axes = merged([rest, (axis,)])
        rows = [part.spread(rest) for part in parts]
        return Simulated.of(axes, np.stack(rows, axis=axes.index(axis)))

    @property
    def entries(self) -> int:
        """How many numbers all devices hold."""
        if isinstance(self.parts, tuple):
            return sum(int(np.size(part)) for part in self.parts)
        return int(self.parts.size)

    def at(self, position: dict[str, int]) -> Numbers:
        """What the device at this position holds; axes that the value does not vary along may be given or not."""
        index = 0
        for name, size in self.axes:
            index = index * size + position[name]
        return np.asarray(self.parts[index])

    def spread(self, axes: Axes) -> Numbers:
        """The numbers with a dimension for each of these axes in front, which are those of the value and others."""
        if not axes:
            return np.asarray(self.parts[0])
        if self.axes:
            numbers = np.asarray(self.parts)
            dims = numbers.shape[1:]
        else:
            numbers = np.asarray(self.parts[0])
            dims = numbers.shape
        own = dict(self.axes)
        held = [own.get(name, 1) for name, _ in axes]
        numbers = numbers.reshape((*held, *dims))
        if self.axes == axes:
            return numbers
        sizes = [size for _, size in axes]
        return np.broadcast_to(numbers, (*sizes, *dims))

    def spread_over(self, axis: Axis, dimension: int) -> Simulated:
        """The value whose dimension is one of devices along an axis instead."""
        axes = merged([self.axes, (axis,)])
        numbers = self.spread(self.axes)
        place = len(self.axes) + dimension
        moved = np.moveaxis(numbers, place, axes.index(axis))
        return Simulated.of(axes, moved)

    def collected(self, axis: Axis, dimension: int) -> Simulated:
        """The opposite: a dimension of what the devices along an axis hold."""
        axes = merged([self.axes, (axis,)])
        rest = tuple(other for other in axes if other != axis)
        numbers = self.spread(axes)
        place = len(rest) + dimension
        moved = np.moveaxis(numbers, axes.index(axis), place)
        return Simulated.of(rest, moved)

    def devices(self, axis: Axis) -> list[Simulated]:
        """What the devices along one axis hold, each on the other axes."""
        _, size = axis
        if axis not in self.axes:
            return [self] * size
        rest = tuple(other for other in self.axes if other != axis)
        numbers = self.spread(self.axes)
        rows = np.moveaxis(numbers, self.axes.index(axis), 0)
        return [Simulated.of(rest, row) for row in rows]

    def varies_along(self, name: str) -> bool:
        return any(axis == name for axis, _ in self.axes)

    def differs_along(self, name: str, size: int) -> bool:
        """Whether devices along an axis hold different numbers."""
        if not self.varies_along(name):
            return False
        devices = self.devices((name, size))
        first = devices[0]
        others = devices[1:]
        same = (first.holds_the_same(other) for other in others)
        return not all(same)

    def holds_the_same(self, other: Simulated) -> bool:
        """Whether two values have the same numbers on the same devices."""
        if self.axes != other.axes:
            return False
        pairs = zip(self.parts, other.parts, strict=True)
        equal = (np.array_equal(one, two) for one, two in pairs)
        return all(equal)

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


def merged(groups: Sequence[Sequence[Axis]]) -> Axes:
    """The axes of several values, in order of their names."""
    if all(group == groups[0] for group in groups):
        if groups:
            return tuple(groups[0])
        return ()
    return tuple(sorted({axis for group in groups for axis in group}))


def on_devices(
    function: Callable[..., Sequence[Numbers]],
    operands: Sequence[Simulated],
    results: int,
    stacked: Callable[..., Any] | None = None,
) -> tuple[Simulated, ...]:
    """Evaluate a function on each device's operands. One with a single result may be given ``stacked``, too: it takes
    and gives arrays with a dimension of all devices in front."""
    axes = merged([operand.axes for operand in operands if operand.axes])
    if not axes:
        made = function(*(np.asarray(operand.parts[0]) for operand in operands))
        return tuple(Simulated((), (np.asarray(result),)) for result in made)
    count = math.prod(size for _, size in axes)
    if stacked is not None:
        together = [_stacked(operand, axes, count) for operand in operands]
        return (Simulated(axes, np.asarray(stacked(*together))),)
    aligned = [_aligned(operand, axes, count) for operand in operands]
    found: list[list[Numbers]] = [[] for _ in range(results)]
    for i in range(count):
        made = function(*[parts[i] for parts in aligned])
        for kept, result in zip(found, made, strict=True):
            kept.append(np.asarray(result))
    return tuple(Simulated(axes, np.stack(parts)) for parts in found)


def _stacked(value: Simulated, axes: Axes, count: int) -> Numbers:
    """What all devices along some axes hold, in order, in one array."""
    if value.axes == axes:
        return np.asarray(value.parts)
    if not value.axes:
        part = np.asarray(value.parts[0])
        return np.broadcast_to(part, (count, *part.shape))
    numbers = value.spread(axes)
    return numbers.reshape(count, *numbers.shape[len(axes) :])


def _aligned(value: Simulated, axes: Axes, count: int) -> Sequence[Numbers]:
    """What each device along some axes holds, in order."""
    if not value.axes:
        return [np.asarray(value.parts[0])] * count
    return list(_stacked(value, axes, count))
