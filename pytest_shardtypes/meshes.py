"""Meshes for tests: which one a test asks for, and building it on the devices that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import jax
import pytest
from jax.sharding import AbstractMesh, AxisType, Mesh

from pytest_shardtypes.axes import BadMesh, MeshAxes

_AXIS_TYPES = {"auto": AxisType.Auto, "explicit": AxisType.Explicit}


def marked_mesh(marker: pytest.Mark) -> MeshAxes:
    """The axes that ``@pytest.mark.mesh(d=2, t=4)`` names. Raises ``BadMesh``."""
    if marker.args:
        raise BadMesh(
            f"the marker mesh takes axes by keyword, as in mesh(d=2, t=4), not {marker.args[0]!r}"
        )
    axes = {name: size for name, size in marker.kwargs.items() if name != "axis_types"}
    return MeshAxes.of(axes, marker.kwargs.get("axis_types", "auto"))


def marked_meshes(marker: pytest.Mark) -> tuple[MeshAxes, ...]:
    """The meshes that ``@pytest.mark.meshes("d=8", "d=2,t=4")`` names. Raises ``BadMesh``."""
    unknown = [name for name in marker.kwargs if name != "axis_types"]
    if unknown:
        raise BadMesh(
            f"the marker meshes takes strings like 'd=2,t=4', not {unknown[0]}="
        )
    if not marker.args:
        raise BadMesh(
            "the marker meshes names at least one mesh, as in meshes('d=8', 'd=2,t=4')"
        )
    return tuple(
        MeshAxes.parse(str(spec), marker.kwargs.get("axis_types", "auto"))
        for spec in marker.args
    )


def build_mesh(axes: MeshAxes) -> Mesh:
    """A mesh on the first devices. Raises ``BadMesh`` where there are too few."""
    devices = jax.devices()
    if axes.size > len(devices):
        raise BadMesh(
            f"the mesh {axes} needs {axes.size} devices and there are {len(devices)}: "
            f"run with --shardtypes-devices={axes.size}, or use abstract_mesh, which needs none"
        )
    return jax.make_mesh(
        axes.shape,
        axes.names,
        devices=_first(devices, axes.size),
        axis_types=_axis_types(axes),
    )


def _first(devices: Sequence[jax.Device], count: int) -> list[jax.Device]:
    """So many devices, as many of each process where that comes out even."""
    processes = jax.process_count()
    if count % processes:
        return list(devices[:count])
    own = {
        process: [d for d in devices if d.process_index == process]
        for process in range(processes)
    }
    return [
        device
        for process in range(processes)
        for device in own[process][: count // processes]
    ]


def abstract_mesh(*, axis_types: str = "auto", **axes: int) -> AbstractMesh:
    """A mesh without devices, of any size, for ``jax.eval_shape`` and ``shardtypes.trace``. Raises ``BadMesh``."""
    checked = MeshAxes.of(axes, axis_types)
    return AbstractMesh(checked.shape, checked.names, axis_types=_axis_types(checked))


def resized(mesh: Mesh, sizes: Mapping[str, int]) -> Mesh:
    """A mesh with the axes of ``mesh`` in other sizes, on the first of its devices."""
    shape = tuple(sizes[name] for name in mesh.axis_names)
    count = 1
    for size in shape:
        count *= size
    devices = list(mesh.devices.flat)[:count]
    return jax.make_mesh(
        shape, mesh.axis_names, devices=devices, axis_types=mesh.axis_types
    )


def _axis_types(axes: MeshAxes) -> tuple[AxisType, ...]:
    return (_AXIS_TYPES[axes.kind],) * len(axes.axes)
