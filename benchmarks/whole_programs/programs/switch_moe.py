"""Expert parallelism: top-2 routing with capacity, tokens exchanged by all_to_all over the "expert" axis."""
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

DATA, EXPERT = "data", "expert"
TOKENS = P((DATA, EXPERT))


@dataclass(frozen=True)
class MoEConfig:
    d_model: int = 16
    d_ff: int = 24
    num_experts: int = 8
    top_k: int = 2
    capacity_factor: float = 1.0
    jitter: float = 0.1
    aux_weight: float = 0.05
    num_layers: int = 2
    learning_rate: float = 0.1
    momentum: float = 0.9

    def capacity(self, num_tokens):
        return int(np.ceil(num_tokens * self.top_k * self.capacity_factor / self.num_experts))


class MoEParams(NamedTuple):
    router: jax.Array
    wi: jax.Array
    wo: jax.Array


PARAM_SPECS = MoEParams(router=P(), wi=P(EXPERT), wo=P(EXPERT))


def init_layer(cfg, key):
    k1, k2, k3 = jax.random.split(key, 3)
    return MoEParams(
        router=jax.random.normal(k1, (cfg.d_model, cfg.num_experts)) * 0.5,
        wi=jax.random.normal(k2, (cfg.num_experts, cfg.d_model, cfg.d_ff)) / cfg.d_model**0.5,
        wo=jax.random.normal(k3, (cfg.num_experts, cfg.d_ff, cfg.d_model)) / cfg.d_ff**0.5,
    )


def layer_norm(x):
    x = x - x.mean(-1, keepdims=True)
    return x * lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-6)


def route(cfg, probs, capacity):
    """Returns dispatch and combine tensors [tokens, experts, capacity]; first choices fill the slots first."""
    gates, chosen = lax.top_k(probs, cfg.top_k)
    gates = gates / gates.sum(-1, keepdims=True)
    onehot = jax.nn.one_hot(chosen, cfg.num_experts)  # [t, k, e]
    by_choice = onehot.transpose(1, 0, 2).reshape(-1, cfg.num_experts)
    position = jnp.cumsum(by_choice, axis=0) - by_choice
    position = position.reshape(cfg.top_k, -1, cfg.num_experts).transpose(1, 0, 2)
    position = jnp.sum(position * onehot, axis=-1).astype(jnp.int32)  # [t, k]
    slots = jax.nn.one_hot(position, capacity)  # all zeros beyond the capacity
    dispatch = jnp.einsum("tke,tkc->tec", onehot, slots)
    combine = jnp.einsum("tk,tke,tkc->tec", gates, onehot, slots)
    return dispatch, combine


def exchange(x):
    """[experts, capacity, d] of one device -> [local experts, devices * capacity, d]."""
    n = lax.axis_size(EXPERT)
    e, c, d = x.shape
    x = lax.all_to_all(x.reshape(n, e // n, c, d), EXPERT, split_axis=0, concat_axis=0)
    return x.transpose(1, 0, 2, 3).reshape(e // n, n * c, d)


def exchange_back(x):
    n = lax.axis_size(EXPERT)
    e, nc, d = x.shape
    x = x.reshape(e, n, nc // n, d).transpose(1, 0, 2, 3)
    x = lax.all_to_all(x, EXPERT, split_axis=0, concat_axis=0)
    return x.reshape(n * e, nc // n, d)


def moe_layer(cfg, params, x, key):
    tokens = x.shape[0]
    noise = jax.random.uniform(key, x.shape, minval=1 - cfg.jitter, maxval=1 + cfg.jitter)
    probs = jax.nn.softmax((x * noise) @ params.router, axis=-1)
    dispatch, combine = route(cfg, probs, cfg.capacity(tokens))
    expert_in = exchange(jnp.einsum("tec,td->ecd", dispatch, x))
    hidden = jax.nn.gelu(jnp.einsum("ecd,edf->ecf", expert_in, params.wi))
    expert_out = exchange_back(jnp.einsum("ecf,efd->ecd", hidden, params.wo))
    out = jnp.einsum("tec,ecd->td", combine, expert_out)
    # Load balancing: the share of first choices is taken over all the tokens of the batch.
    first_choice = jax.nn.one_hot(jnp.argmax(probs, axis=-1), cfg.num_experts)
    share = lax.pmean(first_choice.mean(axis=0), (DATA, EXPERT))
    aux = cfg.num_experts * jnp.sum(share * probs.mean(axis=0))
    return out, aux


def local_loss(params, cfg, x, y, key):
    key = jax.random.fold_in(key, lax.axis_index((DATA, EXPERT)))
    total_aux = 0.0
    for i, layer in enumerate(params):
        out, aux = moe_layer(cfg, layer, layer_norm(x), jax.random.fold_in(key, i))
        x = x + out
        total_aux += aux
    return jnp.mean(jnp.square(x - y)) + cfg.aux_weight * total_aux / len(params)


def sync_gradients(grads):
    """Means over the batch; an expert's gradient has already met the tokens of its whole "expert" group."""
    n = lax.axis_size(EXPERT)

    def sync(g):
        return MoEParams(
            router=lax.pmean(g.router, (DATA, EXPERT)),
            wi=lax.pmean(g.wi, DATA) / n,
            wo=lax.pmean(g.wo, DATA) / n,
        )

    return [sync(g) for g in grads]


def make_step(cfg, mesh):
    specs = [PARAM_SPECS] * cfg.num_layers

    @partial(jax.shard_map, mesh=mesh, in_specs=(specs, TOKENS, TOKENS, P()), out_specs=(P(), specs), check_vma=False)
    def loss_and_grad(params, x, y, key):
        loss, grads = jax.value_and_grad(local_loss)(params, cfg, x, y, key)
        return lax.pmean(loss, (DATA, EXPERT)), sync_gradients(grads)

    shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), specs, is_leaf=lambda s: isinstance(s, P))

    @partial(jax.jit, out_shardings=(shardings, shardings, None))
    def step(params, velocity, x, y, key):
        loss, grads = loss_and_grad(params, x, y, key)
        velocity = jax.tree.map(lambda v, g: cfg.momentum * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - cfg.learning_rate * v, params, velocity)
        return params, velocity, loss

    return step, shardings


def make_data(cfg, tokens=128):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(tokens, cfg.d_model)).astype(np.float32)
    return x, np.tanh(x[:, ::-1]) * 2


def main():
    cfg = MoEConfig()
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), (DATA, EXPERT))
    step, shardings = make_step(cfg, mesh)
    params = [init_layer(cfg, jax.random.key(i)) for i in range(cfg.num_layers)]
    params = jax.device_put(params, shardings)
    velocity = jax.tree.map(jnp.zeros_like, params)
    x, y = jax.device_put(make_data(cfg), NamedSharding(mesh, TOKENS))
    losses = []
    for i in range(2):
        params, velocity, loss = step(params, velocity, x, y, jax.random.key(100 + i))
        losses.append(float(loss))
    print("losses", losses, "router", float(jnp.abs(params[0].router).sum()))
    return {"losses": losses, "params": jax.device_get(params)}


def reference():
    """Every expert on every token of the eight groups, on one device."""
    cfg, groups = MoEConfig(), 8
    xs, ys = (a.reshape(groups, -1, cfg.d_model) for a in make_data(cfg))
    capacity = int(np.ceil(xs.shape[1] * cfg.top_k / cfg.num_experts))

    def loss_fn(params, key):
        h, aux = xs, 0.0
        for i, p in enumerate(params):
            keys = [jax.random.fold_in(jax.random.fold_in(key, g), i) for g in range(groups)]
            noise = jnp.stack([jax.random.uniform(k, xs.shape[1:], minval=0.9, maxval=1.1) for k in keys])
            z = layer_norm(h)
            probs = jax.nn.softmax((z * noise) @ p.router)
            first, second = (jnp.eye(cfg.num_experts)[jnp.argsort(-probs, axis=-1)[..., k]] for k in range(2))
            kept1 = first * (jnp.cumsum(first, 1) <= capacity)
            kept2 = second * (jnp.cumsum(second, 1) + first.sum(1, keepdims=True) <= capacity)
            weight = probs / (probs * (first + second)).sum(-1, keepdims=True) * (kept1 + kept2)
            every = jnp.einsum("gtef,efd->gted", jax.nn.gelu(jnp.einsum("gtd,edf->gtef", z, p.wi)), p.wo)
            h = h + jnp.einsum("gte,gted->gtd", weight, every)
            aux += cfg.num_experts * (first.mean((0, 1)) * probs.mean((0, 1))).sum()
        return jnp.mean((h - ys) ** 2) + cfg.aux_weight * aux / cfg.num_layers

    params = [init_layer(cfg, jax.random.key(i)) for i in range(cfg.num_layers)]
    velocity, losses = jax.tree.map(jnp.zeros_like, params), []
    for i in range(2):
        loss, grads = jax.jit(jax.value_and_grad(loss_fn))(params, jax.random.key(100 + i))
        velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - 0.1 * v, params, velocity)
        losses.append(float(loss))
    return {"losses": losses, "params": params}


def check():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), main(), reference())


if __name__ == "__main__":
    main()
    check()
