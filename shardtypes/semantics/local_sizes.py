"""Local sizes as numbers of Python: they know over which mesh axes the dimension is sharded that they are of, and so
does what is computed from them. Numbers of devices are known as such too.

A whole number that was made by a division, by rounding or by ``int`` is a *capacity*: what depends on it is meant to
depend on the number of devices. A product of sizes, or a fraction, is a count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LocalInt(int):
    """An int that depends on the number of devices along ``axes``."""

    axes: frozenset[str]
    capacity: bool

    def __new__(
        cls, value: int, axes: frozenset[str], capacity: bool = False
    ) -> LocalInt:
        made = super().__new__(cls, value)
        made.axes = axes
        made.capacity = capacity
        return made


class LocalFloat(float):
    """A float that depends on the number of devices along ``axes``."""

    axes: frozenset[str]

    def __new__(cls, value: float, axes: frozenset[str]) -> LocalFloat:
        made = super().__new__(cls, value)
        made.axes = axes
        return made


class DeviceCount(int):
    """A number of devices that the program asked for, or what it computed from one."""


def is_counted(*values: Any) -> bool:
    """Whether some of these numbers, or of the entries of tuples and lists, are numbers of devices."""
    return any(
        is_counted(*value)
        if isinstance(value, (tuple, list))
        else isinstance(value, DeviceCount)
        for value in values
    )


def axes_of(*values: Any) -> frozenset[str]:
    """The axes on which numbers depend."""
    return frozenset[str]().union(
        *(value.axes for value in values if isinstance(value, (LocalInt, LocalFloat)))
    )


def capacity_axes(*values: Any) -> frozenset[str]:
    """The axes on which capacities among some numbers depend."""
    return axes_of(
        *(value for value in values if isinstance(value, LocalInt) and value.capacity)
    )


def local(value: Any, axes: frozenset[str], capacity: bool) -> Any:
    """A number that depends on the number of devices along some axes; anything else as it is."""
    if not axes or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return LocalInt(int.__int__(value), axes, capacity)
    return LocalFloat(value, axes) if isinstance(value, float) else value


def sharded(size: Any, axes: frozenset[str]) -> Any:
    """The size of a dimension that is sharded over these axes, too."""
    return LocalInt(int(size), axes_of(size) | axes) if isinstance(size, int) else size


def gathered(size: Any, axes: frozenset[str]) -> Any:
    """The size of a dimension that is sharded over these axes no more."""
    if not isinstance(size, int):
        return size
    left = axes_of(size) - axes
    return LocalInt(int(size), left) if left else int(size)


def plain(size: Any) -> Any:
    """The size of a dimension, however it was computed."""
    if isinstance(size, DeviceCount):
        return int(size)
    return (
        LocalInt(int(size), size.axes)
        if isinstance(size, LocalInt) and size.capacity
        else size
    )


def whole(value: Any) -> Any:
    """``int(value)``, which of a local number is a capacity."""
    number = int(value)
    if isinstance(value, LocalInt):
        return value
    return local(number, value.axes, True) if isinstance(value, LocalFloat) else number


def counted(value: Any) -> Any:
    """A whole number as a number of devices; anything else as it is."""
    return DeviceCount(value) if type(value) is int else value


def computed(value: Any, *given: Any) -> Any:
    """The number that a function outside of the program computed of others, as ``math.sqrt`` and ``numpy.float32`` do.

    It depends on what they depend on. A whole number may have been rounded.
    """
    axes = axes_of(*given)
    if not axes or isinstance(value, (bool, LocalInt, LocalFloat)):
        return value
    return local(value.item() if hasattr(value, "item") else value, axes, True)


def _forwarding(name: str, base: type, divides: bool) -> Callable[..., Any]:
    plain = getattr(base, name)

    def operate(self: Any, *others: Any) -> Any:
        result = plain(self, *others)
        axes = axes_of(self, *others)
        capacity = divides or bool(capacity_axes(self, *others))
        results = result if isinstance(result, tuple) else (result,)
        made = tuple(
            local(one, axes, capacity) if axes else counted(one) for one in results
        )
        return made if isinstance(result, tuple) else made[0]

    return operate


_KEEPING = "add radd sub rsub mul rmul pow rpow neg pos abs truediv rtruediv".split()
_DIVIDING = "floordiv rfloordiv mod rmod divmod rdivmod".split()
for _cls, _base in ((LocalInt, int), (LocalFloat, float), (DeviceCount, int)):
    for _name in (*_KEEPING, *_DIVIDING):
        setattr(
            _cls, f"__{_name}__", _forwarding(f"__{_name}__", _base, _name in _DIVIDING)
        )
for _name in ("ceil", "floor", "trunc", "round"):
    setattr(LocalFloat, f"__{_name}__", _forwarding(f"__{_name}__", float, True))
