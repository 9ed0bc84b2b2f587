"""Which mesh and which axis names are in force here. The one place that knows how JAX's versions say it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import jax
from jax._src import core  # no public way to ask for bound axis names
from jax._src import mesh as mesh_internals

AnyMesh = Any  # Mesh or AbstractMesh; JAX has no common public base


def bound_axes() -> Mapping[str, int]:
    """Sizes of the axis names that collectives see here: those of ``shard_map``, ``pmap`` and ``vmap(axis_name=…)``."""
    sizes: Mapping[str, int] = core.get_axis_env().axis_sizes
    return sizes


def abstract_mesh() -> Any:
    """The abstract mesh in force: ``set_mesh`` in eager code, the surrounding mesh inside a trace."""
    return jax.sharding.get_abstract_mesh()


def _axis_types(mesh: AnyMesh) -> tuple[Any, ...]:
    types = mesh.axis_types
    return tuple(types) if types is not None else (None,) * len(mesh.axis_names)


def axes_of_type(mesh: AnyMesh, kind: str) -> frozenset[str]:
    """The mesh axes whose type is ``'Manual'``, ``'Explicit'`` or ``'Auto'``."""
    return frozenset(
        name
        for name, axis_type in zip(mesh.axis_names, _axis_types(mesh), strict=True)
        if getattr(axis_type, "name", "Auto") == kind
    )


def current_mesh() -> AnyMesh | None:
    """The mesh in force: ``jax.set_mesh``, else the legacy ``with mesh:``, else the abstract one, else None."""
    concrete = mesh_internals.get_concrete_mesh()
    if concrete is not _NO_CONCRETE and concrete is not None and not concrete.empty:
        return concrete
    legacy = mesh_internals.thread_resources.env.physical_mesh
    if legacy is not _NO_LEGACY and not legacy.empty:
        return legacy
    abstract = mesh_internals.get_abstract_mesh()
    if abstract is not NO_ABSTRACT_MESH and abstract is not None and not abstract.empty:
        return abstract
    return None


# What JAX has in the place of a mesh where there is none: by identity, for that is asked at every call.
_NO_CONCRETE = getattr(mesh_internals, "empty_concrete_mesh", None)
_NO_LEGACY = mesh_internals.EMPTY_ENV.physical_mesh
NO_ABSTRACT_MESH = getattr(mesh_internals, "empty_abstract_mesh", None)


def mesh_sizes(mesh: AnyMesh | None) -> dict[str, int]:
    """Axis sizes by name, in the mesh's order; empty without a mesh."""
    return dict(mesh.shape) if mesh is not None else {}


def parts_of(axes: Iterable[str], sizes: Mapping[str, int]) -> int:
    """Into how many parts these axes split a dimension."""
    return math.prod(sizes[axis] for axis in axes)


def format_mesh(mesh: AnyMesh | None) -> str:
    """``d=2, t=4``."""
    return ", ".join(f"{name}={size}" for name, size in mesh_sizes(mesh).items())


@dataclass(frozen=True, slots=True)
class View:
    """What a checked call sees: the bound axis names, and which of them are manual mesh axes."""

    bound: Mapping[str, int]
    manual: frozenset[str]
    mesh: Any

    @property
    def is_global(self) -> bool:
        """Whether shapes here are global ones."""
        return not self.bound


GLOBAL_VIEW = View({}, frozenset(), None)


def current_view() -> View:
    """The view at this point of the program."""
    bound = core.get_axis_env().axis_sizes
    if not bound:
        return GLOBAL_VIEW
    mesh = abstract_mesh()
    if mesh is None or mesh.empty:
        return View(bound, frozenset(), None)
    return View(bound, axes_of_type(mesh, "Manual") & bound.keys(), mesh)


def varying_axes(aval: Any) -> frozenset[str] | None:
    """Mesh axes over which a value may differ from device to device; None where JAX does not track it."""
    if not tracks_varying():
        return None
    typed = getattr(aval, "manual_axis_type", None)
    if typed is not None:
        return frozenset(typed.varying)
    varying = getattr(aval, "vma", None)
    return None if varying is None else frozenset(varying)


@dataclass(frozen=True, slots=True)
class Sums:
    """What JAX itself says is outstanding: ``pending`` are the mesh axes over which devices hold parts (*unreduced*),
    ``reduction`` what makes the whole of them; of a value *reduced* over axes, the cotangent will be pending there."""

    pending: frozenset[str] = frozenset()
    reduced: frozenset[str] = frozenset()
    reduction: str = "sum"

    @staticmethod
    def of(described: Any) -> Sums:
        """Those of a ``PartitionSpec``, or of the manual axes in a type."""
        pending = frozenset(getattr(described, "unreduced", None) or ())
        reduced = frozenset(getattr(described, "reduced", None) or ())
        kind = getattr(described, "unreduced_kind", None)
        return Sums(pending, reduced, kind.name if kind is not None else "sum")

    def __or__(self, other: Sums) -> Sums:
        reduction = self.reduction if self.pending else other.reduction
        return Sums(
            self.pending | other.pending, self.reduced | other.reduced, reduction
        )


def outstanding(aval: Any) -> Sums:
    """What a traced value's type says is outstanding, over manual axes and others."""
    manual = Sums.of(getattr(aval, "manual_axis_type", None))
    return manual | Sums.of(getattr(getattr(aval, "sharding", None), "spec", None))


def entries_of(spec: jax.sharding.PartitionSpec) -> tuple[Any, ...]:
    """The entries of a spec, one a dimension: JAX lets nobody iterate over one that says *unreduced* or *reduced*."""
    entries: tuple[Any, ...] = (
        spec.partitions if hasattr(spec, "partitions") else spec._partitions
    )
    return entries


NO_SUMS = Sums()


def make_spec(
    dims: Iterable[tuple[str, ...]], sums: Sums = NO_SUMS
) -> jax.sharding.PartitionSpec:
    """The ``PartitionSpec`` of dimensions that are sharded over these axes."""
    entries = [axes[0] if len(axes) == 1 else (axes or None) for axes in dims]
    options: dict[str, Any] = {}
    if sums.pending:
        options["unreduced"] = sums.pending
    if sums.reduced:
        options["reduced"] = sums.reduced
    if sums.reduction != "sum":
        options["unreduced_kind"] = cast(Any, jax.sharding).UnreducedKind[
            sums.reduction
        ]  # JAX 0.11 and newer
    return jax.sharding.PartitionSpec(*entries, **options)


def tracks_varying() -> bool:
    """Whether ``check_vma`` is on at this point."""
    # read late: private, and absent before the option existed
    from jax._src import config

    option = getattr(config, "_check_vma", None)
    return bool(option.value) if option is not None else False
