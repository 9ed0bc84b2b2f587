"""Small changes that make the result of a program the same on any number of devices, found out by running it with each.

A departure is reported where two runs part, and that may be far from the line to change: a sum that is missing in a
backward rule shows in the norm of the gradients.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from shardlint.evaluation import replicas
from shardlint.evaluation.change import Repair
from shardlint.evaluation.comparison import Allowance, Program, compared, has_nan
from shardlint.evaluation.culprits import Trace
from shardlint.evaluation.departures import Departure, Evidence, differing_results
from shardlint.evaluation.mapping import Region
from shardlint.evaluation.other_meshes import DEVICES
from shardlint.evaluation.suspects.candidates import suspects
from shardlint.evaluation.suspects.collectives import rings_to_close
from shardlint.evaluation.suspects.indices import of_indices

STEPS = 225_000
"""For all runs with changes, of one departure."""


def first_repaired(candidates: Iterable[Departure]) -> Departure | None:
    """The first of what is only suspected that a change bears out. All together have the steps of two."""
    common = Allowance(2 * STEPS)
    for one in candidates:
        mended = repair(one, common)
        if mended is not None:
            return replace(one, mended=mended)
    return None


def repair(departure: Departure, common: Allowance | None = None) -> Repair | None:
    """The first change with which no result depends on the number of devices, or else one with which fewer do, and the
    reported one does not."""
    if departure.mended is not None or departure.is_tried:
        return departure.mended
    evidence = departure.evidence
    program = replace(evidence.program, allowance=Allowance(STEPS, common))
    best: Repair | None = None
    whole: Repair | None = None
    for one in suspects(departure):
        if whole is not None:
            if whole.is_best or not one.is_new:
                break
            # A sum that is missing may be taken anywhere on a way: it is best taken where the way begins.
            if not _is_on_the_way_to(evidence.trace, one, whole):
                continue
        differing = _differing(evidence, program, one)
        mends = (
            differing is not None
            and differing < evidence.differing
            and departure.difference.path not in differing
        )
        if mends and differing and not one.is_of_all:
            best = best or replace(one, left=differing)
        if whole is not None and not mends:
            break
        if mends and not differing:
            whole = one
    if whole is not None and whole.argument is not None:
        whole = replace(whole, other=_as_good(departure, program))
    return whole or best


def _is_on_the_way_to(trace: Trace, one: Repair, other: Repair) -> bool:
    """Whether a change is of what is computed before what another changes, or of the same over more axes."""
    if one.where.backward != other.where.backward:
        return False
    places = [each.changed or (each.where,) for each in (one, other)]
    first, second = (trace.executions.get(where) for (where, *_) in places)
    if not first or not second:
        return True
    number, limit = first[0].number, second[0].number
    return number < limit or (one.is_wider and number == limit)


def _as_good(departure: Departure, program: Program) -> Repair | None:
    """What does as well as another permutation: whose value a device has is computed from its index."""
    for one in of_indices(departure):
        if _differing(departure.evidence, program, one) == frozenset():
            return one
    return None


def leaves_parts_behind(departure: Departure) -> bool:
    """Whether what departs is a ring that carries the parts of one value round, and those of another not: were they
    sent along, no result would depend on the number of devices."""
    evidence = departure.evidence
    if evidence.trace.selects(evidence.sources):
        return False
    program = replace(evidence.program, allowance=Allowance(STEPS))
    changes = rings_to_close(departure)
    return any(_differing(evidence, program, one) == frozenset() for one in changes)


def _differing(
    evidence: Evidence, program: Program, change: Repair
) -> frozenset[str] | None:
    """The results of the call that departs which still do with a change; None where the runs do not come as far, or
    part before."""
    setting, changes = evidence.setting, change.changes

    def until(regions: list[Region]) -> bool:
        return len(regions) > evidence.call

    many = program.run(DEVICES, until=until, changes=changes)
    other = program
    if evidence.regrouped is not None:
        other = replace(evidence.regrouped, allowance=program.allowance)
    few = other.run(setting.devices, setting.literals, until=until, changes=changes)
    if (
        program.allowance.is_spent
        or not len(many.regions) == len(few.regions) == evidence.call + 1
    ):
        return None
    if any(
        compared(many.regions, few.regions, number) is not None
        for number in range(evidence.call)
    ):
        return None
    if has_nan(many.regions[-1].results):
        return None  # which would equal itself
    differing = differing_results(many.regions[-1], few.regions[-1])
    # What devices have different values of is no result, though its first copy may be the same.
    if differing is None:
        return None
    unequal = replicas.unequal_results(many, evidence.call)
    return (differing | unequal) - evidence.by_row
