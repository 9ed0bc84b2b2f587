"""How an array lies on the devices: ``layout(x)``.

A dimension is *not sharded* (no axes), *chunked* over one or more mesh axes (major to minor), or *unstacked* (the
mapped dimension of an old ``pmap``, one entry per device). Along every other axis of the mesh lie replicas.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast, overload

import jax
import numpy as np
from jax._src.sharding_impls import GSPMDSharding  # a compiler's sharding: no public name
from jax.sharding import NamedSharding, PartitionSpec, Sharding, SingleDeviceSharding
from jax.stages import Compiled

from shardtypes.beneath import beneath
from shardtypes.dtypes import ArrayType, array_spec, numpy_dtype, shape_of_type
from shardtypes.meshes import current_mesh, format_mesh, mesh_sizes, pending_axes

Axes = tuple[str, ...]
Index = tuple[slice, ...]


def axes_of_spec(spec: PartitionSpec, rank: int) -> tuple[Axes, ...] | None:
    """The axes of each dimension; None where the spec leaves a dimension unconstrained."""
    dims: list[Axes] = []
    for entry in spec:
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
    return tuple(tuple(axis for axis in axes if sizes.get(axis, 2) != 1) for axes in dims)


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the parts of one array are.

    ``shape`` is the global shape; ``dims`` the mesh axes of each dimension, major to minor (None where the axis names
    are not known, as for a sharding that came without a mesh); ``pending`` the axes over which a sum is outstanding;
    ``unstacked`` the dimension that an old ``pmap`` maps away; ``dtype`` is known of arrays and their descriptions.
    Two layouts are equal if their named axes mean the same and every device holds the same part.
    """

    shape: tuple[int, ...]
    dims: tuple[Axes, ...] | None
    mesh: Any = None
    pending: frozenset[str] = frozenset()
    sharding: Sharding | None = None
    unstacked: int | None = None
    dtype: Any = None

    @property
    def spec(self) -> PartitionSpec:
        """The ``PartitionSpec``, one entry a dimension. Raises ``ValueError`` where the axis names are not known."""
        if self.dims is None:
            raise ValueError(f"this sharding has no axis names, and no mesh in force supplies them: {self.sharding}")
        entries = [axes[0] if len(axes) == 1 else (axes or None) for axes in self.dims]
        return PartitionSpec(*entries, unreduced=set(self.pending)) if self.pending else PartitionSpec(*entries)

    @property
    def replicated(self) -> Axes:
        """The mesh axes along which every device holds the same."""
        used = {axis for axes in self.dims or () for axis in axes} | self.pending
        return tuple(axis for axis in mesh_sizes(self.mesh) if axis not in used)

    @property
    def shard_shape(self) -> tuple[int, ...]:
        """The shape of what one device holds."""
        if self.dims is not None and self.mesh is not None:
            sizes = mesh_sizes(self.mesh)
            return tuple(
                -(-n // math.prod(sizes[a] for a in axes)) for n, axes in zip(self.shape, self.dims, strict=True)
            )
        if self.sharding is not None:
            return tuple(self.sharding.shard_shape(self.shape))
        return self.shape

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of what the devices of this process hold together; the global shape where it has them all."""
        here = jax.process_index()
        everywhere = self.indices()
        if not everywhere:
            return self.shape
        parts = [index for device, index in everywhere.items() if device.process_index == here]
        return tuple(
            sum(stop - start for start, stop in {index[dim].indices(size)[:2] for index in parts})
            for dim, size in enumerate(self.shape)
        )

    @property
    def bytes_per_device(self) -> int:
        """How many bytes each device holds. Raises ``ValueError`` where the dtype is not known."""
        if self.dtype is None:
            raise ValueError("the dtype is not known here: take the layout of an array or of a ShapeDtypeStruct")
        return math.prod(self.shard_shape) * int(self.dtype.itemsize)

    def indices(self) -> dict[Any, Index]:
        """Device → index into the global array. Empty on an abstract mesh, which has no devices."""
        sharding = self._concrete()
        return dict(sharding.devices_indices_map(self.shape)) if sharding is not None else {}

    def without(self, positions: Sequence[int]) -> Layout:
        """The layout of one example, after ``vmap`` took away these dimensions, one after the other."""
        if not positions:
            return self
        shape, dims = list(self.shape), list(self.dims) if self.dims is not None else None
        for position in positions:
            del shape[position]
            if dims is not None:
                del dims[position]
        return Layout(
            tuple(shape), tuple(dims) if dims is not None else None, self.mesh, self.pending, dtype=self.dtype
        )

    def _concrete(self) -> Sharding | None:
        if isinstance(self.mesh, jax.sharding.Mesh) and self.dims is not None:
            return NamedSharding(self.mesh, PartitionSpec(*self.spec))
        if self.sharding is None or isinstance(getattr(self.sharding, "mesh", None), jax.sharding.AbstractMesh):
            return None
        return self.sharding

    def __str__(self) -> str:
        """As a shape string: ``16 64/t``."""
        if self.dims is None:
            return " ".join(f"{n}/?" if n != m else str(n) for n, m in zip(self.shape, self.shard_shape, strict=True))
        parts = ["/".join((str(n), *axes)) for n, axes in zip(self.shape, self.dims, strict=True)]
        if self.pending:
            parts.append("{U:" + ",".join(sorted(self.pending)) + "}")
        return " ".join(parts)

    def __repr__(self) -> str:
        mesh = f" on mesh {format_mesh(self.mesh)}" if self.mesh is not None else ""
        return f"Layout({str(self)!r}{mesh})"

    def _repr_html_(self) -> str:
        """As a picture, for notebooks."""
        from shardtypes.pictures import picture

        return picture(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        if self.shape != other.shape:
            return False
        mine, theirs = mesh_sizes(self.mesh), mesh_sizes(other.mesh)
        pending = {a for a in self.pending if mine.get(a) != 1} == {a for a in other.pending if theirs.get(a) != 1}
        if not pending:
            return False
        if self.dims is not None and other.dims is not None and (mine == theirs or not mine or not theirs):
            sizes = mine or theirs
            if normalise(self.dims, sizes) != normalise(other.dims, sizes):
                return False
            if self.mesh is other.mesh or self._concrete() is None or other._concrete() is None:
                return True
        a, b = self.indices(), other.indices()
        return bool(a) and same_indices(a, b, self.shape)

    def __hash__(self) -> int:
        return hash(self.shape)


def same_indices(a: Mapping[Any, Index], b: Mapping[Any, Index], shape: Sequence[int]) -> bool:
    """Whether every device holds the same part of the array in both maps."""
    if a.keys() != b.keys():
        return False
    return all(_bounds(a[device], shape) == _bounds(b[device], shape) for device in a)


def _bounds(index: Index, shape: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    return tuple(s.indices(n) for s, n in zip(index, shape, strict=True))


@dataclass(frozen=True)
class ProgramLayouts:
    """Where a compiled program takes and leaves its arrays: trees of ``Layout``. ``arguments`` is the pair of the
    positional ones and of those by keyword; None stands for one that the program does not use."""

    arguments: tuple[tuple[Any, ...], dict[str, Any]]
    results: Any


@overload
def layout(x: Compiled, mesh: Any = None) -> ProgramLayouts: ...
@overload
def layout(x: Any, mesh: Any = None, shape: Sequence[int] | None = None) -> Layout: ...


def layout(x: Any, mesh: Any = None, shape: Sequence[int] | None = None) -> Layout | ProgramLayouts:
    """The layout of an array, a tracer whose type says it or that ``vmap`` or ``grad`` put around an array, a
    ``ShapeDtypeStruct``, a sharding (also a compiler's, an ``HloSharding``) or an annotation; of a compiled program
    (``jit(f).lower(…).compile()``) those of all its arguments and results.

    ``mesh`` (default: the one in force) supplies axis names to a sharding without them, and to an annotation.
    ``shape`` is the global shape where ``x`` is a bare sharding, or an annotation with names for sizes.

    Raises ``TypeError`` for something that has no layout and ``ValueError`` where the shape is missing.
    """
    mesh = mesh if mesh is not None else current_mesh()
    if isinstance(x, ArrayType):
        return _annotation_layout(x, mesh, shape)
    if isinstance(x, Compiled):
        return _program_layouts(x, mesh)
    if type(x).__name__ == "HloSharding":
        if not isinstance(mesh, jax.sharding.Mesh):
            raise ValueError("a compiler's sharding does not say on which devices: put a mesh in force, or give it")
        x = GSPMDSharding(mesh._flat_devices_tuple, x)
    if isinstance(x, Sharding):
        if shape is None:
            raise ValueError("the layout of a bare sharding needs a shape: layout(sharding, shape=(…))")
        return _sharding_layout(x, tuple(shape), mesh)
    if isinstance(x, jax.core.Tracer):
        under = beneath(x)
        if under is not None and not isinstance(under.value, jax.core.Tracer):
            whole: Layout = layout(under.value, mesh)
            return whole.without(under.mapped)
        aval = jax.typeof(x)
        sharding = getattr(aval, "sharding", None)
        if sharding is None or sharding.mesh.empty or not set(_explicit(sharding.mesh)):
            raise TypeError(
                "a traced value says nothing about its sharding here: only Explicit mesh axes are part of its type"
            )
        return _sharding_layout(sharding, tuple(aval.shape), mesh, pending_axes(aval), aval.dtype)
    if isinstance(x, np.ndarray):
        return Layout(x.shape, ((),) * x.ndim, None, dtype=x.dtype)
    sharding = getattr(x, "sharding", None)
    if not hasattr(x, "shape"):
        raise TypeError(f"no array, sharding or annotation, so it has no layout: {type(x).__name__}")
    if sharding is None:
        return Layout(tuple(x.shape), ((),) * len(x.shape), mesh, dtype=getattr(x, "dtype", None))
    return _sharding_layout(sharding, tuple(x.shape), mesh, dtype=getattr(x, "dtype", None))


def _program_layouts(compiled: Compiled, mesh: Any) -> ProgramLayouts:
    def of(sharding: Any, info: Any) -> Layout | None:
        if not isinstance(sharding, Sharding):
            return None
        return _sharding_layout(sharding, tuple(info.shape), mesh, dtype=info.dtype)

    def tree(shardings: Any, infos: Any) -> Any:
        structure: Any
        leaves, structure = jax.tree_util.tree_flatten(infos)
        flat = structure.flatten_up_to(shardings)
        return structure.unflatten([of(s, i) for s, i in zip(flat, leaves, strict=True)])

    return ProgramLayouts(
        tree(compiled.input_shardings, compiled.args_info), tree(compiled.output_shardings, compiled.out_info)
    )


def _explicit(mesh: Any) -> frozenset[str]:
    from shardtypes.meshes import axes_of_type

    return axes_of_type(mesh, "Explicit")


def _annotation_layout(annotation: ArrayType, mesh: Any, shape: Sequence[int] | None) -> Layout:
    from shardtypes.logical_axes import resolve_axes

    declared = shape_of_type(annotation)
    if shape is None:
        sizes = [dim.size.constant if dim.size is not None else None for dim in declared.dims]
        if None in sizes:
            raise ValueError(f"{annotation} has no fixed sizes: say which with layout(T, shape=(…))")
        shape = [size for size in sizes if size is not None]
    if len(shape) != len(declared.dims):
        raise ValueError(f"{annotation} has {len(declared.dims)} dimensions, the shape {tuple(shape)} has {len(shape)}")
    resolved = resolve_axes(declared)
    return Layout(
        tuple(shape), resolved, mesh, frozenset(declared.pending), dtype=numpy_dtype(array_spec(annotation).dtype)
    )


def _sharding_layout(
    sharding: Sharding, shape: tuple[int, ...], mesh: Any, pending: frozenset[str] = frozenset(), dtype: Any = None
) -> Layout:
    rank = len(shape)
    if isinstance(sharding, NamedSharding):
        dims = axes_of_spec(sharding.spec, rank)
        unreduced = frozenset(getattr(sharding.spec, "unreduced", ()) or ())
        return Layout(shape, dims, sharding.mesh, unreduced | pending, sharding, dtype=dtype)
    if isinstance(sharding, SingleDeviceSharding):
        return Layout(shape, ((),) * rank, None, pending, sharding, dtype=dtype)
    kind = type(sharding).__name__
    if kind == "PmapSharding":
        spec = cast(Any, sharding).sharding_spec.sharding
        unstacked = next((i for i, s in enumerate(spec) if type(s).__name__ == "Unstacked"), None)
        return Layout(shape, None, None, pending, sharding, unstacked, dtype)
    return Layout(shape, recover_axes(sharding, rank, mesh), mesh, pending, sharding, dtype=dtype)


@lru_cache(maxsize=1024)
def recover_axes(sharding: Sharding, rank: int, mesh: Any) -> tuple[Axes, ...] | None:
    """The axis names of a sharding that came without them, such as a compiled program's, from a mesh."""
    if not isinstance(mesh, jax.sharding.Mesh):
        return None
    try:
        from jax._src.sharding_impls import parse_flatten_op_sharding

        parsed = parse_flatten_op_sharding(sharding._to_xla_hlo_sharding(rank), mesh)[0]
    except (ImportError, AttributeError, ValueError, NotImplementedError):
        return None  # not expressible with this mesh: the device map still is
    spec = parsed.get_partition_spec() if hasattr(parsed, "get_partition_spec") else parsed
    return axes_of_spec(spec, rank)
