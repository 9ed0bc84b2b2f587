"""The question to the compiler how a value lies, as an operation in a program.

JAX has one of its own, which forgets under ``vmap`` which dimension was added; ours keeps it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax._src.core import jaxprs_in_params  # no public way to find the programs inside a program
from jax._src.debugging import debug_effect, inspect_sharding_p  # what jax.debug.inspect_array_sharding is made of
from jax._src.dispatch import prim_requires_devices_during_lowering
from jax._src.interpreters import ad, batching, mlir
from jax.extend.core import Primitive

# Called with the sharding, the shape, and the positions of the dimensions that ``vmap`` added to it, in the order in
# which to take them away (as in ``beneath``); with None in their place for ragged ones.
Answer = Callable[[Any, tuple[int, ...], tuple[int, ...] | None], None]

question_p = Primitive("shardtypes_question")
question_p.multiple_results = True


def ask(value: Any, answer: Answer) -> None:
    """Have ``answer`` called when the program is compiled, or at once for an array."""
    question_p.bind(value, answer=answer, mapped=())


def is_asked(program: Any) -> bool:
    """Whether there are questions in a ``Jaxpr``, or in one inside of it."""
    return any(
        equation.primitive is question_p or any(map(is_asked, jaxprs_in_params(equation.params)))
        for equation in program.eqns
    )


def _now(value: Any, *, answer: Answer, mapped: tuple[int, ...] | None) -> list[Any]:
    answer(value.sharding, value.shape, mapped)
    return []


def _batched(values: Any, dims: Any, *, answer: Answer, mapped: tuple[int, ...] | None) -> tuple[list[Any], list[Any]]:
    position = dims[0] if type(dims[0]) is int else None
    outer = None if mapped is None or position is None else (position, *mapped)
    question_p.bind(values[0], answer=answer, mapped=outer)
    return [], []


def _differentiated(values: Any, _: Any, **parameters: Any) -> tuple[list[Any], list[Any]]:
    question_p.bind(*values, **parameters)
    return [], []


def _lowered(context: Any, value: Any, *, answer: Answer, mapped: tuple[int, ...] | None) -> Any:
    def inspect(x: jax.Array) -> list[Any]:
        inspect_sharding_p.bind(x, callback=lambda sharding: answer(sharding, x.shape, mapped))
        return []

    return mlir.lower_fun(inspect, multiple_results=True)(context, value)


question_p.def_impl(_now)
question_p.def_effectful_abstract_eval(lambda *_, **__: ([], {debug_effect}))  # an effect, so that it is not dropped
prim_requires_devices_during_lowering.add(question_p)
batching.primitive_batchers[question_p] = _batched
ad.primitive_jvps[question_p] = _differentiated
mlir.register_lowering(question_p, _lowered)
