"""What the compiler made of a function: which devices talk, along which mesh axes, how much, and from which line."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding

from pytest_shardtypes import hlo

if TYPE_CHECKING:
    from pytest_shardtypes.golden import GoldenFiles

# The names of jax.lax beside the compiler's.
ALIASES = {"psum": "all_reduce", "psum_scatter": "reduce_scatter", "collective_permute": "ppermute"}
COUNTED = tuple(sorted({*hlo.KINDS.values(), *ALIASES}))


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


def collectives(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Collective, ...]:
    """Compile ``f`` for these arguments (without running it) and list its collectives, in the module's order.

    The axes are those of the mesh in force, else of the mesh the arguments lie on.
    """
    return _compile(f, *args, **kwargs)[0]


def _compile(f: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[tuple[Collective, ...], Mesh | None]:
    compiled = jax.jit(f).lower(*args, **kwargs).compile()
    mesh = _mesh_in_force() or _mesh_of(jax.tree.leaves((args, kwargs))) or _mesh_of_shardings(compiled)
    devices = 1 if mesh is None else mesh.size
    executable = compiled.runtime_executable()
    assert executable is not None, "JAX compiled the function and kept no executable"
    found: list[Collective] = []
    for module in executable.hlo_modules():
        for entry in hlo.communications(module.as_serialized_hlo_module_proto(), devices):
            axes = None if mesh is None or entry.groups is None else _axes(entry.kind, entry.groups, mesh)
            if axes != ():  # over axes of size one nobody talks
                found.append(Collective(entry.kind, axes, entry.bytes, entry.source))
    return tuple(found), mesh


def assert_collectives(
    f: Callable[..., Any], *args: Any, golden: str | None = None, files: GoldenFiles | None = None, **counts: int
) -> None:
    """Fail unless the compiled ``f(*args)`` has exactly these numbers of collectives, as in ``all_gather=0``.

    Kinds that are not named are not counted. ``total=`` counts all. The test fails with the list of what is there.
    ``golden`` names a file of ``files`` that lists all of them, which ``--shardtypes-update`` writes.
    """
    if not counts and golden is None:
        raise TypeError("assert_collectives needs counts, as in all_gather=0, or golden='name'")
    unknown = [name for name in counts if name not in COUNTED and name != "total"]
    if unknown:
        raise TypeError(f"assert_collectives counts {', '.join(COUNTED)} and total, not {unknown[0]!r}")
    found, mesh = _compile(f, *args)
    have = Counter(entry.kind for entry in found)
    wrong = [
        f"{name}: expected {want}, the compiler put in {got}"
        for name, want in counts.items()
        if (got := len(found) if name == "total" else have[ALIASES.get(name, name)]) != want
    ]
    if wrong:
        listing = "\n".join(f"  {entry}" for entry in found) or "  no collectives at all"
        pytest.fail("\n".join([*wrong, "the compiled function has", listing]), pytrace=False)
    if golden is not None and files is not None:
        sizes = {} if mesh is None else dict(mesh.shape)
        files.compare(golden, ",".join(f"{name}={size}" for name, size in sizes.items()) or "no mesh", found)


def _mesh_in_force() -> Mesh | None:
    mesh = jax.sharding.get_mesh()
    return mesh if isinstance(mesh, Mesh) and not mesh.empty else None


def _mesh_of(leaves: Iterable[Any]) -> Mesh | None:
    for leaf in leaves:
        sharding = getattr(leaf, "sharding", None)
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
            return sharding.mesh
    return None


def _mesh_of_shardings(compiled: Any) -> Mesh | None:
    for sharding in jax.tree.leaves((compiled.input_shardings, compiled.output_shardings)):
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
            return sharding.mesh
    return None


def _axes(kind: str, groups: Sequence[hlo.Group], mesh: Mesh) -> tuple[str, ...] | None:
    """The smallest set of axes whose lines of devices are these groups (or hold every pair that is permuted)."""
    names = [name for name in mesh.axis_names if mesh.shape[name] > 1]
    if kind == "ppermute":
        grid = np.arange(mesh.size).reshape(mesh.devices.shape)
        where = {int(device): np.argwhere(grid == device)[0] for device in grid.flat}
        moved = {
            name
            for source, target in groups
            for name, before, after in zip(mesh.axis_names, where[source], where[target], strict=True)
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
    return {frozenset(int(device) for device in row) for row in grid.transpose([*first, *last]).reshape(-1, size)}
