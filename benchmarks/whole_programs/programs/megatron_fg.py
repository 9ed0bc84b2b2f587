"""Megatron's conjugate operators by hand: copy_to_tp / reduce_from_tp / gather_from_tp with custom_vjp around a parallel
attention + MLP block (GPT-J style, multi-query groups), gradients inside shard_map, Adam with clipping by hand."""
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

VOCAB, DIM, HEADS, KV_HEADS, HEAD_DIM, FF, LAYERS = 32, 16, 8, 2, 4, 32, 2
LR, B1, B2, EPS, MAX_NORM = 1e-2, 0.9, 0.95, 1e-8, 1.0


@jax.custom_vjp
def copy_to_tp(x):
    return x


@jax.custom_vjp
def reduce_from_tp(x):
    return lax.psum(x, "tp")


@jax.custom_vjp
def gather_from_tp(x):
    return lax.all_gather(x, "tp", axis=x.ndim - 1, tiled=True)


def gather_backward(_, ct):
    width = ct.shape[-1] // lax.axis_size("tp")
    return (lax.dynamic_slice_in_dim(ct, lax.axis_index("tp") * width, width, axis=ct.ndim - 1),)


copy_to_tp.defvjp(lambda x: (x, None), lambda _, ct: (lax.psum(ct, "tp"),))
reduce_from_tp.defvjp(lambda x: (lax.psum(x, "tp"), None), lambda _, ct: (ct,))
gather_from_tp.defvjp(lambda x: (gather_from_tp(x), None), gather_backward)


class AdamState(NamedTuple):
    mu: Any
    nu: Any
    count: jax.Array


LAYER_SPEC = {
    "ln": {"scale": P(), "bias": P()},
    "wq": P(None, "tp"),
    "wkv": P(),
    "wo": P("tp", None),
    "w_in": P(None, "tp"),
    "b_in": P("tp"),
    "w_out": P("tp", None),
    "b_out": P(),
}
SPECS = {"embed": P(), "layers": [LAYER_SPEC] * LAYERS, "ln_f": {"scale": P(), "bias": P()}, "unembed": P(None, "tp")}


def init_params(key):
    def dense(key, *shape):
        return jax.random.normal(key, shape) * shape[0] ** -0.5

    def layer(key):
        ks = jax.random.split(key, 6)
        return {
            "ln": {"scale": jnp.ones(DIM), "bias": jnp.zeros(DIM)},
            "wq": dense(ks[0], DIM, HEADS * HEAD_DIM),
            "wkv": dense(ks[1], DIM, 2, KV_HEADS, HEAD_DIM),
            "wo": dense(ks[2], HEADS * HEAD_DIM, DIM),
            "w_in": dense(ks[3], DIM, FF),
            "b_in": jnp.zeros(FF),
            "w_out": dense(ks[4], FF, DIM),
            "b_out": 0.3 * jax.random.normal(ks[5], (DIM,)),
        }

    ks = jax.random.split(key, LAYERS + 2)
    return {
        "embed": jax.random.normal(ks[0], (VOCAB, DIM)),
        "layers": [layer(k) for k in ks[2:]],
        "ln_f": {"scale": jnp.ones(DIM), "bias": jnp.zeros(DIM)},
        "unembed": dense(ks[1], DIM, VOCAB),
    }


def layer_norm(p, x):
    centred = x - jnp.mean(x, -1, keepdims=True)
    return centred * lax.rsqrt(jnp.mean(centred**2, -1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]


def rotary(x):
    """x: [batch, time, ..., head_dim]"""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 100.0 ** (-jnp.arange(half) / half)
    angles = angles.reshape(x.shape[1], *(1,) * (x.ndim - 3), half)
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * jnp.cos(angles) - b * jnp.sin(angles), b * jnp.cos(angles) + a * jnp.sin(angles)], -1)


def attention(p, x):
    """Partial result of this rank's query heads; there are fewer key-value heads than ranks, so ranks share them."""
    q = (x @ p["wq"]).reshape(*x.shape[:2], -1, HEAD_DIM)
    kv_head = lax.axis_index("tp") * KV_HEADS // lax.axis_size("tp")
    wkv = lax.dynamic_index_in_dim(copy_to_tp(p["wkv"]), kv_head, axis=2, keepdims=False)
    k, v = jnp.einsum("btd,dch->cbth", x, wkv)
    scores = jnp.einsum("bqnh,bkh->bnqk", rotary(q), rotary(k)) * HEAD_DIM**-0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    probs = jax.nn.softmax(jnp.where(causal, scores, -jnp.inf), axis=-1)
    out = jnp.einsum("bnqk,bkh->bqnh", probs, v)
    return out.reshape(*x.shape[:2], -1) @ p["wo"]


def mlp(p, x):
    return jax.nn.gelu(x @ p["w_in"] + p["b_in"]) @ p["w_out"]


def forward(params, tokens):
    x = params["embed"][tokens]
    for p in params["layers"]:
        h = copy_to_tp(layer_norm(p["ln"], x))
        x = x + reduce_from_tp(attention(p, h) + mlp(p, h)) + p["b_out"]
    h = copy_to_tp(layer_norm(params["ln_f"], x))
    return gather_from_tp(h @ params["unembed"])


def loss_fn(params, tokens):
    logp = jax.nn.log_softmax(forward(params, tokens[:, :-1]))
    return -jnp.mean(jnp.take_along_axis(logp, tokens[:, 1:, None], axis=-1))


def global_norm(grads):
    """Squares of split leaves are summed over tp; whole leaves are the same on every rank."""

    def square(g, spec):
        s = jnp.sum(g**2)
        return lax.psum(s, "tp") if "tp" in spec else s

    return jnp.sqrt(sum(jax.tree.leaves(jax.tree.map(square, grads, SPECS))))


def adam_update(params, grads, state):
    count = state.count + 1
    mu = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, state.mu, grads)
    nu = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g**2, state.nu, grads)

    def step(p, m, v):
        return p - LR * (m / (1 - B1**count)) / (jnp.sqrt(v / (1 - B2**count)) + EPS)

    return jax.tree.map(step, params, mu, nu), AdamState(mu, nu, count)


def make_train_step(mesh):
    state_specs = AdamState(SPECS, SPECS, P())

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(SPECS, state_specs, P("dp")), out_specs=(SPECS, state_specs, P(), P()),
             check_vma=False)
    def train_step(params, state, tokens):
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens)
        loss, grads = lax.pmean((loss, grads), "dp")
        norm = global_norm(grads)
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, MAX_NORM / norm), grads)
        params, state = adam_update(params, grads, state)
        return params, state, loss, norm

    return train_step


def make_tokens():
    return np.random.default_rng(2).integers(0, VOCAB, (4, 9))


def main():
    mesh = jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), SPECS, is_leaf=lambda s: isinstance(s, P))
    params = jax.device_put(init_params(jax.random.key(0)), shardings)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state, train_step = AdamState(zeros, zeros, jnp.int32(0)), make_train_step(mesh)
    losses, norms = [], []
    for _ in range(2):
        params, state, loss, norm = train_step(params, state, make_tokens())
        losses.append(float(loss))
        norms.append(float(norm))
    print("losses", losses, "norms", norms)
    return {"losses": losses, "norms": norms, "mu": jax.device_get(state.mu)}


def reference():
    tokens = make_tokens()
    ln = lambda p, x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5) * p["scale"] + p["bias"]

    def loss_fn(params):
        x = params["embed"][tokens[:, :-1]]
        for p in params["layers"]:
            h = ln(p["ln"], x)
            q = rotary((h @ p["wq"]).reshape(4, 8, HEADS, HEAD_DIM))
            k, v = (jnp.repeat(jnp.einsum("btd,dnh->btnh", h, p["wkv"][:, i]), HEADS // KV_HEADS, axis=2) for i in (0, 1))
            s = jnp.einsum("bqnh,bknh->bnqk", q, rotary(k)) / HEAD_DIM**0.5
            s = jax.nn.softmax(jnp.where(np.tri(8, dtype=bool), s, -jnp.inf))
            x = x + jnp.einsum("bnqk,bknh->bqnh", s, v).reshape(4, 8, -1) @ p["wo"] + mlp(p, h) + p["b_out"]
        logits = ln(params["ln_f"], x) @ params["unembed"]
        return (jax.nn.logsumexp(logits, -1) - (jax.nn.one_hot(tokens[:, 1:], VOCAB) * logits).sum(-1)).mean()

    params, grad_fn, losses, norms = init_params(jax.random.key(0)), jax.jit(jax.value_and_grad(loss_fn)), [], []
    state = AdamState(jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params), 0)
    for _ in range(2):
        loss, grads = grad_fn(params)
        norms.append(float(jnp.sqrt(sum((g**2).sum() for g in jax.tree.leaves(grads)))))
        params, state = adam_update(params, jax.tree.map(lambda g: g * min(1.0, MAX_NORM / norms[-1]), grads), state)
        losses.append(float(loss))
    return {"losses": losses, "norms": norms, "mu": state.mu}


def check():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), main(), reference())


if __name__ == "__main__":
    main()
    check()
