"""Which changes are tried of what led to a result, in which order.

A reduction is missing, applied twice, another one, over too few axes; a permutation goes the wrong way round; a shard
takes itself for the whole; an argument is not sharded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from shardlint.evaluation.change import Repair
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.recording import Recorded
from shardlint.evaluation.rings import PERMUTE
from shardlint.evaluation.suspects.collectives import (
    other_collectives,
    over_more_axes,
    over_more_axes_together,
    rings_to_close,
)
from shardlint.evaluation.suspects.common import (
    MEAN_OR_SUM,
    each_once,
    without_repeats,
)
from shardlint.evaluation.suspects.indices import (
    choices_of_one_device,
    indices_along_others,
    of_indices,
)
from shardlint.evaluation.suspects.offsets import offsets
from shardlint.evaluation.suspects.reductions import (
    averaged_divisors,
    missing_backward,
    missing_of_some_arrays,
    missing_over_several_axes,
    missing_reductions,
)
from shardlint.evaluation.suspects.specs import (
    more_sharded,
    other_axes,
    swapped_entries,
)

_MOST = 16
"""Changes of reductions and permutations that are tried."""
_MOST_TAKEN = 4
_MOST_BEGINS = 6
_MOST_MORE_AXES = 8
_MOST_AXES = 10
_MOST_BACKWARD = 10
_MOST_OFFSETS = 4
_MOST_SPECS = 8
_MOST_SWAPS = 6
_MOST_CHOICES = 6
_MOST_OF_SEVERAL = 8


def suspects(departure: Departure) -> Iterator[Repair]:
    """Changes of what led to the result, each once."""
    if departure.uneven is not None:
        yield from averaged_divisors(departure.uneven, departure.axis)
        return
    if departure.is_of_neighbours:
        yield from _other_ways(departure)
        return
    rings = rings_to_close(departure)
    if departure.is_of_ring:
        yield from rings
    elif departure.culprit.has_partial_sum:
        yield from chain(without_repeats(_others(departure)), rings)
    else:
        yield from chain(rings, without_repeats(_others(departure)))


def _other_ways(departure: Departure) -> Iterator[Repair]:
    """Blocks that are sent to a neighbour, sent another way."""
    led = departure.evidence.trace.led(departure.evidence.sources)
    sent = [one for one in led if one.name == PERMUTE]
    yield from each_once(other_collectives(sent, departure.axis), _MOST)


def _others(departure: Departure) -> Iterator[Repair]:
    """Reductions of what backward rules give, and of the parts that are taken where the runs part: beside reductions
    over other axes, where the parts begin, and elsewhere; offsets, reductions that are there, and then all new ones,
    before the runs part and after it; specs in the end."""
    evidence, axis = departure.evidence, departure.axis
    trace = evidence.trace.with_first_rounds
    led = trace.led(evidence.sources)
    rules = [one for one in led if one.is_of_rule]
    others = [one for one in led if not one.is_of_rule]
    culprit = departure.culprit.step.value
    parted = trace.ancestors({culprit.number})
    before = [one for one in others if one.number in parted]
    after = [one for one in others if one.number not in parted]
    taken = trace.parts_taken(culprit)
    beside = [one for one in taken if one.name in MEAN_OR_SUM]
    # the gradient of what is replicated is best summed by what takes that, as below
    first = [] if culprit.is_backward else _first_ones(taken)
    yield from each_once(missing_reductions(trace, rules, axis), _MOST)
    # of what is reduced there already, another reduction is best made there
    there = chain(
        other_collectives([culprit], axis),
        over_more_axes(taken, axis),
        over_more_axes_together(trace, taken, axis),
    )
    nearest = (replace(one, is_best=True) for one in there)
    nearest_or_taken = chain(nearest, other_collectives(taken, axis))
    yield from each_once(nearest_or_taken, _MOST_TAKEN)
    begins = chain(
        missing_reductions(trace, [*beside, *first], axis),
        missing_of_some_arrays(trace, first, axis),
        missing_over_several_axes(trace, first),
    )
    yield from each_once(begins, _MOST_BEGINS)
    yield from each_once(missing_reductions(trace, taken, axis), _MOST_TAKEN)
    yield from each_once(offsets(departure, others), _MOST_OFFSETS)
    yield from each_once(other_collectives(others, axis), _MOST)
    yield from each_once(over_more_axes(others, axis), _MOST_MORE_AXES)
    if culprit.is_backward:
        yield from each_once(missing_backward(trace, axis), _MOST_BACKWARD)
    yield from each_once(missing_reductions(trace, before, axis), _MOST)
    yield from each_once(missing_reductions(trace, after, axis), _MOST)
    yield from each_once(missing_over_several_axes(trace, before), _MOST_OF_SEVERAL)
    yield from each_once(more_sharded(trace, reversed(led), axis), _MOST_SPECS)
    yield from each_once(swapped_entries(trace, reversed(led), axis), _MOST_SWAPS)
    yield from of_indices(departure)
    yield from each_once(other_axes(trace, led, axis), _MOST_SPECS)
    yield from each_once(indices_along_others(trace, axis), _MOST_AXES)
    # a gradient is not computed from the sum whose gradient it is
    computed = reversed(trace.many.values)
    yield from each_once(choices_of_one_device(trace, computed, axis), _MOST_CHOICES)


def _first_ones(parts: list[Recorded]) -> list[Recorded]:
    """Those on the way forward that are computed from no others of them."""
    forward = [one for one in parts if not one.is_backward]
    numbers = {one.number for one in forward}
    return [one for one in forward if numbers.isdisjoint(one.sources)]
