"""The same question for other arguments: larger ones, and such as can be run in numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax

from shardtypes.proving.arguments import (
    cut,
    largest_index,
    parts_of,
)
from shardtypes.proving.elsewhere import PRIME, Shapes, larger, smaller
from shardtypes.proving.question import Question, shapes_of
from shardtypes.proving.relation import Sizes
from shardtypes.proving.retracing import try_on_one


def for_larger(question: Question) -> Question | None:
    """The question for larger arguments, on a mesh on which these sizes are no others' multiples."""
    mesh = dict.fromkeys(question.sizes, PRIME)
    least = PRIME ** len(mesh)
    return _for_shapes(
        question, mesh, lambda own, can_be: larger(own, least, can_be), of_shapes
    )


def for_smaller(question: Question) -> Question | None:
    """The question for arguments that are so much smaller that they can be run in numbers."""
    if question.groups:
        return None
    unit = math.prod(question.sizes.values())
    indices = [largest_index(array) for array in question.call.arrays]
    parts = parts_of(question.many.program)
    judged = _for_shapes(
        question,
        question.sizes,
        lambda own, can_be: smaller(own, parts, unit, indices, can_be),
        cut,
    )
    if judged is None or judged.is_large:
        return None
    return judged


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
