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
UNIFYING = frozenset(
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
        before = [_reduced(recorder, one, axis) for one in values for axis in axes]
        known = tuple(dict.fromkeys(one for one in before if one is not None))
        if known and None not in before:
            yield IdleReduction(values[0].what, axes, where, known)


def _reduced(recorder: Recorder, value: Recorded, axis: str) -> Where | None:
    """The last reduction over an axis, in the same call of a mapped function, that a value was computed from by way of
    what all devices along it hold alike; None where there is none."""

    def is_alike(one: Recorded) -> bool:
        numbers = one.array.value
        if numbers is None or one.is_argument or not one.is_inside:
            return False
        return not numbers.varies_along(axis)

    def unifies(one: Recorded) -> bool:
        return one.name in UNIFYING and axis in one.given.names

    led = recorder.led(value.sources, lambda one: is_alike(one) and not unifies(one))
    for number in sorted(led, reverse=True):
        one = recorder.values[number]
        if is_alike(one) and unifies(one):
            return one.where
    return None
