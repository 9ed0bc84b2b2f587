"""``cost``: what a program costs on a mesh that need not be there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax.tree_util import keystr, tree_flatten_with_path

from shardtypes import messages
from shardtypes.costing import explicit
from shardtypes.costing.counting import Counting, placed_by
from shardtypes.costing.report import Cost, Held
from shardtypes.costing.resharding import Placed
from shardtypes.explanation import argument_names
from shardtypes.function_names import display_name
from shardtypes.given_meshes import mesh_of
from shardtypes.proving.calls import Call, is_array
from shardtypes.proving.program import Constant, Name, Program
from shardtypes.proving.relation import Sizes
from shardtypes.proving.tracing import Traced, traced
from shardtypes.switches import enabled


def cost(
    f: Callable[..., Any], /, *examples: Any, mesh: Any = None, **named: Any
) -> Cost:
    """How many bytes each device holds of the arguments and results of a function, and how many its collectives send.

    No devices are needed and nothing is compiled or run. What each collective sends is by ring algorithms
    (``shardtypes.semantics.cost``); what the compiler puts in on its own, on axes that are neither mapped over by hand
    nor explicit, is not counted but listed. What the function itself raises on the mesh is raised.

    Args:
        f: The function.
        examples: Its arguments, arrays or ``jax.ShapeDtypeStruct``, with shardings on explicit axes; other leaves are
            taken as they are.
        mesh: A mesh, concrete or abstract, or axis sizes as in ``{"d": 2, "t": 4}`` or ``"d=2,t=4"``; by default the
            mesh in force, or the one that the function holds.
        named: Arguments by name.

    Raises:
        TypeError: what is no function or no mesh, or arguments of which no program can be made.
        ValueError: as above.
    """
    if not callable(f):
        raise TypeError(
            f"cost takes a function and its example arguments, not {type(f).__name__}"
        )
    context, sizes = mesh_of(mesh)
    call = Call.of(f, examples, named, False)
    with enabled(False):
        made = traced(call.flat, (call.arrays,), {}, sizes, context, over_rows=False)
    names = _names(f, examples, named)
    return _Asked(made, call.arrays, {**_own_sizes(context), **made.sizes}).cost(
        display_name(f), names
    )


def _own_sizes(mesh: Any) -> Sizes:
    """Those of the mesh in force: a program of explicit axes maps over none by hand."""
    return {} if mesh is None else dict(mesh.shape)


def _names(
    f: Callable[..., Any], examples: Sequence[Any], named: Mapping[str, Any]
) -> list[str]:
    """What the arrays in the arguments are called, in order."""
    try:
        parameters = argument_names(f, tuple(examples))
    except (TypeError, ValueError):
        parameters = {}  # a function whose signature is not known
    found = []
    for path, leaf in tree_flatten_with_path((tuple(examples), dict(named)))[0]:
        if is_array(leaf):
            first, second, *rest = path
            name = str(getattr(second, "key", ""))
            if first.idx == 0:
                name = parameters.get(second.idx, f"argument {second.idx + 1}")
            found.append(name + keystr(tuple(rest)))
    return found


class _Asked:
    """A program that was traced for examples, on devices along axes of these sizes."""

    def __init__(self, made: Traced, examples: Sequence[Any], sizes: Sizes) -> None:
        self.made = made
        self.examples = examples
        self.sizes = sizes

    def cost(self, function: str, names: Sequence[str]) -> Cost:
        program = self.made.program
        places = self._places(program)
        arguments = [
            self._held(title, name, program, places)
            for title, name in zip(names, program.inputs, strict=True)
        ]
        over = {axis: size for axis, size in self.sizes.items() if size > 1}
        counting = Counting(over, places)
        moved = counting.moved(program)
        leaves = jax.tree_util.tree_unflatten(
            self.made.tree, range(len(program.outputs))
        )
        results = []
        for path, number in tree_flatten_with_path(leaves)[0]:
            output = program.outputs[number]
            title = f"result{keystr(path)}"
            if isinstance(output, Constant):
                continue  # it is written in the program
            results.append(self._held(title, output, program, counting.where))
        return Cost(
            function,
            self.sizes,
            tuple(arguments),
            tuple(results),
            moved,
            tuple(counting.uncounted),
        )

    def _places(self, program: Program) -> dict[Name, Placed]:
        """How the arguments are sharded: as the examples are, as ``jit`` is told, or as ``shard_map`` takes them."""
        found: dict[Name, Placed] = {}
        for step in program.taken_apart:
            (operand,) = step.operands
            if isinstance(operand, int):
                found.setdefault(operand, Placed(tuple(step.params["dims"])))
        for name, sharding in program.placed.items():
            placed = placed_by(sharding, program.types[name])
            if placed is not None:
                found[name] = placed
        for name, example in zip(program.inputs, self.examples, strict=True):
            placed = placed_by(getattr(example, "sharding", None), example)
            if placed is not None:
                found[name] = placed
        inputs = set(program.inputs)
        return {name: placed for name, placed in found.items() if name in inputs}

    def _held(
        self, title: str, name: Name, program: Program, places: Mapping[Name, Placed]
    ) -> Held:
        aval = program.types[name]
        placed = places.get(name)
        if explicit.explicit_axes(aval):
            placed = explicit.typed(aval)
        shown = placed or Placed(((),) * len(aval.shape))
        parts = shown.over(self.sizes).parts(self.sizes)
        dims = [
            "/".join([str(size), *(axis for axis in axes if axis in self.sizes)])
            for size, axes in zip(aval.shape, shown.dims, strict=True)
        ]
        devices = math.prod(self.sizes.values())
        return Held(
            title,
            messages.array_text(aval.dtype, dims),
            math.ceil(explicit.size_of(aval) / parts),
            parts == 1 and devices > 1,
            placed is not None or devices == 1,
        )
