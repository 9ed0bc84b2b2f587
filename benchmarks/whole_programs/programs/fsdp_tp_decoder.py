"""Decoder-only language model trained with FSDP and tensor parallelism.

The train step is one shard_map over a ("fsdp", "tensor") mesh.  Weights and optimizer
state are sharded over both axes; each layer of the scan gathers its weights over "fsdp"
and drops them again.  Heads, hidden units and the vocabulary are split over "tensor".
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

PAD = 0


@dataclass(frozen=True)
class Config:
    vocab: int = 64
    dim: int = 32
    heads: int = 8
    kv_heads: int = 4
    hidden: int = 64
    layers: int = 3
    seq: int = 16
    micro_batches: int = 2
    micro_size: int = 8
    steps: int = 4
    tensor: int = 2
    lr: float = 5e-3
    betas: tuple[float, float] = (0.9, 0.95)
    weight_decay: float = 0.1
    clip: float = 1.0


COLUMN, ROW, GAIN = P(None, "fsdp", "tensor"), P(None, "tensor", "fsdp"), P(None, None)
SPECS = {
    "embed": P("tensor", "fsdp"),
    "layers": dict(wq=COLUMN, wk=COLUMN, wv=COLUMN, wo=ROW, gate=COLUMN, up=COLUMN, down=ROW, norm1=GAIN, norm2=GAIN),
    "final_norm": P(None),
    "head": P("fsdp", "tensor"),
}


def init_params(cfg, seed=0):
    rng = np.random.default_rng(seed)
    n, dim, kv_dim = cfg.layers, cfg.dim, cfg.kv_heads * cfg.dim // cfg.heads

    def dense(*shape):
        return (rng.standard_normal(shape) * shape[-2] ** -0.5).astype(np.float32)

    layers = dict(wq=dense(n, dim, dim), wk=dense(n, dim, kv_dim), wv=dense(n, dim, kv_dim), wo=dense(n, dim, dim))
    layers |= dict(gate=dense(n, dim, cfg.hidden), up=dense(n, dim, cfg.hidden), down=dense(n, cfg.hidden, dim))
    layers |= dict(norm1=np.ones((n, dim), np.float32), norm2=np.ones((n, dim), np.float32))
    embed = dense(cfg.vocab, dim) * cfg.vocab**0.5
    return {"embed": embed, "layers": layers, "final_norm": np.ones(dim, np.float32), "head": dense(dim, cfg.vocab)}


def make_batches(cfg, seed=0):
    """Arithmetic sequences of differing length, padded at the end."""
    rng = np.random.default_rng(seed)
    shape = (cfg.steps, cfg.micro_batches, cfg.micro_size, 1)
    start, stride = rng.integers(1, cfg.vocab, shape), rng.integers(1, 4, shape)
    place = np.arange(cfg.seq + 1)
    tokens = 1 + (start + stride * place) % (cfg.vocab - 1)
    return np.where(place < rng.integers(3, cfg.seq + 2, shape), tokens, PAD).astype(np.int32)


def rms_norm(x, gain):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def attend(cfg, q, k, v, head):
    """Causal grouped-query attention with ALiBi over (batch, seq, heads, head_dim)."""
    k, v = (jnp.repeat(t, q.shape[2] // t.shape[2], axis=2) for t in (k, v))
    slopes = 2.0 ** (-8.0 * (head + 1) / cfg.heads)
    distance = jnp.arange(q.shape[1])[:, None] - jnp.arange(q.shape[1])
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5 - slopes[:, None, None] * distance
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(distance >= 0, scores, -1e30)), v)


def adamw(cfg, state, grads, step, norm):
    """One update of AdamW with the gradients clipped to a norm of cfg.clip."""
    (params, mu, nu), (b1, b2) = state, cfg.betas
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, cfg.clip / norm), grads)
    mu = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, mu, grads)
    nu = jax.tree.map(lambda n, g: b2 * n + (1 - b2) * g * g, nu, grads)

    def update(p, m, n):
        direction = m / (1 - b1**step) / (jnp.sqrt(n / (1 - b2**step)) + 1e-6)
        return p - cfg.lr * (direction + cfg.weight_decay * p)

    return jax.tree.map(update, params, mu, nu), mu, nu


# Megatron's pair: identity forward and sum backward, sum forward and identity backward.
copy_to = jax.custom_vjp(lambda x, axis: x, nondiff_argnums=(1,))
copy_to.defvjp(lambda x, axis: (x, None), lambda axis, _, g: (lax.psum(g, axis),))
reduce_from = jax.custom_vjp(lambda x, axis: lax.psum(x, axis), nondiff_argnums=(1,))
reduce_from.defvjp(lambda x, axis: (lax.psum(x, axis), None), lambda axis, _, g: (g,))


def gather(weight, dim):
    return lax.all_gather(weight, "fsdp", axis=dim, tiled=True)


def shard_lookup(ids, width):
    """Positions of vocabulary ids in this device's slice, and which are in it."""
    local = ids - lax.axis_index("tensor") * width
    return jnp.clip(local, 0, width - 1), (local >= 0) & (local < width)


def embed_tokens(table, tokens):
    rows = gather(table, 1)
    local, inside = shard_lookup(tokens, rows.shape[0])
    return reduce_from(jnp.where(inside[..., None], rows[local], 0.0), "tensor")


def attention_part(cfg, layer, x):
    ways = lax.axis_size("tensor")
    heads, kv_heads = cfg.heads // ways, cfg.kv_heads // ways
    h = copy_to(rms_norm(x, layer["norm1"]), "tensor")
    q = (h @ gather(layer["wq"], 0)).reshape(*x.shape[:2], heads, -1)
    k = (h @ gather(layer["wk"], 0)).reshape(*x.shape[:2], kv_heads, -1)
    v = (h @ gather(layer["wv"], 0)).reshape(*x.shape[:2], kv_heads, -1)
    head = lax.axis_index("tensor") * heads + jnp.arange(heads)
    return attend(cfg, q, k, v, head).reshape(*x.shape[:2], -1) @ gather(layer["wo"], 1)


def mlp_part(layer, x):
    h = copy_to(rms_norm(x, layer["norm2"]), "tensor")
    hidden = jax.nn.silu(h @ gather(layer["gate"], 0)) * (h @ gather(layer["up"], 0))
    return hidden @ gather(layer["down"], 1)


def decoder(cfg, params, tokens):
    @jax.checkpoint
    def body(x, layer):
        x = x + reduce_from(attention_part(cfg, layer, x), "tensor")
        x = x + reduce_from(mlp_part(layer, x), "tensor")
        return x, None

    x, _ = lax.scan(body, embed_tokens(params["embed"], tokens), params["layers"])
    h = copy_to(rms_norm(x, params["final_norm"]), "tensor")
    return h @ gather(params["head"], 0)


def cross_entropy(logits, targets):
    top = lax.pmax(lax.stop_gradient(logits.max(-1)), "tensor")
    total = reduce_from(jnp.exp(logits - top[..., None]).sum(-1), "tensor")
    local, inside = shard_lookup(targets, logits.shape[-1])
    picked = jnp.take_along_axis(logits, local[..., None], axis=-1)[..., 0]
    return jnp.log(total) + top - reduce_from(jnp.where(inside, picked, 0.0), "tensor")


def predict(logits):
    best = logits.max(-1)
    index = logits.argmax(-1) + lax.axis_index("tensor") * logits.shape[-1]
    return lax.pmin(jnp.where(best == lax.pmax(best, "tensor"), index, jnp.iinfo(jnp.int32).max), "tensor")


def micro_loss(params, cfg, tokens):
    logits, targets = decoder(cfg, params, tokens[:, :-1]), tokens[:, 1:]
    real = (targets != PAD).astype(jnp.float32)
    correct = (predict(lax.stop_gradient(logits)) == targets) * real
    return jnp.sum(cross_entropy(logits, targets) * real), (real.sum(), correct.sum())


def accumulate(cfg, params, tokens):
    """Gradient of the mean loss over all micro-batches, with loss and accuracy."""

    def body(carry, micro):
        (nll, (count, correct)), grads = jax.value_and_grad(micro_loss, has_aux=True)(params, cfg, micro)
        return jax.tree.map(jnp.add, carry, (grads, nll, count, correct)), None

    zero = (jax.tree.map(jnp.zeros_like, params), 0.0, 0.0, 0.0)
    (grads, nll, count, correct), _ = lax.scan(body, zero, tokens)
    nll, count, correct = lax.psum((nll, count, correct), "fsdp")

    def finish(g, spec):
        g = g if "fsdp" in spec else lax.psum(g, "fsdp")
        return g / count

    return jax.tree.map(finish, grads, SPECS), nll / count, correct / count


def global_norm(grads):
    def square(g, spec):
        axes = tuple(axis for axis in spec if axis is not None)
        return lax.psum(jnp.sum(g * g), axes) if axes else jnp.sum(g * g)

    return jnp.sqrt(sum(jax.tree.leaves(jax.tree.map(square, grads, SPECS))))


def train_step(cfg, state, step, tokens):
    grads, loss, accuracy = accumulate(cfg, state[0], tokens)
    norm = global_norm(grads)
    return adamw(cfg, state, grads, step, norm), {"loss": loss, "accuracy": accuracy, "grad_norm": norm}


def run(step_fn, params, batches):
    """Trains on all batches; returns the curves and the final parameters."""
    state, history = (params, *jax.tree.map(jnp.zeros_like, (params, params))), []
    for step, tokens in enumerate(batches, start=1):
        state, metrics = step_fn(state, jnp.float32(step), tokens)
        history.append(metrics)
    curves = {name: np.array([float(m[name]) for m in history]) for name in history[0]}
    layers = state[0].pop("layers")
    return curves | {name: np.asarray(value) for name, value in (state[0] | layers).items()}


def main():
    cfg = Config()
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(cfg.tensor, devices.size)), ("fsdp", "tensor"))
    state_specs = (SPECS, SPECS, SPECS)
    in_specs, out_specs = (state_specs, P(), P(None, "fsdp", None)), (state_specs, P())
    step_fn = functools.partial(train_step, cfg)
    step_fn = jax.shard_map(step_fn, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)
    params = jax.tree.map(lambda p, spec: jax.device_put(p, NamedSharding(mesh, spec)), init_params(cfg), SPECS)
    return run(jax.jit(step_fn), params, make_batches(cfg))


def reference():
    cfg = Config()

    def loss_fn(params, tokens):
        def body(x, w):
            h = rms_norm(x, w["norm1"])
            heads = (cfg.heads, cfg.kv_heads, cfg.kv_heads)
            q, k, v = ((h @ w[name]).reshape(*h.shape[:2], n, -1) for name, n in zip(("wq", "wk", "wv"), heads))
            x = x + attend(cfg, q, k, v, jnp.arange(cfg.heads)).reshape(h.shape) @ w["wo"]
            h = rms_norm(x, w["norm2"])
            return x + (jax.nn.silu(h @ w["gate"]) * (h @ w["up"])) @ w["down"], None

        x, _ = lax.scan(body, params["embed"][tokens[:, :-1]], params["layers"])
        logits, targets = rms_norm(x, params["final_norm"]) @ params["head"], tokens[:, 1:]
        real = targets != PAD
        nll = -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)[..., 0]
        return jnp.mean(nll, where=real), jnp.mean(logits.argmax(-1) == targets, where=real)

    def step_fn(state, step, tokens):
        (loss, accuracy), grads = jax.value_and_grad(loss_fn, has_aux=True)(state[0], tokens.reshape(-1, cfg.seq + 1))
        norm = jnp.linalg.norm(jnp.concatenate([g.ravel() for g in jax.tree.leaves(grads)]))
        return adamw(cfg, state, grads, step, norm), {"loss": loss, "accuracy": accuracy, "grad_norm": norm}

    return run(jax.jit(step_fn), init_params(cfg), make_batches(cfg))


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    print("fsdp_tp_decoder: agrees with the reference; losses", np.round(got["loss"], 4))
