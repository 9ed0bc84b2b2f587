"""Examples for ``prove`` that are made from annotations: arrays of given sizes, in shard_map where that is meant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax

from shardtypes.certainty import unbound_axis
from shardtypes.given_meshes import mesh_of
from shardtypes.lang import Shape
from shardtypes.mesh_dependence import dependence_of
from shardtypes.meshes import mesh_sizes
from shardtypes.messages import array_text
from shardtypes.proving.prover import prove
from shardtypes.proving.verdict import Proof
from shardtypes.trace_arguments import arguments_of, combinations, shapes_of
from shardtypes.trace_calls import Call, Surroundings
from shardtypes.trace_forms import mappings
from shardtypes.tracing import result_of

#: What every size is a multiple of where no mesh says more.
_UNIT = 8


@dataclass(frozen=True)
class Made:
    """What a function was proved with: the sizes of names, and the arrays by parameter, as ``f32[16, 32]``."""

    sizes: Mapping[str, int]
    arrays: Mapping[str, tuple[str, ...]]


def prove_annotated(
    f: Callable[..., Any], sizes: Mapping[str, int], mesh: Any, grad: bool
) -> tuple[Proof, Made]:
    """Prove a function with arrays that its annotations describe. A function that asks for mesh axes is called in
    ``shard_map`` over the mesh, entered and left as its annotations say.

    Args:
        f: The function.
        sizes: Those of names; the others get sizes that the axes of the mesh divide.
        mesh: As for ``prove``.
        grad: As for ``prove``.

    Raises:
        CannotTell: a parameter needs an example; the text says which.
        Exception: what the function raises.
    """
    arguments = arguments_of(f, (), {})
    # of values that a parameter may have, the default ones
    _, parameters = combinations(arguments)[0]
    over, lengths = mesh_of(mesh)
    shapes = list(shapes_of(parameters))
    chosen = _sizes(shapes, lengths)
    chosen.update(sizes)
    around = Surroundings(over if lengths else None)
    mapped = mappings(f)
    result = result_of(f)
    call = Call(f, parameters, mapped, result, around)
    run, arrays = call.prepared(chosen)
    texts = {name: arrays_text(tree) for name, tree in arrays.items()}
    made = Made(chosen, texts)
    why = dependence_of(f) or None
    try:
        proof = prove(run, arrays, mesh=mesh, grad=grad, mesh_dependent=why)
    except NameError as error:
        if unbound_axis(error) not in mesh_sizes(around.mesh):
            raise
        inside = replace(call, around=replace(around, manual=True))
        run, arrays = inside.prepared(chosen)
        proof = prove(run, arrays, mesh=mesh, grad=grad, mesh_dependent=why)
    return proof, made


def _sizes(shapes: Iterable[Shape], lengths: Mapping[str, int]) -> dict[str, int]:
    """A size of its own for each name, which the axes of its dimensions divide."""
    unit = math.lcm(*lengths.values()) if lengths else _UNIT
    names: dict[str, None] = {}
    for shape in shapes:
        for dim in shape.dims:
            parts = math.prod(lengths.get(axis, 1) for axis in dim.axes)
            unit = math.lcm(unit, parts)
            if dim.size is not None:
                symbols = sorted(dim.size.symbols)
                names.update(dict.fromkeys(symbols))
    return {name: unit * count for count, name in enumerate(names, 2)}


def arrays_text(tree: Any) -> tuple[str, ...]:
    """Each array of a tree, as ``f32[16, 32]``."""
    found = []
    for leaf in jax.tree.leaves(tree):
        text = array_text(str(leaf.dtype), leaf.shape)
        found.append(text)
    return tuple(found)
