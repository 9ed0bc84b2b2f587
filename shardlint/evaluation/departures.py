"""Results of a mapped function that depend on the number of devices: with which expression that begins."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from shardlint.evaluation import replicas
from shardlint.evaluation.change import Repair
from shardlint.evaluation.comparison import (
    Difference,
    Incomparable,
    Outcome,
    Program,
    Resized,
    as_far_as,
    differs_from,
    first_difference,
    results_apart,
)
from shardlint.evaluation.culprits import Culprit, Step, Trace
from shardlint.evaluation.excuses import (
    OWN_GROUPS,
    axes_of_result,
    division_by_local_size,
    excuse_of,
    spec_of_result,
)
from shardlint.evaluation.guards import TOO_MANY_STEPS
from shardlint.evaluation.idle_reductions import UNIFYING
from shardlint.evaluation.mapping import Region
from shardlint.evaluation.other_meshes import DEVICES, OtherRun, Setting
from shardlint.evaluation.parting import OWN, Parting, result_of
from shardlint.evaluation.recording import Where
from shardlint.evaluation.rings import (
    exchanges_blocks,
    last_of_short_ring,
    left_behind,
)
from shardlint.evaluation.row_groups import groups_of
from shardlint.evaluation.uneven_means import UnevenMean, culprit_of, uneven_means
from shardtypes.semantics.array import Array

OF_ROUNDS = "with one device, where nothing goes round, its results are others"
OF_NEIGHBOURS = "each device is sent the blocks of its neighbours alone"
_NO_EXPRESSION = "its results depend on the number of devices, and no expression was found where that begins"


@dataclass(frozen=True)
class Evidence:
    """The two runs that depart: the ``program`` on all devices, and in another ``setting``; the number of the ``call``
    of a mapped function with which they do, and its results that are ``differing``; and the values from which the
    reported one was computed, in the ``trace`` of both. ``regrouped`` is the program with its rows in the order in
    which the other setting has the same groups of them, if it needs that; the results ``by_row`` are in that order,
    too."""

    program: Program
    setting: Setting
    call: int
    differing: frozenset[str]
    trace: Trace
    sources: frozenset[int]
    regrouped: Program | None = None
    by_row: frozenset[str] = frozenset()


def differing_results(region: Region, twin: Region) -> frozenset[str] | None:
    """The results of a mapped function that are not the same in two runs; None where they cannot be compared."""
    found = results_apart(region, twin)
    return frozenset(one.path for one in found) if isinstance(found, list) else None


@dataclass(frozen=True)
class Departure:
    """A result of a mapped function that depends on the number of devices along an axis.

    The two numbers of ``difference`` are an entry with the first and with the second of ``counts`` devices, or the
    array is of two shapes. ``is_factor`` tells that the result is the right one times a power of that number,
    ``is_shared`` that all devices are to have the same, ``is_alike`` that they do, ``is_own`` that it depends
    on what each device draws for itself. ``uneven`` is a mean of devices' means that it is due to;
    ``is_of_ring`` tells that it is due to what stays on its device while the rest goes round, ``is_of_neighbours`` that
    it is a block of a neighbour, which may reach far enough. ``spec`` is where
    the spec of the result is made, if the result is a shard as it is and nothing but that spec is wrong. ``gives``
    says whether it is a result of the ``function``, or its gradient.
    ``mended`` is the change that bears it out, if it needed one, or the first that was found, if ``is_tried``;
    ``refuted_by`` is an assertion of the program that fails, and holds with one device along the axis.
    """

    axis: str
    counts: tuple[int, int]
    function: str
    difference: Difference | Resized
    culprit: Culprit
    is_factor: bool
    is_shared: bool
    is_alike: bool
    is_own: bool
    evidence: Evidence = field(compare=False, repr=False)
    uneven: UnevenMean | None = field(default=None, compare=False, repr=False)
    is_of_ring: bool = field(default=False, compare=False, repr=False)
    is_of_neighbours: bool = field(default=False, compare=False, repr=False)
    spec: Where | None = field(default=None, compare=False, repr=False)
    gives: str = "result"
    mended: Repair | None = field(default=None, compare=False, repr=False)
    is_tried: bool = field(default=False, compare=False, repr=False)
    refuted_by: Where | None = field(default=None, compare=False, repr=False)

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
        if self.uneven is not None:
            return False  # callers may give all devices as many entries
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
class Suspected:
    """What results may depend on, if a change bears it out; if none does, they depart ``otherwise``, or that is the
    reason why nothing is said."""

    candidates: tuple[Departure, ...]
    otherwise: Departure | str | None


def departure_of(
    program: Program, declared: Outcome, other: OtherRun, axis: str
) -> Departure | Suspected | str | None:
    """Where two runs depart, if they do, or why it is not said."""
    if not other.differs:
        return None
    few = program.run(
        other.setting.devices,
        other.setting.literals,
        record=True,
        until=differs_from(declared),
    )
    many = program.run(DEVICES, record=True, until=as_far_as(few))
    if program.allowance.is_spent:
        return TOO_MANY_STEPS
    found = first_difference(many, few)
    if found is None or isinstance(found, Incomparable):
        return None
    number, first = found
    parting = Parting(program, declared, other, axis, many, few, number)
    if axis in many.machine.pmapped and axis not in parting.region.split:
        return None  # it is said of the axis that goes by another name there
    trace = parting.trace
    reasons: list[str] = []
    apart = _apart(parting, first)
    for difference in apart:
        departure = _departing_result(parting, trace, difference)
        if isinstance(departure, Departure):
            step = departure.culprit.step
            means: tuple[Departure, ...] = ()
            if trace.is_averaged_before(step):
                means = tuple(_of_uneven_means(parting, trace, apart))
            if means:
                return Suspected(means, departure)
            if exchanges_blocks(trace, step.value.number):
                of_neighbours = replace(departure, is_of_neighbours=True)
                return Suspected((of_neighbours,), OF_NEIGHBOURS)
            if other.has_fewer_rounds:
                return Suspected((departure,), OF_ROUNDS)
            return departure
        if departure is not None:
            reasons.append(departure)
        if parting.is_own(difference):
            reasons.append(OWN)
    if OWN in reasons:
        return OWN
    if OWN_GROUPS in reasons:
        return _with_the_same_groups(parting, trace, apart) or OWN_GROUPS
    reason = next(iter(reasons), None)
    candidates = (
        *_of_uneven_means(parting, trace, apart),
        *_of_rings(parting, trace, apart),
    )
    return Suspected(candidates, reason) if candidates else reason


def _with_the_same_groups(
    parting: Parting, trace: Trace, apart: Sequence[Difference | Resized]
) -> Departure | str | None:
    """Where one result departs even if the groups of rows that devices form are the same on both numbers of devices.
    What depends on the place of a row says nothing."""
    leaves = [result_of(parting.region, difference) for difference in apart]
    found = {
        groups
        for leaf in leaves
        if leaf is not None
        for groups in groups_of(trace, leaf.sources)
    }
    groups = found.pop() if len(found) == 1 else None
    if groups is None:
        return None
    program = parting.program
    rotated = replace(program, row_order=groups.rotated).run(
        DEVICES, until=as_far_as(parting.many)
    )
    regrouped = replace(program, row_order=groups.regrouped)
    setting = parting.other.setting
    few = regrouped.run(
        setting.devices,
        setting.literals,
        record=True,
        until=as_far_as(parting.many),
    )
    if not len(rotated.regions) == len(few.regions) == len(parting.many.regions):
        return None
    by_row = differing_results(parting.region, rotated.regions[parting.number])
    if by_row is None:
        return None
    again = replace(parting, few=few)
    beside = again.trace
    for difference in _apart(again, apart[0]):
        if difference.path in by_row:
            continue
        departure = _departing_result(again, beside, difference)
        if isinstance(departure, Departure):
            evidence = departure.evidence
            evidence = replace(
                evidence,
                differing=evidence.differing - by_row,
                regrouped=regrouped,
                by_row=by_row,
            )
            return replace(departure, evidence=evidence)
    return None


def _apart(
    parting: Parting, first: Difference | Resized
) -> Sequence[Difference | Resized]:
    """All results of the mapped function that differ, the first one before the others. One of which devices along
    another axis have different values follows from that."""
    region, twin = parting.region, parting.twin
    found = results_apart(region, twin)
    of_others = replicas.unequal_results(
        parting.many, parting.number, but_along=parting.axis
    )
    all_of_them = found if isinstance(found, list) else [first]
    return [one for one in all_of_them if one.path not in of_others]


def _departing_result(
    parting: Parting, trace: Trace, difference: Difference | Resized
) -> Departure | str | None:
    """Where one result departs, or why it is not said; None where it may be meant."""
    axis = parting.axis
    leaf = result_of(parting.region, difference)
    if leaf is None or result_of(parting.twin, difference) is None:
        return "its results are no arrays"
    culprit = (
        _culprit(trace, leaf)
        or _tiled(parting, leaf, difference)
        or _short_ring(parting, leaf, difference)
    )
    if culprit is None:
        return None if _is_mapped_as_it_is(trace, leaf) else _NO_EXPRESSION
    is_off = any(trace.step(number).state == "off" for number in leaf.sources)
    is_shared = axis not in axes_of_result(parting.region, difference)
    is_whole = is_off or is_shared
    excuse = excuse_of(parting, trace, leaf, culprit, difference, is_whole)
    if excuse is not None and not parting.refutes(excuse):
        division = division_by_local_size(trace, leaf)
        if division is None:
            return excuse or None
        culprit = division
    if not parting.is_refuted:
        undone = is_off and parting.undoes(leaf.sources)
        if undone or parting.is_meant:
            return None
    if parting.program.allowance.is_spent:
        return TOO_MANY_STEPS  # before this was found out
    return _departure(parting, trace, difference, leaf, culprit)


def _is_mapped_as_it_is(trace: Trace, leaf: Array) -> bool:
    """Whether a function such as ``jnp.sum`` gave a result of what it was given, of which no expression is known."""
    values = trace.many.values
    return bool(leaf.sources) and not any(
        values[number].is_inside for number in leaf.sources
    )


def _departure(
    parting: Parting,
    trace: Trace,
    difference: Difference | Resized,
    leaf: Array,
    culprit: Culprit,
) -> Departure:
    axis, region = parting.axis, parting.region
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
        is_factor=any(trace.step(number).state == "off" for number in leaf.sources),
        is_shared=axis not in axes_of_result(region, difference),
        is_alike=leaf.value is not None and not leaf.value.varies_along(axis),
        is_own=parting.is_own(difference),
        evidence=evidence,
        spec=_wrong_spec(region, difference, culprit),
        gives="gradient" if region.is_gradient else "result",
        refuted_by=parting.declared.failed if parting.is_refuted else None,
    )


def _wrong_spec(
    region: Region, difference: Difference | Resized, culprit: Culprit
) -> Where | None:
    if not culprit.is_put_together_wrongly:
        return None
    spec = spec_of_result(region, difference)
    return None if spec is None else spec.where


def _of_uneven_means(
    parting: Parting, trace: Trace, apart: Sequence[Difference | Resized]
) -> Iterator[Departure]:
    """The first result that may be a mean of devices' means, of different numbers of entries, by each division that
    this may be due to."""
    if parting.is_meant:
        return
    for difference in apart:
        leaf = result_of(parting.region, difference)
        if leaf is None or isinstance(difference, Resized):
            continue
        found = tuple(uneven_means(trace, leaf.sources))
        for one in found:
            culprit = culprit_of(trace, one)
            departure = _departure(parting, trace, difference, leaf, culprit)
            yield replace(departure, uneven=one)
        if found:
            return


def _of_rings(
    parting: Parting, trace: Trace, apart: Sequence[Difference | Resized]
) -> Iterator[Departure]:
    """The first result that may come from a ring in which a value stays on its device."""
    if parting.is_meant:
        return
    for difference in apart:
        leaf = result_of(parting.region, difference)
        if leaf is None or isinstance(difference, Resized) or not leaf.sources:
            continue
        if next(left_behind(trace, leaf.sources, parting.axis), None) is None:
            continue
        step = trace.step(max(leaf.sources))
        culprit = Culprit(step, trace.before(step))
        departure = _departure(parting, trace, difference, leaf, culprit)
        yield replace(departure, is_of_ring=True)
        return


def _tiled(
    parting: Parting, leaf: Array, difference: Difference | Resized
) -> Culprit | None:
    """What made a result the same on all devices, of which the spec of the result puts their copies one after another:
    along a dimension that has more than one entry, so that these are not the entries of each device."""
    axis, trace = parting.axis, parting.trace
    if not isinstance(difference, Resized) or len(leaf.sources) != 1:
        return None
    spec = spec_of_result(parting.region, difference)
    if spec is None or axis not in spec.mentioned:
        return None
    names = spec.axes(leaf.rank)
    dimension = next(k for k, group in enumerate(names) if axis in group)
    if leaf.dims[dimension] == 1 or leaf.value is None or leaf.value.varies_along(axis):
        return None
    (last,) = leaf.sources
    step = trace.step(last)
    is_copy = step.state == "holds" and step.kind == "same"
    is_made = any(
        one.name in UNIFYING and axis in one.given.names
        for one in trace.led(leaf.sources)
    )
    return Culprit(step, ()) if is_copy and is_made else None


def _short_ring(
    parting: Parting, leaf: Array, difference: Difference | Resized
) -> Culprit | None:
    """The last round of a ring that lacks one: the rounds of two rings of other lengths cannot be compared one by
    one."""
    trace = parting.trace
    twin = result_of(parting.twin, difference)
    if twin is None:
        return None
    last = last_of_short_ring(trace, leaf.sources, twin.sources)
    if last is None:
        return None
    step = trace.step(last)
    return Culprit(step, trace.before(step), is_short_ring=True)


def _culprit(trace: Trace, leaf: Array) -> Culprit | None:
    found = trace.culprit(leaf.sources)
    if found is None and len(leaf.sources) == 1:
        (last,) = leaf.sources
        step: Step = trace.step(last)
        if step.kind in ("part", "split"):
            return Culprit(step, ())
    return found
