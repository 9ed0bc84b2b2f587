"""Devices, meshes, partition specs and shardings in guarded code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.outside import provide
from shardlint.evaluation.python import Nothing


@dataclass(frozen=True)
class Machine:
    """What the program runs on: the number of devices.

    ``sizes`` are other sizes for the axes of its meshes, by name; then the program may not ask for the number of devices
    but to make a mesh of them, as the two would not fit.
    """

    devices: int = 8
    sizes: Mapping[str, int] | None = None
    made: list[Mesh] = field(default_factory=list, compare=False)
    """The meshes that were made, as the program wanted them."""
    asked: list[str] = field(default_factory=list, compare=False)
    """What was asked about devices."""


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


class Spec(tuple[Any, ...]):
    """A PartitionSpec."""

    __slots__ = ()

    def __new__(cls, *entries: Any, **options: Any) -> Spec:
        if options:
            raise NotEvaluable("a PartitionSpec of unreduced values")
        return super().__new__(cls, entries)

    def axes(self, rank: int) -> list[tuple[str, ...]]:
        """The mesh axes of each dimension, major to minor."""
        found = []
        for k in range(rank):
            entry = self[k] if k < len(self) else None
            names = entry if isinstance(entry, (tuple, list)) else (() if entry is None else (entry,))
            found.append(tuple(names))
        return found


@dataclass(frozen=True, eq=False)
class Mesh:
    """A mesh: the sizes of its axes, by name."""

    sizes: tuple[int, ...]
    axis_names: tuple[str, ...]
    axis_types: Any = field(default=None)

    @property
    def shape(self) -> dict[str, int]:
        return dict(zip(self.axis_names, self.sizes, strict=True))

    @property
    def size(self) -> int:
        return math.prod(self.sizes)

    @property
    def devices(self) -> Any:
        made = np.empty(self.size, dtype=object)
        made[:] = [Device(i) for i in range(self.size)]
        return made.reshape(self.sizes)

    @property
    def axis_sizes(self) -> tuple[int, ...]:
        return self.sizes

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


for _cls in (Device, Spec, Mesh, Sharding):
    setattr(_cls, MARK, True)

provide("jax.P")(Spec)
provide("jax.sharding.NamedSharding")(Sharding)
provide("jax.NamedSharding")(Sharding)


def _made(sizes: Sequence[Any], names: Any, types: Any = None) -> Mesh:
    numbers = tuple(int(size) for size in sizes)
    given = (names,) if isinstance(names, str) else tuple(names)
    if len(numbers) != len(given):
        raise ValueError("a mesh with another number of names than axes")
    on = machine()
    on.made.append(Mesh(tuple(sizes), given, types))
    if on.sizes is not None:
        numbers = tuple(on.sizes.get(name, number) for name, number in zip(given, numbers, strict=True))
    return Mesh(numbers, given, types)


@provide("jax.make_mesh")
def _make_mesh(axis_shapes: Any, axis_names: Any, *, axis_types: Any = None, devices: Any = None) -> Mesh:
    return _made(axis_shapes, axis_names, axis_types)


@provide("jax.sharding.Mesh")
def _mesh(devices: Any, axis_names: Any = (), axis_types: Any = None, **options: Any) -> Mesh:
    return _made(getattr(devices, "shape", None) or np.shape(devices), axis_names, axis_types)


@provide("jax.sharding.AbstractMesh")
def _abstract_mesh(axis_sizes: Any, axis_names: Any = None, axis_types: Any = None) -> Mesh:
    if axis_names is None:
        return _made([size for _, size in axis_sizes], [name for name, _ in axis_sizes], axis_types)
    return _made(axis_sizes, axis_names, axis_types)


@provide("jax.mesh_utils.create_device_mesh")
def _device_mesh(mesh_shape: Any, devices: Any = None, **options: Any) -> Any:
    return Mesh(tuple(mesh_shape), tuple(f"_{k}" for k in range(len(mesh_shape)))).devices


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
    machine().asked.append("devices")
    return [Device(i) for i in range(machine().devices)]


@provide("jax.device_count")
@provide("jax.local_device_count")
def _device_count(*args: Any) -> int:
    machine().asked.append("count")
    return machine().devices


provide("jax.process_index")(lambda *args: 0)
provide("jax.process_count")(lambda *args: 1)
provide("jax.default_backend")(lambda: "cpu")
for _name in ("Auto", "Explicit", "Manual"):
    provide(f"jax.sharding.AxisType.{_name}")(Nothing())
