"""Expert-parallel mixture of experts (GShard style, top-2, fixed capacity) in a jitted optax train step.

Tokens are spread over the whole mesh, experts over its 'expert' axis.  Tokens reach their experts, and their results
come back, by all_to_all.  Each device is a routing group of its own.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import math
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

P = PartitionSpec
N_DEVICES = len(jax.devices())
EXPERT_PARALLEL = min(4, N_DEVICES)
TOKEN_AXES = ("data", "expert")

IN, D, FF, OUT = 10, 16, 32, 3
EXPERTS, TOP_K = 8, 2
CAPACITY_FACTOR = 1.0
TOKENS = 256
STEPS = 3
NOISE = 0.3
BALANCE_COEF, Z_COEF = 0.05, 0.01


class Moe(NamedTuple):
    router: jax.Array  # [D, E]
    w1: jax.Array  # [E, D, F]
    b1: jax.Array  # [E, F]
    w2: jax.Array  # [E, F, D]


class Model(NamedTuple):
    stem: jax.Array  # [IN, D]
    moe: Moe
    readout: jax.Array  # [D, OUT]


class Aux(NamedTuple):
    balance: jax.Array
    z: jax.Array
    dropped: jax.Array


MOE_SPECS = Moe(router=P(), w1=P("expert"), b1=P("expert"), w2=P("expert"))
MODEL_SPECS = Model(stem=P(), moe=MOE_SPECS, readout=P())

optimizer = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.adamw(3e-2, b2=0.98, eps=1e-3, weight_decay=1e-2),
)


def init_model(key) -> Model:
    ks = jax.random.split(key, 6)
    dense = lambda k, *shape: jax.random.normal(k, shape) / math.sqrt(shape[-2])
    moe = Moe(dense(ks[0], D, EXPERTS), dense(ks[1], EXPERTS, D, FF),
              0.1 * jax.random.normal(ks[2], (EXPERTS, FF)), dense(ks[3], EXPERTS, FF, D))
    return Model(dense(ks[4], IN, D), moe, dense(ks[5], D, OUT))


def capacity(tokens: int) -> int:
    return math.ceil(TOP_K * tokens * CAPACITY_FACTOR / EXPERTS)


def route(probs, cap):
    """Which expert and slot every token gets.

    First choices are served before second choices.  Returns combine weights and the dispatch mask, both
    [tokens, experts, slots], and how much of the (token, choice) pairs found a slot.
    """
    tokens = probs.shape[0]
    gates, choice = jax.lax.top_k(probs, TOP_K)
    gates = gates / jnp.sum(gates, axis=-1, keepdims=True)
    onehot = jax.nn.one_hot(choice, EXPERTS)  # [t, k, e]
    queue = onehot.swapaxes(0, 1).reshape(TOP_K * tokens, EXPERTS)
    ahead = jnp.cumsum(queue, axis=0) - queue
    slot = jnp.sum(ahead * queue, axis=-1).reshape(TOP_K, tokens).T  # [t, k]
    slots = jax.nn.one_hot(slot.astype(jnp.int32), cap)  # all zero if there is no room
    pairs = onehot[:, :, :, None] * slots[:, :, None, :]
    combine = jnp.einsum("tk,tkec->tec", gates, pairs)
    return combine, pairs.sum(axis=1), jnp.mean(slot < cap)


def exchange(x):
    """[n, ...] -> [n, ...]: entry i goes to device i of the expert axis."""
    return jax.lax.all_to_all(x, "expert", split_axis=0, concat_axis=0)


def experts(moe: Moe, x):
    h = jnp.einsum("ecd,edf->ecf", x, moe.w1) + moe.b1[:, None, :]
    return jnp.einsum("ecf,efd->ecd", jax.nn.gelu(h), moe.w2)


def moe_shard(moe: Moe, x, key):
    """x: [local tokens, D]"""
    tokens, dim = x.shape
    n = jax.lax.axis_size("expert")
    local = EXPERTS // n
    cap = capacity(tokens)

    key = jax.random.fold_in(key, jax.lax.axis_index(TOKEN_AXES))
    logits = x @ moe.router
    noisy = logits + NOISE * jax.random.normal(key, logits.shape)
    probs = jax.nn.softmax(noisy, axis=-1)
    combine, dispatch, kept = route(probs, cap)

    sent = jnp.einsum("tec,td->ecd", dispatch, x).reshape(n, local, cap, dim)
    got = exchange(sent)  # [from, local experts, cap, dim]
    got = got.swapaxes(0, 1).reshape(local, n * cap, dim)
    done = experts(moe, got)
    done = done.reshape(local, n, cap, dim).swapaxes(0, 1)
    back = exchange(done).reshape(EXPERTS, cap, dim)
    y = jnp.einsum("tec,ecd->td", combine, back)

    first = jax.nn.one_hot(jnp.argmax(probs, axis=-1), EXPERTS)
    fraction = jax.lax.pmean(jnp.mean(first, axis=0), TOKEN_AXES)
    importance = jax.lax.pmean(jnp.mean(probs, axis=0), TOKEN_AXES)
    balance = EXPERTS * jnp.sum(fraction * importance)
    z = jax.lax.pmean(jnp.mean(jax.nn.logsumexp(logits, axis=-1) ** 2), TOKEN_AXES)
    return y, Aux(balance, z, 1 - jax.lax.pmean(kept, TOKEN_AXES))


def make_train_step(mesh):
    moe_layer = jax.shard_map(
        moe_shard,
        mesh=mesh,
        in_specs=(MOE_SPECS, P(TOKEN_AXES), P()),
        out_specs=(P(TOKEN_AXES), P()),
    )

    def loss_fn(model, x, y, key):
        h = jnp.tanh(x @ model.stem)
        out, aux = moe_layer(model.moe, h, key)
        err = (h + out) @ model.readout - y
        mse = jnp.mean(jnp.sum(err**2, axis=-1))
        return mse + BALANCE_COEF * aux.balance + Z_COEF * aux.z, (mse, aux)

    @partial(jax.jit, donate_argnums=(0, 1))
    def train_step(model, opt_state, x, y, key):
        (_, metrics), grads = jax.value_and_grad(loss_fn, has_aux=True)(model, x, y, key)
        updates, opt_state = optimizer.update(grads, opt_state, model)
        return optax.apply_updates(model, updates), opt_state, metrics

    return train_step


def batches():
    rng = np.random.default_rng(5)
    mix = rng.normal(size=(4, IN, OUT)).astype(np.float32)
    for _ in range(STEPS):
        x = rng.normal(size=(TOKENS, IN)).astype(np.float32)
        x[: TOKENS // 2, 0] += 1.5  # the halves are not alike, nor are the groups
        which = (x[:, 0] > 0).astype(int) + 2 * (x[:, 1] > 0)
        yield x, np.einsum("ti,tio->to", x, mix[which])


def main():
    devices = np.array(jax.devices()).reshape(-1, EXPERT_PARALLEL)
    mesh = Mesh(devices, ("data", "expert"))
    place = lambda tree, specs: jax.tree.map(lambda a, s: jax.device_put(a, NamedSharding(mesh, s)), tree, specs)
    model = place(init_model(jax.random.key(0)), MODEL_SPECS)
    opt_state = optimizer.init(model)
    train_step = make_train_step(mesh)
    history = []
    for i, batch in enumerate(batches()):
        x, y = place(batch, (P(TOKEN_AXES), P(TOKEN_AXES)))
        model, opt_state, metrics = train_step(model, opt_state, x, y, jax.random.key(100 + i))
        history.append(jax.tree.map(float, metrics))
    return results(model, history)


def results(model, history):
    mse, aux = zip(*history)
    return {"mse": np.array(mse), "aux": np.array(aux), "model": jax.tree.map(np.asarray, model)}


def reference():
    def group_moe(moe, x, noise):
        """One routing group, every token by its own two experts."""
        logits = x @ moe.router
        probs = jax.nn.softmax(logits + NOISE * noise)
        combine, _, kept = route(probs, capacity(x.shape[0]))
        every = jnp.stack([jax.nn.gelu(x @ moe.w1[e] + moe.b1[e]) @ moe.w2[e] for e in range(EXPERTS)], 1)
        y = jnp.einsum("te,ted->td", combine.sum(-1), every)
        return y, jnp.eye(EXPERTS)[probs.argmax(-1)], probs, jax.nn.logsumexp(logits, -1) ** 2, kept

    def loss_fn(model, x, y, key):
        h = jnp.tanh(x @ model.stem)
        groups = h.reshape(N_DEVICES, -1, D)
        noise = jnp.stack([jax.random.normal(jax.random.fold_in(key, i), (groups.shape[1], EXPERTS))
                           for i in range(N_DEVICES)])
        out, first, probs, z, kept = jax.vmap(group_moe, (None, 0, 0))(model.moe, groups, noise)
        balance = EXPERTS * jnp.sum(first.mean((0, 1)) * probs.mean((0, 1)))
        mse = jnp.sum((((h + out.reshape(h.shape)) @ model.readout) - y) ** 2) / TOKENS
        aux = Aux(balance, z.mean(), 1 - kept.mean())
        return mse + BALANCE_COEF * balance + Z_COEF * aux.z, (mse, aux)

    model = init_model(jax.random.key(0))
    opt_state, history = optimizer.init(model), []
    grad = jax.jit(jax.grad(loss_fn, has_aux=True))
    for i, (x, y) in enumerate(batches()):
        grads, metrics = grad(model, x, y, jax.random.key(100 + i))
        updates, opt_state = optimizer.update(grads, opt_state, model)
        model = optax.apply_updates(model, updates)
        history.append(jax.tree.map(float, metrics))
    return results(model, history)


if __name__ == "__main__":
    ours, want = main(), reference()
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-3, atol=1e-4), ours, want)
    print("mse", ours["mse"], "aux", ours["aux"][-1])
