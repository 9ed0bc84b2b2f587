"""``optax``'s transformations that are applied under a condition."""

from __future__ import annotations

from typing import Any

from shardlint.evaluation.lowered import jnp
from shardlint.evaluation.optimizers import base
from shardlint.evaluation.optimizers.base import GradientTransformationExtraArgs, state
from shardlint.evaluation.optimizers.numerics import chosen, incremented
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.lowerings.creation import zeros_like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.trees import flatten, map_leaves

ApplyIfFiniteState = state(
    "ApplyIfFiniteState", "notfinite_count last_finite total_notfinite inner_state"
)
ConditionallyMaskState = state("ConditionallyMaskState", "step inner_state")
ConditionallyTransformState = state("ConditionallyTransformState", "inner_state step")


def _zeros(tree: Any) -> Any:
    return map_leaves(zeros_like, tree)


def _all_finite(tree: Any) -> Array:
    found = asarray(True)
    for leaf in flatten(tree)[0]:
        of_leaf = jnp.isfinite(leaf)
        found = found & jnp.all(of_leaf)
    return found


@provide("optax.apply_if_finite")
def apply_if_finite(inner: Any, max_consecutive_errors: Any) -> Any:
    inner = base.with_extra_args(inner)

    def init(params: Any) -> Any:
        start = base.zero(), asarray(True), base.zero()
        return ApplyIfFiniteState(*start, inner.init(params))

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        is_finite = _all_finite(updates)
        in_a_row = where(is_finite, base.zero(), incremented(state.notfinite_count))
        total = incremented(state.total_notfinite)
        total = where(is_finite, state.total_notfinite, total)
        applies = is_finite | (in_a_row > max_consecutive_errors)
        out, after = inner.update(updates, state.inner_state, params, **rest)
        out = chosen(applies, out, _zeros(updates))
        held = chosen(applies, after, state.inner_state)
        return out, ApplyIfFiniteState(in_a_row, is_finite, total, held)

    return GradientTransformationExtraArgs(init, update)


@provide("optax.conditionally_transform")
def conditionally_transform(
    inner: Any, should_transform_fn: Any, forward_extra_args: bool = False
) -> Any:
    """A transformation where a function of the step says so."""
    inner = base.with_extra_args(inner)

    def init(params: Any) -> Any:
        return ConditionallyTransformState(inner.init(params), base.zero())

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        told = rest if forward_extra_args else {}
        applies = asarray(should_transform_fn(state.step, **told))
        out, after = inner.update(updates, state.inner_state, params, **rest)
        held = chosen(applies, after, state.inner_state)
        out = chosen(applies, out, updates)
        return out, ConditionallyTransformState(held, incremented(state.step))

    return GradientTransformationExtraArgs(init, update)


@provide("optax.conditionally_mask")
def conditionally_mask(
    inner: Any, should_transform_fn: Any, forward_extra_args: bool = False
) -> Any:
    """A transformation where a function of the step says so, else zeros."""
    inner = base.with_extra_args(inner)

    def init(params: Any) -> Any:
        return ConditionallyMaskState(base.zero(), inner.init(params))

    def update(updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        told = rest if forward_extra_args else {}
        applies = asarray(should_transform_fn(state.step, **told))
        out, after = inner.update(updates, state.inner_state, params, **rest)
        held = chosen(applies, after, state.inner_state)
        out = chosen(applies, out, _zeros(updates))
        return out, ConditionallyMaskState(incremented(state.step), held)

    return GradientTransformationExtraArgs(init, update)
