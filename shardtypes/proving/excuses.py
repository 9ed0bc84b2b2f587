"""What is said of a question in the end: where numbers differ or tell nothing, what may excuse that is looked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from shardtypes.messages import array_text
from shardtypes.proving.arguments import (
    entries,
)
from shardtypes.proving.evaluation import Unevaluated
from shardtypes.proving.other_questions import for_smaller
from shardtypes.proving.program import Constant, Program
from shardtypes.proving.question import Question, shapes_of
from shardtypes.proving.retracing import laid_out, try_on_one
from shardtypes.proving.verdict import Proof
from shardtypes.proving.words import mesh_text
from shardtypes.proving.written_sizes import written

_SECONDS = 4.0
"""What may be tried for so long after a question that is open, or for twice as long as the question itself took."""


def verdict(question: Question, mesh_dependent: str | None) -> Proof:
    """What is said of the question."""
    began = time.thread_time()
    found = question.answer(mesh_dependent)
    took = time.thread_time() - began
    is_open = not found.ok and not found.agrees
    if is_open and question.reference is None and not mesh_dependent:
        allowed = max(_SECONDS, 2 * took)
        guessed = _with_guesses(question, time.thread_time() + allowed)
        if guessed is not None:
            found = guessed
        elif found.ok is None:
            until = time.thread_time() + allowed
            found = _along_single_axes(question, found, until)
        else:
            found = _with_entries(question, found)
            found = _with_written_sizes(question, found)
    found = replace(found, shapes=shapes_of(question.call.arrays))
    if found.ok is None and question.is_large and not mesh_dependent:
        return _with_smaller(question, found)
    return found


def _with_smaller(question: Question, found: Proof) -> Proof:
    """What is said of a program that is too large to be run in numbers, where it can be run for smaller arguments:
    what is refuted for those is refuted."""
    judged = for_smaller(question)
    if judged is None:
        return found
    small = verdict(judged, None)
    whom = f"for smaller arguments, {_some_of(judged.call.arrays)}"
    if small.ok is False:
        return replace(small, reason=f"{small.reason}, {whom}")
    if not small.ok and not small.agrees:
        return found
    with_whom = judged.with_whom()
    reason = f"{found.reason}; {whom}, the numbers agree {with_whom}"
    return replace(found, reason=reason, agrees=True, shapes=small.shapes)


def _with_entries(question: Question, found: Proof) -> Proof:
    """What is said where arguments with an entry for each device, which are all alike, have one on one device."""
    program = question.many.program
    places = entries(program, question.call.arrays, question.places)
    if found.ok is not False or places == list(question.places):
        return found
    alone = try_on_one(question.call, places, question.sizes, question.context)
    if isinstance(alone, Exception):
        return found
    judged = question.beside_program(alone)
    judged.places = places
    changed = []
    for number, place in enumerate(places):
        if place != question.places[number]:
            changed.append(number)
    judged.as_given = frozenset(changed)
    numbers = judged.in_numbers()
    if numbers is not None and numbers.agrees:
        return numbers
    return found


def _with_guesses(question: Question, until: float) -> Proof | None:
    """What is said if numbers that the program keeps were made of sizes of the mesh, where it agrees then. No more
    is tried when the thread has run for so long."""
    one = dict.fromkeys(question.sizes, 1)
    shards = _lengths_of_shards(question.many.program)
    for guess in question.call.kept.guesses(question.call.own, one, shards):
        if time.thread_time() > until:
            break
        call = replace(question.call, guess=guess)
        before = list(question.places)
        alone, places = laid_out(call, before, question.sizes, question.context)
        if isinstance(alone, Exception):
            continue
        judged = question.beside_program(alone)
        judged.call = call
        judged.places = places
        found = judged.answer(None)
        if found.ok or found.agrees:
            names = {kept.name for kept, _ in question.call.kept.guessed(guess)}
            return _if_made_of_sizes(found, sorted(names))
    return None


def _along_single_axes(question: Question, found: Proof, until: float) -> Proof:
    """What is said where one device tells nothing: beside meshes with one device along one axis and all along the
    others, where that tells more. No more is tried when the thread has run for so long."""
    axes = [axis for axis, size in question.sizes.items() if size > 1]
    if len(axes) < 2 or question.many.mapped or question.groups or question.is_large:
        return found
    try:
        given = question.on_devices()
    except Unevaluated:
        return found
    agreeing = []
    for axis in axes:
        if time.thread_time() > until:
            break
        counts = dict(question.sizes)
        del counts[axis]
        judged = question.beside(counts)
        if judged is None:
            continue
        try:
            beside = judged.compared(given)
            beside = _with_written_sizes(judged, beside)
        except Unevaluated:
            continue
        if beside.ok is False:
            return beside
        if beside.agrees:
            agreeing.append(judged.where())
    if not agreeing:
        return found
    reason = (
        f"{found.reason}; the numbers agree with those of {' and of '.join(agreeing)}"
    )
    return replace(found, reason=reason)


def _with_written_sizes(question: Question, found: Proof) -> Proof:
    """What is said where numbers that are written in the program may be the number of devices."""
    if found.ok is not False:
        return found
    if question.reference is not None or question.one is None:
        return found
    given = question.on_devices()
    base = question.readings.in_order
    for numbers in written(question.one.program, question.devices_of_one()):
        if question.agrees_if(given, base.with_sizes(numbers)):
            return question.agreeing()
    return found


def _lengths_of_shards(program: Program) -> dict[float, float]:
    """How long shards are, with the length of the whole: where that is one for all."""
    found: dict[int, set[int]] = {}
    for step in program.all_steps():
        if step.primitive != "shard" or isinstance(step.operands[0], Constant):
            continue
        whole = program.types[step.operands[0]].shape
        local = program.types[step.results[0]].shape
        for few, many in zip(local, whole, strict=True):
            if few != many:
                found.setdefault(few, set()).add(many)
    clear: dict[float, float] = {}
    for length, lengths in found.items():
        if len(lengths) == 1:
            clear[length] = lengths.pop()
    return clear


def _if_made_of_sizes(found: Proof, names: Sequence[str]) -> Proof:
    """A verdict that holds if what has these names depends on the mesh."""
    quoted = [f"`{name}`" for name in names[:3]]
    shown = ", ".join(quoted)
    reason = (
        f"on {mesh_text(found.sizes)} the numbers agree with those of one device if {shown} depends on the mesh, which"
        " nothing tells"
    )
    return Proof(None, reason, found.sizes, proved=found.proved, agrees=True)


def _some_of(arrays: Sequence[Any]) -> str:
    """``f32[4, 5], i32[4] and 20 more``."""
    shown = []
    for array in arrays[:4]:
        dtype = str(array.dtype)
        shown.append(array_text(dtype, array.shape))
    text = ", ".join(shown)
    left = len(arrays) - len(shown)
    return f"{text} and {left} more" if left else text
