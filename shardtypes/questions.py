"""The question to the compiler how a value is sharded, as an operation in a program.

JAX has one of its own, which forgets under ``vmap`` which dimension was added, and fails where the compiler splits a
dimension over half of a mesh axis.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any
from uuid import uuid4

import numpy as np

# no public way to find the programs inside a program; jax.extend.core has both, but loads Pallas
from jax._src.core import Primitive, jaxprs_in_params

# what jax.debug.inspect_array_sharding is made of, as what follows
from jax._src.debugging import debug_effect
from jax._src.dispatch import prim_requires_devices_during_lowering
from jax._src.interpreters import ad, batching, mlir
from jax._src.lib import xla_client  # type: ignore[attr-defined]  # as JAX itself imports it
from jax._src.lib.mlir import ir  # type: ignore[attr-defined]  # as JAX itself imports it
from jax._src.lib.mlir.dialects import hlo  # type: ignore[attr-defined]  # as JAX itself imports it
from jax._src.mesh import thread_resources
from jax._src.sharding_impls import (
    GSPMDSharding,
    SPMDAxisContext,
    replicated_hlo_sharding,
)
from jax.sharding import Mesh, NamedSharding, PartitionSpec, Sharding

from shardtypes.compiled import collector_in_force

# Called with the sharding, the mesh where it is known, the shape, and the positions of the dimensions that ``vmap``
# added to it, in the order in which to take them away (as in ``beneath``); with None in their place for ragged ones.
Answer = Callable[[Any, Mesh | None, tuple[int, ...], tuple[int, ...] | None], None]

# The attribute of a question in a lowered program: its name, which no other has.
_NAME = "shardtypes.question"
# Operations that stand for a function of the program, and where they name it.
_CALLS = {"func.call": "callee", "stablehlo.composite": "decomposition"}

question_p = Primitive("shardtypes_question")
question_p.multiple_results = True


def ask(value: Any, answer: Answer) -> None:
    """Have ``answer`` called when the program is compiled, or at once for an array."""
    question_p.bind(value, answer=answer, mapped=())


def is_asked(program: Any) -> bool:
    """Whether there are questions in a ``Jaxpr``, or in one inside of it."""
    return any(
        equation.primitive is question_p
        or any(map(is_asked, jaxprs_in_params(equation.params)))
        for equation in program.eqns
    )


def _now(value: Any, *, answer: Answer, mapped: tuple[int, ...] | None) -> list[Any]:
    answer(value.sharding, getattr(value.sharding, "mesh", None), value.shape, mapped)
    return []


def _batched(
    values: Any, dims: Any, *, answer: Answer, mapped: tuple[int, ...] | None
) -> tuple[list[Any], list[Any]]:
    position = dims[0] if type(dims[0]) is int else None
    outer = None if mapped is None or position is None else (position, *mapped)
    question_p.bind(values[0], answer=answer, mapped=outer)
    return [], []


def _differentiated(
    values: Any, _: Any, **parameters: Any
) -> tuple[list[Any], list[Any]]:
    question_p.bind(*values, **parameters)
    return [], []


def _lowered(
    context: Any, value: Any, *, answer: Answer, mapped: tuple[int, ...] | None
) -> Any:
    mesh, devices = _mesh_and_devices(context.module_context.axis_context)
    shape = context.avals_in[0].shape
    # The persistent compilation cache tells programs apart by the address of ``report``, which another one has had
    # before it or in another process: what is read from the cache answers nothing.
    name = uuid4().hex
    collector = collector_in_force()

    def report(compiled: Any) -> None:
        sharding: Sharding = GSPMDSharding(devices, compiled)
        if mesh is not None and compiled.is_manual():
            sharding = NamedSharding(mesh, PartitionSpec())
        answer(sharding, mesh, shape, mapped)
        if collector is not None:
            collector.note_answer(name, compiled)

    if len(devices) == 1:
        report(replicated_hlo_sharding)
        return []
    if collector is not None:
        collector.add_question(name, report, devices)
    context.module_context.add_keepalive(report)
    asked = hlo.CustomCallOp(
        [value.type],
        [value],
        call_target_name=ir.StringAttr.get("InspectSharding"),
        has_side_effect=ir.BoolAttr.get(True),
        api_version=mlir.i32_attr(1),
        called_computations=ir.ArrayAttr.get([]),
        backend_config=ir.StringAttr.get(
            xla_client.encode_inspect_sharding_callback(report)
        ),
    )
    asked.attributes[_NAME] = ir.StringAttr.get(name)
    return []


def name_by_position(operation: Any, positions: Mapping[str, int]) -> bool:
    """Give a question its position for its name, the same in every process. False for another operation."""
    if _NAME not in operation.attributes:
        return False
    name = ir.StringAttr(operation.attributes[_NAME]).value
    operation.attributes[_NAME] = ir.StringAttr.get(str(positions[name]))
    operation.attributes["backend_config"] = ir.StringAttr.get("")
    return True


def answers_due(module: Any) -> dict[str, float]:
    """How often the compiler answers each question of a lowered program; without an end where that is not known.

    JAX puts one question in several places. Calls are inlined before it is answered: one in a function is answered as
    often as this is called.
    """
    places: list[tuple[str, str]] = []
    callers: dict[str, list[str]] = defaultdict(list)
    for function in module.body.operations:
        if "sym_name" not in function.attributes:
            continue
        name = ir.StringAttr(function.attributes["sym_name"]).value

        def visit(operation: Any, name: str = name) -> Any:
            attributes = operation.attributes
            if _NAME in attributes:
                places.append((ir.StringAttr(attributes[_NAME]).value, name))
            called = _CALLS.get(operation.name)
            if called is not None:
                callee = ir.FlatSymbolRefAttr(attributes[called]).value
                callers[callee].append(name)
            return ir.WalkResult.ADVANCE

        function.operation.walk(visit)

    @cache
    def calls(function: str) -> int:
        return (function == "main") + sum(map(calls, callers[function]))

    due: dict[str, float] = defaultdict(int)
    for question, function in places:
        due[question] += calls(function) or math.inf
    return dict(due)


def _mesh_and_devices(context: Any) -> tuple[Mesh | None, tuple[Any, ...]]:
    """What a program is compiled for; None where only the devices are known."""
    if isinstance(context, SPMDAxisContext):
        return context.mesh, context.mesh._flat_devices_tuple
    devices = tuple(context.device_assignment)
    abstract = context.abstract_mesh
    if abstract is not None and not abstract.empty:
        mesh = _mesh_of(devices, abstract.axis_sizes, abstract.axis_names)
        return mesh, devices
    legacy = thread_resources.env.physical_mesh  # that of ``with mesh:``
    return (None if legacy.empty else legacy), devices


@lru_cache(maxsize=8)
def _mesh_of(devices: tuple[Any, ...], sizes: tuple[int, ...], names: Any) -> Mesh:
    return Mesh(np.array(devices).reshape(sizes), names)


question_p.def_impl(_now)
# an effect, so that it is not dropped
question_p.def_effectful_abstract_eval(lambda *_, **__: ([], {debug_effect}))
prim_requires_devices_during_lowering.add(question_p)
batching.primitive_batchers[question_p] = _batched
ad.primitive_jvps[question_p] = _differentiated
mlir.register_lowering(question_p, _lowered)
