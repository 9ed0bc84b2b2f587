"""``optax``'s schedules in guarded code: what a learning rate is at a step."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.primitives import elementwise as e


def _number(count: Any) -> Array:
    return cast(asarray(count), "float32")


@provide("optax.constant_schedule")
def constant_schedule(value: Any) -> Any:
    return lambda count: value


@provide("optax.polynomial_schedule")
def polynomial_schedule(
    init_value: Any,
    end_value: Any,
    power: Any,
    transition_steps: int,
    transition_begin: int = 0,
) -> Any:
    """From one value to the other in so many steps, as a power of the part that is left."""
    if transition_steps <= 0:
        return constant_schedule(init_value)

    def schedule(count: Any) -> Array:
        steps = _number(count) - max(0, transition_begin)
        steps = e.clamp(asarray(0.0), steps, asarray(float(transition_steps)))
        left = 1 - steps / transition_steps
        value: Array = (init_value - end_value) * left**power + end_value
        return value

    return schedule


@provide("optax.linear_schedule")
def linear_schedule(
    init_value: Any, end_value: Any, transition_steps: int, transition_begin: int = 0
) -> Any:
    return polynomial_schedule(
        init_value, end_value, 1, transition_steps, transition_begin
    )


@provide("optax.cosine_decay_schedule")
def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, exponent: float = 1.0
) -> Any:
    def schedule(count: Any) -> Array:
        part = e.min_(_number(count), asarray(float(decay_steps))) / decay_steps
        cosine = 0.5 * (1 + e.cos(math.pi * part))
        return init_value * ((1 - alpha) * cosine**exponent + alpha)

    return schedule


@provide("optax.exponential_decay")
def exponential_decay(
    init_value: float,
    transition_steps: int,
    decay_rate: float,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: float | None = None,
) -> Any:
    if transition_steps <= 0 or decay_rate == 0:
        return constant_schedule(init_value)

    def schedule(count: Any) -> Array:
        steps = _number(count) - max(0, transition_begin)
        power = steps / transition_steps
        if staircase:
            power = e.floor(power)
        value = where(steps <= 0, init_value, init_value * decay_rate**power)
        if end_value is None:
            return value
        bound = e.max_ if decay_rate < 1 else e.min_
        return bound(value, asarray(end_value))

    return schedule


@provide("optax.piecewise_constant_schedule")
def piecewise_constant_schedule(
    init_value: float, boundaries_and_scales: dict[int, float] | None = None
) -> Any:
    def schedule(count: Any) -> Any:
        value: Any = init_value
        for boundary, factor in sorted((boundaries_and_scales or {}).items()):
            value = where(_number(count) >= boundary, value * factor, value)
        return value

    return schedule


@provide("optax.join_schedules")
def join_schedules(
    schedules: Sequence[Callable[[Any], Any]], boundaries: Sequence[int]
) -> Any:
    def schedule(count: Any) -> Any:
        value = schedules[0](count)
        for boundary, later in zip(boundaries, schedules[1:], strict=True):
            value = where(count < boundary, value, later(count - boundary))
        return value

    return schedule


@provide("optax.piecewise_interpolate_schedule")
def piecewise_interpolate_schedule(
    interpolate_type: str,
    init_value: Any,
    boundaries_and_scales: dict[int, float] | None = None,
) -> Any:
    """From one value to the next between boundaries, along a line or a cosine; as it is behind the last one."""
    if interpolate_type not in ("linear", "cosine"):
        raise ValueError("`interpolate_type` must be either 'cosine' or 'linear'")
    given = sorted((boundaries_and_scales or {}).items())
    if any(factor < 0.0 for _, factor in given):
        raise ValueError(
            "`piecewise_interpolate_schedule` expects non-negative scale factors"
        )
    bounds = [0, *(boundary for boundary, _ in given)]
    factors = [init_value, *(factor for _, factor in given)]
    values = list(itertools.accumulate(factors, operator.mul))

    def between(start: Any, end: Any, part: Array) -> Any:
        if interpolate_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (e.cos(math.pi * part) + 1)

    def schedule(count: Any) -> Array:
        steps = _number(count)
        found = where(steps >= bounds[-1], values[-1], 0.0)
        for place in range(len(given)):
            first, last = bounds[place : place + 2]
            part = (steps - first) / max(last - first, 1)
            is_inside = (steps >= first) & (steps < last)
            value = between(values[place], values[place + 1], part)
            found = found + where(is_inside, value, 0.0)
        return found

    return schedule


def _refuse_no_steps(transition_steps: int) -> None:
    if transition_steps <= 0:
        raise ValueError(
            "A linear onecycle schedule was set with a non-positive `transition_steps`"
        )


@provide("optax.linear_onecycle_schedule")
def linear_onecycle_schedule(
    transition_steps: int,
    peak_value: Any,
    pct_start: float = 0.3,
    pct_final: float = 0.85,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Any:
    _refuse_no_steps(transition_steps)
    factors = {
        int(pct_start * transition_steps): div_factor,
        int(pct_final * transition_steps): 1.0 / div_factor,
        transition_steps: 1.0 / final_div_factor,
    }
    return piecewise_interpolate_schedule("linear", peak_value / div_factor, factors)


@provide("optax.cosine_onecycle_schedule")
def cosine_onecycle_schedule(
    transition_steps: int,
    peak_value: Any,
    pct_start: float = 0.3,
    div_factor: float = 25.0,
    final_div_factor: float = 1e4,
) -> Any:
    _refuse_no_steps(transition_steps)
    factors = {
        int(pct_start * transition_steps): div_factor,
        int(transition_steps): 1.0 / (div_factor * final_div_factor),
    }
    return piecewise_interpolate_schedule("cosine", peak_value / div_factor, factors)


@provide("optax.warmup_exponential_decay_schedule")
def warmup_exponential_decay_schedule(
    init_value: Any,
    peak_value: Any,
    warmup_steps: int,
    transition_steps: int,
    decay_rate: Any,
    transition_begin: int = 0,
    staircase: bool = False,
    end_value: Any = None,
) -> Any:
    decay = exponential_decay(
        peak_value,
        transition_steps,
        decay_rate,
        transition_begin,
        staircase,
        end_value,
    )
    warmup = linear_schedule(init_value, peak_value, warmup_steps)
    return join_schedules([warmup, decay], [warmup_steps])


@provide("optax.sgdr_schedule")
def sgdr_schedule(cosine_kwargs: Any) -> Any:
    """Several warmups and decays, one after the other."""
    cycles = list(cosine_kwargs)
    schedules = [warmup_cosine_decay_schedule(**one) for one in cycles]
    ends = list(itertools.accumulate(one["decay_steps"] for one in cycles))
    return join_schedules(schedules, ends[:-1])


@provide("optax.warmup_constant_schedule")
def warmup_constant_schedule(
    init_value: float, peak_value: float, warmup_steps: int
) -> Any:
    return linear_schedule(init_value, peak_value, warmup_steps)


@provide("optax.warmup_cosine_decay_schedule")
def warmup_cosine_decay_schedule(
    init_value: float,
    peak_value: float,
    warmup_steps: int,
    decay_steps: int,
    end_value: float = 0.0,
    exponent: float = 1.0,
) -> Any:
    alpha = 0.0 if peak_value == 0.0 else end_value / peak_value
    rest = decay_steps - warmup_steps
    return join_schedules(
        [
            linear_schedule(init_value, peak_value, warmup_steps),
            cosine_decay_schedule(peak_value, rest, alpha, exponent),
        ],
        [warmup_steps],
    )
