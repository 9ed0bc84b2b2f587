"""``optax``'s optimizers: chains of transformations under a name."""

from __future__ import annotations

import functools
from typing import Any

from shardlint.evaluation.optimizers.averaging import ema, trace
from shardlint.evaluation.optimizers.base import identity, scale
from shardlint.evaluation.optimizers.clipping import add_noise, clip_by_block_rms
from shardlint.evaluation.optimizers.combining import chain
from shardlint.evaluation.optimizers.factored import scale_by_factored_rms
from shardlint.evaluation.optimizers.masking import add_decayed_weights, masked
from shardlint.evaluation.optimizers.scaling import (
    scale_by_adadelta,
    scale_by_adam,
    scale_by_adamax,
    scale_by_adan,
    scale_by_amsgrad,
    scale_by_belief,
    scale_by_learning_rate,
    scale_by_lion,
    scale_by_novograd,
    scale_by_optimistic_gradient,
    scale_by_param_block_rms,
    scale_by_polyak,
    scale_by_radam,
    scale_by_rms,
    scale_by_rprop,
    scale_by_rss,
    scale_by_sign,
    scale_by_sm3,
    scale_by_stddev,
    scale_by_trust_ratio,
    scale_by_yogi,
)
from shardlint.evaluation.outside import provide
from shardtypes.semantics.lowerings.convert import DType

_FLOAT32 = DType("float32")


def _momentum(momentum: Any, nesterov: bool, accumulator_dtype: Any = None) -> Any:
    if momentum is None:
        return identity()
    return trace(momentum, nesterov, accumulator_dtype)


@provide("optax.sgd")
def sgd(
    learning_rate: Any,
    momentum: Any = None,
    nesterov: bool = False,
    accumulator_dtype: Any = None,
) -> Any:
    first = _momentum(momentum, nesterov, accumulator_dtype)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.noisy_sgd")
def noisy_sgd(
    learning_rate: Any,
    eta: Any = 0.01,
    gamma: Any = 0.55,
    key: Any = None,
    *,
    seed: Any = None,
) -> Any:
    first = add_noise(eta, gamma, key, seed=seed)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.sign_sgd")
def sign_sgd(learning_rate: Any) -> Any:
    return chain(scale_by_sign(), scale_by_learning_rate(learning_rate))


@provide("optax.signum")
def signum(learning_rate: Any, beta: Any = 0.9, accumulator_dtype: Any = None) -> Any:
    first = ema(beta, debias=False, accumulator_dtype=accumulator_dtype)
    return chain(first, scale_by_sign(), scale_by_learning_rate(learning_rate))


@provide("optax.polyak_sgd")
def polyak_sgd(
    max_learning_rate: Any = 1.0,
    scaling: Any = 1.0,
    f_min: Any = 0.0,
    eps: Any = 0.0,
    variant: str = "sps",
) -> Any:
    last = scale_by_polyak(f_min, max_learning_rate, eps, variant)
    return chain(sgd(scaling), last)


@provide("optax.optimistic_gradient_descent")
def optimistic_gradient_descent(
    learning_rate: Any, alpha: Any = 1.0, beta: Any = 1.0
) -> Any:
    first = scale_by_optimistic_gradient(alpha, beta)
    return chain(first, scale_by_learning_rate(learning_rate))


# --- Adam and its relatives -------------------------------------------------------------------------------------------


@provide("optax.adam")
def adam(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = False,
) -> Any:
    first = scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.adamw")
def adamw(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    weight_decay: Any = 1e-4,
    mask: Any = None,
    *,
    nesterov: bool = False,
) -> Any:
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


provide("optax.nadam")(functools.partial(adam, nesterov=True))
provide("optax.nadamw")(functools.partial(adamw, nesterov=True))


@provide("optax.adamax")
def adamax(learning_rate: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-8) -> Any:
    return chain(scale_by_adamax(b1, b2, eps), scale_by_learning_rate(learning_rate))


@provide("optax.adamaxw")
def adamaxw(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    weight_decay: Any = 1e-4,
    mask: Any = None,
) -> Any:
    return chain(
        scale_by_adamax(b1, b2, eps),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.adabelief")
def adabelief(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-16,
    eps_root: Any = 1e-16,
    *,
    nesterov: bool = False,
) -> Any:
    first = scale_by_belief(b1, b2, eps, eps_root, nesterov=nesterov)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.adan")
def adan(
    learning_rate: Any,
    b1: Any = 0.98,
    b2: Any = 0.92,
    b3: Any = 0.99,
    eps: Any = 1e-8,
    eps_root: Any = 1e-8,
    weight_decay: Any = 0.0,
    mask: Any = None,
) -> Any:
    return chain(
        scale_by_adan(b1, b2, b3, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.amsgrad")
def amsgrad(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    bias_correction_mu: bool = True,
    bias_correction_nu: bool = True,
) -> Any:
    corrections = bias_correction_mu, bias_correction_nu
    first = scale_by_amsgrad(b1, b2, eps, eps_root, mu_dtype, *corrections)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.yogi")
def yogi(learning_rate: Any, b1: Any = 0.9, b2: Any = 0.999, eps: Any = 1e-3) -> Any:
    first = scale_by_yogi(b1, b2, eps)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.radam")
def radam(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    threshold: Any = 5.0,
    *,
    nesterov: bool = False,
) -> Any:
    first = scale_by_radam(b1, b2, eps, eps_root, threshold, nesterov=nesterov)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.lion")
def lion(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.99,
    mu_dtype: Any = None,
    weight_decay: Any = 1e-3,
    mask: Any = None,
) -> Any:
    return chain(
        scale_by_lion(b1, b2, mu_dtype),
        add_decayed_weights(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.novograd")
def novograd(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.25,
    eps: Any = 1e-6,
    eps_root: Any = 0.0,
    weight_decay: Any = 0.0,
) -> Any:
    first = scale_by_novograd(b1, b2, eps, eps_root, weight_decay)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.optimistic_adam")
def optimistic_adam(
    learning_rate: Any,
    optimism: Any = None,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    *,
    nesterov: bool = True,
) -> Any:
    ahead = learning_rate if optimism is None else optimism
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_optimistic_gradient(learning_rate, ahead),
        scale_by_learning_rate(1.0),
    )


@provide("optax.optimistic_adam_v2")
def optimistic_adam_v2(
    learning_rate: Any,
    *,
    alpha: Any = 1.0,
    beta: Any = 1.0,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-8,
    eps_root: Any = 0.0,
    mu_dtype: Any = None,
    nesterov: bool = True,
) -> Any:
    return chain(
        scale_by_adam(b1, b2, eps, eps_root, mu_dtype, nesterov=nesterov),
        scale_by_optimistic_gradient(alpha, beta),
        scale_by_learning_rate(learning_rate),
    )


# --- by squares, norms and signs --------------------------------------------------------------------------------------


@provide("optax.rmsprop")
def rmsprop(
    learning_rate: Any,
    decay: Any = 0.9,
    eps: Any = 1e-8,
    initial_scale: Any = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Any = None,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> Any:
    first = scale_by_stddev if centered else scale_by_rms
    return chain(
        first(decay, eps, initial_scale, eps_in_sqrt, bias_correction),
        scale_by_learning_rate(learning_rate),
        _momentum(momentum, nesterov),
    )


@provide("optax.adagrad")
def adagrad(
    learning_rate: Any, initial_accumulator_value: Any = 0.1, eps: Any = 1e-7
) -> Any:
    first = scale_by_rss(initial_accumulator_value, eps)
    return chain(first, scale_by_learning_rate(learning_rate))


@provide("optax.adadelta")
def adadelta(
    learning_rate: Any = None,
    rho: Any = 0.9,
    eps: Any = 1e-6,
    weight_decay: Any = 0.0,
    weight_decay_mask: Any = None,
) -> Any:
    return chain(
        add_decayed_weights(weight_decay, weight_decay_mask),
        scale_by_adadelta(rho, eps),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.adafactor")
def adafactor(
    learning_rate: Any = None,
    min_dim_size_to_factor: Any = 128,
    decay_rate: Any = 0.8,
    decay_offset: Any = 0,
    multiply_by_parameter_scale: bool = True,
    clipping_threshold: Any = 1.0,
    momentum: Any = None,
    dtype_momentum: Any = _FLOAT32,
    weight_decay_rate: Any = None,
    eps: Any = 1e-30,
    factored: bool = True,
    weight_decay_mask: Any = None,
) -> Any:
    parts = [
        scale_by_factored_rms(
            factored, decay_rate, decay_offset, min_dim_size_to_factor, eps
        )
    ]
    if clipping_threshold is not None:
        parts.append(clip_by_block_rms(clipping_threshold))
    if learning_rate is not None:
        parts.append(scale_by_learning_rate(learning_rate, flip_sign=False))
    if multiply_by_parameter_scale:
        parts.append(scale_by_param_block_rms())
    if momentum is not None:
        parts.append(ema(momentum, debias=False, accumulator_dtype=dtype_momentum))
    if weight_decay_rate is not None:
        parts.append(add_decayed_weights(weight_decay_rate, weight_decay_mask))
    return chain(*parts, scale(-1))


@provide("optax.lamb")
def lamb(
    learning_rate: Any,
    b1: Any = 0.9,
    b2: Any = 0.999,
    eps: Any = 1e-6,
    eps_root: Any = 0.0,
    weight_decay: Any = 0.0,
    mask: Any = None,
) -> Any:
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay, mask),
        scale_by_trust_ratio(),
        scale_by_learning_rate(learning_rate),
    )


@provide("optax.lars")
def lars(
    learning_rate: Any,
    weight_decay: Any = 0.0,
    weight_decay_mask: Any = True,
    trust_coefficient: Any = 0.001,
    eps: Any = 0.0,
    trust_ratio_mask: Any = True,
    momentum: Any = 0.9,
    nesterov: bool = False,
) -> Any:
    by_trust = scale_by_trust_ratio(trust_coefficient=trust_coefficient, eps=eps)
    return chain(
        add_decayed_weights(weight_decay, weight_decay_mask),
        masked(by_trust, trust_ratio_mask),
        scale_by_learning_rate(learning_rate),
        trace(momentum, nesterov),
    )


@provide("optax.fromage")
def fromage(learning_rate: Any, min_norm: Any = 1e-6) -> Any:
    def kept(rate: Any) -> Any:
        return 1 / (1 + rate**2) ** 0.5

    if not callable(learning_rate):
        share = kept(learning_rate)
        return chain(
            scale_by_trust_ratio(min_norm),
            scale_by_learning_rate(learning_rate * share),
            add_decayed_weights(share - 1),
        )
    return chain(
        scale_by_trust_ratio(min_norm),
        scale_by_learning_rate(lambda c: kept(learning_rate(c)) * learning_rate(c)),
        add_decayed_weights(lambda c: kept(learning_rate(c)) - 1),
    )


@provide("optax.sm3")
def sm3(learning_rate: Any, momentum: Any = 0.9) -> Any:
    return chain(scale_by_sm3(momentum), scale(-learning_rate))


@provide("optax.rprop")
def rprop(
    learning_rate: Any,
    eta_minus: Any = 0.5,
    eta_plus: Any = 1.2,
    min_step_size: Any = 1e-6,
    max_step_size: Any = 50.0,
) -> Any:
    bounds = min_step_size, max_step_size
    first = scale_by_rprop(learning_rate, eta_minus, eta_plus, *bounds)
    return chain(first, scale(-1.0))
