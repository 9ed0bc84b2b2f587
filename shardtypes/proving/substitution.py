"""The meshes that a program sees while it is traced: each axis in a size of our choice, without devices.

A program may take its mesh from the context, from a variable that it closes over, or from its own devices, and may read
the size of an axis in Python. So while a block runs, every mesh with one of the named axes reports the size in force,
``shard_map`` takes an abstract mesh of these sizes, and ``vmap`` with an axis name is a ``shard_map`` over that axis.
"""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax._src import api as _api  # none of these has a public place to be asked
from jax._src import config as _config
from jax._src import mesh as _mesh
from jax._src import pmap as _pmap
from jax._src import shard_map as _shard_map
from jax.sharding import AbstractMesh, AxisType, Mesh, PartitionSpec

from shardtypes.kept_meshes import forgetting_meshes
from shardtypes.meshes import axes_of_type
from shardtypes.proving.relation import Sizes

# Part of the key of JAX's caches of traces, so that what is traced on our meshes is never taken for the user's program.
# Each trace has a number of its own: of what an earlier one has kept, this one would not see which axes it maps over.
_traced_for = jax.make_user_context(default_value=None)
_traces = itertools.count()


@dataclass
class Seen:
    """What a trace met: the axes of its meshes with the sizes that they have of themselves; those
    that ``pmap`` or ``vmap`` made are ``mapped``."""

    sizes: dict[str, int] = field(default_factory=dict)
    mapped: set[str] = field(default_factory=set)


@contextmanager
def sizes_in_force(
    sizes: Sizes, context: Any = None, over_rows: bool = True
) -> Iterator[Seen]:
    """In the block, mesh axes have these sizes; those that are not named keep their own.

    ``context`` is the mesh that functions without a mesh of their own take; None leaves that to the caller's. Without
    ``over_rows``, ``vmap`` with an axis name is what it is: all rows are on one device.
    """
    seen = Seen()
    with ExitStack() as stack:
        key = next(_traces), *sorted(sizes.items())
        stack.enter_context(_traced_for(key))
        stack.enter_context(forgetting_meshes())
        device = _device_of(
            context if context is not None else jax.sharding.get_abstract_mesh()
        )
        for owner, name, new in _changes(sizes, seen, device):
            stack.enter_context(_replaced(owner, name, new))
        if over_rows:
            mapping = _Batching(vars(_api)["batching"], seen)
            stack.enter_context(_replaced(_api, "batching", mapping))
        if context is not None:
            stack.enter_context(_in_force(_substitute(context, sizes, device)))
        yield seen


def in_sizes(value: Any, sizes: Sizes) -> Any:
    """An argument as it is on a mesh of these sizes. Only on explicit axes is the mesh on which it lies part of its
    type; otherwise it is left out, as the sizes in force are not those of that mesh."""
    is_tracer = isinstance(value, jax.core.Tracer)
    if is_tracer or not isinstance(value, jax.Array):
        return value
    aval = jax.typeof(value)
    mesh = getattr(aval.sharding, "mesh", None)
    if mesh is None:
        return value
    sharding = None
    if axes_of_type(mesh, "Explicit"):
        like = _substitute(mesh, sizes, _device_of(mesh))
        sharding = jax.sharding.NamedSharding(like, aval.sharding.spec)
    return jax.ShapeDtypeStruct(
        aval.shape,
        aval.dtype,
        sharding=sharding,
        weak_type=getattr(aval, "weak_type", False),
    )


def _changes(sizes: Sizes, seen: Seen, device: Any) -> list[tuple[Any, str, Any]]:
    plain_mesh = vars(Mesh)
    plain_abstract = vars(AbstractMesh)
    changes: list[tuple[Any, str, Any]] = [
        (_shard_map.shard_map_p, "bind", _bind_on(sizes, seen, device)),
        (_pmap, "_get_mesh_devices", _enough_devices(_pmap._get_mesh_devices)),
    ]
    if sizes:
        for owner, names, plain in (
            (
                Mesh,
                ("shape", "shape_tuple", "axis_sizes", "size", "abstract_mesh"),
                plain_mesh,
            ),
            (AbstractMesh, ("shape", "shape_tuple", "abstract_mesh"), plain_abstract),
        ):
            changes += [
                (owner, name, _reported(name, plain.get(name), sizes, device))
                for name in names
            ]
    return changes


@contextmanager
def _in_force(mesh: AbstractMesh) -> Iterator[None]:
    """``use_abstract_mesh``, but for its refusal of another size than that of the mesh in force."""
    # Where it is depends on the version of JAX.
    home = _mesh if hasattr(_mesh, "abstract_mesh_context_manager") else _config
    before = home.abstract_mesh_context_manager.swap_local(mesh)
    try:
        yield
    finally:
        home.abstract_mesh_context_manager.set_local(before)


@contextmanager
def _replaced(owner: Any, name: str, new: Any) -> Iterator[None]:
    missing = object()
    old = vars(owner).get(name, missing)
    setattr(owner, name, new)
    try:
        yield
    finally:
        if old is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, old)


def _own_sizes(mesh: Any) -> dict[str, int]:
    """The sizes that a mesh has of itself, whatever it reports."""
    if isinstance(mesh, Mesh):
        numbers = mesh.devices.shape
    else:
        numbers = mesh.axis_sizes
    return dict(zip(mesh.axis_names, numbers, strict=True))


def _device_of(mesh: Any) -> Any:
    """What JAX says of the devices of a mesh: meshes that differ in it are different ones to it."""
    if isinstance(mesh, Mesh):
        abstract = mesh.abstract_mesh
    else:
        abstract = mesh
    return getattr(abstract, "abstract_device", None)


def _substitute(mesh: Any, sizes: Sizes, device: Any) -> AbstractMesh:
    own = _own_sizes(mesh)
    pairs = own.items()
    numbers = tuple(sizes.get(name, size) for name, size in pairs)
    if device is None:
        about = {}
    else:
        about = {"abstract_device": device}
    return AbstractMesh(numbers, tuple(own), axis_types=mesh.axis_types, **about)


def _reported(name: str, plain: Any, sizes: Sizes, device: Any) -> property:
    """An attribute of meshes, as it is with other sizes."""

    def get(mesh: Any) -> Any:
        own = _own_sizes(mesh)
        if not set(own) & set(sizes):
            return _plainly(mesh, name, plain)
        other = {axis: sizes.get(axis, size) for axis, size in own.items()}
        if name == "shape":
            return OrderedDict(other)
        if name == "shape_tuple":
            return tuple(other.items())
        if name == "axis_sizes":
            return tuple(other.values())
        if name == "size":
            return functools.reduce(lambda a, b: a * b, other.values(), 1)
        return _substitute(mesh, sizes, device)

    def put(mesh: Any, value: Any) -> None:
        mesh.__dict__[name] = value

    return property(get, put)


def _plainly(mesh: Any, name: str, plain: Any) -> Any:
    if name in vars(mesh):
        return vars(mesh)[name]
    return plain.__get__(mesh, type(mesh))


def _bind_on(sizes: Sizes, seen: Seen, device: Any) -> Callable[..., Any]:
    kind = type(_shard_map.shard_map_p)

    def bind(*args: Any, mesh: Any, **params: Any) -> Any:
        own = _own_sizes(mesh)
        seen.sizes.update(own)
        about = params.get("debug_info")
        if about is not None and "pmap.py" in str(about.func_src_info):
            seen.mapped.update(own)  # its arguments say how many there are
            return kind.bind(
                _shard_map.shard_map_p, *args, mesh=mesh.abstract_mesh, **params
            )
        return kind.bind(
            _shard_map.shard_map_p,
            *args,
            mesh=_substitute(mesh, sizes, device),
            **params,
        )

    return bind


def _enough_devices(plain: Callable[..., Any]) -> Callable[..., Any]:
    """``pmap`` maps over as many devices as its arguments have rows, whether or not there are so many."""

    def devices(given: Any, backend: Any, count: int, *rest: Any) -> Any:
        if given is not None:
            return tuple(given)[:1] * count
        found = plain(given, backend, count, *rest)
        if len(found) >= count:
            return tuple(found)
        return tuple(found)[:1] * count

    return devices


class _Batching:
    """The module in which ``vmap`` looks up how to map: with an axis name, by ``shard_map``."""

    def __init__(self, module: Any, seen: Seen) -> None:
        self._module = module
        self._seen = seen

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def batch(
        self, function: Any, axis: Any, in_axes: Any, out_axes: Any, **options: Any
    ) -> Any:
        if not isinstance(axis.name, str):
            return self._module.batch(function, axis, in_axes, out_axes, **options)
        self._seen.mapped.add(axis.name)
        return _Mapped(function, axis, in_axes, out_axes)


@dataclass
class _Mapped:
    function: Any
    axis: Any
    in_axes: Any
    out_axes: Any

    def call_wrapped(self, *args: Any) -> Any:
        """The results and the dimensions along which they are mapped, as ``batching.batch`` gives them."""
        name = self.axis.name
        size = self.axis.size

        def on_one(*parts: Any) -> Any:
            given = [
                part if at is None else jnp.squeeze(part, at)
                for part, at in zip(parts, self.in_axes, strict=True)
            ]
            for store in self.function.stores:
                if store is not None:
                    # of the run before, which only found out where results are mapped
                    store.reset()
            results = self.function.call_wrapped(*given)
            if callable(self.out_axes):
                places = self.out_axes()
            else:
                places = self.out_axes
            self._places = list(places)
            return [
                result if at is None else jnp.expand_dims(result, at)
                for result, at in zip(results, places, strict=True)
            ]

        mesh = AbstractMesh((size,), (name,), axis_types=(AxisType.Auto,))
        specs = tuple(_spec(at, name) for at in self.in_axes)
        mapped = jax.shard_map(
            on_one,
            mesh=mesh,
            in_specs=specs,
            out_specs=_Late(self, name).specs(on_one, args, specs),
            check_vma=False,
        )
        results = mapped(*args)
        return results, self._places


@dataclass
class _Late:
    """Where results are mapped is known only when the function has run: it is run once to see."""

    mapped: _Mapped
    name: str

    def specs(self, on_one: Callable[..., Any], args: Any, specs: Any) -> Any:
        name = self.name
        size = self.mapped.axis.size
        mesh = AbstractMesh((size,), (name,), axis_types=(AxisType.Auto,))

        def alone(*parts: Any) -> Any:
            on_one(*parts)
            return ()

        jax.eval_shape(
            jax.shard_map(
                alone, mesh=mesh, in_specs=specs, out_specs=(), check_vma=False
            ),
            *args,
        )
        return [_spec(at, name) for at in self.mapped._places]


def _spec(at: int | None, name: str) -> PartitionSpec:
    if at is None:
        return PartitionSpec()
    return PartitionSpec(*[None] * at, name)
