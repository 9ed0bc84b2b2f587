"""How an array is sharded over the devices: ``layout(x)``.

A dimension is *not sharded* (no axes), *chunked* over one or more mesh axes (major to minor), or *unstacked* (the
mapped dimension of an old ``pmap``, one entry per device). Over every other axis of the mesh it is replicated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

import jax
import numpy as np

# a compiler's sharding: no public name
from jax._src.sharding_impls import GSPMDSharding
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding

from shardtypes import messages
from shardtypes.beneath import beneath
from shardtypes.lang import format_shape
from shardtypes.lang.messages import axes_text
from shardtypes.meshes import (
    NO_SUMS,
    Sums,
    axes_of_type,
    current_mesh,
    entries_of,
    format_mesh,
    make_spec,
    mesh_sizes,
    outstanding,
    parts_of,
)
from shardtypes.pictures import picture

Axes = tuple[str, ...]
Index = tuple[slice, ...]


def axes_of_spec(spec: PartitionSpec, rank: int) -> tuple[Axes, ...] | None:
    """The axes of each dimension; None where the spec leaves a dimension unconstrained."""
    dims: list[Axes] = []
    for entry in entries_of(spec):
        if entry is None:
            dims.append(())
        elif isinstance(entry, str):
            dims.append((entry,))
        elif isinstance(entry, tuple):
            dims.append(tuple(entry))
        else:
            return None
    dims += [()] * (rank - len(dims))
    return tuple(dims)


def normalise(dims: Sequence[Axes], sizes: Mapping[str, int]) -> tuple[Axes, ...]:
    """Without axes of size 1, which split nothing."""
    return tuple(
        tuple(axis for axis in axes if sizes.get(axis, 2) != 1) for axes in dims
    )


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the parts of one array are.

    ``shape`` is the global shape, with the text of an annotation for a size that is not known (``'B'``, ``'_'``, and
    ``'...'`` for any number of dimensions); ``dims`` the mesh axes of each dimension, major to minor (None where the
    axis names are not known, as for a sharding that came without a mesh); ``pending`` the axes over which it is a
    partial sum (or what ``reduction`` names: ``'max'``, ``'min'``); ``reduced`` those over which JAX leaves the
    cotangent one; ``unstacked`` the dimension that an old ``pmap`` maps away; ``dtype`` is known of arrays and
    their descriptions.
    Two layouts are equal if their named axes mean the same and every device holds the same part.
    """

    shape: tuple[int | str, ...]
    dims: tuple[Axes, ...] | None
    mesh: Any = None
    pending: frozenset[str] = frozenset()
    sharding: Sharding | None = None
    unstacked: int | None = None
    dtype: Any = None
    reduced: frozenset[str] = frozenset()
    reduction: str = "sum"

    @property
    def sums(self) -> Sums:
        """The partial sums, as JAX writes them."""
        return Sums(self.pending, self.reduced, self.reduction)

    @property
    def spec(self) -> PartitionSpec:
        """The ``PartitionSpec``, one entry a dimension. Raises ``ValueError`` where the axis names are not known."""
        if self.dims is None:
            raise ValueError(messages.axes_not_known(self.sharding))
        if "..." in self.shape[:-1]:
            raise ValueError(
                f"'{self}' has any number of dimensions, so it has no PartitionSpec"
            )
        return make_spec(
            self.dims[: -1 if self.shape[-1:] == ("...",) else None], self.sums
        )

    @property
    def replicated(self) -> Axes:
        """The mesh axes along which every device holds the same."""
        used = {axis for axes in self.dims or () for axis in axes} | self.pending
        return tuple(axis for axis in mesh_sizes(self.mesh) if axis not in used)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The global shape. Raises ``ValueError`` where a size is not known."""
        unknown = [size for size in self.shape if isinstance(size, str)]
        if unknown:
            raise ValueError(
                f"the sizes of '{self}' are not known: pass them with layout(…, shape=(…))"
            )
        return cast("tuple[int, ...]", self.shape)

    @property
    def shard_shape(self) -> tuple[int, ...]:
        """The shape of what one device holds. This, and what follows from it, raises ``ValueError`` where a size is not
        known."""
        if self.dims is not None and self.mesh is not None:
            sizes = mesh_sizes(self.mesh)
            return tuple(
                -(-n // parts_of(axes, sizes))
                for n, axes in zip(self.sizes, self.dims, strict=True)
            )
        if self.sharding is not None:
            return tuple(self.sharding.shard_shape(self.sizes))
        return self.sizes

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of what the devices of this process hold together; the global shape where it has them all."""
        here = jax.process_index()
        everywhere = self.indices()
        if not everywhere:
            return self.sizes
        parts = [
            index
            for device, index in everywhere.items()
            if device.process_index == here
        ]
        return tuple(
            sum(
                stop - start
                for start, stop in {index[dim].indices(size)[:2] for index in parts}
            )
            for dim, size in enumerate(self.sizes)
        )

    @property
    def bytes_per_device(self) -> int:
        """How many bytes each device holds. Raises ``ValueError`` where the dtype is not known."""
        if self.dtype is None:
            raise ValueError(
                "the dtype is not known here: take the layout of an array or of a ShapeDtypeStruct"
            )
        return math.prod(self.shard_shape) * int(self.dtype.itemsize)

    def indices(self) -> dict[Any, Index]:
        """Device → index into the global array. Empty on an abstract mesh, which has no devices."""
        sharding = self._concrete()
        return (
            dict(sharding.devices_indices_map(self.sizes))
            if sharding is not None
            else {}
        )

    def without(self, positions: Sequence[int]) -> Layout:
        """The layout of one example, after ``vmap`` took away these dimensions, one after the other."""
        if not positions:
            return self
        shape, dims = (
            list(self.shape),
            list(self.dims) if self.dims is not None else None,
        )
        for position in positions:
            del shape[position]
            if dims is not None:
                del dims[position]
        return replace(
            self,
            shape=tuple(shape),
            dims=tuple(dims) if dims is not None else None,
            sharding=None,
            unstacked=None,
        )

    def _concrete(self) -> Sharding | None:
        if isinstance(self.mesh, jax.sharding.Mesh) and self.dims is not None:
            # where the parts are, of a sum too
            return NamedSharding(self.mesh, make_spec(self.dims))
        if self.sharding is None or isinstance(
            getattr(self.sharding, "mesh", None), jax.sharding.AbstractMesh
        ):
            return None
        return self.sharding

    def __str__(self) -> str:
        """As a shape string: ``16 64/t``."""
        if self.dims is None:
            return " ".join(
                f"{n}/?" if n != m else str(n)
                for n, m in zip(self.sizes, self.shard_shape, strict=True)
            )
        return format_shape(self.shape, self.dims, self.pending)

    @property
    def suffix(self) -> str:
        """What a shape string does not tell: the mesh, other reductions than sums, the axes of the cotangent."""
        words = f" on mesh {format_mesh(self.mesh)}" if self.mesh is not None else ""
        if self.pending and self.reduction != "sum":
            words += f", a partial {self.reduction}"
        return words + (
            f", reduced over {axes_text(sorted(self.reduced))}" if self.reduced else ""
        )

    def __repr__(self) -> str:
        return f"Layout({str(self)!r}{self.suffix})"

    def _repr_html_(self) -> str:
        """As a picture, for notebooks."""
        return picture(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        mine, theirs = mesh_sizes(self.mesh), mesh_sizes(other.mesh)
        pending = {a for a in self.pending if mine.get(a) != 1} == {
            a for a in other.pending if theirs.get(a) != 1
        }
        if not pending or self.reduction != other.reduction:
            return False
        if (
            self.dims is not None
            and other.dims is not None
            and (mine == theirs or not mine or not theirs)
        ):
            if self._named(mine or theirs) != other._named(mine or theirs):
                return False
            if (
                self.mesh is other.mesh
                or self._concrete() is None
                or other._concrete() is None
            ):
                return True
        if self.shape != other.shape or any(
            isinstance(size, str) for size in self.shape
        ):
            return self.mesh == other.mesh and self._named(mine) == other._named(mine)
        a, b = self.indices(), other.indices()
        return bool(a) and same_indices(a, b, self.sizes)

    def _named(self, sizes: Mapping[str, int]) -> list[tuple[int | str, Axes]]:
        """Each dimension with its axes, without what a bare sharding may leave out at its end."""
        dims = normalise(self.dims or (), sizes)
        named = list(zip(self.shape, dims, strict=False))
        if self.shape[-1:] == ("...",):
            while named[-2:-1] == [("_", ())]:
                del named[-2]
        return named

    def __hash__(self) -> int:
        return hash(tuple(size for size in self.shape if not isinstance(size, str)))


def same_indices(
    a: Mapping[Any, Index], b: Mapping[Any, Index], shape: Sequence[int]
) -> bool:
    """Whether every device holds the same part of the array in both maps."""
    if a.keys() != b.keys():
        return False
    return all(_bounds(a[device], shape) == _bounds(b[device], shape) for device in a)


def _bounds(index: Index, shape: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    return tuple(s.indices(n) for s, n in zip(index, shape, strict=True))


def layout_of(x: Any, mesh: Any = None, shape: Sequence[int] | None = None) -> Layout:
    """As ``layout_lookup.layout``, of an array, a tracer, a ``ShapeDtypeStruct`` or a sharding."""
    mesh = mesh if mesh is not None else current_mesh()
    if type(x).__name__ == "HloSharding":
        if not isinstance(mesh, jax.sharding.Mesh):
            raise ValueError(
                "a compiler's sharding names no devices: put a mesh in force with jax.set_mesh(mesh), or pass mesh=…"
            )
        x = GSPMDSharding(mesh._flat_devices_tuple, x)
    if isinstance(x, Sharding):
        return (
            layout_of_sharding(x, tuple(shape), mesh)
            if shape is not None
            else _bare_layout(x, mesh)
        )
    if isinstance(x, jax.core.Tracer):
        under = beneath(x)
        if under is not None and not isinstance(under.value, jax.core.Tracer):
            return layout_of(under.value, mesh).without(under.mapped)
        aval = jax.typeof(x)
        sharding = getattr(aval, "sharding", None)
        if sharding is None or sharding.mesh.empty or not set(_explicit(sharding.mesh)):
            raise TypeError(
                "the type of this traced value has no sharding: only Explicit mesh axes are part of it"
            )
        return layout_of_sharding(
            sharding, tuple(aval.shape), mesh, outstanding(aval), aval.dtype
        )
    if isinstance(x, np.ndarray):
        return Layout(x.shape, ((),) * x.ndim, None, dtype=x.dtype)
    sharding = getattr(x, "sharding", None)
    if not hasattr(x, "shape"):
        raise TypeError(
            f"no array, sharding or annotation, so it has no layout: {type(x).__name__}"
        )
    if sharding is None:
        return Layout(
            tuple(x.shape), ((),) * len(x.shape), mesh, dtype=getattr(x, "dtype", None)
        )
    return layout_of_sharding(
        sharding, tuple(x.shape), mesh, dtype=getattr(x, "dtype", None)
    )


def _explicit(mesh: Any) -> frozenset[str]:
    return axes_of_type(mesh, "Explicit")


def _bare_layout(sharding: Sharding, mesh: Any) -> Layout:
    """The layout of a sharding, of an array of any shape that it can split."""
    if isinstance(sharding, SingleDeviceSharding):
        return Layout(("...",), ((),), None, sharding=sharding)
    if isinstance(sharding, NamedSharding):
        dims, mesh, sums = (
            axes_of_spec(sharding.spec, 0),
            sharding.mesh,
            Sums.of(sharding.spec),
        )
    else:
        dims, sums = recover_axes(sharding, 0, mesh), NO_SUMS
    if dims is None:
        raise ValueError(messages.axes_not_known(sharding))
    while dims and not dims[-1]:
        dims = dims[:-1]
    shape = ("_",) * len(dims) + ("...",)
    return Layout(
        shape,
        (*dims, ()),
        mesh,
        sums.pending,
        sharding,
        None,
        None,
        sums.reduced,
        sums.reduction,
    )


def layout_of_sharding(
    sharding: Sharding,
    shape: tuple[int, ...],
    mesh: Any,
    sums: Sums = NO_SUMS,
    dtype: Any = None,
) -> Layout:
    rank = len(shape)
    if isinstance(sharding, NamedSharding):
        dims = axes_of_spec(sharding.spec, rank)
        if dims is not None:
            dims = dims[:rank]  # a key's spec may have entries for its words, too
        sums = sums | Sums.of(sharding.spec)
        return Layout(
            shape,
            dims,
            sharding.mesh,
            sums.pending,
            sharding,
            None,
            dtype,
            sums.reduced,
            sums.reduction,
        )
    if isinstance(sharding, SingleDeviceSharding):
        return Layout(shape, ((),) * rank, None, sharding=sharding, dtype=dtype)
    kind = type(sharding).__name__
    if kind == "PmapSharding":
        spec = cast(Any, sharding).sharding_spec.sharding
        unstacked = next(
            (i for i, s in enumerate(spec) if type(s).__name__ == "Unstacked"), None
        )
        return Layout(
            shape, None, None, sharding=sharding, unstacked=unstacked, dtype=dtype
        )
    return Layout(
        shape, recover_axes(sharding, rank, mesh), mesh, sharding=sharding, dtype=dtype
    )


@lru_cache(maxsize=1024)
def recover_axes(sharding: Sharding, rank: int, mesh: Any) -> tuple[Axes, ...] | None:
    """The axis names of a sharding that came without them, such as a compiled program's, from a mesh."""
    if not isinstance(mesh, jax.sharding.Mesh):
        return None
    try:
        from jax._src.sharding_impls import parse_flatten_op_sharding

        parsed = parse_flatten_op_sharding(sharding._to_xla_hlo_sharding(rank), mesh)[0]
    except (
        ImportError,
        AttributeError,
        ValueError,
        KeyError,
        AssertionError,
        NotImplementedError,
    ):
        # not expressible with this mesh, as where half of an axis splits it: the device map still is
        return None
    spec = (
        parsed.get_partition_spec() if hasattr(parsed, "get_partition_spec") else parsed
    )
    return axes_of_spec(spec, rank)
