"""The communication in a compiled program: which devices talk, along which mesh axes, how much, from which line."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.sharding import Mesh

from shardtypes import hlo


@dataclass(frozen=True)
class Collective:
    """One communication in a compiled function.

    ``axes`` are the mesh axes along which devices talk, in the mesh's order, and None where they talk along no set
    of whole axes. ``bytes`` is what one device holds as its result. ``source`` is ``file:line``, None where
    the compiler kept none. One that runs in a loop counts once.
    """

    kind: str
    axes: tuple[str, ...] | None
    bytes: int
    source: str | None

    def __str__(self) -> str:
        axes = "unknown axes" if self.axes is None else ",".join(self.axes)
        return f"{self.kind} over {axes}, {self.bytes} bytes, from {self.source or 'no known line'}"


def collectives_of(compiled: Any, mesh: Mesh | None) -> tuple[Collective, ...]:
    """The collectives of a compiled program (``jax.stages.Compiled``), in the module's order; axes are the mesh's."""
    executable = compiled.runtime_executable()
    assert executable is not None, "JAX compiled the function and kept no executable"
    devices = 1 if mesh is None else mesh.size
    found: list[Collective] = []
    for module in executable.hlo_modules():
        for entry in hlo.communications(
            module.as_serialized_hlo_module_proto(), devices
        ):
            axes = (
                None
                if mesh is None or entry.groups is None
                else _axes(entry.kind, entry.groups, mesh)
            )
            if axes != ():  # over axes of size one nobody talks
                found.append(Collective(entry.kind, axes, entry.bytes, entry.source))
    return tuple(found)


def _axes(kind: str, groups: Sequence[hlo.Group], mesh: Mesh) -> tuple[str, ...] | None:
    """The smallest set of axes whose lines of devices are these groups (or hold every pair that is permuted)."""
    names = [name for name in mesh.axis_names if mesh.shape[name] > 1]
    if kind == "ppermute":
        grid = np.arange(mesh.size).reshape(mesh.devices.shape)
        where = {int(device): np.argwhere(grid == device)[0] for device in grid.flat}
        moved = {
            name
            for source, target in groups
            for name, before, after in zip(
                mesh.axis_names, where[source], where[target], strict=True
            )
            if before != after
        }
        return tuple(name for name in names if name in moved)
    wanted = {frozenset(group) for group in groups}
    for count in range(len(names) + 1):
        for chosen in itertools.combinations(names, count):
            if _lines(mesh, chosen) == wanted:
                return chosen
    return None


def _lines(mesh: Mesh, chosen: Sequence[str]) -> set[frozenset[int]]:
    grid = np.arange(mesh.size).reshape(mesh.devices.shape)
    last = [mesh.axis_names.index(name) for name in chosen]
    first = [at for at in range(grid.ndim) if at not in last]
    size = int(np.prod([grid.shape[at] for at in last], dtype=int))
    return {
        frozenset(int(device) for device in row)
        for row in grid.transpose([*first, *last]).reshape(-1, size)
    }
