"""A program against itself on other numbers of devices: whether its mapped functions give the same results, and if
not, from which expression on.

A right program gives the same results. What it means to be each device's own (keys folded with ``axis_index``,
capacities of local sizes) is known by construction, and never reported.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from shardlint.evaluation import replicas
from shardlint.evaluation.assertions import FailingAssertion, failing_assertion
from shardlint.evaluation.comparison import (
    ALLOWANCE,
    Allowance,
    Outcome,
    Program,
    are_near,
    as_far_as,
)
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.departures import Departure, Suspected, departure_of
from shardlint.evaluation.drifting import Drifting, drifting, may_drift
from shardlint.evaluation.idle_reductions import IdleReduction, idle_reductions
from shardlint.evaluation.layouts import ReplicatedState
from shardlint.evaluation.origins import Origin, lines_to, origins
from shardlint.evaluation.other_meshes import (
    DEVICES,
    OtherRun,
    agrees_with_one_device,
    differing_run,
    holds_on_one_device,
    refuting_run,
    settings,
)
from shardlint.evaluation.overlapping_draws import overlapping_draws
from shardlint.evaluation.parting import OWN, trace_of
from shardlint.evaluation.refusals import Refusal
from shardlint.evaluation.repairs import first_repaired, repair
from shardlint.evaluation.repeated_draws import (
    RepeatedDraw,
    axes_to_judge,
    repeated_beside,
    repeated_draws,
)
from shardlint.evaluation.replicas import Unequal
from shardtypes.lang import dtypes
from shardtypes.semantics.local_sizes import Ample

# the share of the largest entry by which results may differ that are computed of what is quantised
_QUANTISED = 0.25
# divisions of local sizes that are tried as capacities and are none
_MOST_COUNTS = 8
NOTHING_MAPPED = "nothing is mapped over devices"


@dataclass(frozen=True)
class Judgement:
    """What was found out about a program: the axes over which it was ``compared``, and for others the ``reasons`` why
    not; ``unequal`` are results that are not replicated as they should be, ``drifting`` are copies that do not
    stay the same, ``repeated`` are random numbers that all devices draw alike, ``idle`` are reductions that change
    nothing, ``states`` those that are replicated where their parameters are sharded; and where JAX refuses it, with
    the ``origins`` of that and the ``lines`` that lead there, by file. ``meant`` are those departures of a
    function by itself that its callers may mean, in words. ``failing`` is an assertion that fails, where a
    change mends it and nothing else. ``has_run``: it called mapped functions."""

    departures: tuple[Departure, ...] = ()
    compared: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    unequal: tuple[Unequal, ...] = ()
    drifting: tuple[Drifting, ...] = ()
    repeated: tuple[RepeatedDraw, ...] = ()
    refusal: Refusal | None = None
    origins: tuple[Origin, ...] = field(default=(), compare=False)
    lines: frozenset[tuple[str, int]] = field(default=frozenset(), compare=False)
    has_run: bool = field(default=False, compare=False)
    meant: tuple[Departure, ...] = ()
    failing: FailingAssertion | None = None
    idle: tuple[IdleReduction, ...] = ()
    states: tuple[ReplicatedState, ...] = ()


def judge(program: Program, run: Outcome | None = None) -> Judgement:
    """Compare a program with itself on other numbers of devices. ``run`` is one on its own number, if it was made."""
    declared = program.run(DEVICES) if run is None else run
    refusal = declared.refusal
    if refusal is not None and _is_certain(refusal, program, declared):
        led, lines = _origins(program)
        return Judgement(refusal=refusal, origins=led, lines=lines)
    axes = [axis for axis, size in declared.sizes.items() if size > 1]
    if not axes or not declared.regions:
        why = declared.reason or NOTHING_MAPPED
        return Judgement(reasons=(why,), states=declared.states)
    recorded = functools.cache(functools.partial(program.run, DEVICES, record=True))
    if _is_right(program, declared):
        return Judgement(
            compared=tuple(axes),
            reasons=tuple(_reason_to_end(declared)),
            has_run=True,
            idle=tuple(_idle(program, declared, recorded)),
            states=declared.states,
        )
    return _along_each(program, declared, recorded, axes)


def _is_right(program: Program, declared: Outcome) -> bool:
    """Whether a program computes what it does on one device, and all devices have the same of what is replicated: then
    nothing is drawn alike that should not be, either."""
    if declared.failed is not None or may_drift(declared):
        return False
    if replicas.has_unequal(declared):
        return False
    return agrees_with_one_device(program, declared)


def _along_each(
    program: Program, declared: Outcome, recorded: Recorded, axes: Sequence[str]
) -> Judgement:
    """What is found out along one axis after another."""
    found, compared, reasons, own = _compared(program, declared, recorded, axes)
    reported = {departure.axis for departure in found}
    copies = tuple(
        one for one in _unequal(program, declared, recorded) if one.axis not in reported
    )
    drifted = tuple(
        one
        for one in _drifting(program, declared, recorded)
        if one.axis not in reported
    )
    repeated = tuple(_repeated(program, declared, recorded, own))
    idle = tuple(_idle(program, declared, recorded))
    failing = None
    if declared.failed is not None and not (copies or drifted or repeated):
        found, failing = _mended(program, declared, recorded, found)
        if not found and not failing and holds_on_one_device(program, declared):
            found = list(_without_excuses(program, declared, axes))
    if not (failing or any(one.refuted_by for one in found)):
        reasons += _reason_to_end(declared)
    return Judgement(
        tuple(_without_repeats(found)),
        tuple(compared),
        tuple(reasons),
        copies,
        drifted,
        repeated,
        has_run=True,
        failing=failing,
        idle=idle,
        states=declared.states,
    )


def _reason_to_end(declared: Outcome) -> Iterator[str]:
    """Why a run came to an end before the program did."""
    if declared.reason:
        last = replicas.name_of(declared.regions[-1].function)
        yield f"what comes after {last}: {declared.reason}"


def _compared(
    program: Program, declared: Outcome, recorded: Recorded, axes: Sequence[str]
) -> tuple[list[Departure], list[str], list[str], frozenset[str]]:
    """Where a program departs along each of these axes, those over which it was compared, and why not over others, and
    those along which devices may have something of their own."""
    found: list[Departure] = []
    compared: list[str] = []
    reasons: list[str] = []
    own: set[str] = set()
    for axis in axes:
        departure = _along(program, declared, axis)
        if _may_be_own(departure):
            own.add(axis)
            departure = _without_own(program, declared, recorded, axis)
        if isinstance(departure, str):
            reasons.append(f"{axis}: {departure}")
            continue
        compared.append(axis)
        if departure is not None and not _is_rounding(program, declared, axis):
            found.append(departure)
    return found, compared, reasons, frozenset(own)


def _mended(
    program: Program,
    declared: Outcome,
    recorded: Recorded,
    found: Sequence[Departure],
) -> tuple[list[Departure], FailingAssertion | None]:
    """What is reported of a program that fails an assertion: where it departs, with the changes that mend that, or else
    the change with which the assertion holds. What depends on the number of devices with that change is meant."""
    tried = [replace(one, mended=repair(one), is_tried=True) for one in found]
    if any(_is_mended(one) for one in tried):
        return tried, None
    failing = failing_assertion(program, declared, recorded, tried)
    return ([], failing) if failing is not None else (tried, None)


def _is_mended(departure: Departure) -> bool:
    """Whether a change was found with which no result depends on the number of devices."""
    return departure.mended is not None and not departure.mended.left


def _without_excuses(
    program: Program, declared: Outcome, axes: Sequence[str]
) -> Iterator[Departure]:
    """Where a program departs if nothing that depends on the number of devices is meant but what they draw."""
    strict = replace(program, excuses=False)
    for axis in axes:
        departure = _along(strict, declared, axis)
        if isinstance(departure, Departure) and not departure.is_own:
            yield departure


def _may_be_own(departure: Departure | str | None) -> bool:
    """Whether results may depart by what each device has for itself, and by nothing else: that makes none the right one
    but for a factor."""
    if isinstance(departure, Departure):
        return departure.is_own and not departure.is_factor
    return departure == OWN


def _is_of_own_choice(recorded: Recorded, departure: Departure) -> bool:
    """Whether a program departs where rows are taken that each device has chosen by what it draws for itself: so many
    on each, which of them is left to chance."""
    numbers = {one.value.key for one in departure.culprit.operands}
    recorder = recorded().recorder
    if recorder is None:
        return False
    chosen = [
        one
        for one in recorder.values
        if one.key in numbers and departure.axis in one.array.own
    ]
    return any(dtypes.is_kind(one.array.dtype, "signed") for one in chosen)


def _without_own(
    program: Program, as_it_is: Outcome, recorded: Recorded, axis: str
) -> Departure | str | None:
    """Where a program departs, each device of which draws nothing for itself, and has room for everything; why it is
    not known if it departs only with the room that it has."""
    without = replace(program, without=frozenset({axis}))
    drawn = without.run(DEVICES, until=as_far_as(as_it_is))
    departure = _along(without, drawn, axis)
    if isinstance(departure, Departure) and _is_of_own_choice(recorded, departure):
        return OWN
    if not _may_be_own(departure):
        return departure
    counts: frozenset[Hashable] = frozenset()
    for _ in range(_MOST_COUNTS):
        room = Ample(frozenset({axis}), counts)
        ample = replace(without, ample=room)
        declared = ample.run(DEVICES, until=as_far_as(drawn))
        if len(declared.regions) >= len(drawn.regions):
            found = _along(ample, declared, axis)
            return OWN if _may_be_own(found) else found
        if not room.met:
            break
        # the program does not run with what was left undivided last: that is no capacity
        counts |= {room.met[-1]}
    return OWN


Recorded: TypeAlias = Callable[[], Outcome]
"""The run on the program's own number of devices, recorded; made where it is asked for first."""


def _unequal(
    program: Program, declared: Outcome, recorded: Recorded
) -> tuple[Unequal, ...]:
    """Results of the program that should be the same on devices along an axis, and are not."""
    if not replicas.has_unequal(declared) or program.allowance.is_spent:
        return ()
    return replicas.unequal(recorded())


def _drifting(
    program: Program, declared: Outcome, recorded: Recorded
) -> tuple[Drifting, ...]:
    """Copies of parameters of which devices hold different values in the end."""
    if not may_drift(declared) or program.allowance.is_spent:
        return ()
    return drifting(recorded())


def _repeated(
    program: Program, declared: Outcome, recorded: Recorded, own: frozenset[str]
) -> Iterator[RepeatedDraw]:
    """Random numbers that all devices draw alike, each for its own shard, and along the axes that are ``own``, those
    that they draw alike for some of their rows."""
    shards, stacked = axes_to_judge(declared)
    if not (shards or stacked or own) or program.allowance.is_spent:
        return
    run = recorded()
    yield from overlapping_draws(run, own)
    yield from repeated_draws(run, shards)
    for axis in sorted(stacked - shards):
        trace = _beside_another(program, run, axis)
        found = None if trace is None else repeated_beside(run, trace)
        if found is not None:
            yield found


def _idle(
    program: Program, declared: Outcome, recorded: Recorded
) -> Iterator[IdleReduction]:
    """Reductions that never change anything."""
    if declared.idles and not program.allowance.is_spent:
        yield from idle_reductions(recorded())


def _beside_another(program: Program, run: Outcome, axis: str) -> Trace | None:
    """A recorded run beside one on another number of devices along an axis; None where there is none."""
    if axis not in run.sizes:
        return None  # it did not come as far as the mesh
    setting = next(settings(run, axis), None)
    if setting is None:
        return None
    few = program.run(setting.devices, setting.literals, record=True)
    if few.sizes.get(axis) in (None, run.sizes[axis]):
        return None
    return trace_of(run, few, axis)


def _is_certain(refusal: Refusal, program: Program, declared: Outcome) -> bool:
    """Whether JAX refuses a program on any machine that it may be meant for."""
    if refusal.axis is not None:
        return bool(declared.origins(refusal.axis))
    if not refusal.is_of_sizes:
        return True
    others = {DEVICES // 2, 2 * DEVICES, declared.devices_used} - {DEVICES}
    again = [program.run(devices).refusal for devices in sorted(others)]
    return all(one is not None and one.where == refusal.where for one in again)


def _origins(
    program: Program,
) -> tuple[tuple[Origin, ...], frozenset[tuple[str, int]]]:
    """Where that comes from which JAX refuses, with the lines that lead there; for an axis that it is about, with
    another number of devices beside."""
    run = program.run(DEVICES, record=True)
    axes = sorted(run.refusal.varying) if run.refusal is not None else []
    missing = tuple(_missing_reductions(program, axes))
    traces = [] if missing else [_beside_another(program, run, axis) for axis in axes]
    return (*missing, *origins(run, filter(None, traces))), lines_to(run)


def _missing_reductions(program: Program, axes: Sequence[str]) -> Iterator[Origin]:
    """Where something varies that should not: the changes with which JAX takes the program, and its results do not
    depend on the number of devices."""
    taken = replace(program, takes_varying=True, allowance=Allowance(ALLOWANCE))
    declared = taken.run(DEVICES)
    for axis in axes:
        found = _along(taken, declared, axis)
        mended = repair(found) if isinstance(found, Departure) else None
        if mended is None or mended.left or mended.where.backward:
            continue
        refusal = program.run(DEVICES, changes=mended.changes).refusal
        if refusal is None:
            yield Origin(mended.where, f"with {mended.text}, it is replicated")


def _along(program: Program, declared: Outcome, axis: str) -> Departure | str | None:
    """Where a program departs from itself on another number of devices along an axis, or why it is not known."""
    if axis not in declared.sizes:
        return declared.reason  # it ended before the mesh was made
    other = differing_run(program, declared, axis)
    if isinstance(other, str) or not other.differs:
        # on no number of devices but one may be right what the program asserts
        other = refuting_run(program, declared, axis) or other
    if isinstance(other, str):
        return other
    found = departure_of(program, declared, other, axis)
    if not isinstance(found, Suspected):
        return found
    return first_repaired(found.candidates) or found.otherwise


def _is_rounding(program: Program, rounded: Outcome, axis: str) -> bool:
    """Whether a program departs from itself along an axis by what it rounds, and by nothing else: it quantises what is
    to be added up over the devices, say. It computes nearly the same without: else it makes indices or images of what
    it rounds, and is another program without."""
    exact = replace(program, rounds=False)
    declared = exact.run(DEVICES)
    if declared.reason or not are_near(rounded, declared, _QUANTISED):
        return False
    other = differing_run(exact, declared, axis)
    return isinstance(other, OtherRun) and not other.differs


def _without_repeats(found: list[Departure]) -> Iterator[Departure]:
    """One departure for each place."""
    seen = set()
    for one in found:
        where = one.culprit.step.value.where
        if where not in seen:
            seen.add(where)
            yield one
