"""optax in guarded code, against optax: parameters after several steps, the states, and schedules."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import optax
import pytest

from shardlint.evaluation import modules
from shardlint.evaluation.outside import known
from shardtypes.semantics.array import Array
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.primitive import evaluation

assert modules  # what it imports registers what is known here

pytestmark = [
    pytest.mark.once,  # what optax computes does not change with JAX
    pytest.mark.filterwarnings("ignore:.optimistic_adam. is deprecated"),
]

SCHEDULES = {
    "constant_schedule": "optax.constant_schedule(0.3)",
    "linear_schedule": "optax.linear_schedule(0.0, 0.5, 3)",
    "linear_schedule later": "optax.linear_schedule(0.1, 0.5, 3, 2)",
    "polynomial_schedule": "optax.polynomial_schedule(1.0, 0.1, 2, 4)",
    "cosine_decay_schedule": "optax.cosine_decay_schedule(0.3, 4, 0.1)",
    "cosine_decay_schedule squared": "optax.cosine_decay_schedule(0.3, 4, 0.1, 2.0)",
    "exponential_decay": "optax.exponential_decay(0.3, 2, 0.5)",
    "exponential_decay in steps": "optax.exponential_decay(0.3, 2, 0.5, 1, True, 0.1)",
    "piecewise_constant_schedule": "optax.piecewise_constant_schedule(1.0, {2: 0.5, 4: 0.1})",
    "warmup_constant_schedule": "optax.warmup_constant_schedule(0.0, 0.3, 3)",
    "warmup_cosine_decay_schedule": "optax.warmup_cosine_decay_schedule(0.0, 0.3, 2, 6, 0.1)",
    "piecewise_interpolate_schedule": "optax.piecewise_interpolate_schedule('cosine', 0.3, {2: 0.5, 5: 2.0, 6: 0.1})",
    "piecewise_interpolate_schedule, linear": "optax.piecewise_interpolate_schedule('linear', 0.3, {2: 0.5, 5: 2.0})",
    "piecewise_interpolate_schedule of nothing": "optax.piecewise_interpolate_schedule('linear', 0.3)",
    "linear_onecycle_schedule": "optax.linear_onecycle_schedule(7, 0.3)",
    "cosine_onecycle_schedule": "optax.cosine_onecycle_schedule(7, 0.3, 0.4)",
    "warmup_exponential_decay_schedule": "optax.warmup_exponential_decay_schedule(0.0, 0.3, 2, 3, 0.5, end_value=0.1)",
    "sgdr_schedule": (
        "optax.sgdr_schedule([dict(init_value=0.0, peak_value=p, warmup_steps=1, decay_steps=3) for p in (0.3, 0.2)])"
    ),
    "exponential_decay of nothing": "optax.exponential_decay(0.3, 0, 0.5)",
    "exponential_decay from before": "optax.exponential_decay(0.3, 2, 0.5, -3)",
    "schedules": "optax.schedules.cosine_decay_schedule(0.3, 4)",
    "join_schedules": "optax.join_schedules([optax.constant_schedule(0.1), optax.linear_schedule(0.2, 0.9, 4)], [2])",
}
OPTIMIZERS = {
    "sgd": "optax.sgd(0.1)",
    "sgd with momentum": "optax.sgd(0.1, 0.9)",
    "sgd of Nesterov": "optax.sgd(0.1, 0.9, True)",
    "adam": "optax.adam(0.1, eps=1e-3)",
    "adam with a schedule": "optax.adam(optax.linear_schedule(0.1, 0.3, 3))",
    "adam of Nesterov": "optax.adam(0.1, nesterov=True)",
    "nadam": "optax.nadam(0.1)",
    "adamw": "optax.adamw(0.1, weight_decay=0.1)",
    "adamw of some": "optax.adamw(0.1, weight_decay=0.1, mask={'w': True, 'b': False})",
    "adamw of some, by a function": "optax.adamw(0.1, mask=lambda params: {name: name == 'w' for name in params})",
    "masked": "optax.masked(optax.adam(0.1), {'w': False, 'b': True})",
    "masked as a whole": "optax.masked(optax.sgd(0.1), False)",
    "multi_transform": "optax.multi_transform({1: optax.adam(0.1), 2: optax.sgd(0.1)}, {'w': 2, 'b': 1})",
    "partition": "optax.partition({'all': optax.adam(0.1)}, lambda params: {name: 'all' for name in params})",
    "nadamw": "optax.nadamw(0.1, weight_decay=0.1)",
    "lion": "optax.lion(0.1, weight_decay=0.1)",
    "rmsprop": "optax.rmsprop(0.1)",
    "rmsprop with momentum": "optax.rmsprop(0.1, eps_in_sqrt=False, momentum=0.9)",
    "adagrad": "optax.adagrad(0.1)",
    "lamb": "optax.lamb(0.1, weight_decay=0.1)",
    "clip": "optax.chain(optax.clip(0.5), optax.sgd(0.1))",
    "clip_by_global_norm": "optax.chain(optax.clip_by_global_norm(0.5), optax.adam(0.1))",
    "ema": "optax.chain(optax.ema(0.9), optax.scale(-0.1))",
    "ema as it is": "optax.chain(optax.ema(0.9, debias=False), optax.scale(-0.1))",
    "set_to_zero": "optax.set_to_zero()",
    "identity": "optax.identity()",
    "adamw with a schedule of the decay": "optax.adamw(0.1, weight_decay=optax.linear_schedule(0.1, 0.3, 3))",
    "sgd without a rate": "optax.scale_by_learning_rate(0.1, flip_sign=False)",
    "adabelief": "optax.adabelief(0.1)",
    "adabelief of Nesterov": "optax.adabelief(0.1, eps=1e-6, nesterov=True)",
    "adadelta": "optax.adadelta(0.1, weight_decay=0.1)",
    "adafactor": "optax.adafactor(0.1)",
    "adafactor by rows and columns": "optax.adafactor(0.1, min_dim_size_to_factor=2, momentum=0.9)",
    "adafactor with decay": "optax.adafactor(min_dim_size_to_factor=2, weight_decay_rate=0.1, decay_offset=-1)",
    "adafactor without factors": "optax.adafactor(0.1, 2, factored=False, clipping_threshold=None)",
    "adafactor as it is": "optax.adafactor(0.1, 2, multiply_by_parameter_scale=False)",
    "adamax": "optax.adamax(0.1)",
    "adamaxw": "optax.adamaxw(0.1, weight_decay=0.1)",
    "adan": "optax.adan(0.1, weight_decay=0.1)",
    "amsgrad": "optax.amsgrad(0.1)",
    "amsgrad as in the paper": "optax.amsgrad(0.1, bias_correction_mu=False, bias_correction_nu=False)",
    "fromage": "optax.fromage(0.1)",
    "fromage with a schedule": "optax.fromage(optax.linear_schedule(0.1, 0.3, 3))",
    "lars": "optax.lars(0.1, 0.1, trust_coefficient=0.1)",
    "lars of some": "optax.lars(0.1, 0.1, {'w': True, 'b': False}, trust_ratio_mask={'w': False, 'b': True})",
    "lion, smooth": "optax.scale_by_lion(mode='smooth', smooth_beta=3.0)",
    "lion, refined": "optax.scale_by_lion(mode='refined')",
    "novograd": "optax.novograd(0.1, weight_decay=0.1)",
    "optimistic_adam": "optax.optimistic_adam(0.1)",
    "optimistic_adam_v2": "optax.optimistic_adam_v2(0.1, alpha=0.5)",
    "optimistic_gradient_descent": "optax.optimistic_gradient_descent(0.1, 1.5, 0.5)",
    "radam": "optax.radam(0.1)",
    "radam above its threshold": "optax.radam(0.1, b2=0.9, threshold=2.0, nesterov=True)",
    "rmsprop, centered": "optax.rmsprop(0.1, eps=1e-3, centered=True, momentum=0.9)",
    "rmsprop, corrected": "optax.rmsprop(0.1, bias_correction=True, eps_in_sqrt=False)",
    "rmsprop, centered and corrected": "optax.rmsprop(0.1, eps=0.1, centered=True, bias_correction=True)",
    "rprop": "optax.rprop(0.1)",
    "sign_sgd": "optax.sign_sgd(0.1)",
    "signum": "optax.signum(0.1)",
    "sm3": "optax.sm3(0.1)",
    "yogi": "optax.yogi(0.1)",
    "distances over gradients": "optax.scale_by_distance_over_gradients(1e-3)",
    "adaptive_grad_clip": "optax.chain(optax.adaptive_grad_clip(0.1), optax.sgd(0.1))",
    "adaptive_grad_clip along an axis": "optax.chain(optax.adaptive_grad_clip(0.1, axis=-1), optax.sgd(0.1))",
    "clip_by_block_rms": "optax.chain(optax.clip_by_block_rms(0.5), optax.sgd(0.1))",
    "scale_by_param_block_norm": "optax.chain(optax.scale_by_param_block_norm(0.9), optax.sgd(0.1))",
    "scale_by_param_block_rms": "optax.chain(optax.scale_by_param_block_rms(0.9), optax.sgd(0.1))",
    "scale_by_trust_ratio": "optax.chain(optax.scale_by_trust_ratio(0.7), optax.sgd(0.1))",
    "normalize_by_update_norm": "optax.normalize_by_update_norm(-0.1)",
    "centralize": "optax.chain(optax.centralize(), optax.sgd(0.1))",
    "zero_nans": "optax.chain(optax.zero_nans(), optax.sgd(0.1))",
    "zero_nans of some": (
        "optax.chain(optax.stateless(lambda g, p: {**g, 'b': g['b'] / (g['b'] - g['b'])}), optax.zero_nans())"
    ),
    "keep_params_nonnegative": "optax.chain(optax.sgd(0.9), optax.keep_params_nonnegative())",
    "stateless": "optax.stateless(lambda g, p: {name: -0.1 * (g[name] + p[name]) for name in g})",
    "stateless_with_tree_map": "optax.stateless_with_tree_map(lambda g, p: -0.1 * g * p)",
    "named_chain": "optax.named_chain(('clipped', optax.clip(0.5)), ('adam', optax.adam(0.1)))",
    "flatten": "optax.flatten(optax.adafactor(0.1, 2))",
    "freeze": "optax.chain(optax.adam(0.1), optax.freeze({'w': True, 'b': False}))",
    "selective_transform": "optax.selective_transform(optax.adam(0.1), freeze_mask={'w': True, 'b': False})",
    "apply_every": "optax.chain(optax.apply_every(2), optax.sgd(0.1))",
    "apply_if_finite": "optax.apply_if_finite(optax.adam(0.1), 2)",
    "apply_if_finite, never": "optax.apply_if_finite(optax.chain(optax.scale(float('nan')), optax.adam(0.1)), 2)",
    "apply_if_finite, in the end": "optax.chain(optax.scale(float('inf')), optax.apply_if_finite(optax.trace(0.9), 2))",
    "conditionally_transform": "optax.conditionally_transform(optax.sgd(0.1, 0.9), lambda step: step % 2 == 0)",
    "conditionally_mask": "optax.conditionally_mask(optax.sgd(0.1, 0.9), lambda step: step % 2 == 0)",
    "with_extra_args_support": "optax.with_extra_args_support(optax.scale(-0.1))",
    "inject_hyperparams": "optax.inject_hyperparams(optax.adam)(0.1, b1=0.8)",
    "inject_hyperparams with a schedule": (
        "optax.inject_hyperparams(optax.sgd)(optax.linear_schedule(0.1, 0.3, 3), 0.9)"
    ),
    "inject_hyperparams of all": (
        "optax.inject_hyperparams(optax.adamw)(learning_rate=0.1, mask={'w': True, 'b': False})"
    ),
    "inject_hyperparams but some": (
        "optax.inject_hyperparams(optax.adafactor, static_args=('min_dim_size_to_factor',))(0.1, 2)"
    ),
    "inject_hyperparams of Nesterov": "optax.inject_hyperparams(optax.nadam)(0.1)",
    "inject_hyperparams of an own one": (
        "optax.inject_hyperparams(lambda rate, at_most: optax.chain(optax.clip(at_most), optax.sgd(rate)))(0.1, 0.5)"
    ),
    "MultiSteps": "optax.MultiSteps(optax.adam(0.1), 2)",
    "MultiSteps with a schedule": "optax.MultiSteps(optax.adam(0.1), lambda step: 1 + step)",
    "MultiSteps but for large ones": (
        "optax.MultiSteps(optax.adam(0.1), 2, should_skip_update_fn="
        "lambda *given: optax.skip_large_updates(*given, max_squared_norm=3.0))"
    ),
    "MultiSteps but for infinite ones": (
        "optax.MultiSteps(optax.adam(0.1), 2, should_skip_update_fn=optax.skip_not_finite)"
    ),
    "MultiSteps of sums": "optax.MultiSteps(optax.sgd(0.1, 0.9), 3, use_grad_mean=False)",
}


class Here:
    """``optax``, as guarded code has it."""

    def __init__(self, module: str = "optax") -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        whole = f"{self._module}.{name}"
        found = known(whole)
        if found is None and name in ("tree", "tree_utils", "schedules"):
            return Here(whole)
        assert found is not None, whole
        return found


def trained(tx: Any, library: Any, lift: Any) -> tuple[Any, Any]:
    """Parameters and state after several steps down gradients that depend on the parameters."""
    numbers = np.random.default_rng(0)
    given = {"w": numbers.normal(size=(3, 2)), "b": numbers.normal(size=2)}
    params = {name: lift(one.astype(np.float32)) for name, one in given.items()}
    state = tx.init(params)
    for step in range(5):
        grads = {name: one * one - 0.1 * step for name, one in params.items()}
        updates, state = tx.update(grads, state, params)
        params = library.apply_updates(params, updates)
    return params, state


def leaves(tree: Any) -> list[np.ndarray]:
    found = jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, Array))
    return [number(leaf) for leaf in found]


def number(leaf: Any) -> np.ndarray:
    if not isinstance(leaf, Array):
        return np.asarray(leaf)
    assert leaf.value is not None
    return np.asarray(leaf.value.parts[0])


@pytest.mark.parametrize("text", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_optimizers(text: str) -> None:
    with evaluation(), np.errstate(all="ignore"):
        here = trained(eval(text, {"optax": Here()}), Here(), asarray)
        found = leaves(here[0]), leaves(here[1])
    params, state = trained(eval(text), optax, jax.numpy.asarray)
    wanted = leaves(params), leaves(state)
    for one, other in zip(found, wanted, strict=True):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("text", SCHEDULES.values(), ids=SCHEDULES)
def test_schedules(text: str) -> None:
    with evaluation():
        here = eval(text, {"optax": Here()})
        found = [number(here(asarray(step))) for step in range(9)]
    wanted = [np.asarray(eval(text)(step)) for step in range(9)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


IN_OTHER_DTYPES = {
    "adam": "optax.adam(0.1, mu_dtype='bfloat16')",
    "lion": "optax.lion(0.1, mu_dtype='bfloat16')",
    "amsgrad": "optax.amsgrad(0.1, mu_dtype='bfloat16')",
    "sgd": "optax.sgd(0.1, 0.9, accumulator_dtype='bfloat16')",
    "MultiSteps": "optax.MultiSteps(optax.sgd(0.1), 2, False, accumulator_dtype='bfloat16')",
    "inject_hyperparams": "optax.inject_hyperparams(optax.adam, hyperparam_dtype='bfloat16')(0.1)",
    "inject_hyperparams of parameters": "optax.inject_hyperparams(optax.adafactor)(0.1)",
}


@pytest.mark.parametrize("text", IN_OTHER_DTYPES.values(), ids=IN_OTHER_DTYPES)
def test_states_have_the_dtypes_of_optax(text: str) -> None:
    with evaluation():
        _, here = trained(eval(text, {"optax": Here()}), Here(), asarray)
        is_array = lambda leaf: isinstance(leaf, Array)  # noqa: E731 - a word for it
        found = [one.dtype for one in jax.tree.leaves(here, is_leaf=is_array)]
    _, state = trained(eval(text), optax, jax.numpy.asarray)
    assert found == [str(one.dtype) for one in jax.tree.leaves(state)]


def test_states_have_the_classes_of_optax() -> None:
    for text in OPTIMIZERS.values():
        _, state = trained(eval(text), optax, jax.numpy.asarray)
        with evaluation(), np.errstate(all="ignore"):
            _, here = trained(eval(text, {"optax": Here()}), Here(), asarray)
        assert classes(here) == classes(state), text


def classes(state: Any) -> list[str]:
    if not isinstance(state, tuple):
        return []
    inner = [name for one in state for name in classes(one)]
    return [type(state).__name__, *inner]


TREES = {
    "incremental_update": "optax.incremental_update(new, old, 0.25)",
    "periodic_update, due": "optax.periodic_update(new, old, 6, 3)",
    "periodic_update, not due": "optax.periodic_update(new, old, 7, 3)",
    "add": "optax.tree.add(new, old, new)",
    "sub": "optax.tree.sub(new, old)",
    "mul": "optax.tree.mul(new, old)",
    "div": "optax.tree.div(new, old)",
    "scale": "optax.tree.scale(0.5, new)",
    "add_scale": "optax.tree.add_scale(new, 0.5, old)",
    "zeros_like": "optax.tree.zeros_like(new)",
    "ones_like": "optax.tree.ones_like(new)",
    "sum": "optax.tree.sum(new)",
    "vdot": "optax.tree.vdot(new, old)",
    "max": "optax.tree.max(new)",
    "norm": "optax.tree.norm(new)",
    "norm, squared": "optax.tree.norm(new, squared=True)",
    "norm of absolute values": "optax.tree.norm(new, ord=1)",
    "norm of the largest": "optax.tree.norm(new, ord='inf', squared=True)",
    "min": "optax.tree.min(new)",
    "size": "optax.tree.size(new)",
    "full_like": "optax.tree.full_like(new, 0.5)",
    "clip": "optax.tree.clip(new, -0.5, 0.5)",
    "conj": "optax.tree.conj(new)",
    "real": "optax.tree.real(new)",
    "where": "optax.tree.where(optax.tree.sum(new) > 0, new, old)",
    "cast_like": "optax.tree.cast_like(new, optax.tree.cast(old, 'int32'))",
    "update_moment": "optax.tree.update_moment(new, old, 0.9, 3)",
    "update_moment_per_elem_norm": "optax.tree.update_moment_per_elem_norm(new, old, 0.9, 2)",
    "update_infinity_moment": "optax.tree.update_infinity_moment(new, old, 0.9, 1e-3)",
    "bias_correction": "optax.tree.bias_correction(new, 0.9, 3)",
    "safe_increment": "optax.safe_increment(7)",
    "safe_increment of the largest": "optax.safe_increment(2**31 - 1)",
    "safe_norm": "optax.safe_norm(new['w'], 0.1)",
    "safe_norm of rows": "optax.safe_norm(new['w'], 0.5, axis=1)",
    "safe_norm, kept": "optax.safe_norm(new['w'], 9.0, ord=1, axis=0, keepdims=True)",
    "safe_root_mean_squares": "optax.safe_root_mean_squares(new['w'], 0.1)",
    "safe_root_mean_squares of small ones": "optax.safe_root_mean_squares(new['w'], 9.0)",
    "per_example_global_norm_clip": "optax.per_example_global_norm_clip([new['w'], old['w']], 0.8)",
    "a step of lookahead": ("lookahead(optax, [old, new])"),
    "a step of lookahead that begins again": "lookahead(optax, [old, new], reset_state=True)",
    "the older names": "optax.tree_utils.tree_add_scale(new, 2.0, optax.tree_utils.tree_scale(0.5, old))",
}


def lookahead(library: Any, trees: list[Any], **options: Any) -> Any:
    """Parameters, fast and slow, after some steps."""
    tx = library.lookahead(library.sgd(0.1, 0.9), 2, 0.5, **options)
    params = library.LookaheadParams.init_synced(trees[0])
    state = tx.init(params)
    for _ in range(3):
        updates, state = tx.update(trees[1], state, params)
        params = library.apply_updates(params, updates)
    return params, state


@pytest.mark.parametrize("text", TREES.values(), ids=TREES)
def test_trees(text: str) -> None:
    numbers = np.random.default_rng(3)
    given = [{"w": numbers.normal(size=(3, 2)), "b": numbers.normal(size=2)} for _ in range(2)]  # fmt: skip
    with evaluation():
        new, old = (jax.tree.map(asarray, one) for one in given)
        names = {"optax": Here(), "new": new, "old": old, "lookahead": lookahead}
        found = leaves(eval(text, names))
    new, old = (jax.tree.map(jax.numpy.asarray, one) for one in given)
    names = {"optax": optax, "new": new, "old": old, "lookahead": lookahead}
    wanted = leaves(eval(text, names))
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
