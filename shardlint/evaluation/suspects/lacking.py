"""Which values lack a reduction: parts that devices have, and of a tree of gradients those of what is replicated."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from shardlint.evaluation.culprits import Step, Trace
from shardlint.evaluation.recording import Where

Place: TypeAlias = tuple[int, int]
"""How often the expression was met before, and which array of its value it is."""

#: By the power of the number of devices that a whole is too large by.
_BY_POWER: Mapping[Fraction | int, str] = {0: "psum", 1: "pmean"}
_EXTREMES = {"max": "pmax", "min": "pmin"}


def missing(step: Step) -> str | None:
    """The reduction that makes a whole of what devices have parts of; None where they have none, or nothing tells."""
    if step.kind != "part":
        return None
    if step.monoid == "sum":
        if step.power == 0 and step.is_mean_of_zero:
            return "pmean"
        return _BY_POWER.get(step.power)
    is_extreme = step.power == 0 and step.takes_extreme
    return _EXTREMES.get(step.monoid) if is_extreme else None


def lacking(trace: Trace, where: Where, reduction: str) -> frozenset[Place] | None:
    """Which of the arrays that an expression gave lack a reduction, where others are shards: gradients of replicated
    weights beside those of sharded ones. None where there are no shards.

    Of arrays that follow from what was not reduced before, as gradients do in the second step of a loop, it cannot be
    told: they are taken for what those are that the expression gave in the step before.
    """
    steps: dict[Place, Step] = {}
    for one in trace.executions[where]:
        _, times, leaf = one.key
        steps[times, leaf] = trace.step(one.number)
    if not any(step.kind == "split" for step in steps.values()):
        return None
    lacks = {place: _lacks(step, reduction) for place, step in steps.items()}
    period = _period(lacks, steps)
    before: set[Place] = set()
    found: set[Place] = set()
    for place in sorted(steps):
        times, leaf = place
        in_period = times % period, leaf
        if lacks[place] is True:
            before.add(in_period)
        if lacks[place] is not False and in_period in before:
            found.add(place)
    return frozenset(found)


def _lacks(step: Step, reduction: str) -> bool | None:
    """Whether a value lacks the reduction; None where it cannot be told."""
    if missing(step) == reduction:
        return True
    if reduction == "psum" and _is_share(step):
        return True
    if step.state in ("lost", "unknown"):
        return None
    return False


def _is_share(step: Step) -> bool:
    """Whether all devices have the same part of a sum."""
    return step.kind == "same" and step.power == -1


def _period(lacks: Mapping[Place, bool | None], steps: Mapping[Place, Step]) -> int:
    """After how many times an expression gives arrays of the same shapes, which lack the same as far as it is known."""
    dims = {}
    known = {}
    for place, step in steps.items():
        dims[place] = step.value.array.dims
        if lacks[place] is not None:
            known[place] = lacks[place]
    total = 1 + max(times for times, _ in steps)
    for period in range(1, total):
        if total % period:
            continue
        if _recurs(dims, period) and _recurs(known, period):
            return period
    return total


def _recurs(found: Mapping[Place, Any], period: int) -> bool:
    """Whether what is found is the same after each period."""
    first: dict[Place, Any] = {}
    for place, one in found.items():
        times, leaf = place
        in_period = times % period, leaf
        first.setdefault(in_period, one)
        if first[in_period] != one:
            return False
    return True
