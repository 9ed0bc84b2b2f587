"""``layout(x)``: how arrays, annotations and the arrays of compiled programs are sharded."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, overload

import jax
from jax.sharding import Sharding
from jax.stages import Compiled

from shardtypes.accepted_dtypes import numpy_dtype
from shardtypes.array_types import array_annotation, meaning
from shardtypes.dtypes import ArrayType, array_spec, shape_of_type
from shardtypes.lang import Dim
from shardtypes.lang.messages import mesh_without_axis
from shardtypes.layouts import Axes, Layout, layout_of, layout_of_sharding
from shardtypes.logical_rules import resolve_axes
from shardtypes.meshes import current_mesh, mesh_sizes
from shardtypes.spec import size_of


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


def layout(
    x: Any, mesh: Any = None, shape: Sequence[int] | None = None
) -> Layout | ProgramLayouts:
    """How something is sharded; of a compiled program, how all its arguments and results are.

    Args:
        x: An array, a tracer whose type says it or that ``vmap`` or ``grad`` put around an array, a
            ``ShapeDtypeStruct``, a sharding (also a compiler's, an ``HloSharding``), an annotation, or a compiled
            program (``jit(f).lower(…).compile()``).
        mesh: Supplies axis names to a sharding without them, and to an annotation; by default that in force.
        shape: The global shape, where ``x`` is a bare sharding, or an annotation with names for sizes: without it the
            layout says over which axes each dimension is sharded, and not how large the shards are.

    Raises:
        TypeError: something that has no layout.
        ValueError: a shape that the annotation excludes, or an axis that the mesh does not have.
    """
    mesh = mesh if mesh is not None else current_mesh()
    annotation = array_annotation(meaning(x))
    if annotation is not None:
        return _annotation_layout(annotation, mesh, shape)
    if isinstance(x, Compiled):
        return _program_layouts(x, mesh)
    return layout_of(x, mesh, shape)


def _program_layouts(compiled: Compiled, mesh: Any) -> ProgramLayouts:
    def of(sharding: Any, info: Any) -> Layout | None:
        if not isinstance(sharding, Sharding):
            return None
        return layout_of_sharding(sharding, tuple(info.shape), mesh, dtype=info.dtype)

    def tree(shardings: Any, infos: Any) -> Any:
        structure: Any
        leaves, structure = jax.tree_util.tree_flatten(infos)
        flat = structure.flatten_up_to(shardings)
        return structure.unflatten(
            [of(s, i) for s, i in zip(flat, leaves, strict=True)]
        )

    return ProgramLayouts(
        tree(compiled.input_shardings, compiled.args_info),
        tree(compiled.output_shardings, compiled.out_info),
    )


def _annotation_layout(
    annotation: ArrayType, mesh: Any, shape: Sequence[int] | None
) -> Layout:
    declared = shape_of_type(annotation)
    dims = list(zip(declared.dims, resolve_axes(declared), strict=True))
    if shape is not None:
        dims = _repeated(annotation, dims, len(shape))
        for at, ((dim, _), size) in enumerate(zip(dims, shape, strict=True)):
            constant = (
                dim.size.constant
                if dim.kind == "size" and dim.size is not None
                else None
            )
            if constant not in (None, size):
                raise ValueError(
                    f"dimension {at} of {annotation} is {constant}, the shape {tuple(shape)} has {size}"
                )
    sizes = (
        tuple(shape) if shape is not None else tuple(size_of(dim) for dim, _ in dims)
    )
    axes = tuple(axes for _, axes in dims)
    known = mesh_sizes(mesh)
    for axis in (*itertools.chain(*axes), *declared.pending):
        if mesh is not None and axis not in known:
            raise ValueError(f"{annotation}: " + mesh_without_axis(axis, known))
    dtype = numpy_dtype(array_spec(annotation).dtype)
    return Layout(sizes, axes, mesh, frozenset(declared.pending), dtype=dtype)


def _repeated(
    annotation: ArrayType, dims: list[tuple[Dim, Axes]], rank: int
) -> list[tuple[Dim, Axes]]:
    """The dimensions for an array of this rank: the one that stands for any number of them as often as it takes."""
    at = shape_of_type(annotation).variadic
    missing = rank - len(dims)
    if missing == 0 and at is None:
        return dims
    if at is None or missing < -1:
        raise ValueError(
            f"{annotation} has {len(dims)} dimensions, the shape has {rank}"
        )
    return dims[:at] + [dims[at]] * (missing + 1) + dims[at + 1 :]
