"""``optax``'s schedules in guarded code: what a learning rate is at a step."""

from __future__ import annotations

import math
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
    def schedule(count: Any) -> Array:
        steps = _number(count) - transition_begin
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
