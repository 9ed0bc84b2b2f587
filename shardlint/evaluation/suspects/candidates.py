"""Which changes are tried of what led to a result, in which order.

A reduction is missing, applied twice, another one, over too few axes; a permutation goes the wrong way round; a shard
takes itself for the whole; an argument is not sharded.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from shardlint.evaluation.change import Repair
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.suspects.collectives import other_collectives, rings_to_close
from shardlint.evaluation.suspects.common import each_once, without_repeats
from shardlint.evaluation.suspects.indices import (
    choices_of_one_device,
    indices_along_others,
    of_indices,
)
from shardlint.evaluation.suspects.offsets import offsets
from shardlint.evaluation.suspects.reductions import (
    averaged_divisors,
    missing_backward,
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
    yield from rings_to_close(departure)
    if not departure.is_of_ring:
        yield from without_repeats(_others(departure))


def _others(departure: Departure) -> Iterator[Repair]:
    """Reductions of what backward rules give, and of the parts that are taken where the runs part, from there back to
    where a part begins; offsets, reductions that are there, and then all new ones, before the runs part and after it;
    specs in the end."""
    evidence, axis = departure.evidence, departure.axis
    trace = evidence.trace
    led = trace.led(evidence.sources)
    rules = [one for one in led if one.is_of_rule]
    others = [one for one in led if not one.is_of_rule]
    culprit = departure.culprit.step.value
    parted = trace.ancestors({culprit.number})
    before = [one for one in others if one.number in parted]
    after = [one for one in others if one.number not in parted]
    taken = trace.parts_taken(culprit)
    yield from each_once(missing_reductions(trace, rules, axis), _MOST)
    nearest = chain(
        other_collectives(taken, axis), missing_reductions(trace, taken, axis)
    )
    yield from each_once(nearest, _MOST_TAKEN)
    yield from each_once(offsets(departure, others), _MOST_OFFSETS)
    yield from each_once(other_collectives(others, axis), _MOST)
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
