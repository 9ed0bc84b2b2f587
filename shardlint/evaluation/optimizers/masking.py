"""``optax``'s transformations of some parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlint.evaluation.optimizers import base
from shardlint.evaluation.optimizers.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    state,
)
from shardlint.evaluation.optimizers.numerics import incremented
from shardlint.evaluation.optimizers.parameters import is_parameters
from shardlint.evaluation.outside import provide
from shardtypes.semantics.trees import flatten, map_leaves

MaskedNode = state("MaskedNode", "")
MaskedState = state("MaskedState", "inner_state")
PartitionState = state("PartitionState", "inner_states", "MultiTransformState")
WeightDecaySchedule = state("WeightDecaySchedule", "count")


@provide("optax.masked")
def masked(inner: Any, mask: Any, *, mask_compatible_extra_args: bool = False) -> Any:
    """A transformation of the parameters for which a tree of booleans, or a prefix of one, holds true."""
    inner = base.with_extra_args(inner)

    def mask_of(tree: Any) -> Any:
        return mask(tree) if callable(mask) else mask

    def init(params: Any) -> Any:
        if is_parameters(params):
            return MaskedState(inner.init(params))
        return MaskedState(inner.init(_only(mask_of(params), params)))

    def of_updates(choice: Any, given: Any, updates: Any) -> Any:
        is_alike = flatten(given)[1] == flatten(updates)[1]
        if mask_compatible_extra_args and is_alike:
            return _only(choice, given)
        return given

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        choice = mask_of(updates)
        given = None if params is None else _only(choice, params)
        more = {name: of_updates(choice, one, updates) for name, one in rest.items()}
        chosen = _only(choice, updates)
        out, after = inner.update(chosen, state.inner_state, given, **more)
        whole = map_leaves(_either, choice, out, updates)
        return whole, MaskedState(after)

    return GradientTransformationExtraArgs(init, update)


def _only(choice: Any, tree: Any) -> Any:
    return map_leaves(
        lambda is_chosen, value: value if is_chosen else MaskedNode(), choice, tree
    )


def _either(is_chosen: Any, value: Any, other: Any) -> Any:
    return value if is_chosen else other


@provide("optax.multi_transform")
@provide("optax.partition")
def partition(
    transforms: Any, param_labels: Any, *, mask_compatible_extra_args: bool = False
) -> Any:
    """A transformation of its own for the parameters of each label."""

    def with_label(label: Any) -> Callable[[Any], Any]:
        def mask(tree: Any) -> Any:
            labels = param_labels(tree) if callable(param_labels) else param_labels
            return map_leaves(lambda one: one == label, labels)

        return mask

    parts = {
        label: masked(
            one,
            with_label(label),
            mask_compatible_extra_args=mask_compatible_extra_args,
        )
        for label, one in transforms.items()
    }

    def init(params: Any) -> Any:
        return PartitionState({label: one.init(params) for label, one in parts.items()})

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        states = {}
        for label, one in parts.items():
            held = state.inner_states[label]
            updates, states[label] = one.update(updates, held, params, **rest)
        return updates, PartitionState(states)

    return GradientTransformationExtraArgs(init, update)


@provide("optax.freeze")
def freeze(mask: Any) -> Any:
    return masked(base.set_to_zero(), mask)


@provide("optax.selective_transform")
def selective_transform(optimizer: Any, *, freeze_mask: Any) -> Any:
    def labels(params: Any) -> Any:
        return map_leaves(lambda one: "freeze" if one else "train", freeze_mask)

    return partition({"train": optimizer, "freeze": base.set_to_zero()}, labels)


@provide("optax.add_decayed_weights")
def add_decayed_weights(weight_decay: Any = 0.0, mask: Any = None) -> Any:
    def init(params: Any) -> Any:
        if callable(weight_decay):
            return WeightDecaySchedule(base.zero())
        return base.EmptyState()

    def update(updates: Any, state: Any, params: Any) -> Any:
        base.require(params)
        after, decay = state, weight_decay
        if callable(weight_decay):
            after = WeightDecaySchedule(incremented(state.count))
            decay = weight_decay(state.count)
        if isinstance(decay, (int, float)) and decay == 0.0:
            return updates, after
        return map_leaves(lambda g, p: g + decay * p, updates, params), after

    decayed = GradientTransformation(init, update)
    return decayed if mask is None else masked(decayed, mask)
