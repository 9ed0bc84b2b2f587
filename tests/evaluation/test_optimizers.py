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

pytestmark = pytest.mark.once  # what optax computes does not change with JAX

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
    "MultiSteps": "optax.MultiSteps(optax.adam(0.1), 2)",
    "MultiSteps of sums": "optax.MultiSteps(optax.sgd(0.1, 0.9), 3, use_grad_mean=False)",
}


class Here:
    """``optax``, as guarded code has it."""

    def __init__(self, module: str = "optax") -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        whole = f"{self._module}.{name}"
        found = known(whole)
        if found is None and name in ("tree", "tree_utils"):
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
    with evaluation():
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


def test_states_have_the_classes_of_optax() -> None:
    for text in OPTIMIZERS.values():
        _, state = trained(eval(text), optax, jax.numpy.asarray)
        with evaluation():
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
    "the older names": "optax.tree_utils.tree_add_scale(new, 2.0, optax.tree_utils.tree_scale(0.5, old))",
}


@pytest.mark.parametrize("text", TREES.values(), ids=TREES)
def test_trees(text: str) -> None:
    numbers = np.random.default_rng(3)
    given = [{"w": numbers.normal(size=(3, 2)), "b": numbers.normal(size=2)} for _ in range(2)]  # fmt: skip
    with evaluation():
        new, old = (jax.tree.map(asarray, one) for one in given)
        found = leaves(eval(text, {"optax": Here(), "new": new, "old": old}))
    new, old = (jax.tree.map(jax.numpy.asarray, one) for one in given)
    wanted = leaves(eval(text, {"optax": optax, "new": new, "old": old}))
    assert len(found) == len(wanted) > 0
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
