"""What a person is told of a culprit: its line, what happens there, and the lines to look at beside it."""

from __future__ import annotations

from collections.abc import Iterator

from shardtypes.proving.places import Place, callers_of
from shardtypes.proving.program import Operand, Step
from shardtypes.proving.relation import Related
from shardtypes.proving.verdict import Where
from shardtypes.proving.walk import COLLECTIVES, Culprit, Walk
from shardtypes.proving.words import (
    applied_here,
    arises,
    in_each_round,
    last_collective,
    operation,
    what_happens,
)

_CALLERS = 2


def described(walk: Walk, found: Culprit) -> Where:
    """A culprit at the line of its operation."""
    place = line_of(walk, found.step)
    what = what_happens(found, walk.sizes)
    beside = [
        *_of_operands(walk, found),
        *_exchanges(found.step),
        *_callers(found.step),
    ]
    places = tuple(dict.fromkeys(beside))
    return Where(place, operation(found.step), what, places)


def moved(where: Where, step: Step, what: str) -> Where:
    """The culprit at the line of another operation, beside which is the line that it was found at."""
    used = (where.place, applied_here(where.operation))
    rest = [pair for pair in where.related if pair[0] != step.place]
    return Where(step.place, operation(step), what, (used, *rest))


def line_of(walk: Walk, step: Step) -> Place:
    """The user's line of an operation, or of what made its operands."""
    if step.place.file:
        return step.place
    makers = (one.place for one in walk.makers(step.operands))
    return next((place for place in makers if place.file), step.place)


def _of_operands(walk: Walk, found: Culprit) -> Iterator[tuple[Place, str]]:
    """Where operands that are not simply replicated came to be as they are."""
    for operand, relation in zip(found.step.operands, found.operands, strict=True):
        if relation is None:
            continue
        if relation.right and not relation.split:
            continue
        if relation.numbered and found.step.inside:
            continue  # a loop may well count by the devices' numbers
        yield from _history(walk, found.step, operand, relation)


def _history(
    walk: Walk, step: Step, operand: Operand, relation: Related
) -> Iterator[tuple[Place, str]]:
    arose = walk.origin(operand)
    if arose is not None and arose.place.file and arose.place != step.place:
        yield arose.place, arises(relation, walk.sizes)
    passed = walk.collective_before(operand)
    if passed is not None and passed.place.file and not relation.right:
        yield passed.place, last_collective(passed)


def _exchanges(step: Step) -> list[tuple[Place, str]]:
    """The collectives of a loop, between which nothing is known."""
    inside = [one for program in step.inside for one in program.all_steps()]
    collectives = [
        one for one in inside if one.primitive in COLLECTIVES and one.place.file
    ]
    return [(one.place, in_each_round(one)) for one in collectives]


def _callers(step: Step) -> list[tuple[Place, str]]:
    """Where the function was called in which an operation is, in the same file."""
    if step.caller is None:
        return []
    near = [
        caller for caller in callers_of(step.caller) if caller.file == step.place.file
    ]
    return [(caller, "called from here") for caller in near[:_CALLERS]]
