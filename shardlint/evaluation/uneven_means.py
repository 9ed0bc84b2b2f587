"""Means of what each device has, that are averaged with equal weights though they are of different numbers of entries.

Each device divides its sum by its own count, of what a mask leaves for example, and the quotients are averaged. The
mean over all devices divides by the average count instead.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from shardlint.evaluation.arrays import Method
from shardlint.evaluation.culprits import Culprit, Step, Trace
from shardlint.evaluation.outside import Outside
from shardlint.evaluation.recording import Recorded

MOST = 4
"""Divisions that are looked at, and counts before each."""
_DIVISIONS = frozenset(
    {"/", "/=", "jax.numpy.divide", "jax.numpy.true_divide", "jax.lax.div"}
)
_WEIGHTS = {"jax.numpy.mean": "where", "jax.numpy.average": "weights"}
"""Functions that divide by a count themselves, with the parameter that says what is counted."""
_OF_SUM = ("axis", "keepdims")
_pmean = Outside("jax.lax.pmean")


@dataclass(frozen=True)
class UnevenMean:
    """A division by a count of each device's own, and the expressions that the count may be averaged at; or a call of a
    function that divides by it, which has a parameter for what is counted."""

    division: Recorded
    counts: tuple[Recorded, ...]
    parameter: str | None = None


def uneven_means(trace: Trace, sources: Iterable[int]) -> Iterator[UnevenMean]:
    """The divisions that led to a value, or to a gradient, whose divisor is a partial sum or made of one."""
    return islice(_divisions(trace, sources), MOST)


def _divisions(trace: Trace, sources: Iterable[int]) -> Iterator[UnevenMean]:
    led = trace.ancestors(sources)
    for one in trace.many.values:
        # a gradient is computed from the divisor, not from the quotient
        is_of_it = one.number in led or not one.sources.isdisjoint(led)
        if one.is_backward or not one.is_inside or not is_of_it:
            continue
        if trace.step(one.number).state != "lost":
            continue
        counts = tuple(islice(_counts(trace, one), MOST))
        if one.name in _WEIGHTS and len(one.sources) > 1:
            yield UnevenMean(one, (), _WEIGHTS[one.name])
        elif one.name in _DIVISIONS and counts:
            yield UnevenMean(one, counts)


def _counts(trace: Trace, division: Recorded) -> Iterator[Recorded]:
    """The partial sums that the operands of a division were made of, the last ones first."""
    reached = trace.many.led(
        division.sources, lambda one: not _is_partial_sum(trace.step(one.number))
    )
    for number in sorted(reached, reverse=True):
        step = trace.step(number)
        if _is_partial_sum(step):
            yield step.value


def _is_partial_sum(step: Step) -> bool:
    is_sum = step.kind == "part" and step.state == "holds"
    return is_sum and step.value.is_inside


def culprit_of(trace: Trace, uneven: UnevenMean) -> Culprit:
    """The division as that at which the runs part."""
    step = trace.step(uneven.division.number)
    return Culprit(step, trace.before(step))


def with_average_divisor(axis: str) -> Callable[[Any], Any]:
    """A change of a division: by the average of the divisor over an axis."""
    return lambda function: functools.partial(_divided_by_average, function, axis)


def _divided_by_average(
    function: Any, axis: str, dividend: Any, divisor: Any, /, *args: Any
) -> Any:
    return function(dividend, _pmean(divisor, axis), *args)


def with_average_count(axis: str, parameter: str) -> Callable[[Any], Any]:
    """A change of a function that takes a mean: it divides by the average count over an axis."""

    def changed(function: Any) -> Any:
        if not isinstance(function, Method):
            return functools.partial(_mean_of_all, function, axis, parameter)
        free = Outside(function.qualname)
        return functools.partial(_mean_of_all, free, axis, parameter, function.array)

    return changed


def _mean_of_all(
    function: Any, over: str, parameter: str, x: Any, /, *args: Any, **options: Any
) -> Any:
    mean = function(x, *args, **options)
    counted = Outside("jax.numpy.ones_like")(x) * options[parameter]
    of_sum = {name: options[name] for name in _OF_SUM if name in options}
    count = Outside("jax.numpy.sum")(counted, *args, **of_sum)
    return mean * (count / _pmean(count, over))


def averaged(axis: str) -> Callable[[Any], Any]:
    """A change of a value: its average over an axis."""
    return lambda value: _pmean(value, axis)
