"""Arrays that a program puts together of the devices' pieces, or takes apart into them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK, Resolver, layouts
from shardlint.evaluation.layouts import Layout
from shardlint.evaluation.meshes import Device, Mesh, Sharding, SingleDevice, Spec
from shardlint.evaluation.outside import known, provide
from shardlint.evaluation.placing import layout_of, placed
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray

Index: TypeAlias = tuple[slice, ...]
_ATTRIBUTES = frozenset({"index", "data", "replica_id", "device"})


@dataclass(frozen=True)
class Shard:
    """What one device has of an array: ``data`` at ``index`` of the whole; of those that have the same, the first is
    number 0."""

    index: Index
    data: Array
    replica_id: int
    device: Device | None = None


def shards_of(array: Array) -> list[Shard]:
    """The pieces of all devices, in their order; one where it is not known how the array lies."""
    shape = [int(size) for size in array.dims]  # type: ignore[arg-type]  # numbers
    layout = layouts().of(array)
    if layout is None:
        whole = (slice(None),) * len(shape)
        return [Shard(whole, array, 0)]
    found: list[Shard] = []
    copies: dict[tuple[tuple[Any, Any], ...], int] = {}
    for device, index in _indices(layout, shape).items():
        bounds = _bounds(index)
        number = copies.get(bounds, 0)
        copies[bounds] = number + 1
        piece = known("jax.Array.__getitem__")(array, index)
        piece = layouts().on_device(piece, device.id)
        found.append(Shard(index, piece, number, device))
    return found


class UnknownSharding:
    """How an array lies of which that is not known: it may be handed on."""


setattr(UnknownSharding, MARK, True)


def sharding_of(array: Array) -> Sharding | UnknownSharding:
    """How an array lies."""
    layout = layouts().of(array)
    if layout is None:
        return UnknownSharding()
    names, sizes = zip(*layout.mesh, strict=True)
    return Sharding(Mesh(sizes, names), Spec(*layout.axes))


def _bounds(index: Index) -> tuple[tuple[Any, Any], ...]:
    return tuple((part.start, part.stop) for part in index)


def _indices(layout: Layout, shape: Sequence[int]) -> dict[Device, Index]:
    """Where the piece of each device is in the whole array."""
    places = enumerate(_devices(dict(layout.mesh)))
    return {Device(k): _index_of(place, layout, shape) for k, place in places}


@provide("jax.make_array_from_single_device_arrays")
def make_array_from_single_device_arrays(
    shape: Sequence[int], sharding: Any, arrays: Sequence[Any], **options: Any
) -> Any:
    """An array of pieces, each of which is on its device."""
    pieces = [asarray(one) for one in arrays]
    if isinstance(sharding, SingleDevice) and len(pieces) == 1:
        return pieces[0]
    sizes = [int(size) for size in shape]
    layout = layout_of(sharding, len(sizes))
    if layout is None:
        raise NotEvaluable("pieces of an array of which it is not known how it lies")
    by_device = {layouts().device_of(piece): piece for piece in pieces}
    indices = _indices(layout, sizes)
    if by_device.keys() != {device.id for device in indices}:
        raise NotEvaluable("pieces of which it is not known on which devices they are")
    by_place: dict[tuple[tuple[Any, Any], ...], Array] = {}
    for device, index in indices.items():
        piece = by_device[device.id]
        first = by_place.setdefault(_bounds(index), piece)
        if not np.array_equal(first.numbers(), piece.numbers()):
            raise NotEvaluable("copies of a piece that differ")
    made = _together(layout, sizes, lambda index: by_place[_bounds(index)], {}, 0)
    if list(made.dims) != sizes:
        raise ValueError("the pieces do not make an array of this shape")
    return placed(made, sharding)


@provide("jax.make_array_from_callback")
def make_array_from_callback(
    shape: Sequence[int],
    sharding: Any,
    data_callback: Callable[[Index], Any],
    **options: Any,
) -> Any:
    """An array of what the function gives for the index of each piece."""
    sizes = [int(size) for size in shape]
    layout = layout_of(sharding, len(sizes))
    if layout is None:
        return asarray(data_callback((slice(None),) * len(sizes)))
    made = _together(layout, sizes, data_callback, {}, 0)
    return placed(made, sharding)


@provide("jax.make_array_from_process_local_data")
def make_array_from_process_local_data(
    sharding: Any, local_data: Any, global_shape: Any = None
) -> Any:
    """Where one process has all devices, its data are those of all."""
    return placed(asarray(local_data), sharding)


def _together(
    layout: Layout,
    shape: Sequence[int],
    piece: Callable[[Index], Any],
    place: Mapping[str, int],
    dimension: int,
) -> Any:
    """The pieces at these places along the dimensions before, side by side along the others."""
    if dimension == len(shape):
        return asarray(piece(_index_of(place, layout, shape)))
    sizes = dict(layout.mesh)
    axes = {axis: sizes[axis] for axis in layout.axes[dimension]}
    parts = [
        _together(layout, shape, piece, {**place, **more}, dimension + 1)
        for more in _devices(axes)
    ]
    if len(parts) == 1:
        return parts[0]
    return known("jax.numpy.concatenate")(parts, dimension)


def _devices(sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """The place of each device along the axes, the last axis fastest."""
    for numbers in itertools.product(*(range(size) for size in sizes.values())):
        yield dict(zip(sizes, numbers, strict=True))


def _index_of(place: Mapping[str, int], layout: Layout, shape: Sequence[int]) -> Index:
    """Where the piece of a device is in the whole array."""
    sizes = dict(layout.mesh)
    index = []
    for size, axes in zip(shape, layout.axes, strict=True):
        if not axes:
            index.append(slice(None))
            continue
        number = 0
        count = 1
        for axis in axes:
            number = number * sizes[axis] + place[axis]
            count *= sizes[axis]
        length = size // count
        index.append(slice(number * length, (number + 1) * length, None))
    return tuple(index)


def register(resolver: Resolver) -> None:
    """Attributes of shards."""

    def of_shard(shard: Shard, name: str) -> Any:
        if name in _ATTRIBUTES:
            return getattr(shard, name)
        raise AttributeError(name)

    def of_sharding(sharding: Sharding, name: str) -> Any:
        if name in ("mesh", "spec"):
            return getattr(sharding, name)
        if name in ("devices_indices_map", "addressable_devices_indices_map"):
            return lambda shape: _indices_of(sharding, shape)
        if name == "shard_shape":
            return lambda shape: _piece_shape(sharding, shape)
        if name == "is_fully_replicated":
            return _known_layout(sharding, len(sharding.spec)).is_replicated
        if name == "is_equivalent_to":
            return lambda other, ndim: _are_equivalent(sharding, other, ndim)
        raise NotEvaluable(f"the attribute {name} of a sharding")

    def of_unknown(sharding: UnknownSharding, name: str) -> Any:
        raise NotEvaluable(f"the attribute {name} of a sharding that is not known")

    resolver.of_type[Shard] = of_shard
    resolver.of_type[UnknownSharding] = of_unknown
    resolver.of_type[Sharding] = of_sharding


def _are_equivalent(sharding: Sharding, other: Any, rank: int) -> bool:
    if not isinstance(other, Sharding):
        raise NotEvaluable("a sharding beside another that is not known")
    return not _known_layout(sharding, rank).differs_from(_known_layout(other, rank))


def _known_layout(sharding: Sharding, rank: int) -> Layout:
    layout = layout_of(sharding, rank)
    if layout is None:
        raise NotEvaluable("a sharding of which the mesh is not known")
    return layout


def _indices_of(sharding: Sharding, shape: Sequence[Any]) -> dict[Device, Index]:
    sizes = [int(size) for size in shape]
    return _indices(_known_layout(sharding, len(sizes)), sizes)


def _piece_shape(sharding: Sharding, shape: Sequence[Any]) -> tuple[int, ...]:
    first = _indices_of(sharding, shape)[Device(0)]
    lengths = [
        len(range(int(size))[part]) for size, part in zip(shape, first, strict=True)
    ]
    return tuple(lengths)
