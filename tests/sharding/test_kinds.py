"""How an elementwise function treats its operands is said twice: in a table that the linter reads while it knows no
numbers, and by the primitives that the function is made of. They say the same."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from shardlint.ops.sharding.combining import Kind
from shardlint.ops.sharding.elementwise import FUNCTIONS
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.registry import public_signature
from shardtypes.semantics.relation import SAME, Monoid, Relation, Relations, part

pytestmark = pytest.mark.once

AXIS = "t"
SUM = part("sum")
#: Arguments that are no operands.
OPTIONS: dict[str, tuple[Any, ...]] = {"jax.lax.integer_pow": (2,)}
#: They are lowered to a selection by a comparison, of which no maximum is declared.
CHOSEN = {"jax.numpy.fmax", "jax.numpy.fmin"}
#: Functions whose operands are complex: of others they are not what the table says.
OF_COMPLEX = {"jax.lax.conj", "jax.lax.imag", "jax.lax.real", "jax.numpy.imag"}
#: Operands that may be left out.
BOUNDS = {"jax.numpy.clip": 2}


def call(name: str, *operands: Array) -> Array:
    found: Array = LOWERINGS[name](*operands, *OPTIONS.get(name, ()))
    return found


def operand_count(name: str) -> int:
    required = [
        parameter
        for parameter in public_signature(name).parameters.values()
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_POSITIONAL
    ]
    return len(required) + BOUNDS.get(name, 0) - len(OPTIONS.get(name, ()))


def of_zeros(name: str, count: int) -> Any:
    """The numbers that it gives for zeros: of floats, else of booleans."""
    kinds = (np.complex64,) if name in OF_COMPLEX else (np.float32, np.bool_)
    with evaluation(), np.errstate(all="ignore"):
        for dtype in kinds:
            try:
                zeros = [asarray(np.zeros(4, dtype))] * count
                return call(name, *zeros).numbers()
            except TypeError:
                continue
    raise AssertionError(f"{name} takes neither floats nor booleans")


def related(name: str, relations: Sequence[Relation]) -> Relation:
    dtype = "complex64" if name in OF_COMPLEX else "float32"
    operands = [
        Array((4,), dtype, relations=Relations.of({AXIS: one})) for one in relations
    ]
    result = call(name, *operands)
    assert result.relations is not None
    return result.relations[AXIS]


def keeps_sums(name: str, *relations: Relation) -> bool:
    return related(name, relations) == SUM


def chooses(name: str, count: int) -> bool:
    """Whether a maximum or a minimum of the devices' values stays one beside complete operands."""
    monoids: tuple[Monoid, ...] = ("max", "min")
    rest = [SAME] * (count - 1)
    return any(related(name, [part(one), *rest]) == part(one) for one in monoids)


def derived(name: str) -> Kind:
    count = operand_count(name)
    zeros = of_zeros(name, count)
    if zeros.dtype == np.bool_:
        return "test"
    if count == 1:
        if keeps_sums(name, SUM):
            return "linear"
        return "nonlinear" if np.any(zeros) else "zero"
    if count == 2:
        first, second = keeps_sums(name, SUM, SAME), keeps_sums(name, SAME, SUM)
        if keeps_sums(name, SUM, SUM):
            return "add"
        if first:
            return "multiply" if second else "divide"
    return "choose" if chooses(name, count) else "nonlinear"


@pytest.mark.parametrize("name", sorted(FUNCTIONS.keys() - CHOSEN))
def test_the_table_says_what_the_primitives_say(name: str) -> None:
    assert FUNCTIONS[name] == derived(name)
