"""Assertions of a program that fail on its own mesh, and the change of one collective with which they hold.

A program that compares itself with a reference says what is right: no other number of devices is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from shardlint.evaluation.change import Repair
from shardlint.evaluation.comparison import Allowance, Outcome, Program
from shardlint.evaluation.departures import Departure
from shardlint.evaluation.other_meshes import DEVICES
from shardlint.evaluation.recording import Recorded, Where
from shardlint.evaluation.suspects.candidates import suspects
from shardlint.evaluation.suspects.collectives import other_collectives
from shardlint.evaluation.suspects.common import (
    always,
    at,
    differing_axes,
    each_once,
    unchanged,
    without_repeats,
)
from shardlint.evaluation.suspects.reductions import reduction_of

STEPS = 225_000
"""For all runs with changes, of one program."""
_MOST = 16
_MOST_KEYS = 4
_MOST_SENT = 4
#: What reduces whole arrays, by the last part of its name, with what then reduces the devices' results.
_REDUCTIONS = {
    "mean": "pmean",
    "average": "pmean",
    "sum": "psum",
    "count_nonzero": "psum",
    "einsum": "psum",
    "dot": "psum",
    "matmul": "psum",
    "tensordot": "psum",
    "@": "psum",
    "max": "pmax",
    "amax": "pmax",
    "min": "pmin",
    "amin": "pmin",
}


@dataclass(frozen=True)
class FailingAssertion:
    """Where an assertion fails, and a change with which it holds."""

    where: Where
    mended: Repair


def failing_assertion(
    program: Program,
    declared: Outcome,
    recorded: Callable[[], Outcome],
    departures: Sequence[Departure],
) -> FailingAssertion | None:
    """The assertion that ends a run on the program's own mesh, if it holds with one change: of a collective, or of what
    is tried where results depart."""
    if declared.failed is None or program.allowance.is_spent:
        return None
    recorder = recorded().recorder
    assert recorder is not None
    values = [one for one in recorder.values if one.is_inside and not one.is_backward]
    again = replace(program, allowance=Allowance(STEPS))
    tried = chain(
        without_repeats(_changes(values)),
        *(each_once(suspects(one), _MOST) for one in departures),
    )
    for change in tried:
        outcome = again.run(DEVICES, changes=change.changes)
        if again.allowance.is_spent:
            return None
        if outcome.regions and not outcome.reason:
            return FailingAssertion(declared.failed, change)
    return None


def _changes(values: Sequence[Recorded]) -> Iterator[Repair]:
    """The last ones first: most values that differ between devices are to do so until they are reduced."""
    latest = list(reversed(values))
    sent = [one for one in latest if one.name == "jax.lax.ppermute"]
    yield from each_once(_other_collectives(sent), _MOST_SENT)
    yield from each_once(_missing_reductions(latest), _MOST)
    yield from each_once(_folded_keys(latest), _MOST_KEYS)
    yield from each_once(_other_collectives(latest), _MOST)


def _other_collectives(values: Sequence[Recorded]) -> Iterator[Repair]:
    for axis in differing_axes(values):
        yield from other_collectives(values, axis)


def _folded_keys(values: Iterable[Recorded]) -> Iterator[Repair]:
    """Keys of which each device makes its own, left as they are."""
    for one in values:
        if one.name == "jax.random.fold_in" and differing_axes([one]):
            text = "no jax.random.fold_in here"
            yield at(one, text, function=always(unchanged))


def _missing_reductions(values: Iterable[Recorded]) -> Iterator[Repair]:
    for one in values:
        reduction = _REDUCTIONS.get(one.name.rpartition(".")[2])
        axes = differing_axes([one])
        if reduction is not None and axes:
            yield reduction_of(one, reduction, axes)
