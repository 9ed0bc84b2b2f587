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
        return _BY_POWER.get(step.power)
    is_extreme = step.power == 0 and step.takes_extreme
    return _EXTREMES.get(step.monoid) if is_extreme else None


def lacking(trace: Trace, where: Where, reduction: str) -> frozenset[Place] | None:
    """Which of the arrays that an expression gave lack a reduction, where others are shards: gradients of replicated
    weights beside those of sharded ones. None where there are no shards.

    Of arrays that follow from what was not reduced before, as gradients do in the second step of a loop, it cannot be
    told: they are taken for what those are that the expression gave in the step before.
    """
    steps = [trace.step(one.number) for one in trace.executions[where]]
    if not any(step.kind == "split" for step in steps):
        return None
    lacks = {step.value.key[1:]: _lacks(step, reduction) for step in steps}
    dims = {step.value.key[1:]: step.value.array.dims for step in steps}
    period = _period(lacks, dims)
    first = {(times % period, leaf) for (times, leaf), lack in lacks.items() if lack}
    return frozenset(
        (times, leaf)
        for (times, leaf), lack in lacks.items()
        if lack is not False and (times % period, leaf) in first
    )


def _lacks(step: Step, reduction: str) -> bool | None:
    """Whether a value lacks the reduction; None where it cannot be told."""
    if missing(step) == reduction or (reduction == "psum" and _is_share(step)):
        return True
    return None if step.state in ("lost", "unknown") else False


def _is_share(step: Step) -> bool:
    """Whether all devices have the same part of a sum."""
    return step.kind == "same" and step.power == -1


def _period(
    lacks: Mapping[Place, bool | None], dims: Mapping[Place, tuple[Any, ...]]
) -> int:
    """After how many times an expression gives arrays of the same shapes, which lack the same as far as it is known."""
    total = max((times for times, _ in lacks), default=0) + 1
    for period in range(1, total):
        if total % period == 0 and all(
            _is_one(one, period) for one in (_known(lacks), dims)
        ):
            return period
    return total


def _known(lacks: Mapping[Place, bool | None]) -> dict[Place, bool]:
    return {place: lack for place, lack in lacks.items() if lack is not None}


def _is_one(found: Mapping[Place, Any], period: int) -> bool:
    """Whether what is found is the same after each period."""
    first: dict[Place, Any] = {}
    return all(
        first.setdefault((times % period, leaf), one) == one
        for (times, leaf), one in found.items()
    )
