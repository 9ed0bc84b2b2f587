"""What a transformation of ``optax`` is, and those without a state."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from shardlint.evaluation.guards import MARK
from shardlint.evaluation.outside import provide
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.lowerings.creation import zeros_like
from shardtypes.semantics.trees import map_leaves

Update = Callable[..., Any]

_NO_PARAMETERS = (
    "You are using a transformation that requires the current value of parameters, but you are not passing `params`"
    " when calling `update`."
)


def provided(cls: Any, *names: str) -> Any:
    """A class that programs may use, under its name in ``optax`` and others."""
    setattr(cls, MARK, True)
    for name in (cls.__name__, *names):
        provide(f"optax.{name}")(cls)
    return cls


def state(name: str, fields: str, *names: str) -> Any:
    """The class of a state."""
    return provided(namedtuple(name, fields), *names)


GradientTransformation = namedtuple("GradientTransformation", "init update")


class GradientTransformationExtraArgs(GradientTransformation):
    """A transformation whose ``update`` takes other arguments by name as well."""


EmptyState = state(
    "EmptyState",
    "",
    "AdaptiveGradClipState",
    "ClipByGlobalNormState",
    "ClipState",
    "ScaleState",
    "AddDecayedWeightsState",
    "NonNegativeParamsState",
    "ScaleByTrustRatioState",
)
provided(GradientTransformation)
provided(GradientTransformationExtraArgs)


@provide("optax.init_empty_state")
def init_empty_state(params: Any) -> Any:
    return EmptyState()


@provide("optax.with_extra_args_support")
@provide("optax.base.with_extra_args_support")
def with_extra_args(tx: Any) -> Any:
    """The transformation, which leaves arguments that it does not take."""
    if isinstance(tx, GradientTransformationExtraArgs):
        return tx

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        return tx.update(updates, state, params)

    return GradientTransformationExtraArgs(tx.init, update)


@provide("optax.stateless")
def stateless(f: Callable[[Any, Any], Any]) -> Any:
    """A transformation without a state."""

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        return f(updates, params), EmptyState()

    return GradientTransformation(init_empty_state, update)


@provide("optax.stateless_with_tree_map")
def of_each(f: Callable[[Any, Any], Any]) -> Any:
    """A transformation of each array by itself, without a state."""

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        if params is None:
            made = map_leaves(lambda leaf: f(leaf, None), updates)
        else:
            made = map_leaves(f, updates, params)
        return made, EmptyState()

    return GradientTransformation(init_empty_state, update)


def by_parameters(function: Callable[[Any, Any], Any]) -> Any:
    """A transformation of each array together with its parameter, without a state."""

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        require(params)
        return map_leaves(function, updates, params), state

    return GradientTransformation(init_empty_state, update)


def require(params: Any) -> None:
    """Raises ValueError where there are no parameters, as optax does."""
    if params is None:
        raise ValueError(_NO_PARAMETERS)


def zero() -> Any:
    """The number of steps at the start."""
    return asarray(0)


@provide("optax.identity")
def identity() -> Any:
    return stateless(lambda updates, params: updates)


@provide("optax.set_to_zero")
def set_to_zero() -> Any:
    return of_each(lambda update, param: zeros_like(update))


@provide("optax.scale")
def scale(step_size: Any) -> Any:
    return of_each(lambda update, param: step_size * update)
