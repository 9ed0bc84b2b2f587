"""A program against itself on another number of devices: whether its mapped functions give the same results, and if
not, from which expression on.

The size of one mesh axis is changed where the program says it, so that whatever else follows from that number changes
with it. A right program gives the same results. What it means to be each device's own (keys folded with
``axis_index``, capacities of local sizes) is known by construction, and never reported.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from shardlint.evaluation import modules, replicas, rings
from shardlint.evaluation.comparison import (
    STOPPED,
    Difference,
    Incomparable,
    Outcome,
    Program,
    Resized,
    differences,
    differs_from,
    first_difference,
)
from shardlint.evaluation.culprits import Culprit, Step, Trace
from shardlint.evaluation.drifting import Drifting, drifting, may_drift
from shardlint.evaluation.guards import TOO_MANY_STEPS
from shardlint.evaluation.mapping import Region
from shardlint.evaluation.origins import Origin, lines_to, origins
from shardlint.evaluation.refusals import Refusal
from shardlint.evaluation.replicas import Unequal
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.collectives import collectives
from shardtypes.semantics.trees import flatten, paths_of

NOTHING_MAPPED = "nothing is mapped over devices"
_OWN = "its results are meant to be each device's own"
_NO_EXPRESSION = "its results depend on the number of devices, and no expression was found where that begins"
DEVICES = 8  # that a program finds if it asks
_EXCHANGES = frozenset(
    f"jax.lax.{name}" for name in collectives("exchanges") | {"axis_index"}
)
MOST_RING_LENGTHS = 8  # numbers that are tried as such
MOST_TOGETHER = 4  # of which each choice is tried
MOST_NUMBERS = 24  # in the text of a program that might stand for a size of its mesh


@dataclass(frozen=True)
class Setting:
    """What a run starts from."""

    devices: int
    literals: Mapping[modules.Where, int]


@dataclass(frozen=True)
class Evidence:
    """The two runs that depart: the ``program`` on all devices, and in another ``setting``; the number of the ``call``
    of a mapped function with which they do, and its results that are ``differing``; and the values from which the
    reported one was computed, in the ``trace`` of both."""

    program: Program
    setting: Setting
    call: int
    differing: frozenset[str]
    trace: Trace
    sources: frozenset[int]


def differing_results(region: Region, twin: Region) -> frozenset[str] | None:
    """The results of a mapped function that are not the same in two runs; None where they cannot be compared."""
    found = differences(region.results, twin.results, _stacked(region, twin))
    return frozenset(one.path for one in found) if isinstance(found, list) else None


def _stacked(region: Region, twin: Region) -> tuple[int, int] | None:
    """The numbers of devices whose values lie one after another in the results of two runs."""
    if region.stacked is None or twin.stacked is None:
        return None
    return region.stacked, twin.stacked


@dataclass(frozen=True)
class Departure:
    """A result of a mapped function that depends on the number of devices along an axis.

    The two numbers of ``difference`` are an entry with the first and with the second of ``counts`` devices, or the
    array is of two shapes. ``is_factor`` tells that the result is the right one times a power of that number,
    ``is_shared`` that all devices are to have the same, ``is_alike`` that they do.
    """

    axis: str
    counts: tuple[int, int]
    function: str
    difference: Difference | Resized
    culprit: Culprit
    is_factor: bool
    is_shared: bool
    is_alike: bool
    evidence: Evidence = field(compare=False, repr=False)

    @property
    def lines(self) -> frozenset[tuple[str, int]]:
        """The lines of what the culprit was computed from, of what was computed from it on the way to the result, and
        of the call of the mapped function, by file."""
        trace = self.evidence.trace
        values = trace.many.values
        begin = self.culprit.step.value.number
        after = {begin}
        for number in sorted(trace.ancestors(self.evidence.sources)):
            is_after = not after.isdisjoint(values[number].sources)
            if is_after:
                after.add(number)
        found = set[tuple[str, int]]()
        for number in after | trace.ancestors([begin]):
            where, _, _ = values[number].key
            called = trace.many.calls.get(number, where)
            found.update((one.path, one.place[0]) for one in (where, called))
        return frozenset(found)

    @property
    def is_wrong_alone(self) -> bool:
        """Whether a function is wrong whoever calls it.

        A caller may take out a factor, and may give what is laid out for a number of devices: then each device's part
        is whole by itself. A local size is nothing that it could make up for, nor is a sum over devices that all have
        the same, and a partial sum is no layout. And it may give as much as there are devices, so that each has one
        entry; but nobody contracts a sum of these with another one.
        """
        evidence = self.evidence
        number = self.culprit.step.value.number
        adds_shards = self.culprit.adds_shards(self.axis)
        if adds_shards and evidence.trace.contracts_alike(number):
            return True
        selects = self.culprit.selects or evidence.trace.selects(evidence.sources)
        if isinstance(self.difference, Resized) or selects or adds_shards:
            return False
        given = self.culprit.step.value.given
        if given.counted:
            return False
        if self.is_factor or self.culprit.step.state == "off":
            if self.culprit.repeats(self.axis):
                return True
            return self.axis in self.culprit.local
        return (
            self.is_shared
            or self.culprit.has_partial_sum
            or self.culprit.mixes_shards(self.axis)
        )


@dataclass(frozen=True)
class Judgement:
    """What was found out about a program: the axes over which it was ``compared``, and for others the ``reasons`` why
    not; ``unequal`` are results that are not replicated as they should be, ``drifting`` are copies that do not stay
    the same; and where JAX refuses it, with the ``origins`` of that and the ``lines`` that lead there, by file.
    ``meant`` are those departures of a function by itself that its callers may mean, in words. ``has_run``: it called
    mapped functions."""

    departures: tuple[Departure, ...] = ()
    compared: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    unequal: tuple[Unequal, ...] = ()
    drifting: tuple[Drifting, ...] = ()
    refusal: Refusal | None = None
    origins: tuple[Origin, ...] = field(default=(), compare=False)
    lines: frozenset[tuple[str, int]] = field(default=frozenset(), compare=False)
    has_run: bool = field(default=False, compare=False)
    meant: tuple[Departure, ...] = ()


def judge(program: Program, run: Outcome | None = None) -> Judgement:
    """Compare a program with itself on other numbers of devices. ``run`` is one on its own number, if it was made."""
    declared = program.run(DEVICES) if run is None else run
    refusal = declared.refusal
    if refusal is not None and _is_certain(refusal, program, declared):
        led, lines = _origins(program)
        return Judgement(refusal=refusal, origins=led, lines=lines)
    axes = [axis for axis, size in declared.sizes.items() if size > 1]
    if not axes or not declared.regions:
        return Judgement(reasons=(declared.reason or NOTHING_MAPPED,))
    found: list[Departure] = []
    compared: list[str] = []
    reasons: list[str] = []
    for axis in axes:
        departure = _along(program, declared, axis)
        if departure == _OWN:
            without = replace(program, without=frozenset({axis}))
            departure = _along(without, without.run(DEVICES), axis)
        if isinstance(departure, str):
            reasons.append(f"{axis}: {departure}")
            continue
        compared.append(axis)
        if departure is not None and not _is_rounding(program, axis):
            found.append(departure)
    reported = {departure.axis for departure in found}
    copies = tuple(
        one for one in _unequal(program, declared) if one.axis not in reported
    )
    return Judgement(
        tuple(_without_repeats(found)),
        tuple(compared),
        tuple(reasons),
        copies,
        tuple(one for one in _drifting(program, declared) if one.axis not in reported),
        has_run=True,
    )


def _unequal(program: Program, declared: Outcome) -> tuple[Unequal, ...]:
    """Results of the program that should be the same on devices along an axis, and are not."""
    if not replicas.has_unequal(declared) or program.allowance.is_spent:
        return ()
    return replicas.unequal(program.run(DEVICES, record=True))


def _drifting(program: Program, declared: Outcome) -> tuple[Drifting, ...]:
    """Copies of parameters of which devices hold different values in the end."""
    if not may_drift(declared) or program.allowance.is_spent:
        return ()
    return drifting(program.run(DEVICES, record=True))


def _is_certain(refusal: Refusal, program: Program, declared: Outcome) -> bool:
    """Whether JAX refuses a program on any machine that it may be meant for."""
    if refusal.axis is not None:
        return declared.origin(refusal.axis) is not None
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
    traces = []
    for axis in sorted(run.refusal.varying) if run.refusal is not None else ():
        setting = next(_settings(run, axis))
        few = program.run(setting.devices, setting.literals, record=True)
        if few.sizes.get(axis) not in (None, run.sizes[axis]):
            traces.append(_trace(run, few, axis))
    return origins(run, traces), lines_to(run)


def _along(program: Program, declared: Outcome, axis: str) -> Departure | str | None:
    """Where a program departs from itself on another number of devices along an axis, or why it is not known."""
    other = _other(program, declared, axis)
    return (
        other if isinstance(other, str) else _departure(program, declared, other, axis)
    )


def _is_rounding(program: Program, axis: str) -> bool:
    """Whether a program departs from itself along an axis by what it rounds, and by nothing else: it quantises what is
    to be added up over the devices, say."""
    exact = replace(program, rounds=False)
    declared = exact.run(DEVICES)
    other = None if declared.reason else _other(exact, declared, axis)
    return isinstance(other, _Other) and not other.differs


# --- other numbers of devices ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Other:
    """The program with another number of devices along an axis."""

    setting: Setting
    outcome: Outcome
    differs: bool
    is_resized: bool = False
    is_tied: bool = False
    """Whether the length of a ring that is written in it had to follow."""


def _other(program: Program, declared: Outcome, axis: str) -> _Other | str:
    """The first other size of an axis with which a program runs as far as with its own, or why there is none."""
    reason = "its size cannot be changed"
    resized: _Other | None = None
    for setting in _settings(declared, axis):
        if program.allowance.is_spent:
            return TOO_MANY_STEPS
        outcome = program.run(
            setting.devices, setting.literals, until=differs_from(declared)
        )
        if not _is_changed_alone(axis, declared, outcome):
            continue
        tied = None
        if rings.left_out(outcome.machine, axis) != rings.left_out(
            declared.machine, axis
        ):
            tied = _with_ring_lengths(program, declared, setting, outcome, axis)
        setting, outcome = tied or (setting, outcome)
        difference = first_difference(declared, outcome)
        if not outcome.regions:
            reason = outcome.reason or reason
        elif isinstance(difference, Incomparable):
            reason = difference.reason
        elif difference is None or isinstance(difference[1], Difference):
            return _Other(
                setting, outcome, difference is not None, is_tied=tied is not None
            )
        else:
            resized = resized or _Other(
                setting, outcome, True, is_resized=True, is_tied=tied is not None
            )
    if resized is None:
        return reason
    return _with_another_number(program, declared, resized, axis) or resized


def _with_ring_lengths(
    program: Program, declared: Outcome, setting: Setting, outcome: Outcome, axis: str
) -> tuple[Setting, Outcome] | None:
    """The run in which the fewest numbers stand for the size of the mesh besides so that the permutations along an axis
    leave out as many devices as they do on its own, if there is one."""
    size = outcome.sizes[axis]
    left_out = rings.left_out(declared.machine, axis)

    def run(chosen: Sequence[modules.Where]) -> tuple[Setting, Outcome] | None:
        tied = _changed(setting, chosen, size)
        found = program.run(tied.devices, tied.literals, until=differs_from(declared))
        if found.reason not in ("", STOPPED) or not _is_changed_alone(
            axis, declared, found
        ):
            return None
        return (
            (tied, found) if rings.left_out(found.machine, axis) == left_out else None
        )

    needed = _equal_numbers(declared, axis, setting)
    if len(needed) > MOST_RING_LENGTHS or run(needed) is None:
        return None
    for one in list(needed):
        fewer = [other for other in needed if other != one]
        if run(fewer) is not None:
            needed = fewer
    return run(needed)


def _with_another_number(
    program: Program, declared: Outcome, resized: _Other, axis: str
) -> _Other | None:
    """The program with results of the shapes that it has, because one more number in its text stands for the size of
    the mesh: one with which the results agree, if there is one."""
    found: _Other | None = None
    for setting, outcome in _with_numbers(program, declared, resized, axis):
        difference = first_difference(declared, outcome)
        if difference is None:
            return _Other(setting, outcome, False)
        comparable = not isinstance(difference, Incomparable) and isinstance(
            difference[1], Difference
        )
        if found is None and comparable:
            found = _Other(setting, outcome, True)
    return None if program.allowance.is_spent else found


def _is_changed_alone(axis: str, declared: Outcome, outcome: Outcome) -> bool:
    """Whether an axis has another size in a run, and no other one has but those that are the same devices."""
    changed = {
        name for name, size in outcome.sizes.items() if size != declared.sizes.get(name)
    }
    same = declared.machine.pmapped if axis in declared.machine.pmapped else frozenset()
    return axis in changed and changed <= {axis, *same}


def _settings(declared: Outcome, axis: str) -> Iterator[Setting]:
    """What to change for another size: the number that a mesh is made with; where it is made of all devices, or is that
    of the rows which ``pmap`` maps over, the number of devices, or one that is written with it. One device comes last:
    for that, programs may take another way."""
    size = declared.sizes[axis]
    where = declared.origin(axis)
    sizes = [2 * size, 1]
    if size > 2 and size % 2 == 0:
        sizes.insert(0, size // 2)
    for other in sizes:
        devices = DEVICES * other // size
        if where is None:
            yield Setting(devices, {})
            for place in _equal_numbers(declared, axis, Setting(devices, {})):
                yield Setting(max(devices, 1), {place: other})
        else:
            yield Setting(max(devices, 1), {where: other})
            yield Setting(DEVICES, {where: other})
        yield from _with_totals(declared, axis, other)


def _with_totals(declared: Outcome, axis: str, size: int) -> Iterator[Setting]:
    """The settings in which one more number that is written in the program stands for that of all its devices."""
    where = declared.origin(axis)
    origin = {} if where is None else {where: size}
    whole = declared.devices_used
    total = whole * size // declared.sizes[axis]
    if whole == declared.sizes[axis] or total < 1:
        return
    for place, value in declared.written.items():
        if value == whole and place not in origin:
            yield Setting(max(DEVICES, total), {**origin, place: total})


def _is_meant(program: Program, declared: Outcome, other: _Other, axis: str) -> bool:
    """Whether the program agrees with itself if another number in its text stands for the size of the mesh too."""
    if other.is_tied:
        return _may_be_meant(program, declared, other, axis)
    runs = _with_numbers(program, declared, other, axis)
    return any(_agrees(declared, outcome, other) for _, outcome in runs)


def _may_be_meant(
    program: Program, declared: Outcome, other: _Other, axis: str
) -> bool:
    """The same of a program in which numbers stand for the size of the mesh already: any others may, together."""
    size = other.outcome.sizes[axis]
    places = _equal_numbers(declared, axis, other.setting)
    if len(places) > MOST_TOGETHER:
        return True
    for chosen in _choices(places):
        setting = _changed(other.setting, chosen, size)
        outcome = program.run(
            setting.devices, setting.literals, until=differs_from(declared)
        )
        came_as_far = len(outcome.regions) == len(declared.regions)
        if came_as_far and _agrees(declared, outcome, other):
            return True
    return False


def _choices(places: Sequence[modules.Where]) -> Iterator[tuple[modules.Where, ...]]:
    for count in range(1, len(places) + 1):
        yield from combinations(places, count)


def _equal_numbers(
    declared: Outcome, axis: str, setting: Setting
) -> list[modules.Where]:
    """Where the size of an axis is written besides in the program."""
    size = declared.sizes[axis]
    equal = [where for where, value in declared.written.items() if value == size]
    return [where for where in equal if where not in setting.literals]


def _changed(setting: Setting, places: Sequence[modules.Where], size: int) -> Setting:
    """The setting in which some numbers stand for another size besides."""
    changed = dict.fromkeys(places, size)
    return replace(setting, literals={**setting.literals, **changed})


def _with_numbers(
    program: Program, declared: Outcome, other: _Other, axis: str
) -> Iterator[tuple[Setting, Outcome]]:
    """The runs in which another number in the text of a program stands for the size of the mesh too."""
    size = declared.sizes[axis]
    whole = declared.devices_used
    of_axis = [where for where, value in declared.written.items() if value == size]
    of_all = [
        where for where, value in declared.written.items() if value == whole != size
    ]
    numbers = dict.fromkeys(of_axis, other.outcome.sizes[axis])
    numbers.update(dict.fromkeys(of_all, other.outcome.devices_used))
    tried = [where for where in numbers if where not in other.setting.literals]
    for where in tried[:MOST_NUMBERS]:
        value = numbers[where]
        setting = replace(
            other.setting, literals={**other.setting.literals, where: value}
        )
        outcome = program.run(
            setting.devices, setting.literals, until=differs_from(declared)
        )
        if len(outcome.regions) == len(declared.regions):
            yield setting, outcome


def _agrees(declared: Outcome, outcome: Outcome, other: _Other) -> bool:
    """Whether a run gives what the program gives on its own mesh. Where the other gave arrays of another shape, that is
    enough: with another size the program has other numbers."""
    if not other.is_resized:
        return first_difference(declared, outcome) is None
    pairs = zip(declared.regions, outcome.regions, strict=True)
    return all(
        isinstance(differences(one.results, twin.results), list) for one, twin in pairs
    )


# --- where it departs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parting:
    """Two recorded runs, with ``many`` devices along an axis and with ``few``, up to that call of a mapped function
    after which they part, which has this ``number``."""

    program: Program
    declared: Outcome
    other: _Other
    axis: str
    many: Outcome
    few: Outcome
    number: int

    @property
    def region(self) -> Region:
        return self.many.regions[self.number]

    @property
    def twin(self) -> Region:
        return self.few.regions[self.number]

    def is_own(self, difference: Difference | Resized) -> bool:
        """Whether a result depends on what each device draws for itself."""
        results = (_result(one, difference) for one in (self.region, self.twin))
        return any(one is not None and self.axis in one.own for one in results)

    @functools.cached_property
    def is_meant(self) -> bool:
        """Whether another number in the program's text may stand for the size of the mesh, too."""
        return _is_meant(self.program, self.declared, self.other, self.axis)

    def undoes(self, sources: Collection[int]) -> bool:
        """Whether the program takes out the factor itself, outside of the mapped function, that values are off by."""
        return _is_undone(self.program, self.other, self.axis, sources)


def _departure(
    program: Program, declared: Outcome, other: _Other, axis: str
) -> Departure | str | None:
    """Where two runs depart, if they do, or why it is not said."""
    if not other.differs:
        return None
    few = program.run(
        other.setting.devices,
        other.setting.literals,
        record=True,
        until=differs_from(declared),
    )
    many = program.run(
        DEVICES, record=True, until=lambda regions: len(regions) == len(few.regions)
    )
    if program.allowance.is_spent:
        return TOO_MANY_STEPS
    found = first_difference(many, few)
    if found is None or isinstance(found, Incomparable):
        return None
    number, first = found
    parting = _Parting(program, declared, other, axis, many, few, number)
    if axis in many.machine.pmapped and axis not in parting.region.split:
        return None  # it is said of the axis that goes by another name there
    trace = _trace(many, few, axis)
    reasons: list[str] = []
    for difference in _apart(parting, first):
        departure = _departing_result(parting, trace, difference)
        if isinstance(departure, Departure):
            return departure
        if departure is not None:
            reasons.append(departure)
        if parting.is_own(difference):
            reasons.append(_OWN)
    return _OWN if _OWN in reasons else next(iter(reasons), None)


def _apart(
    parting: _Parting, first: Difference | Resized
) -> Sequence[Difference | Resized]:
    """All results of the mapped function that differ, the first one before the others. One of which devices along
    another axis have different values follows from that."""
    region, twin = parting.region, parting.twin
    found = differences(region.results, twin.results, _stacked(region, twin))
    of_others = replicas.unequal_results(
        parting.many, parting.number, but_along=parting.axis
    )
    all_of_them = found if isinstance(found, list) else [first]
    return [one for one in all_of_them if one.path not in of_others]


def _departing_result(
    parting: _Parting, trace: Trace, difference: Difference | Resized
) -> Departure | str | None:
    """Where one result departs, or why it is not said; None where it may be meant."""
    axis = parting.axis
    leaf = _result(parting.region, difference)
    if leaf is None or _result(parting.twin, difference) is None:
        return "its results are no arrays"
    culprit = _culprit(trace, leaf)
    if culprit is None:
        return _NO_EXPRESSION
    is_off = any(trace.step(number).state == "off" for number in leaf.sources)
    is_shared = axis not in _axes_of_result(parting.region, difference)
    is_whole = is_off or is_shared
    excuse = _excuse(parting, trace, leaf, culprit, difference, is_whole)
    if excuse is not None:
        division = _division_by_local_size(trace, leaf)
        if division is None:
            return excuse or None
        culprit = division
    if parting.is_meant or (is_off and parting.undoes(leaf.sources)):
        return None
    if parting.program.allowance.is_spent:
        return TOO_MANY_STEPS  # before this was found out
    region = parting.region
    evidence = Evidence(
        parting.program,
        parting.other.setting,
        parting.number,
        differing_results(region, parting.twin) or frozenset(),
        trace,
        leaf.sources,
    )
    return Departure(
        axis,
        trace.counts,
        replicas.name_of(region.function),
        difference,
        culprit,
        is_factor=is_off,
        is_shared=is_shared,
        is_alike=leaf.value is not None and not leaf.value.varies_along(axis),
        evidence=evidence,
    )


def _excuse(
    parting: _Parting,
    trace: Trace,
    leaf: Array,
    culprit: Culprit,
    difference: Difference | Resized,
    is_whole: bool,
) -> str | None:
    """Why a result may differ on purpose where this expression is the first to differ, empty where there is nothing to
    say of that; None if nothing tells so. One that ``is_whole`` is shared by all devices, or right but for a factor."""
    region, axis = parting.region, parting.axis
    value = culprit.step.value
    if axis in value.array.own:
        return _OWN
    if _is_part(region, leaf, culprit):
        return ""  # whoever gets the parts of all devices may combine them
    reason = _reason_to_differ(trace, leaf, culprit, difference)
    if reason is not None:
        return reason
    if is_whole or culprit.has_partial_sum or culprit.mixes_shards(axis):
        return None
    if axis not in value.given.names and _is_data_axis(parting.many, region, axis):
        return ""  # each device's examples are a batch of its own
    return None


def _division_by_local_size(trace: Trace, leaf: Array) -> Culprit | None:
    """Where a sum over all devices is divided by the local size of what was summed, and used as the mean: that is no
    matter of what each device has by itself."""
    for culprit in trace.culprits(leaf.sources):
        value = culprit.step.value
        is_division = culprit.divides_by_local_size(trace.axis)
        if (
            is_division
            and trace.axis not in value.array.own
            and trace.mixes(value.number)
        ):
            return culprit
    return None


def _is_part(region: Region, leaf: Array, culprit: Culprit) -> bool:
    """Whether ``pmap`` gives each device's part of a sum as it is, or what a function that takes the largest or the
    smallest gave of its own: of other functions, that a result is the largest one may be chance."""
    value, relation = culprit.step.value, culprit.step.relation
    is_result = leaf.sources == frozenset({value.number})
    is_result &= region.stacked is not None
    if not is_result or relation is None or relation.kind != "part":
        return False
    name = getattr(value.what, "qualname", getattr(value.what, "__name__", ""))
    return relation.monoid is not None and (
        relation.monoid == "sum" or relation.monoid in name.rpartition(".")[2]
    )


def _reason_to_differ(
    trace: Trace, leaf: Array, culprit: Culprit, difference: Difference | Resized
) -> str | None:
    """Why results may differ on purpose where this expression is the first to differ; None if nothing tells so."""
    if culprit.takes_blocks:
        return "each device takes a block of its own"
    if culprit.scales:
        return "it multiplies by a number of devices"
    if isinstance(difference, Resized) and not culprit.adds_shards(trace.axis):
        return difference.reason
    if trace.has_one_each(leaf.sources):
        return "each device has one entry of a sharded array"
    return None


def _axes_of_result(region: Region, difference: Difference | Resized) -> frozenset[str]:
    """The mesh axes over which a result is put together from different parts."""
    results, wanted = region.places
    paths = paths_of(flatten(results)[1])
    if region.stacked is not None:
        return frozenset(region.split)
    spec = wanted[paths.index(difference.path)]
    return (
        frozenset(name for names in spec.axes(len(spec)) for name in names)
        if spec
        else frozenset()
    )


def _is_data_axis(many: Outcome, region: Region, axis: str) -> bool:
    """Whether devices along an axis have examples of their own, and nothing else: all that is sharded over it is so in
    its first dimension, and devices exchange nothing but sums and averages."""
    assert many.recorder is not None
    exchanged = any(
        axis in one.given.names and getattr(one.what, "qualname", "") in _EXCHANGES
        for one in many.recorder.values
    )
    return region.split.get(axis, frozenset()) == {0} and not exchanged


def _trace(many: Outcome, few: Outcome, axis: str) -> Trace:
    """Two recorded runs, side by side."""
    assert many.recorder is not None and few.recorder is not None
    return Trace(many.recorder, few.recorder, axis, (many.sizes[axis], few.sizes[axis]))


def _result(region: Region, difference: Difference | Resized) -> Array | None:
    """The array that differs, as the devices have it."""
    leaves, structure = flatten(region.places[0])
    leaf = dict(zip(paths_of(structure), leaves, strict=True)).get(difference.path)
    return leaf if isinstance(leaf, Array) else None


def _culprit(trace: Trace, leaf: Array) -> Culprit | None:
    found = trace.culprit(leaf.sources)
    if found is None and len(leaf.sources) == 1:
        (last,) = leaf.sources
        step: Step = trace.step(last)
        if step.relation is not None and step.relation.kind in ("part", "split"):
            return Culprit(step, ())
    return found


def _is_undone(
    program: Program, other: _Other, axis: str, sources: Collection[int]
) -> bool:
    """Whether the program itself takes out the factor that values are off by, outside of the mapped function."""
    few = program.run(other.setting.devices, other.setting.literals, record=True)
    many = program.run(DEVICES, record=True)
    return not program.allowance.is_spent and _trace(many, few, axis).is_undone(sources)


def _without_repeats(found: list[Departure]) -> Iterator[Departure]:
    """One departure for each place."""
    seen = set()
    for one in found:
        where = one.culprit.step.value.key[0]
        if where not in seen:
            seen.add(where)
            yield one
