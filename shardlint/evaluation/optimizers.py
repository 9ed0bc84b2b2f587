"""``optax`` in guarded code: the transformations that programs use, as its documentation defines them."""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.guards import MARK
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.lowerings.creation import zeros_like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.reductions import sum_
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.trees import flatten, map_leaves

GradientTransformation = namedtuple("GradientTransformation", "init update")
EmptyState = namedtuple("EmptyState", "")
ScaleByAdamState = namedtuple("ScaleByAdamState", "count mu nu")
TraceState = namedtuple("TraceState", "trace")
ScaleByScheduleState = namedtuple("ScaleByScheduleState", "count")
for _cls in (
    GradientTransformation,
    EmptyState,
    ScaleByAdamState,
    TraceState,
    ScaleByScheduleState,
):
    setattr(_cls, MARK, True)
provide("optax.GradientTransformation")(GradientTransformation)


def _plain(update: Callable[[Any, Any], Any]) -> Any:
    """A transformation without a state."""
    return GradientTransformation(
        lambda params: EmptyState(),
        lambda updates, state, params=None, **rest: (update(updates, params), state),
    )


@provide("optax.identity")
def identity() -> Any:
    return _plain(lambda updates, params: updates)


@provide("optax.scale")
def scale(step_size: Any) -> Any:
    return _plain(lambda updates, params: map_leaves(lambda g: g * step_size, updates))


@provide("optax.chain")
def chain(*parts: Any) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        states = []
        for part, held in zip(parts, state, strict=True):
            updates, after = part.update(updates, held, params)
            states.append(after)
        return updates, tuple(states)

    return GradientTransformation(
        lambda params: tuple(part.init(params) for part in parts), update
    )


@provide("optax.scale_by_learning_rate")
def scale_by_learning_rate(learning_rate: Any, **options: Any) -> Any:
    return (
        scale_by_schedule(learning_rate, -1.0)
        if callable(learning_rate)
        else scale(-1.0 * learning_rate)
    )


def scale_by_schedule(schedule: Any, sign: float = 1.0) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        factor = schedule(state.count) * sign
        return map_leaves(lambda g: g * factor, updates), ScaleByScheduleState(
            state.count + 1
        )

    return GradientTransformation(
        lambda params: ScaleByScheduleState(asarray(0)), update
    )


provide("optax.scale_by_schedule")(scale_by_schedule)


@provide("optax.trace")
def trace(decay: float, nesterov: bool = False, **options: Any) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        kept = map_leaves(lambda g, t: g + decay * t, updates, state.trace)
        out = (
            map_leaves(lambda g, t: g + decay * t, updates, kept) if nesterov else kept
        )
        return out, TraceState(kept)

    return GradientTransformation(
        lambda params: TraceState(map_leaves(zeros_like, params)), update
    )


@provide("optax.sgd")
def sgd(
    learning_rate: Any,
    momentum: float | None = None,
    nesterov: bool = False,
    **options: Any,
) -> Any:
    first = [] if momentum is None else [trace(momentum, nesterov)]
    return chain(*first, scale_by_learning_rate(learning_rate))


@provide("optax.scale_by_adam")
def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    **options: Any,
) -> Any:
    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        mu = map_leaves(lambda g, m: (1 - b1) * g + b1 * m, updates, state.mu)
        nu = map_leaves(
            lambda g, v: (1 - b2) * e.square(e.abs_(g)) + b2 * v, updates, state.nu
        )
        count = state.count + 1
        steps = cast(asarray(count), "float32")
        first, second = 1 - b1**steps, 1 - b2**steps
        out = map_leaves(
            lambda m, v: (m / first) / (e.sqrt(v / second + eps_root) + eps), mu, nu
        )
        return out, ScaleByAdamState(count, mu, nu)

    def init(params: Any) -> Any:
        return ScaleByAdamState(
            asarray(0), map_leaves(zeros_like, params), map_leaves(zeros_like, params)
        )

    return GradientTransformation(init, update)


@provide("optax.add_decayed_weights")
def add_decayed_weights(weight_decay: Any = 0.0, mask: Any = None) -> Any:
    if mask is not None:
        raise NotEvaluable("weight decay of some weights")
    return _plain(
        lambda updates, params: map_leaves(
            lambda g, p: g + weight_decay * p, updates, params
        )
    )


@provide("optax.adam")
def adam(
    learning_rate: Any,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    **options: Any,
) -> Any:
    return chain(
        scale_by_adam(b1, b2, eps, eps_root), scale_by_learning_rate(learning_rate)
    )


@provide("optax.adamw")
def adamw(
    learning_rate: Any,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    mu_dtype: Any = None,
    weight_decay: float = 1e-4,
    mask: Any = None,
    **options: Any,
) -> Any:
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.global_norm")
def global_norm(updates: Any) -> Array:
    total: Any = 0.0
    for leaf in flatten(updates)[0]:
        total = sum_(e.square(e.abs_(leaf))) + total
    return e.sqrt(asarray(total))


@provide("optax.clip_by_global_norm")
def clip_by_global_norm(max_norm: Any) -> Any:
    def clip(updates: Any, params: Any) -> Any:
        norm = global_norm(updates)
        return map_leaves(
            lambda g: where(norm < max_norm, g, g / norm * max_norm), updates
        )

    return _plain(clip)


@provide("optax.apply_updates")
def apply_updates(params: Any, updates: Any) -> Any:
    return map_leaves(
        lambda p, u: (
            None if p is None else cast(asarray(p + u), asarray(p).dtype or "float32")
        ),
        params,
        updates,
    )


# --- schedules --------------------------------------------------------------------------------------------------------


@provide("optax.constant_schedule")
def constant_schedule(value: Any) -> Any:
    return lambda count: value


@provide("optax.linear_schedule")
def linear_schedule(
    init_value: Any, end_value: Any, transition_steps: int, **options: Any
) -> Any:
    def schedule(count: Any) -> Array:
        part = e.min_(cast(asarray(count), "float32"), asarray(float(transition_steps)))
        value: Array = init_value + (end_value - init_value) * part / transition_steps
        return value

    return schedule


@provide("optax.cosine_decay_schedule")
def cosine_decay_schedule(
    init_value: float, decay_steps: int, alpha: float = 0.0, **options: Any
) -> Any:
    def schedule(count: Any) -> Array:
        part = (
            e.min_(cast(asarray(count), "float32"), asarray(float(decay_steps)))
            / decay_steps
        )
        cosine = 0.5 * (1 + e.cos(math.pi * part))
        return init_value * ((1 - alpha) * cosine + alpha)

    return schedule
