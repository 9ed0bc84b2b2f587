"""Where that comes from which JAX refuses: the specs of arguments, and what was not reduced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shardlint.evaluation.comparison import Outcome
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.recording import Recorded, Recorder, Where
from shardlint.evaluation.replicas import MOST_PLACES, reduced_elsewhere
from shardtypes.semantics.array import Array


@dataclass(frozen=True)
class Origin:
    """A place, and what is said of it."""

    where: Where
    text: str


def origins(run: Outcome, traces: Iterable[Trace]) -> tuple[Origin, ...]:
    """The places that a refusal follows from, as far as they are known; the run is recorded. ``traces`` have it beside
    one on another number of devices, for each axis over which something varies that should not."""
    refusal, recorder = run.refusal, run.recorder
    if refusal is None or recorder is None:
        return ()
    found: dict[Where, Origin] = {}
    if refusal.mapped is not None:
        found[refusal.mapped] = Origin(
            refusal.mapped, "this function is mapped by jax.pmap without axis_name"
        )
    if refusal.spec is not None and not _is_in_line(refusal.spec, refusal.where):
        found[refusal.spec] = Origin(refusal.spec, "its spec is made here")
    for one in _written(run, refusal.size):
        found.setdefault(one.where, one)
    for operand in refusal.operands:
        for one in _specs(recorder, operand) if refusal.is_of_sizes else ():
            found.setdefault(one.where, one)
        for trace in traces:
            for one in _unreduced(trace, operand) or _collapsed(trace, operand):
                found.setdefault(one.where, one)
            elsewhere = reduced_elsewhere(recorder, operand, trace.axis)
            if elsewhere is not None:
                text = f"reduced here, but not over {trace.axis!r}"
                found.setdefault(elsewhere, Origin(elsewhere, text))
    return tuple(found.values())


def _is_in_line(one: Where, other: Where) -> bool:
    return (one.path, one.place[0]) == (other.path, other.place[0])


def lines_to(run: Outcome) -> frozenset[tuple[str, int]]:
    """The lines, by file, of all that the arrays were computed from which a refusal is about."""
    if run.refusal is None or run.recorder is None:
        return frozenset()
    found: set[tuple[str, int]] = set()
    for operand in run.refusal.operands:
        for one in _led(run.recorder, operand, inside=True):
            where, _, _ = one.key
            found.add((where.path, where.place[0]))
    return frozenset(found)


def _written(run: Outcome, size: int | None) -> Iterator[Origin]:
    """Where a size is written in the program, if that number is written in one place."""
    places = [where for where, value in run.written.items() if value == size]
    if len(places) == 1:
        yield Origin(Where(*places[0]), f"{size} is written here")


def _specs(recorder: Recorder, operand: Array) -> Iterator[Origin]:
    """The spec of the argument that an array was computed from, if that is one."""
    roots = [
        one
        for one in _led(recorder, operand, inside=True)
        if one.is_argument or not one.sources
    ]
    where = recorder.specs.get(roots[0].number) if len(roots) == 1 else None
    if where is not None:
        shape = ", ".join(map(str, operand.dims))
        yield Origin(
            where, f"this spec is of the argument that ({shape}) is computed from"
        )


def _unreduced(trace: Trace, result: Array) -> list[Origin]:
    """Where, on the way to a result, a partial result along an axis first meets what is reduced over it: there, or
    where it comes from, a reduction is missing."""
    recorder, axis = trace.many, trace.axis
    for one in _varying(recorder, result, axis):
        operands = [recorder.values[source] for source in one.sources]
        partial = [each for each in operands if _is_partial(trace, each)]
        if partial and any(_is_reduced(recorder, each, axis) for each in operands):
            last = trace.step(partial[0].number)
            begin = trace.first(last, lambda step: _is_partial(trace, step.value))
            meets = f"here it meets what is reduced over {axis!r}"
            return [_own(begin.value, axis), Origin(one.where, meets)]
    return []


def _own(value: Recorded, axis: str) -> Origin:
    return Origin(value.where, f"each device has its own along {axis!r}")


def _collapsed(trace: Trace, result: Array) -> list[Origin]:
    """Where, on the way to a result, each device first makes of its shards along an axis what is none any more: there a
    reduction may be missing. Not where these are many places."""
    axis = trace.axis
    places: dict[Where, Recorded] = {}
    for one in _varying(trace.many, result, axis):
        operands = [trace.many.values[source] for source in one.sources]
        varying = [each for each in operands if _varies(each, axis)]
        is_first = varying and all(_is_shard(trace, each) for each in varying)
        if is_first and not _is_shard(trace, one):
            places.setdefault(one.where, one)
    if len(places) > MOST_PLACES:
        return []
    return [_own(one, axis) for one in places.values()]


def _is_shard(trace: Trace, value: Recorded) -> bool:
    """Whether devices along an axis have shards of one array in a value."""
    return trace.step(value.number).kind == "split"


def _varying(recorder: Recorder, result: Array, axis: str) -> list[Recorded]:
    """What varies over an axis all the way to a result, in the order in which it was computed."""
    seen: set[int] = set()
    waiting = list(result.sources)
    while waiting:
        number = waiting.pop()
        if number not in seen and _varies(recorder.values[number], axis):
            seen.add(number)
            waiting.extend(recorder.values[number].sources)
    return [recorder.values[number] for number in sorted(seen)]


def _is_partial(trace: Trace, value: Recorded) -> bool:
    """Whether a value is a partial result along an axis, such as the sum of what each device has."""
    return _varies(value, trace.axis) and trace.step(value.number).kind == "part"


def _varies(value: Recorded, axis: str) -> bool:
    return any(name == axis for name, _ in value.array.varying or ())


def _is_reduced(recorder: Recorder, value: Recorded, axis: str) -> bool:
    """Whether a value is the same along an axis, and computed from what is not."""
    return not _varies(value, axis) and any(
        _varies(one, axis) for one in _led(recorder, value.array)
    )


def _led(recorder: Recorder, array: Array, inside: bool = False) -> list[Recorded]:
    """All that an array was computed from; ``inside`` of the mapped function only."""
    found = recorder.led(array.sources, lambda one: not (inside and one.is_argument))
    return [recorder.values[number] for number in sorted(found)]
