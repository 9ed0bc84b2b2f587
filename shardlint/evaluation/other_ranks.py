"""Arguments without annotation that may have fewer dimensions than were guessed.

With sizes that are all the same, an array of too many dimensions may well be broadcast to something that depends on the
number of devices, in a function that is right for those it is meant for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from shardlint.evaluation.comparison import Program
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.entries import MOST_GUESSED, Trial
from shardlint.evaluation.judgements import Judgement, judge


def judge_trial(trial: Trial) -> Judgement:
    """What is found about a function that is called by itself: only what is found, too, where guessed arguments have
    no more dimensions than their specs."""
    judgement = judge(trial.program, trial.declared)
    found = judgement.departures
    for program in _with_fewer_dimensions(trial):
        if not found:
            break
        again = judge(program)
        found = tuple(one for one in found if not _is_cleared(one, again))
    return replace(judgement, departures=found)


def _with_fewer_dimensions(trial: Trial) -> Iterator[Program]:
    """The call with each choice of the guessed arguments that have as many dimensions as their specs."""
    entry = trial.entry
    names = list(dict.fromkeys(entry.guessed))[:MOST_GUESSED]
    if entry.guess.rank == 1:
        return
    for count in range(1, len(names) + 1):
        for chosen in combinations(names, count):
            fewer = entry.guess.as_specs.union(chosen)
            if fewer == entry.guess.as_specs:
                continue
            other = replace(entry, guess=replace(entry.guess, as_specs=fewer))
            yield replace(trial.program, entry=other, before=other.load)


def _is_cleared(departure: Departure, again: Judgement) -> bool:
    """Whether there is no departure along an axis in another call that runs."""
    departing = {one.axis for one in again.departures}
    return departure.axis in again.compared and departure.axis not in departing
