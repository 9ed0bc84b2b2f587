"""Programs with what optax has beside optimizers, on one device and on several, against optax."""

from __future__ import annotations

import pytest

from tests.evaluation.running import (
    assert_computes,
    computed_by_jax,
    main_of,
    programs_of,
)

pytestmark = pytest.mark.once  # what optax computes does not change with JAX

HEAD = """
import functools
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

mesh = Mesh(np.asarray(jax.devices()), ("d",))
x = jnp.sin(jnp.arange(48.0)).reshape(16, 3)
y = jnp.cos(jnp.arange(16.0))
params = {"w": jnp.array([0.5, -0.2, 0.1]), "b": jnp.array(0.3)}


def loss(params, x, y):
    return jnp.mean((x @ params["w"] + params["b"] - y) ** 2)


def trained(tx, steps=3, **more):
    state = tx.init(params)
    now = params
    for _ in range(steps):
        value, grads = jax.value_and_grad(loss)(now, x, y)
        given = {name: value for name in more}
        updates, state = tx.update(grads, state, now, **given)
        now = optax.apply_updates(now, updates)
    return now, state


def on_devices(tx, steps=3):
    state = tx.init(params)

    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(), P("d"), P("d")), out_specs=(P(), P()))
    def step(params, state, x, y):
        grads = lax.pmean(jax.grad(loss)(params, x, y), "d")
        updates, state = tx.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    now = params
    for _ in range(steps):
        now, state = step(now, state, x, y)
    return now, state


"""

PROGRAMS = {
    "a rate that is set between steps": """
        tx = optax.inject_hyperparams(optax.adamw)(learning_rate=0.1, weight_decay=0.2)
        state = tx.init(params)
        grads = jax.grad(loss)(params, x, y)
        updates, state = tx.update(grads, state, params)
        state.hyperparams["learning_rate"] = jnp.float32(0.01)
        return jax.jit(tx.update)(grads, state, params), state.count
""",
    "options that are bound before": """
        return trained(optax.inject_hyperparams(functools.partial(optax.sgd, momentum=0.5))(learning_rate=0.1))
""",
    "an optimizer by a cosine": """
        return trained(optax.inject_hyperparams(optax.sgd)(learning_rate=optax.sgdr_schedule(
            [dict(init_value=0.0, peak_value=0.3, warmup_steps=1, decay_steps=3)] * 2)))
""",
    "a step by the value of the objective": "return trained(optax.polyak_sgd(0.5), value=True)",
    "a step by the value, in a chain": """
        return trained(optax.chain(optax.clip(0.5), optax.polyak_sgd(0.5, variant="sps+")), value=True)
""",
    "noise": "return trained(optax.noisy_sgd(0.1, key=jax.random.key(3)))",
    "noise by a seed": "return trained(optax.chain(optax.add_noise(0.1, 0.5, 7), optax.sgd(0.1)))",
    "an own transformation with other arguments": """
        def update(updates, state, params=None, *, value, **more):
            return jax.tree.map(lambda g: -0.1 * value * g, updates), state
        own = optax.GradientTransformationExtraArgs(optax.init_empty_state, update)
        return trained(optax.chain(optax.scale(2.0), own), value=True)
""",
    "an own transformation": """
        def init(params):
            return optax.EmptyState()
        own = optax.GradientTransformation(init, lambda updates, state, params=None: (updates, state))
        return trained(optax.chain(own, optax.sgd(0.1)))
""",
    "states are of their classes": """
        tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(0.1))
        _, state = trained(tx)
        first = state[1][0]
        are_alike = [
            isinstance(first, optax.ScaleByAdamState),
            isinstance(state[0], optax.EmptyState),
            isinstance(tx, optax.GradientTransformationExtraArgs),
        ]
        return are_alike, first.count, first.mu, first._replace(count=0).nu
""",
    "several steps as one, of a schedule": """
        tx = optax.MultiSteps(optax.adam(0.1), every_k_schedule=lambda step: jnp.where(step < 1, 1, 2))
        now, state = trained(tx)
        return now, state.acc_grads, tx.has_updated(state), state.gradient_step
""",
    "values of a state by name": """
        tx = optax.chain(optax.clip(1.0), optax.inject_hyperparams(optax.adam)(0.1))
        _, state = trained(tx)
        state = optax.tree_utils.tree_set(state, learning_rate=jnp.float32(0.01))
        rate = optax.tree_utils.tree_get(state, "learning_rate")
        get = optax.tree.get
        moments = get(state, "ScaleByAdamState").mu, get(state, "mu"), get(state, "x", 3)
        try:
            optax.tree.get(state, "count")
            several = 0.0
        except KeyError:
            several = 1.0
        return rate, moments, several, state[1].hyperparams, optax.tree.set({"count": 1, "b": (state,)}, count=5)
""",
    "lookahead": """
        tx = optax.lookahead(optax.adam(0.1), sync_period=2, slow_step_size=0.5)
        now = optax.LookaheadParams.init_synced(params)
        state = tx.init(now)
        for _ in range(3):
            grads = jax.grad(loss)(now.fast, x, y)
            updates, state = tx.update(grads, state, now)
            now = optax.apply_updates(now, updates)
        return now.slow, now.fast, state
""",
    "adafactor on devices": "return on_devices(optax.adafactor(0.1, 2))",
    "injected hyperparameters on devices": "return on_devices(optax.inject_hyperparams(optax.adam)(0.1))",
    "apply_if_finite on devices": "return on_devices(optax.apply_if_finite(optax.lamb(0.1), 3))",
    "conditions on devices": "return on_devices(optax.conditionally_mask(optax.sgd(0.1), lambda step: step > 0))",
    "several steps as one, on devices": "return on_devices(optax.MultiSteps(optax.radam(0.1), 2))",
    "optimizers of each device": """
        tx = optax.adaptive_grad_clip(0.01)
        def body(x, y):
            grads = jax.grad(loss)(params, x, y)
            return jax.tree.map(lambda g: g[None], tx.update(grads, tx.init(params), params)[0])
        return jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)(x, y)
""",
    "optimizers of each device, mapped": """
        tx = optax.novograd(0.1)
        grads = jax.pmap(lambda x, y: jax.grad(loss)(params, x, y))(x.reshape(8, 2, 3), y.reshape(8, 2))
        def step(grads):
            return tx.update(grads, tx.init(params), params)
        return jax.pmap(step)(grads)
""",
    "a gradient through steps": """
        def after(rate):
            return loss(trained(optax.adam(rate, eps_root=1e-4), 2)[0], x, y)
        return jax.value_and_grad(after)(0.1)
""",
    "ctc_loss": """
        logits = jnp.sin(jnp.arange(2.0 * 6 * 4)).reshape(2, 6, 4)
        padding = jnp.array([[0.0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]])
        labels = jnp.array([[1, 1, 3], [2, 3, 0]])
        of_labels = jnp.array([[0.0, 0, 0], [0, 0, 1]])
        value = lambda logits: jnp.sum(optax.ctc_loss(logits, padding, labels, of_labels, blank_id=0) ** 2)
        every = optax.losses.ctc_loss_with_forward_probs(logits, padding, labels, of_labels)
        return jax.value_and_grad(value)(logits), every
""",
    "ctc_loss of examples on devices": """
        logits = jnp.sin(jnp.arange(8.0 * 5 * 4)).reshape(8, 5, 4)
        labels = jnp.arange(16).reshape(8, 2) % 4
        def body(logits, labels):
            whole = jnp.zeros(logits.shape[:2])
            return optax.ctc_loss(logits, whole, labels, jnp.zeros(labels.shape), blank_id=2)
        return jax.shard_map(body, mesh=mesh, in_specs=P("d"), out_specs=P("d"), check_vma=False)(logits, labels)
""",
    "ntxent": """
        labels = jnp.arange(16) % 3
        return jax.value_and_grad(lambda x: optax.ntxent(x, labels, temperature=0.5))(x)
""",
    "gradients of norms that have one everywhere": """
        return [jax.grad(lambda x: optax.safe_norm(x * scale, 0.5))(y) for scale in (0.0, 0.01, 1.0)]
""",
    "gradients of root mean squares": """
        return [jax.grad(lambda x: optax.safe_root_mean_squares(x * scale, 0.5))(y) for scale in (0.0, 1.0)]
""",
}


wanted = computed_by_jax(programs_of(HEAD, PROGRAMS))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_compute_what_they_do_with_optax(
    name: str, wanted: dict[str, list[object]]
) -> None:
    assert_computes(HEAD + main_of(PROGRAMS[name]), wanted[name])
