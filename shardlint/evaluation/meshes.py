"""Devices, meshes, partition specs and shardings in guarded code."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardlint.evaluation import numpy_functions  # noqa: F401 - they are given devices here
from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.outside import KNOWN, provide
from shardlint.evaluation.python import Nothing
from shardlint.evaluation.recording import Where
from shardtypes.semantics.local_sizes import ALL_DEVICES, DeviceCount

UNNAMED = "the devices of pmap"
"""The axis of a ``pmap`` that does not name it."""


@dataclass(frozen=True)
class Machine:
    """What the program runs on: the number of devices that it finds if it asks. A mesh may be of more."""

    devices: int = 8
    made: list[Mesh] = field(default_factory=list, compare=False)
    """The meshes that were made; their sizes know where they are written, if they are."""
    pmapped: set[str] = field(default_factory=set, compare=False)
    """The axes of ``pmap``: all of them are the devices of the machine."""
    sent: list[tuple[str, int, tuple[tuple[int, int], ...]]] = field(
        default_factory=list, compare=False
    )
    """What ``ppermute`` was asked for, in order: the axis, its size, and the pairs."""
    examples: Iterator[int] = field(
        default_factory=lambda: itertools.count(1), compare=False, repr=False
    )
    """Numbers for what ``vmap`` maps over: two runs of a program have the same."""


_machine: ContextVar[Machine] = ContextVar("shardlint_machine", default=Machine())  # noqa: B039 - frozen


@contextmanager
def on_machine(machine: Machine) -> Iterator[None]:
    token = _machine.set(machine)
    try:
        yield
    finally:
        _machine.reset(token)


def machine() -> Machine:
    return _machine.get()


@dataclass(frozen=True)
class Device:
    """One device."""

    id: int
    platform: str = "cpu"
    process_index: int = 0
    device_kind: str = "cpu"


def _given(numbers: tuple[Any, ...]) -> tuple[Any, ...]:
    """The numbers of a method that takes them one by one or in one tuple."""
    if len(numbers) == 1 and isinstance(numbers[0], (tuple, list)):
        return tuple(numbers[0])
    return numbers


class DeviceGrid:
    """An array of devices, such as ``np.array(jax.devices()).reshape(2, 4)``. Only its shape matters."""

    def __init__(self, shape: Sequence[Any]) -> None:
        self.shape = tuple(shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def flat(self) -> Iterator[Device]:
        return (Device(i) for i in range(self.size))

    def reshape(self, *sizes: Any, order: str = "C") -> DeviceGrid:
        """A size of -1 follows from the number of devices; others are taken as they are, whatever that is."""
        given = _given(sizes)
        rest = math.prod(size for size in given if size != -1)
        if -1 in given and self.size % rest:
            raise ValueError("devices that do not fit the mesh")
        return DeviceGrid([self.size // rest if size == -1 else size for size in given])

    def flatten(self) -> DeviceGrid:
        return DeviceGrid((self.size,))

    ravel = flatten

    def transpose(self, *order: Any) -> DeviceGrid:
        given = _given(order) or reversed(range(self.ndim))
        return DeviceGrid([self.shape[k] for k in given])

    @property
    def T(self) -> DeviceGrid:
        return self.transpose()

    def tolist(self) -> list[Any]:
        return list(self)

    def __len__(self) -> int:
        return int(self.shape[0])

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        entries = index if isinstance(index, tuple) else (index,)
        places = np.arange(self.size).reshape(self.shape)[entries]
        return DeviceGrid(places.shape) if np.ndim(places) else Device(int(places))


class Spec(tuple[Any, ...]):
    """A PartitionSpec, which knows where it is made."""

    where: Where | None = None

    def __new__(cls, *entries: Any, **options: Any) -> Spec:
        if options:
            raise NotEvaluable("a PartitionSpec of unreduced values")
        return super().__new__(cls, entries)

    def axes(self, rank: int) -> list[tuple[str, ...]]:
        """The mesh axes of each dimension, major to minor."""
        found = []
        for k in range(rank):
            entry = self[k] if k < len(self) else None
            names = (
                entry
                if isinstance(entry, (tuple, list))
                else (() if entry is None else (entry,))
            )
            found.append(tuple(names))
        return found

    @property
    def mentioned(self) -> frozenset[str]:
        """All mesh axes that it names."""
        return frozenset(name for names in self.axes(len(self)) for name in names)


@dataclass(frozen=True, eq=False)
class Mesh:
    """A mesh: the sizes of its axes, by name."""

    sizes: tuple[int, ...]
    axis_names: tuple[str, ...]
    axis_types: Any = field(default=None)

    @property
    def shape(self) -> dict[str, int]:
        return dict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def size(self) -> int:
        size = math.prod(int(size) for size in self.sizes)
        return DeviceCount(size, frozenset(self.axis_names))

    @property
    def devices(self) -> DeviceGrid:
        return DeviceGrid(self.sizes)

    @property
    def local_devices(self) -> list[Device]:
        return list(self.devices.flat)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return tuple(
            DeviceCount(size, frozenset({name}))
            for size, name in zip(self.sizes, self.axis_names, strict=True)
        )

    @property
    def empty(self) -> bool:
        return False

    @property
    def abstract_mesh(self) -> Mesh:
        return self

    def __enter__(self) -> Mesh:
        _entered.append(_current.set(self))
        return self

    def __exit__(self, *args: object) -> None:
        _current.reset(_entered.pop())


_current: ContextVar[Mesh | None] = ContextVar("shardlint_mesh", default=None)
_entered: list[Any] = []


def current() -> Mesh | None:
    return _current.get()


@dataclass(frozen=True)
class Sharding:
    """A NamedSharding."""

    mesh: Any
    spec: Any


class SingleDevice:
    """A SingleDeviceSharding."""

    is_fully_replicated = True

    def __init__(self, device: Device, **options: Any) -> None:
        self.device = device
        self.device_set = {device}


for _cls in (Device, DeviceGrid, Spec, Mesh, Sharding, SingleDevice):
    setattr(_cls, MARK, True)

provide("jax.P")(Spec)
provide("jax.sharding.NamedSharding")(Sharding)
provide("jax.NamedSharding")(Sharding)
provide("jax.sharding.SingleDeviceSharding")(SingleDevice)


def made(sizes: Sequence[Any], names: Any, types: Any = None) -> Mesh:
    """A mesh on the machine. Sizes may know where they are written."""
    numbers = tuple(int(size) for size in sizes)
    given = (names,) if isinstance(names, str) else tuple(names)
    if len(numbers) != len(given):
        raise ValueError("a mesh with another number of names than axes")
    machine().made.append(Mesh(tuple(sizes), given, types))
    return Mesh(numbers, given, types)


def _grid(devices: Any) -> DeviceGrid | None:
    """An array of devices that is one, or a list of devices as one."""
    if isinstance(devices, DeviceGrid):
        return devices
    if isinstance(devices, (list, tuple)) and devices:
        if isinstance(devices[0], Device):
            return DeviceGrid((len(devices),))
        first = _grid(devices[0])
        return None if first is None else DeviceGrid((len(devices), *first.shape))
    return None


def _of_devices(name: str) -> None:
    """Have a function of NumPy make arrays of devices as well."""
    plain: Callable[..., Any] = KNOWN[name]

    def of_devices(given: Any, *args: Any, **kwargs: Any) -> Any:
        grid = _grid(given)
        if grid is None:
            return plain(given, *args, **kwargs)
        return grid.reshape(*args) if name == "numpy.reshape" else grid

    KNOWN[name] = of_devices


for _name in ("array", "asarray", "reshape"):
    _of_devices(f"numpy.{_name}")


@provide("jax.make_mesh")
def _make_mesh(
    axis_shapes: Any, axis_names: Any, *, axis_types: Any = None, devices: Any = None
) -> Mesh:
    return made(axis_shapes, axis_names, axis_types)


@provide("jax.sharding.Mesh")
def _mesh(
    devices: Any, axis_names: Any = (), axis_types: Any = None, **options: Any
) -> Mesh:
    grid = _grid(devices)
    if grid is None:
        raise NotEvaluable("a mesh of what is no device")
    return made(grid.shape, axis_names, axis_types)


@provide("jax.sharding.AbstractMesh")
def _abstract_mesh(
    axis_sizes: Any, axis_names: Any = None, axis_types: Any = None
) -> Mesh:
    if axis_names is None:
        return made(
            [size for _, size in axis_sizes],
            [name for name, _ in axis_sizes],
            axis_types,
        )
    return made(axis_sizes, axis_names, axis_types)


@provide("jax.mesh_utils.create_device_mesh")
def _device_mesh(mesh_shape: Any, devices: Any = None, **options: Any) -> Any:
    return DeviceGrid(mesh_shape)


@provide("jax.mesh_utils.create_hybrid_device_mesh")
def _hybrid_device_mesh(
    mesh_shape: Any, dcn_mesh_shape: Any, devices: Any = None, **options: Any
) -> Any:
    """Devices within slices and slices, multiplied along each axis."""
    pairs = zip(mesh_shape, dcn_mesh_shape, strict=True)
    return DeviceGrid(tuple(within * across for within, across in pairs))


@provide("jax.set_mesh")
@provide("jax.sharding.set_mesh")
@provide("jax.sharding.use_mesh")
def _set_mesh(mesh: Mesh) -> Mesh:
    return mesh


@provide("jax.sharding.get_abstract_mesh")
@provide("jax.sharding.get_mesh")
def _get_mesh() -> Mesh:
    mesh = current()
    if mesh is None:
        raise NotEvaluable("the mesh in force")
    return mesh


@provide("jax.devices")
@provide("jax.local_devices")
def _devices(*args: Any, **options: Any) -> list[Device]:
    return [Device(i) for i in range(machine().devices)]


@provide("jax.device_count")
@provide("jax.local_device_count")
def device_count(*args: Any) -> int:
    """As ``jax.device_count``."""
    return DeviceCount(machine().devices, ALL_DEVICES)


for _name in ("process_index", "host_id"):
    provide(f"jax.{_name}")(lambda *args: 0)
for _name in ("process_count", "host_count"):
    provide(f"jax.{_name}")(lambda *args: 1)
for _name in ("process_indices", "host_ids"):
    provide(f"jax.{_name}")(lambda *args: [0])
provide("jax.default_backend")(lambda: "cpu")
for _name in ("Auto", "Explicit", "Manual"):
    provide(f"jax.sharding.AxisType.{_name}")(Nothing())
