"""Rings of devices: what ``ppermute`` sends on, and what stays behind while the rest of its block goes round."""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from shardlint.evaluation import guards, meshes
from shardlint.evaluation.outside import provide
from shardlint.evaluation.recording import Recorded, Recorder, Where
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings import LOWERINGS
from shardtypes.semantics.lowerings.collectives import size_of

if TYPE_CHECKING:
    from shardlint.evaluation.culprits import Trace

PERMUTE = "jax.lax.ppermute"
Pairs: TypeAlias = "tuple[tuple[int, int], ...]"


@provide(PERMUTE)
def ppermute(x: Any, axis_name: Any, perm: Any) -> Any:
    """Send on, and remember which devices are named."""
    pairs = tuple((int(source), int(target)) for source, target in perm)
    if isinstance(axis_name, str):
        meshes.machine().sent.append((axis_name, size_of(axis_name), pairs))
    return LOWERINGS[PERMUTE](x, axis_name, pairs)


def left_out(machine: meshes.Machine, axis: str) -> frozenset[int]:
    """How many devices along an axis the permutations of a run leave out; negative where they name some that are not
    there."""
    found = set[int]()
    for name, size, pairs in machine.sent:
        if name != axis:
            continue
        last = max(max(pair) for pair in pairs) if pairs else 0
        if last < size:
            found.add(size - len(pairs))
        else:
            found.add(-1)
    return frozenset(found)


@dataclass(frozen=True)
class Behind:
    """An operand that stays on its device while others go round, which ``sender`` sends: that at a position among the
    arrays that an expression is computed from."""

    where: Where
    position: int
    sender: Where


def left_behind(trace: Trace, sources: frozenset[int], axis: str) -> Iterator[Behind]:
    """Operands of expressions that are computed in each round of a ring: parts of an array that no device sent on."""
    values = trace.many.values
    led = sorted(trace.ancestors(sources))
    sent = _sent_on(trace.many, led, axis)
    executions: dict[Where, list[Recorded]] = defaultdict(list)
    for one in (values[number] for number in led):
        if one.is_inside and not one.is_backward and one.sources:
            executions[one.where].append(one)
    if not sent:
        return
    for where, found in executions.items():
        staying = []
        for one in found:
            parts = [
                source
                for source in one.sources - sent
                if _is_part(trace, values[source])
            ]
            staying.append(bool(parts))
        others = found[-1].sources & sent
        sender = _sender(trace.many, others or sent, axis)
        if len(found) > 1 and all(staying) and sender is not None:
            for position in range(len(found[0].sources)):
                yield Behind(where, position, sender)


def _sender(recorder: Recorder, numbers: Iterable[int], axis: str) -> Where | None:
    """Where values were sent on last along an axis; None if they were not."""
    for number in sorted(recorder.led(numbers), reverse=True):
        one = recorder.values[number]
        if _is_sending(one, axis):
            return one.where
    return None


def _is_part(trace: Trace, value: Recorded) -> bool:
    """Whether a value is sharded, by what it was computed from or by its numbers."""
    step = trace.step(value.number)
    return value.array.is_sharded(trace.axis) or step.kind == "split"


def _sent_on(recorder: Recorder, numbers: Iterable[int], axis: str) -> set[int]:
    """The values that were sent on along an axis, or computed from such ones. ``numbers`` are in order."""
    found = set[int]()
    for number in numbers:
        one = recorder.values[number]
        if _is_sending(one, axis) or not found.isdisjoint(one.sources):
            found.add(number)
    return found


def exchanges_blocks(trace: Trace, number: int) -> bool:
    """Whether a value is a whole shard that devices sent to their neighbours, and no further, or computed of one: how
    far that reaches depends on the number of devices."""
    values = trace.many.values
    near = (values[one] for one in {number, *values[number].sources})
    sent = [one for one in near if _is_sending(one, trace.axis)]
    is_block = any(
        trace.step(source).kind == "split" for one in sent for source in one.sources
    )
    return is_block and not any(
        _sends_further(recorder, trace.axis) for recorder in trace.recorders
    )


def last_of_short_ring(
    trace: Trace, sources: Collection[int], others: Collection[int]
) -> int | None:
    """What was sent last round a ring that brings each device's part to all others but one, on either number of
    devices: one round is missing. ``others`` are the values in the run on fewer devices."""
    many, few = trace.recorders
    rounds = _rounds(many, sorted(many.led(sources)), trace.axis)
    others_sent = _rounds(few, sorted(few.led(others)), trace.axis)
    counts = max(rounds.values(), default=0), max(others_sent.values(), default=0)
    missing = [
        size - 1 - count for size, count in zip(trace.counts, counts, strict=True)
    ]
    if missing != [1, 1]:
        return None
    if rounds:
        return max(rounds)
    # of two devices, what was sent came too late
    where = few.values[max(others_sent)].where
    in_vain = [one.number for one in many.values if one.where == where]
    return max(in_vain, default=None)


def _rounds(recorder: Recorder, numbers: Iterable[int], axis: str) -> dict[int, int]:
    """Which of these values, in order, were sent along an axis, with how often they were sent by then."""
    found: dict[int, int] = {}
    for number in numbers:
        one = recorder.values[number]
        if _is_sending(one, axis):
            before = [found[source] for source in one.sources if source in found]
            found[number] = 1 + max(before, default=0)
    return found


def _sends_further(recorder: Recorder, axis: str) -> bool:
    """Whether something that was received is sent on as it is, as round a ring."""
    every = range(len(recorder.values))
    return any(count > 1 for count in _rounds(recorder, every, axis).values())


def _is_sending(one: Recorded, axis: str) -> bool:
    return one.name == PERMUTE and axis in one.given.names


def sent_along(behind: Behind, axis: str) -> Callable[[Any], Any]:
    """A change of a function: one operand is sent on as often as others were by then."""
    return lambda function: functools.partial(_with_sent, function, behind, axis)


def _with_sent(
    function: Any, behind: Behind, axis: str, /, *args: Any, **options: Any
) -> Any:
    recorder = guards.recorder()
    assert recorder is not None
    places = [i for i, arg in enumerate(args) if isinstance(arg, Array) and arg.sources]
    if behind.position >= len(places):
        return function(*args, **options)
    given = list(args)
    place = places[behind.position]
    array = given[place]
    if array.value is not None and array.value.varies_along(axis):
        given[place] = _sent(array, axis, times=recorder.met[behind.sender])
    return function(*given, **options)


def _sent(array: Array, axis: str, times: int) -> Any:
    """An array as the last permutation along the axis leaves it, applied so many times."""
    last: Pairs | None = None
    for name, _, pairs in meshes.machine().sent:
        if name == axis:
            last = pairs
    if last is None:
        return array
    for _ in range(times):
        array = LOWERINGS[PERMUTE](array, axis, last)
    return array
