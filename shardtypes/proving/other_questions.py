"""The same question for other arguments: larger ones, and such as can be run in numbers."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from shardtypes.proving.arguments import (
    cut,
    largest_index,
    parts_of,
)
from shardtypes.proving.elsewhere import PRIME, Kept, Shapes, larger, smaller
from shardtypes.proving.program import Constant
from shardtypes.proving.question import Question, shapes_of
from shardtypes.proving.relation import Sizes
from shardtypes.proving.retracing import try_on_one

_MOST_LEAST = 256
"""Of a dimension that each device has at least, however many a program counts."""


def for_larger(question: Question) -> Question | None:
    """The question for larger arguments, on a mesh on which these sizes are no others' multiples."""
    mesh = dict.fromkeys(question.sizes, PRIME)
    least = PRIME ** len(mesh)
    return _for_shapes(
        question, mesh, lambda own, can_be: larger(own, least, can_be), of_shapes
    )


def for_smaller(question: Question) -> Question | None:
    """The question for arguments that are so much smaller that they can be run in numbers; None where there are none,
    or the program may mean something else for them."""
    if question.groups:
        return None
    own = _numbers(question)
    least = 2
    while least <= _MOST_LEAST:
        judged = _with_shards_of(question, least)
        if judged is None or judged.is_large:
            return None
        constants = own & _numbers(judged) - _large(question, judged)
        wanted = max(constants, default=0) + 1
        if wanted <= least:
            return judged
        # a window, a halo or a chunk must not become wider than what a device has
        least = wanted
    return None


def _with_shards_of(question: Question, least: int) -> Question | None:
    """The question for small arguments, of which each device has at least so much along each dimension."""
    program = question.many.program
    kept = Kept(
        parts=parts_of(program),
        unit=math.prod(question.sizes.values()),
        picks=any(step.primitive == "axis_index" for step in program.all_steps()),
        indices=[largest_index(array) for array in question.call.arrays],
        least=least,
    )
    return _for_shapes(
        question, question.sizes, lambda own, can_be: smaller(own, kept, can_be), cut
    )


def _large(question: Question, other: Question) -> set[int]:
    """Large dimensions that are the same for both arguments, and their parts: none that a program counts to."""
    sizes = _sizes(question) & _sizes(other)
    devices = [math.prod(some) for some in _products(question.sizes)]
    parts = {size // count for size, count in itertools.product(sizes, devices)}
    return {part for part in parts if part > _MOST_LEAST}


def _sizes(question: Question) -> set[int]:
    """Those of the arguments."""
    return {size for shape in shapes_of(question.call.arrays) for size in shape}


def _numbers(question: Question) -> set[int]:
    """All sizes of a program, and all whole numbers that are written in it."""
    program = question.many.program
    found: set[int] = set()
    for step in program.all_steps():
        for name in step.results:
            found.update(getattr(program.types[name], "shape", ()))
        for operand in step.operands:
            if isinstance(operand, Constant):
                found |= _whole_number(operand.value)
    return found


def _products(sizes: Sizes) -> Iterator[tuple[int, ...]]:
    """The sizes of some of the mesh's axes."""
    lengths = list(sizes.values())
    for count in range(len(lengths) + 1):
        yield from itertools.combinations(lengths, count)


def _whole_number(value: Any) -> set[int]:
    """A number that may count entries."""
    number = np.asarray(value)
    if number.shape or number.dtype.kind not in "iu":
        return set()
    return {abs(int(number))}


def _for_shapes(
    question: Question,
    mesh: Sizes,
    choose: Callable[[Shapes, Callable[[Shapes], bool]], Shapes | None],
    made: Callable[[Sequence[Any], Shapes], list[Any]],
) -> Question | None:
    """The question on a mesh for arguments of other shapes, of those that the program bears; None where it bears
    none."""
    found: dict[Shapes, Question] = {}

    def can_be(shapes: Shapes) -> bool:
        arrays = made(question.call.arrays, shapes)
        call = replace(question.call, arrays=arrays)
        one = None
        if question.one is not None:
            alone = try_on_one(call, question.places, question.sizes, question.context)
            if isinstance(alone, Exception):
                return False
            one = alone
        judged = question.on_mesh(mesh, call, one)
        if judged is not None:
            found[shapes] = judged
        return judged is not None

    shapes = choose(shapes_of(question.call.arrays), can_be)
    if shapes is None:
        return None
    return found[shapes]


def of_shapes(arrays: Sequence[Any], shapes: Shapes) -> list[Any]:
    """What stands for arguments of other shapes."""
    return [
        jax.ShapeDtypeStruct(shape, array.dtype)
        for array, shape in zip(arrays, shapes, strict=True)
    ]
