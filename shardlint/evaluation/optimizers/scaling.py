"""``optax``'s transformations that scale updates by what they were before."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from shardlint.evaluation.lowered import jnp
from shardlint.evaluation.optimizers import base
from shardlint.evaluation.optimizers.base import (
    GradientTransformation,
    GradientTransformationExtraArgs,
    state,
)
from shardlint.evaluation.optimizers.numerics import (
    as_number,
    cast_like,
    cast_tree,
    chosen,
    corrected,
    incremented,
    infinity_moment,
    moment,
    moment_of_norms,
    norm,
    safe_norm,
    safe_root_mean_square,
    with_lookahead,
)
from shardlint.evaluation.outside import provide
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray, cast
from shardtypes.semantics.lowerings.creation import full_like, zeros, zeros_like
from shardtypes.semantics.lowerings.elementwise import clip, where
from shardtypes.semantics.lowerings.optax_trees import global_norm, squared
from shardtypes.semantics.lowerings.reductions import max_, sum_
from shardtypes.semantics.lowerings.shapes import reshape
from shardtypes.semantics.primitives import elementwise as e
from shardtypes.semantics.trees import map_leaves

ScaleByAdaDeltaState = state("ScaleByAdaDeltaState", "e_g e_x")
ScaleByAdamState = state("ScaleByAdamState", "count mu nu")
ScaleByAdanState = state("ScaleByAdanState", "m v n g t")
ScaleByAmsgradState = state("ScaleByAmsgradState", "count mu nu nu_max")
ScaleByBeliefState = state("ScaleByBeliefState", "count mu nu")
ScaleByDistanceOverGradientsState = state(
    "ScaleByDistanceOverGradientsState", "max_dist grad_sum_of_squares init_params"
)
ScaleByLionState = state("ScaleByLionState", "count mu")
ScaleByNovogradState = state("ScaleByNovogradState", "count mu nu")
ScaleByOptimisticGradientState = state(
    "ScaleByOptimisticGradientState", "is_initial_step previous_gradient"
)
ScaleByRmsState = state("ScaleByRmsState", "nu")
ScaleByRmsWithCountState = state("ScaleByRmsWithCountState", "count nu")
ScaleByRpropState = state("ScaleByRpropState", "step_sizes prev_updates")
ScaleByRssState = state("ScaleByRssState", "sum_of_squares")
ScaleByRStdDevState = state("ScaleByRStdDevState", "mu nu")
ScaleByRStdDevWithCountState = state("ScaleByRStdDevWithCountState", "count mu nu")
ScaleBySM3State = state("ScaleBySM3State", "mu nu")
ScaleByScheduleState = state("ScaleByScheduleState", "count")


def _zeros(params: Any, dtype: Any = None) -> Any:
    return map_leaves(lambda leaf: zeros_like(leaf, dtype), params)


def _full(params: Any, value: Any) -> Any:
    return map_leaves(lambda leaf: full_like(leaf, value), params)


# --- by a number ------------------------------------------------------------------------------------------------------


@provide("optax.scale_by_learning_rate")
def scale_by_learning_rate(learning_rate: Any = None, *, flip_sign: bool = True) -> Any:
    sign = -1.0 if flip_sign else 1.0
    if learning_rate is None:
        return base.identity()
    if callable(learning_rate):
        return scale_by_schedule(lambda count: sign * learning_rate(count))
    return base.scale(sign * learning_rate)


@provide("optax.scale_by_schedule")
def scale_by_schedule(step_size_fn: Any) -> Any:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        factor = asarray(step_size_fn(state.count))
        made = map_leaves(lambda g: cast(factor, g.dtype) * g, updates)
        return made, ScaleByScheduleState(incremented(state.count))

    return GradientTransformation(
        lambda params: ScaleByScheduleState(base.zero()), update
    )


@provide("optax.scale_by_sign")
def scale_by_sign() -> Any:
    return base.of_each(lambda update, param: e.sign(asarray(update)))


@provide("optax.scale_by_param_block_norm")
def scale_by_param_block_norm(min_scale: Any = 1e-3) -> Any:
    return base.by_parameters(lambda g, p: g * safe_norm(p, min_scale))


@provide("optax.scale_by_param_block_rms")
def scale_by_param_block_rms(min_scale: Any = 1e-3) -> Any:
    return base.by_parameters(lambda g, p: g * safe_root_mean_square(p, min_scale))


@provide("optax.scale_by_trust_ratio")
def scale_by_trust_ratio(
    min_norm: Any = 0.0, trust_coefficient: Any = 1.0, eps: Any = 0.0
) -> Any:
    def scaled(g: Any, p: Any) -> Any:
        of_weights, of_updates = safe_norm(p, min_norm), safe_norm(g, min_norm)
        ratio = trust_coefficient * of_weights / (of_updates + eps)
        is_zero = (of_weights == 0.0) | (of_updates == 0.0)
        return g * where(is_zero, cast(asarray(1.0), asarray(p).dtype or ""), ratio)

    return base.by_parameters(scaled)


@provide("optax.scale_by_polyak")
def scale_by_polyak(
    f_min: Any = 0.0,
    max_learning_rate: Any = 1.0,
    eps: Any = 0.0,
    variant: str = "sps",
) -> Any:
    """By how far the value of the objective is above its minimum."""
    if variant not in ("sps", "sps+"):
        raise ValueError(f"Invalid argument value for Polyak SGD: variant={variant!r}")

    def update(
        updates: Any, state: Any, params: Any = None, *, value: Any, **rest: Any
    ) -> Any:
        square = e.square(global_norm(updates))
        gap = cast(asarray(value - f_min), square.dtype or "float32")
        if variant == "sps+":
            gap = jnp.maximum(gap, 0.0)
        largest = jnp.minimum(gap / (square + eps), max_learning_rate)
        step = where(square + eps <= _EPSILON, 0.0, largest)
        return map_leaves(lambda g: step * g, updates), state

    return GradientTransformationExtraArgs(base.init_empty_state, update)


_EPSILON = 2.0**-23
"""What a float32 differs from 1 at least."""

# --- by moments -------------------------------------------------------------------------------------------------------


def _over_root(mean: Any, square: Any, eps: Any, eps_root: Any) -> Any:
    return map_leaves(lambda m, v: m / (e.sqrt(v + eps_root) + eps), mean, square)


@provide("optax.scale_by_adam")
def scale_by_adam(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> Any:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        mu = moment(updates, state.mu, b1, 1)
        nu = moment_of_norms(updates, state.nu, b2, 2)
        count = incremented(state.count)
        mean = _mean(mu, updates, b1, count, nesterov)
        out = _over_root(mean, corrected(nu, b2, count), eps, eps_root)
        kept = cast_tree(mu, mu_dtype), cast_like(nu, state.nu)
        return out, ScaleByAdamState(count, *kept)

    return GradientTransformation(_moments(ScaleByAdamState, mu_dtype), update)


def _moments(state: Any, mu_dtype: Any = None) -> Any:
    """What makes a state of no steps, and of two moments that are zero."""

    def init(params: Any) -> Any:
        return state(base.zero(), _zeros(params, mu_dtype), _zeros(params))

    return init


def _mean(mu: Any, updates: Any, decay: Any, count: Any, nesterov: bool) -> Any:
    if nesterov:
        return with_lookahead(mu, updates, decay, count)
    return corrected(mu, decay, count)


@provide("optax.scale_by_amsgrad")
def scale_by_amsgrad(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> Any:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        mu = moment(updates, state.mu, b1, 1)
        nu = moment_of_norms(updates, state.nu, b2, 2)
        count = incremented(state.count)
        mean = corrected(mu, b1, count) if bias_correction_mu else mu
        square = corrected(nu, b2, count) if bias_correction_nu else nu
        largest = map_leaves(jnp.maximum, state.nu_max, square)
        out = _over_root(mean, largest, eps, eps_root)
        return out, ScaleByAmsgradState(count, cast_tree(mu, mu_dtype), nu, largest)

    def init(params: Any) -> Any:
        mu = _zeros(params, mu_dtype)
        return ScaleByAmsgradState(base.zero(), mu, _zeros(params), _zeros(params))

    return GradientTransformation(init, update)


@provide("optax.scale_by_adamax")
def scale_by_adamax(b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        count = incremented(state.count)
        mu = moment(updates, state.mu, b1, 1)
        nu = infinity_moment(updates, state.nu, b2, eps)
        out = map_leaves(lambda m, v: m / v, corrected(mu, b1, count), nu)
        return out, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(_moments(ScaleByAdamState), update)


@provide("optax.scale_by_belief")
def scale_by_belief(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-16,
    eps_root: Any = 1e-16,
    *,
    nesterov: bool = False,
) -> Any:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        mu = moment(updates, state.mu, b1, 1)
        errors = map_leaves(lambda g, m: g - m, updates, mu)
        nu = moment_of_norms(errors, state.nu, b2, 2)
        nu = map_leaves(lambda v: v + eps_root, nu)
        count = incremented(state.count)
        mean = _mean(mu, updates, b1, count, nesterov)
        out = _over_root(mean, corrected(nu, b2, count), eps, 0.0)
        return out, ScaleByBeliefState(count, mu, nu)

    return GradientTransformation(_moments(ScaleByBeliefState), update)


@provide("optax.scale_by_yogi")
def scale_by_yogi(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-3,
    eps_root: Any = 0.0,
    initial_accumulator_value: Any = 1e-6,
) -> Any:
    def squares(g: Any, v: Any) -> Any:
        square = squared(g)
        return v - (1 - b2) * e.sign(v - square) * square

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        mu = moment(updates, state.mu, b1, 1)
        nu = map_leaves(squares, updates, state.nu)
        count = incremented(state.count)
        mean = corrected(mu, b1, count)
        out = _over_root(mean, corrected(nu, b2, count), eps, eps_root)
        return out, ScaleByAdamState(count, mu, nu)

    def init(params: Any) -> Any:
        start = _full(params, initial_accumulator_value)
        return ScaleByAdamState(base.zero(), start, start)

    return GradientTransformation(init, update)


@provide("optax.scale_by_radam")
def scale_by_radam(
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    threshold: Any = 5.0,
    *,
    nesterov: bool = False,
) -> Any:
    at_last = 2.0 / (1.0 - b2) - 1.0

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        mu = moment(updates, state.mu, b1, 1)
        nu = moment_of_norms(updates, state.nu, b2, 2)
        count = incremented(state.count)
        steps = as_number(count)
        power = b2**steps
        length = at_last - 2 * steps * power / (1 - power)
        mean = _mean(mu, updates, b1, count, nesterov)
        above = (length - 4.0) * (length - 2.0) * at_last
        below = (at_last - 4.0) * (at_last - 2.0) * length
        factor = e.sqrt(asarray(above / below))
        scaled = map_leaves(
            lambda m, v: cast(factor, m.dtype) * m / (e.sqrt(v + eps_root) + eps),
            mean,
            corrected(nu, b2, count),
        )
        out = chosen(length >= threshold, scaled, mean)
        return out, ScaleByAdamState(count, mu, nu)

    return GradientTransformation(_moments(ScaleByAdamState), update)


@provide("optax.scale_by_adan")
def scale_by_adan(
    b1: Any = 0.98,
    b2: Any = 0.92,
    b3: Any = 0.99,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
) -> Any:
    def added(tree: Any, other: Any) -> Any:
        return map_leaves(lambda x, y: x + (1 - b2) * y, tree, other)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        is_first = state.t == 0
        changes = map_leaves(
            lambda g, old: where(is_first, zeros_like(g), g - old), updates, state.g
        )
        m = moment(updates, state.m, b1, 1)
        v = moment(changes, state.v, b2, 1)
        n = moment_of_norms(added(updates, changes), state.n, b3, 2)
        count = incremented(state.t)
        mean = added(corrected(m, b1, count), corrected(v, b2, count))
        out = _over_root(mean, corrected(n, b3, count), eps, eps_root)
        return out, ScaleByAdanState(m, v, n, updates, count)

    def init(params: Any) -> Any:
        return ScaleByAdanState(*[_zeros(params) for _ in range(4)], base.zero())

    return GradientTransformation(init, update)


@provide("optax.scale_by_lion")
def scale_by_lion(
    b1: Any = 0.9,
    b2: Any = 0.99,
    mu_dtype: Any = None,
    *,
    mode: str = "hard",
    smooth_beta: float = 1.0,
) -> Any:
    def combined(g: Any, m: Any) -> Any:
        mixed = (1 - b1) * g + b1 * m
        if mode == "hard":
            return e.sign(mixed)
        if mode == "smooth":
            return e.tanh(smooth_beta * mixed)
        if mode == "refined":
            return where(e.abs_(mixed) < 1.0, mixed, e.sign(mixed))
        raise ValueError(f"Unknown lion mode: {mode}")

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        out = map_leaves(combined, updates, state.mu)
        mu = cast_tree(moment(updates, state.mu, b2, 1), mu_dtype)
        return out, ScaleByLionState(incremented(state.count), mu)

    def init(params: Any) -> Any:
        return ScaleByLionState(base.zero(), _zeros(params, mu_dtype))

    return GradientTransformation(init, update)


def _by_root(g: Any, square: Any, eps: Any, eps_in_sqrt: bool) -> Any:
    if eps_in_sqrt:
        return e.rsqrt(square + eps) * g
    return 1 / (e.sqrt(square) + eps) * g


@provide("optax.scale_by_rms")
def scale_by_rms(
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> Any:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        nu = moment_of_norms(updates, state.nu, decay, 2)
        square, after = nu, ScaleByRmsState(nu)
        if bias_correction:
            count = incremented(state.count)
            square, after = (
                corrected(nu, decay, count),
                ScaleByRmsWithCountState(count, nu),
            )
        out = map_leaves(lambda g, v: _by_root(g, v, eps, eps_in_sqrt), updates, square)
        return out, after

    def init(params: Any) -> Any:
        nu = _full(params, initial_scale)
        if bias_correction:
            return ScaleByRmsWithCountState(base.zero(), nu)
        return ScaleByRmsState(nu)

    return GradientTransformation(init, update)


@provide("optax.scale_by_stddev")
def scale_by_stddev(
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    bias_correction: bool = False,
) -> Any:
    def scaled(g: Any, m: Any, v: Any) -> Any:
        return _by_root(g, v - squared(m), eps, eps_in_sqrt)

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        mu = moment(updates, state.mu, decay, 1)
        nu = moment_of_norms(updates, state.nu, decay, 2)
        if not bias_correction:
            out = map_leaves(scaled, updates, mu, nu)
            return out, ScaleByRStdDevState(mu, nu)
        count = incremented(state.count)
        mean, square = corrected(mu, decay, count), corrected(nu, decay, count)
        out = map_leaves(scaled, updates, mean, square)
        return out, ScaleByRStdDevWithCountState(count, mu, nu)

    def init(params: Any) -> Any:
        moments = _zeros(params), _full(params, initial_scale)
        if bias_correction:
            return ScaleByRStdDevWithCountState(base.zero(), *moments)
        return ScaleByRStdDevState(*moments)

    return GradientTransformation(init, update)


@provide("optax.scale_by_rss")
def scale_by_rss(initial_accumulator_value: Any = 0.1, eps: Any = 1e-7) -> Any:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        squares = map_leaves(lambda g, t: squared(g) + t, updates, state.sum_of_squares)
        out = map_leaves(
            lambda t, g: where(t > 0, e.rsqrt(t + eps), 0.0) * g, squares, updates
        )
        return out, ScaleByRssState(squares)

    def init(params: Any) -> Any:
        return ScaleByRssState(_full(params, initial_accumulator_value))

    return GradientTransformation(init, update)


@provide("optax.scale_by_adadelta")
def scale_by_adadelta(rho: Any = 0.9, eps: Any = 1e-6) -> Any:
    def scaled(g: Any, of_gradients: Any, of_steps: Any) -> Any:
        return e.sqrt(of_steps + eps) / e.sqrt(of_gradients + eps) * g

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        of_gradients = moment(updates, state.e_g, rho, 2)
        out = map_leaves(scaled, updates, of_gradients, state.e_x)
        of_steps = moment(out, state.e_x, rho, 2)
        return out, ScaleByAdaDeltaState(of_gradients, of_steps)

    def init(params: Any) -> Any:
        return ScaleByAdaDeltaState(_zeros(params), _zeros(params))

    return GradientTransformation(init, update)


@provide("optax.scale_by_novograd")
def scale_by_novograd(
    b1: Any = 0.9,
    b2: Any = 0.25,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    weight_decay: Any = 0.0,
    mu_dtype: Any = None,
) -> Any:
    def square_of(g: Any) -> Any:
        return e.square(norm(g))

    def added(g: Any, p: Any, v: Any) -> Any:
        return g / (e.sqrt(v + eps_root) + eps) + weight_decay * p

    def update(updates: Any, state: Any, params: Any) -> Any:
        count = incremented(state.count)
        is_first = count == 1
        squares = map_leaves(square_of, updates)
        nu = chosen(is_first, squares, moment(squares, state.nu, b2, 1))
        nu = cast_like(nu, state.nu)
        new = map_leaves(added, updates, params, nu)
        running = map_leaves(lambda m, u: b1 * m + u, state.mu, new)
        mu = cast_tree(chosen(is_first, new, running), mu_dtype)
        return mu, ScaleByNovogradState(count, mu, nu)

    def init(params: Any) -> Any:
        nu = map_leaves(lambda p: zeros_like(sum_(asarray(p))), params)
        return ScaleByNovogradState(base.zero(), _zeros(params, mu_dtype), nu)

    return GradientTransformation(init, update)


# --- by signs, steps and distances ------------------------------------------------------------------------------------


@provide("optax.scale_by_rprop")
def scale_by_rprop(
    learning_rate: Any,
    eta_minus: Any = 0.5,
    eta_plus: Any = 1.2,
    min_step_size: Any = 1e-6,
    max_step_size: Any = 50.0,
) -> Any:
    def stepped(sign: Any, step: Any) -> Any:
        other = clip(
            step * where(sign > 0, eta_plus, eta_minus), min_step_size, max_step_size
        )
        return where(sign == 0, step, other)

    def taken(sign: Any, g: Any, step: Any) -> Any:
        return where(sign < 0, zeros_like(g), step * e.sign(g))

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        signs = map_leaves(lambda g, old: g * old, updates, state.prev_updates)
        steps = map_leaves(stepped, signs, state.step_sizes)
        kept = map_leaves(taken, signs, updates, steps)
        out = map_leaves(
            lambda s, g: where(s < 0, zeros_like(g), g), signs, state.prev_updates
        )
        return out, ScaleByRpropState(steps, kept)

    def init(params: Any) -> Any:
        return ScaleByRpropState(_full(params, learning_rate), _zeros(params))

    return GradientTransformation(init, update)


@provide("optax.scale_by_optimistic_gradient")
def scale_by_optimistic_gradient(alpha: Any = 1.0, beta: Any = 1.0) -> Any:
    def update(updates: Any, state: Any, params: Any = None) -> Any:
        def ahead(g: Any, old: Any) -> Any:
            old = where(state.is_initial_step, g, old)
            return (alpha + beta) * g - beta * old

        out = map_leaves(ahead, updates, state.previous_gradient)
        return out, ScaleByOptimisticGradientState(asarray(False), updates)

    def init(params: Any) -> Any:
        return ScaleByOptimisticGradientState(asarray(True), _zeros(params))

    return GradientTransformation(init, update)


@provide("optax.scale_by_distance_over_gradients")
def scale_by_distance_over_gradients(
    reps_rel: Any = 1e-6,
    eps: Any = 1e-8,
    param_dtype: Any = "float32",
    global_scale: Any = 1.0,
) -> Any:
    def distance(x: Any, y: Any) -> Any:
        return e.sqrt(sum_(e.square(x - y)))

    def scaled(g: Any, far: Any, squares: Any) -> Any:
        return global_scale * (far / e.sqrt(squares + eps)) * g

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        base.require(params)
        larger = jnp.maximum
        far = map_leaves(
            lambda d, x, y: larger(d, distance(x, y)),
            state.max_dist,
            params,
            state.init_params,
        )
        squares = map_leaves(
            lambda t, g: t + sum_(e.square(g)), state.grad_sum_of_squares, updates
        )
        after = ScaleByDistanceOverGradientsState(far, squares, state.init_params)
        return map_leaves(scaled, updates, far, squares), after

    def init(params: Any) -> Any:
        return ScaleByDistanceOverGradientsState(
            map_leaves(lambda p: reps_rel * (1 + norm(p)), params),
            map_leaves(lambda p: zeros((1,)), params),
            cast_tree(params, param_dtype),
        )

    return GradientTransformation(init, update)


@provide("optax.scale_by_sm3")
def scale_by_sm3(b1: Any = 0.9, b2: Any = 1.0, eps: Any = 1e-8) -> Any:
    """By the largest squares of each row, column, …"""

    def along(p: Any) -> list[Array]:
        array = asarray(p)
        others = [_other_axes(array, axis) for axis in range(array.rank)]
        return [zeros_like(sum_(array, axes)) for axes in others]

    def covered(g: Array, kept: Sequence[Array]) -> Any:
        spread = [reshape(one, _only(g, axis)) for axis, one in enumerate(kept)]
        least = functools.reduce(jnp.minimum, spread)
        new = 1.0 if _is_one(b2) else 1.0 - b2
        return new * e.square(g) + b2 * least

    def update(updates: Any, state: Any, params: Any = None) -> Any:
        squares = map_leaves(covered, updates, state.mu)
        scaled = map_leaves(
            lambda g, v: g * where(v > 0, e.rsqrt(v + eps), 0.0), updates, squares
        )
        out = moment(scaled, state.nu, b1, 1)
        mu = map_leaves(_largest, squares)
        return out, ScaleBySM3State(mu, out)

    def init(params: Any) -> Any:
        return ScaleBySM3State(map_leaves(along, params), _zeros(params))

    return GradientTransformation(init, update)


def _is_one(value: Any) -> bool:
    return not isinstance(value, Array) and value == 1.0


def _other_axes(array: Array, axis: int) -> tuple[int, ...]:
    return tuple(k for k in range(array.rank) if k != axis)


def _only(array: Array, axis: int) -> list[Any]:
    return [size if k == axis else 1 for k, size in enumerate(array.dims)]


def _largest(squares: Array) -> list[Array]:
    return [max_(squares, _other_axes(squares, axis)) for axis in range(squares.rank)]
