"""Local sizes as numbers of Python: they know over which mesh axes the dimension is sharded that they are of, and so
does what is computed from them. Numbers of devices are known as such too.

A whole number that the program makes by a division, by rounding or by ``int`` is a *capacity*: what depends on it is
meant to depend on the number of devices. A product of sizes, or a fraction, is a count, and so is what is divided here
to get the sizes of a result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


class LocalInt(int):
    """An int that depends on the number of devices along ``axes``. One is ``ample`` where a division of a local size
    was left out, see ``with_ample_capacities``."""

    axes: frozenset[str]
    capacity: bool
    ample: bool

    def __new__(
        cls,
        value: int,
        axes: frozenset[str],
        capacity: bool = False,
        ample: bool = False,
    ) -> LocalInt:
        made = super().__new__(cls, value)
        made.axes = axes
        made.capacity = capacity
        made.ample = ample
        return made


class LocalFloat(float):
    """A float that depends on the number of devices along ``axes``, and may be ``ample`` as a ``LocalInt``."""

    axes: frozenset[str]
    ample: bool

    def __new__(
        cls, value: float, axes: frozenset[str], ample: bool = False
    ) -> LocalFloat:
        made = super().__new__(cls, value)
        made.axes = axes
        made.ample = ample
        return made


@dataclass
class Ample:
    """Which capacities are to be ample: of local sizes along ``axes``, but for divisions at these places, whose results
    are ``counts`` of something, such as a number of heads. ``met`` are the places of divisions that were left out."""

    axes: frozenset[str]
    counts: frozenset[Hashable] = frozenset()
    met: list[Hashable] = field(default_factory=list)


_ample: ContextVar[Ample | None] = ContextVar(
    "shardtypes_ample_capacities", default=None
)


@contextmanager
def with_ample_capacities(ample: Ample | None) -> Iterator[None]:
    """In the block, the program does not divide a local size by other numbers: a capacity that it computes of it is as
    large as what it is a share of, so that there is room for everything on any number of devices.
    """
    token = _ample.set(ample)
    try:
        yield
    finally:
        _ample.reset(token)


class DeviceCount(int):
    """A number of devices that the program asked for, along the axes ``of`` a mesh, or what it computed from one, which
    is of none."""

    of: frozenset[str]

    def __new__(cls, value: int, of: frozenset[str] = frozenset()) -> DeviceCount:
        made = super().__new__(cls, value)
        made.of = of
        return made


#: What numbers of all devices are of.
ALL_DEVICES = frozenset({"*"})


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


def local(value: Any, axes: frozenset[str], capacity: bool, ample: bool = False) -> Any:
    """A number that depends on the number of devices along some axes; anything else as it is."""
    if not axes or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return LocalInt(int.__int__(value), axes, capacity and not ample, ample)
    if isinstance(value, float):
        return LocalFloat(value, axes, ample)
    return value


def _is_ample(*values: Any) -> bool:
    return any(
        isinstance(value, (LocalInt, LocalFloat)) and value.ample for value in values
    )


def sharded(size: Any, axes: frozenset[str]) -> Any:
    """The size of a dimension that is sharded over these axes, too."""
    if isinstance(size, int):
        return LocalInt(int(size), axes_of(size) | axes)
    return size


def gathered(size: Any, axes: frozenset[str]) -> Any:
    """The size of a dimension that is sharded over these axes no more."""
    if not isinstance(size, int):
        return size
    left = axes_of(size) - axes
    if left:
        return LocalInt(int(size), left)
    return int(size)


def plain(size: Any) -> Any:
    """The size of a dimension, however it was computed."""
    if isinstance(size, DeviceCount):
        return int(size)
    if isinstance(size, LocalInt) and size.capacity:
        return LocalInt(int(size), size.axes)
    return size


def whole(value: Any) -> Any:
    """``int(value)``, which of a local number is a capacity."""
    number = int(value)
    if isinstance(value, (LocalInt, DeviceCount)):
        return value
    if not isinstance(value, LocalFloat):
        return number
    return local(number, value.axes, True, value.ample)


def counted(value: Any) -> Any:
    """A whole number as a number of devices; anything else as it is."""
    if type(value) is int:
        return DeviceCount(value)
    return value


def computed(value: Any, *given: Any) -> Any:
    """The number that a function outside of the program computed of others, as ``math.sqrt`` and ``numpy.float32`` do.

    It depends on what they depend on. A whole number may have been rounded.
    """
    axes = axes_of(*given)
    if not axes or isinstance(value, (bool, LocalInt, LocalFloat)):
        return value
    number = value.item() if hasattr(value, "item") else value
    return local(number, axes, True, _is_ample(*given))


def _is_ratio(name: str, value: Any, other: Any = None) -> bool:
    """Whether two sizes that depend on the same devices are divided, one being so many times the other: that depends
    on no devices."""
    if name not in ("floordiv", "truediv", "mod") or not isinstance(other, LocalInt):
        return False
    is_exact = (
        isinstance(value, LocalInt) and int(other) and not int(value) % int(other)
    )
    return bool(is_exact) and value.axes == other.axes


def axes_of_product(*factors: Any) -> frozenset[str]:
    """The axes on which a product depends: a local size times the number of devices along an axis is that of the
    whole. A capacity was rounded."""
    axes = axes_of(*factors)
    if capacity_axes(*factors) or _is_ample(*factors):
        return axes
    for factor in factors:
        if not isinstance(factor, DeviceCount):
            continue
        if factor.of == ALL_DEVICES:
            return frozenset()
        axes -= factor.of
    return axes


def _counted_along(*factors: Any) -> frozenset[str]:
    """The axes along which a product is the number of devices: that of numbers along different axes, and of ones."""
    along = frozenset[str]()
    for factor in factors:
        if isinstance(factor, DeviceCount):
            if not factor.of or along & factor.of:
                return frozenset()
            along |= factor.of
        elif type(factor) is not int or factor != 1:
            return frozenset()
    return along


def _forwarding(name: str, base: type, rounds: bool = False) -> Callable[..., Any]:
    plain = getattr(base, f"__{name}__")

    def operate(self: Any, *others: Any) -> Any:
        axes = axes_of(self, *others)
        result = plain(self, *others)
        if result is NotImplemented and any(type(one) is float for one in others):
            # of a whole number with a fraction, which Python leaves to the fraction
            result = getattr(float, f"__{name}__")(float(self), *others)
        if _is_ratio(name, self, *others):
            return result
        if name in ("mul", "rmul"):
            along = _counted_along(self, *others)
            if along:
                return DeviceCount(result, along)
            axes_left = axes_of_product(self, *others)
            if axes and not axes_left:
                return result
            axes = axes_left
        capacity = rounds or bool(capacity_axes(self, *others))
        ample = _is_ample(self, *others)
        if isinstance(result, tuple):
            results = result
        else:
            results = (result,)
        made = tuple(
            local(one, axes, capacity, ample) if axes else counted(one)
            for one in results
        )
        if isinstance(result, tuple):
            return made
        return made[0]

    return operate


_OPERATORS = """add radd sub rsub mul rmul pow rpow neg pos abs truediv rtruediv floordiv rfloordiv mod rmod""".split()
# called by the program itself
_ROUNDING = "ceil floor trunc round".split()
_DIVIDING = "divmod rdivmod".split()
for _cls, _base in ((LocalInt, int), (LocalFloat, float), (DeviceCount, int)):
    for _name in _OPERATORS:
        setattr(_cls, f"__{_name}__", _forwarding(_name, _base))
    for _name in _DIVIDING:
        setattr(_cls, f"__{_name}__", _forwarding(_name, _base, True))
for _name in _ROUNDING:
    setattr(LocalFloat, f"__{_name}__", _forwarding(_name, float, True))


_REFLECTED = {
    "+": "__radd__",
    "-": "__rsub__",
    "*": "__rmul__",
    "/": "__rtruediv__",
    "//": "__rfloordiv__",
    "%": "__rmod__",
    "**": "__rpow__",
}


def operated(
    symbol: str,
    operator: Callable[[Any, Any], Any],
    left: Any,
    right: Any,
    place: Hashable,
) -> Any:
    """``left symbol right``, as a program computes it at some place. Python forgets what the right operand knows of
    devices where the left one is a number of another kind."""
    if not isinstance(left, _KNOWING) and not isinstance(right, _KNOWING):
        return operator(left, right)
    ample = _ample.get()
    if ample is not None and symbol in ("/", "//") and _is_share(ample, left, right):
        is_count = place in ample.counts
        if not is_count:
            ample.met.append(place)
        divisor = right if is_count else 1
        whole: float
        if symbol == "//":
            whole = int(left) // divisor
        else:
            whole = float(left) / divisor
        return local(whole, axes_of(left), False, True)
    if isinstance(left, (int, float)) and not isinstance(left, _KNOWING):
        name = _REFLECTED.get(symbol)
        if name is None:
            value = operator(left, right)
        else:
            value = getattr(right, name)(left)
    else:
        value = operator(left, right)
    if symbol in ("//", "%"):
        return _as_capacity(value)
    return value


def _as_capacity(value: Any) -> Any:
    """The result of a division of the program's own."""
    if not isinstance(value, LocalInt) or value.ample:
        return value
    return LocalInt(int(value), value.axes, True)


def _is_share(ample: Ample, value: Any, divisor: Any) -> bool:
    """Whether a share is computed of a local size that is to be ample. What two local sizes are to each other is no
    share."""
    return not axes_of(divisor) and not ample.axes.isdisjoint(axes_of(value))


_KNOWING = (LocalInt, LocalFloat, DeviceCount)
