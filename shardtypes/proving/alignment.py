"""Which value of the program on one device is which of the program on many: they come from the same lines."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import TypeAlias

from shardtypes.proving.program import Constant, Name, Operand, Program, Step

Pairs = dict[Name, Name]
Key: TypeAlias = tuple[object, ...]
Both: TypeAlias = tuple[Step, Step]
_MOST = 4_000_000
_SAME = {"psum_invariant": "psum", "all_gather_invariant": "all_gather"}


def aligned(many: Program, one: Program) -> tuple[Pairs, list[Both]]:
    """The values that belong together, and the steps, those inside of loops and branches included."""
    names: Pairs = {}
    steps: list[Both] = []
    _align(many, one, names, steps)
    return names, steps


def _align(many: Program, one: Program, names: Pairs, steps: list[Both]) -> None:
    if len(many.inputs) == len(one.inputs):
        names.update(zip(many.inputs, one.inputs, strict=True))
    for left, right in _pairs(many, one):
        if len(left.results) != len(right.results):
            continue
        steps.append((left, right))
        names.update(zip(left.results, right.results, strict=True))
        if len(left.inside) == len(right.inside):
            for a, b in zip(left.inside, right.inside, strict=True):
                _align(a, b, names, steps)


def _pairs(many: Program, one: Program) -> Iterator[Both]:
    left = [_key(step, many) for step in many.steps]
    right = [_key(step, one) for step in one.steps]
    primitives = [key[0] for key in left]
    primitives_of_one = [key[0] for key in right]
    if primitives == primitives_of_one:
        yield from zip(many.steps, one.steps, strict=True)
        return
    start = _common(left, right)
    rest = left[start:]
    rest_of_one = right[start:]
    end = _common(rest[::-1], rest_of_one[::-1])
    last = len(left) - end
    last_of_one = len(right) - end
    first = many.steps[:start]
    first_of_one = one.steps[:start]
    yield from zip(first, first_of_one, strict=True)
    others = many.steps[start:last]
    others_of_one = one.steps[start:last_of_one]
    if len(others) * len(others_of_one) <= _MOST:
        keys = left[start:last]
        keys_of_one = right[start:last_of_one]
        yield from _blocks(others, others_of_one, keys, keys_of_one)
    yield from zip(many.steps[last:], one.steps[last_of_one:], strict=True)


def _common(left: list[Key], right: list[Key]) -> int:
    """How many are the same from the start."""
    for number, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return number
    return min(len(left), len(right))


def _blocks(
    many: list[Step],
    one: list[Step],
    keys: list[Key],
    keys_of_one: list[Key],
) -> Iterator[Both]:
    matcher = difflib.SequenceMatcher(None, keys, keys_of_one, autojunk=False)
    for block in matcher.get_matching_blocks():
        steps = many[block.a : block.a + block.size]
        steps_of_one = one[block.b : block.b + block.size]
        yield from zip(steps, steps_of_one, strict=True)


def _key(step: Step, program: Program) -> Key:
    primitive = _SAME.get(step.primitive, step.primitive)
    ranks = []
    for name in step.results:
        shape = getattr(program.types[name], "shape", ())
        ranks.append(len(shape))
    return primitive, step.place, tuple(ranks), len(step.operands)


def paired(operand: Operand, names: Pairs) -> Operand | None:
    """The value on one device; a constant has none of its own."""
    if isinstance(operand, Constant):
        return None
    return names.get(operand)
