"""``optax``'s transformations that add up or average updates over steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from shardlint.evaluation.lowered import jnp
from shardlint.evaluation.optimizers import base
from shardlint.evaluation.optimizers.base import GradientTransformation, provided, state
from shardlint.evaluation.optimizers.numerics import (
    cast_like,
    cast_tree,
    chosen,
    corrected,
    incremented,
    moment,
)
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.lowerings.creation import zeros_like
from shardtypes.semantics.lowerings.elementwise import where
from shardtypes.semantics.lowerings.optax_trees import squared
from shardtypes.semantics.lowerings.reductions import sum_
from shardtypes.semantics.trees import flatten, map_leaves

ApplyEvery = state("ApplyEvery", "count grad_acc")
EmaState = state("EmaState", "count ema")
MultiStepsState = state(
    "MultiStepsState", "mini_step gradient_step inner_opt_state acc_grads skip_state"
)
TraceState = state("TraceState", "trace")


def _zeros(params: Any, dtype: Any = None) -> Any:
    return map_leaves(lambda leaf: zeros_like(leaf, dtype), params)


@provide("optax.trace")
def trace(decay: Any, nesterov: bool = False, accumulator_dtype: Any = None) -> Any:
    def added(tree: Any, other: Any) -> Any:
        return map_leaves(lambda g, t: g + decay * t, tree, other)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        kept = added(updates, state.trace)
        out = added(updates, kept) if nesterov else kept
        return out, TraceState(cast_tree(kept, accumulator_dtype))

    return GradientTransformation(
        lambda params: TraceState(_zeros(params, accumulator_dtype)), update
    )


@provide("optax.ema")
def ema(decay: Any, debias: bool = True, accumulator_dtype: Any = None) -> Any:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        kept = moment(updates, state.ema, decay, 1)
        count = incremented(state.count)
        out = corrected(kept, decay, count) if debias else kept
        return out, EmaState(count, cast_tree(kept, accumulator_dtype))

    return GradientTransformation(
        lambda params: EmaState(base.zero(), _zeros(params, accumulator_dtype)), update
    )


@provide("optax.apply_every")
def apply_every(k: Any = 1) -> Any:
    """Zeros but for every so many steps, and then the sum."""

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        place = state.count % k
        total = map_leaves(lambda g, t: (place != 0) * t + g, updates, state.grad_acc)
        is_last = place == k - 1
        out = map_leaves(lambda t: is_last * t, total)
        return out, ApplyEvery(incremented(state.count) % k, total)

    return GradientTransformation(
        lambda params: ApplyEvery(base.zero(), _zeros(params)), update
    )


@provide("optax.skip_not_finite")
def skip_not_finite(updates: Any, gradient_step: Any, params: Any) -> Any:
    """For ``MultiSteps``: whether to leave out updates of which a number is not finite."""
    is_finite = jnp.isfinite
    count: Any = asarray(0)
    for leaf in flatten(updates)[0]:
        count = count + sum_(cast(~is_finite(leaf), "int32"))
    skips = count > 0
    return skips, {"should_skip": skips, "num_not_finite": count}


@provide("optax.skip_large_updates")
def skip_large_updates(
    updates: Any, gradient_step: Any, params: Any, max_squared_norm: Any
) -> Any:
    """For ``MultiSteps``: whether to leave out updates whose norm is too large."""
    total: Any = asarray(0.0)
    for leaf in flatten(updates)[0]:
        total = total + sum_(squared(leaf))
    skips = ~(total < max_squared_norm)
    return skips, {"should_skip": skips, "norm_squared": total}


def _skip_none(*args: Any, **options: Any) -> Any:
    return asarray(False), ()


class MultiSteps:
    """Gradients of several steps are averaged before the inner transformation sees them."""

    def __init__(
        self,
        opt: Any,
        every_k_schedule: Any,
        use_grad_mean: bool = True,
        should_skip_update_fn: Callable[..., Any] | None = None,
        accumulator_dtype: Any = "float32",
    ) -> None:
        self.inner_opt = base.with_extra_args(opt)
        self._every = every_k_schedule
        self._mean = use_grad_mean
        self._skips = should_skip_update_fn or _skip_none
        self._dtype = accumulator_dtype

    def init(self, params: Any) -> Any:
        _, skipped = self._skips(_zeros(params), base.zero(), params)
        total = _zeros(params, self._dtype)
        inner = self.inner_opt.init(params)
        return MultiStepsState(base.zero(), base.zero(), inner, total, skipped)

    def update(self, updates: Any, state: Any, params: Any = None, **rest: Any) -> Any:
        skips, skipped = self._skips(updates, state.gradient_step, params)
        every = self._every
        if callable(every):
            every = every(state.gradient_step)
        step = state.mini_step

        def added(g: Any, total: Any) -> Any:
            return total + (g - total) / (step + 1) if self._mean else g + total

        total = map_leaves(added, updates, state.acc_grads)
        given = cast_like(total, updates)
        out, inner = self.inner_opt.update(given, state.inner_opt_state, params, **rest)
        is_last = step == every - 1
        after = MultiStepsState(
            incremented(step) % every,
            where(is_last, incremented(state.gradient_step), state.gradient_step),
            cast_like(
                chosen(is_last, inner, state.inner_opt_state), state.inner_opt_state
            ),
            cast_tree(map_leaves(lambda t: ~is_last * t, total), self._dtype),
            skipped,
        )
        out = map_leaves(lambda g: is_last * g, out)
        if self._skips is _skip_none:
            return out, after
        before = state._replace(skip_state=skipped)
        return chosen(skips, _zeros(out), out), chosen(skips, before, after)

    def has_updated(self, state: Any) -> Array:
        """Whether the last step was one of the inner transformation."""
        found: Array = (state.mini_step == 0) & (state.gradient_step > 0)
        return found

    def gradient_transformation(self) -> Any:
        return GradientTransformation(self.init, self.update)


provided(MultiSteps)
