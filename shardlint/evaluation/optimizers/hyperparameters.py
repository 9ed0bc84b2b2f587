"""``optax.inject_hyperparams``: options of a transformation that are part of its state."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from shardlint.evaluation.errors import NotEvaluable
from shardlint.evaluation.optimizers import base
from shardlint.evaluation.optimizers.base import (
    GradientTransformationExtraArgs,
    provided,
    state,
)
from shardlint.evaluation.optimizers.numerics import highest_dtype, incremented
from shardlint.evaluation.outside import Outside, known, provide
from shardtypes.lang import dtypes
from shardtypes.semantics.array import Array
from shardtypes.semantics.lazy import np
from shardtypes.semantics.lowerings.convert import asarray

InjectHyperparamsState = state(
    "InjectHyperparamsState", "count hyperparams inner_state"
)
InjectStatefulHyperparamsState = state(
    "InjectStatefulHyperparamsState",
    "count hyperparams hyperparams_states inner_state",
)
WrappedScheduleState = state("WrappedScheduleState", "count")


class WrappedSchedule:
    """A schedule that counts the steps itself."""

    def __init__(self, schedule_fn: Any) -> None:
        self.schedule_fn = schedule_fn

    def init(self) -> Any:
        return WrappedScheduleState(base.zero())

    def update(self, state: Any, **rest: Any) -> Any:
        return WrappedScheduleState(incremented(state.count))

    def __call__(self, state: Any, **rest: Any) -> Any:
        return self.schedule_fn(state.count)


provided(WrappedSchedule)


def _resolved(factory: Any) -> Any:
    """The function that a name of optax stands for, whose parameters can be told."""
    if isinstance(factory, functools.partial):
        inner = _resolved(factory.func)
        return functools.partial(inner, *factory.args, **factory.keywords)
    if not isinstance(factory, Outside):
        return factory
    found = known(factory.qualname)
    if found is None:
        raise NotEvaluable(f"{factory.qualname}, which is not evaluated")
    return found


def _as_hyperparameter(value: Any, dtype: Any) -> Any:
    """A number in the dtype of the parameters, unless it is an array with a dtype of its own."""
    if isinstance(value, Array) and not value.weak:
        return value
    array = asarray(value)
    if dtypes.is_kind(array.dtype, "floating"):
        return asarray(value, dtype)
    return value


class _Arguments:
    """The arguments of a transformation: schedules, numbers, and others."""

    def __init__(self, given: dict[str, Any], static: set[str]) -> None:
        self.schedules: dict[str, Any] = {}
        self.numbers: dict[str, Any] = {}
        self.others: dict[str, Any] = {}
        for name, value in given.items():
            if name in static or isinstance(value, bool):
                self.others[name] = value
            elif isinstance(value, Outside):
                raise NotEvaluable(f"inject_hyperparams of {value.qualname}")
            elif _is_stateful(value):
                self.schedules[name] = value
            elif callable(value):
                self.schedules[name] = WrappedSchedule(value)
            elif isinstance(value, (int, float, Array, np.ndarray)):
                self.numbers[name] = value
            else:
                self.others[name] = value


def _is_stateful(value: Any) -> bool:
    has_all = hasattr(value, "init") and hasattr(value, "update")
    return has_all and callable(value)


@provide("optax.inject_hyperparams")
@provide("optax.inject_stateful_hyperparams")
def inject_hyperparams(
    inner_factory: Any, static_args: Any = (), hyperparam_dtype: Any = None
) -> Callable[..., Any]:
    factory = _resolved(inner_factory)
    static = {static_args} if isinstance(static_args, str) else set(static_args)
    signature = inspect.signature(factory)
    if not static.issubset(signature.parameters):
        raise ValueError(
            "`static_args` must specify a subset of `inner_factory`'s parameters."
        )

    def injected(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return _injected(factory, _Arguments(bound.arguments, static), hyperparam_dtype)

    return injected


def _injected(factory: Any, given: _Arguments, dtype: Any) -> Any:
    def valued(numbers: dict[str, Any], params: Any) -> dict[str, Any]:
        wanted = highest_dtype(params) if dtype is None else dtype
        return {name: _as_hyperparameter(one, wanted) for name, one in numbers.items()}

    def scheduled(states: dict[str, Any], **rest: Any) -> dict[str, Any]:
        return {
            name: schedule(states[name], **rest)
            for name, schedule in given.schedules.items()
        }

    def init(params: Any) -> Any:
        states = {name: one.init() for name, one in given.schedules.items()}
        now = {
            name: asarray(one) for name, one in valued(given.numbers, params).items()
        }
        now.update(valued(scheduled(states), params))
        inner = factory(**given.others, **now).init(params)
        return InjectStatefulHyperparamsState(base.zero(), now, states, inner)

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        held = state.hyperparams_states
        now = valued(state.hyperparams, params)
        now.update(valued(scheduled(held, **rest), params))
        states = {
            name: one.update(held[name], **rest)
            for name, one in given.schedules.items()
        }
        inner = base.with_extra_args(factory(**given.others, **now))
        out, after = inner.update(updates, state.inner_state, params, **rest)
        count = incremented(state.count)
        return out, InjectStatefulHyperparamsState(count, now, states, after)

    return GradientTransformationExtraArgs(init, update)
