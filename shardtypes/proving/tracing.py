"""A function as two programs: on the devices of a mesh, and on one device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax

from shardtypes.proving.backward_lines import own_lines
from shardtypes.proving.program import Program, read
from shardtypes.proving.relation import Sizes
from shardtypes.proving.substitution import in_sizes, sizes_in_force


@dataclass(frozen=True)
class Traced:
    """A program and the tree of what it returns; ``sizes`` are those of the mesh axes that it met,
    ``mapped`` the axes over which ``pmap`` or ``vmap`` maps."""

    program: Program
    tree: Any
    sizes: Sizes
    mapped: frozenset[str] = frozenset()


def traced(
    f: Callable[..., Any],
    args: Any,
    kwargs: Any,
    sizes: Sizes,
    context: Any,
    over_rows: bool = True,
) -> Traced:
    """Trace with mesh axes of these sizes, as ``sizes_in_force`` has them. Raises what the program raises."""
    found: list[Any] = []

    def flat(*leaves: Any) -> Any:
        given, named = jax.tree_util.tree_unflatten(tree, leaves)
        results, structure = jax.tree_util.tree_flatten(f(*given, **named))
        found.append(structure)
        return results

    leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
    leaves = [in_sizes(leaf, sizes) for leaf in leaves]
    with sizes_in_force(sizes, context, over_rows) as seen, own_lines():
        closed = jax.make_jaxpr(flat)(*leaves)
    every = seen.sizes.items()
    met = {axis: sizes.get(axis, size) for axis, size in every}
    mapped = frozenset(seen.mapped)
    return Traced(read(closed), found[-1], met, mapped)
