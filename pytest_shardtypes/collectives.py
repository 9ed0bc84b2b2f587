"""What the compiler made of a function: which devices talk, along which mesh axes, how much, and from which line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import jax
import pytest
from jax.sharding import Mesh, NamedSharding

from pytest_shardtypes.golden import GoldenFiles
from shardtypes import hlo
from shardtypes.array_arguments import of_array_arguments
from shardtypes.collectives import Collective as Collective
from shardtypes.collectives import collectives_of
from shardtypes.compiled import without_questions

# The names of jax.lax beside the compiler's.
ALIASES = {
    "psum": "all_reduce",
    "psum_scatter": "reduce_scatter",
    "collective_permute": "ppermute",
}
COUNTED = tuple(sorted({*hlo.KINDS.values(), *ALIASES}))


def collectives(
    f: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> tuple[Collective, ...]:
    """Compile ``f`` for these arguments (without running it) and list its collectives, in the module's order.

    Arguments that are no arrays stay what they are. The axes are those of the mesh in force, else of the mesh of the
    arguments.
    """
    return _compile(f, *args, **kwargs)[0]


def _compile(
    f: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> tuple[tuple[Collective, ...], Mesh | None]:
    of_arrays, arrays, named = of_array_arguments(f, args, kwargs)
    with without_questions():
        compiled = jax.jit(of_arrays).lower(*arrays, **named).compile()
    mesh = (
        _mesh_in_force()
        or _mesh_of(jax.tree.leaves((args, kwargs)))
        or _mesh_of_shardings(compiled)
    )
    return collectives_of(compiled, mesh), mesh


def assert_collectives(
    f: Callable[..., Any],
    /,
    *args: Any,
    golden: str | None = None,
    files: GoldenFiles | None = None,
    seen: Callable[[tuple[Collective, ...]], None] = lambda found: None,
    **counts: int,
) -> None:
    """Fail unless the compiled ``f(*args)`` has exactly these numbers of collectives, as in ``all_gather=0``.

    Kinds that are not named are not counted. ``total=`` counts all. The test fails with the list of what is there.
    ``golden`` names a file of ``files`` that lists all of them; ``--shardtypes-update`` writes it. ``seen`` is called
    with what was compiled, whether or not that is right.
    """
    if not counts and golden is None:
        raise TypeError(
            "assert_collectives needs counts, as in all_gather=0, or golden='name'"
        )
    unknown = [name for name in counts if name not in COUNTED and name != "total"]
    if unknown:
        raise TypeError(
            f"assert_collectives counts {', '.join(COUNTED)} and total, not {unknown[0]!r}"
        )
    found, mesh = _compile(f, *args)
    seen(found)
    have = Counter(entry.kind for entry in found)
    wrong = [
        f"{name}: expected {want}, the compiler inserted {got}"
        for name, want in counts.items()
        if (got := len(found) if name == "total" else have[ALIASES.get(name, name)])
        != want
    ]
    if wrong:
        listing = (
            "\n".join(f"  {entry}" for entry in found) or "  no collectives at all"
        )
        pytest.fail(
            "\n".join([*wrong, "the compiled function has", listing]), pytrace=False
        )
    if golden is not None and files is not None:
        sizes = {} if mesh is None else dict(mesh.shape)
        files.compare(
            golden,
            ",".join(f"{name}={size}" for name, size in sizes.items()) or "no mesh",
            found,
        )


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
    for sharding in jax.tree.leaves(
        (compiled.input_shardings, compiled.output_shardings)
    ):
        if isinstance(sharding, NamedSharding) and isinstance(sharding.mesh, Mesh):
            return sharding.mesh
    return None
