"""Reductions over a mesh that change nothing: an earlier one has made their operand the same on all devices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shardlint.evaluation.comparison import Outcome
from shardlint.evaluation.recording import Recorded, Recorder, Where

# What gives each device what it was given, if all were given the same.
_IDEMPOTENT = frozenset(f"jax.lax.{name}" for name in ("pmean", "pmax", "pmin"))
# What gives all devices along an axis the same.
_UNIFYING = frozenset(
    f"jax.lax.{name}" for name in ("psum", "pmean", "pmax", "pmin", "all_gather")
)


@dataclass(frozen=True)
class IdleReduction:
    """A reduction over ``axes`` at ``where``, and the ones ``before`` it that its operand was computed from."""

    what: Any
    axes: tuple[str, ...]
    where: Where
    before: tuple[Where, ...]


def idle_reductions(run: Outcome) -> Iterator[IdleReduction]:
    """The reductions of a recorded run that never change anything."""
    recorder = run.recorder
    assert recorder is not None
    several = {axis for axis, size in run.sizes.items() if size > 1}
    found: dict[Where, list[Recorded]] = {}
    for value in recorder.values:
        if value.name in _IDEMPOTENT and recorder.idle.get(value.where):
            found.setdefault(value.where, []).append(value)
    for where, values in found.items():
        axes = tuple(sorted(values[0].given.names & several))
        before: dict[Where, None] = {}
        for value in values:
            reductions = [_reduced(recorder, value, axis) for axis in axes]
            if None in reductions:
                break
            before.update(dict.fromkeys(filter(None, reductions)))
        else:
            if axes:
                yield IdleReduction(values[0].what, axes, where, tuple(before))


def _reduced(recorder: Recorder, value: Recorded, axis: str) -> Where | None:
    """The reduction over an axis, in the same call of a mapped function, that a value was computed from by way of what
    all devices along it hold alike; None where there is none."""
    waiting = sorted(value.sources)
    seen = set(waiting)
    while waiting:
        one = recorder.values[waiting.pop()]
        numbers = one.array.value
        if one.is_argument or not one.is_inside or numbers is None:
            continue
        if numbers.varies_along(axis):
            continue
        if one.name in _UNIFYING and axis in one.given.names:
            return one.where
        fresh = one.sources - seen
        seen |= fresh
        waiting += sorted(fresh)
    return None
