#!/usr/bin/env python
"""Train a single GQA transformer block, Megatron style, on a toy copy-with-noise corpus.

    python tp_gqa_block.py --dp 4 --tp 2 --steps 3

Only heads and the feed-forward width are cut over `tp`; embedding and output head are replicated.
We use an extra norm on the gated hidden units (as in NormFormer), which needs its own collective.
"""
import argparse
import dataclasses
import logging
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.sharding import NamedSharding, PartitionSpec as PS

log = logging.getLogger("tp_gqa")


@dataclasses.dataclass(frozen=True)
class Config:
    vocab: int = 48
    d_model: int = 32
    n_heads: int = 8
    n_kv_heads: int = 4
    head_dim: int = 8
    d_ff: int = 64
    seq_len: int = 16
    batch: int = 8
    rope_base: float = 1e4
    lr: float = 0.1
    momentum: float = 0.9
    dp: int = 4
    tp: int = 2
    steps: int = 3


def init(cfg: Config, seed: int = 0):
    rng = np.random.default_rng(seed)

    def w(*shape, fan_in):
        return jnp.asarray(rng.normal(size=shape) / np.sqrt(fan_in), jnp.float32)

    D, H, K, hd, F = cfg.d_model, cfg.n_heads, cfg.n_kv_heads, cfg.head_dim, cfg.d_ff
    return {
        "embed": w(cfg.vocab, D, fan_in=1),
        "attn": {
            "norm": jnp.ones(D), "wq": w(D, H, hd, fan_in=D),
            "wk": w(D, K, hd, fan_in=D), "wv": w(D, K, hd, fan_in=D),
            "wo": w(H, hd, D, fan_in=H * hd), "bo": 0.1 * w(D, fan_in=1),
        },
        "mlp": {
            "norm": jnp.ones(D), "mid_norm": jnp.ones(F),
            "gate": w(D, F, fan_in=D), "up": w(D, F, fan_in=D), "down": w(F, D, fan_in=F),
        },
        "final_norm": jnp.ones(D), "head": w(D, cfg.vocab, fan_in=D),
    }


def param_specs():
    return {
        "embed": PS(),
        "attn": {
            "norm": PS(), "bo": PS(),
            "wq": PS(None, "tp", None),
            "wk": PS(None, "tp", None),
            "wv": PS(None, "tp", None),
            "wo": PS("tp", None, None),
        },
        "mlp": {
            "norm": PS(),
            "gate": PS(None, "tp"), "up": PS(None, "tp"),
            "mid_norm": PS("tp"), "down": PS("tp", None),
        },
        "final_norm": PS(), "head": PS(),
    }


def corpus(cfg: Config):
    """Every sequence repeats its first half, with a little noise."""
    rng = np.random.default_rng(7)
    for _ in range(cfg.steps):
        half = rng.integers(0, cfg.vocab, (cfg.batch, cfg.seq_len // 2))
        tokens = np.concatenate([half, half], axis=1)
        noisy = rng.random(tokens.shape) < 0.1
        yield np.where(noisy, rng.integers(0, cfg.vocab, tokens.shape), tokens).astype(np.int32)


# ---- model: from here on everything runs per device, inside shard_map


def rms_norm(x, scale, eps=1e-6):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + eps) * scale


def rms_norm_sharded(x, scale, eps=1e-6):
    """As rms_norm, but the last dimension is spread over tp."""
    ms = lax.pmean(jnp.mean(x * x, axis=-1, keepdims=True), "tp")
    return x * lax.rsqrt(ms + eps) * scale


def rope(x, base):
    # x: (batch, time, heads, head_dim)
    T, hd = x.shape[1], x.shape[-1]
    freqs = base ** (-jnp.arange(0, hd, 2) / hd)
    angles = jnp.arange(T)[:, None] * freqs[None, :]
    cos, sin = jnp.cos(angles)[None, :, None, :], jnp.sin(angles)[None, :, None, :]
    x1, x2 = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([x1 * cos - x2 * sin, x2 * cos + x1 * sin], axis=-1)


def attention(cfg, p, x):
    h = rms_norm(x, p["norm"])
    q = rope(jnp.einsum("btd,dhk->bthk", h, p["wq"]), cfg.rope_base)
    k = rope(jnp.einsum("btd,dhk->bthk", h, p["wk"]), cfg.rope_base)
    v = jnp.einsum("btd,dhk->bthk", h, p["wv"])
    rep = q.shape[2] // k.shape[2]
    k = jnp.repeat(k, rep, axis=2)
    v = jnp.repeat(v, rep, axis=2)
    scores = jnp.einsum("bqhk,bshk->bhqs", q, k) / np.sqrt(cfg.head_dim)
    T = x.shape[1]
    causal = jnp.tril(jnp.ones((T, T), bool))
    scores = jnp.where(causal, scores, -1e9)
    probs = jax.nn.softmax(scores, axis=-1)
    ctx = jnp.einsum("bhqs,bshk->bqhk", probs, v)
    out = jnp.einsum("bthk,hkd->btd", ctx, p["wo"])
    out = lax.psum(out, "tp")
    return out + p["bo"]


def mlp(p, x):
    h = rms_norm(x, p["norm"])
    hidden = jax.nn.silu(h @ p["gate"]) * (h @ p["up"])
    hidden = rms_norm_sharded(hidden, p["mid_norm"])
    return lax.psum(hidden @ p["down"], "tp")


def local_loss(cfg, params, tokens):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    x = params["embed"][inputs]
    x = x + attention(cfg, params["attn"], x)
    x = x + mlp(params["mlp"], x)
    logits = rms_norm(x, params["final_norm"]) @ params["head"]
    nll = jax.nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    count = cfg.batch * (cfg.seq_len - 1)
    return lax.psum(nll.sum(), "dp") / count


def make_step(cfg: Config, mesh):
    loss_fn = shard_map(
        lambda params, tokens: local_loss(cfg, params, tokens), mesh=mesh,
        in_specs=(param_specs(), PS("dp", None)),
        out_specs=PS(), check_vma=False,
    )

    @jax.jit
    def step(params, velocity, tokens):
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens)
        velocity = jax.tree.map(lambda v, g: cfg.momentum * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - cfg.lr * v, params, velocity)
        return params, velocity, loss

    return step


def parse(argv) -> Config:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dp", type=int, default=4, help="data-parallel size")
    parser.add_argument("--tp", type=int, default=2, help="tensor-parallel size")
    parser.add_argument("--steps", type=int, default=3, help="how many batches")
    args = parser.parse_args(list(argv))
    return Config(**vars(args))


def main(argv=()):
    cfg = parse(argv)
    mesh = jax.make_mesh((cfg.dp, cfg.tp), ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    params = jax.tree.map(lambda w, s: jax.device_put(w, NamedSharding(mesh, s)), init(cfg), param_specs())
    velocity = jax.tree.map(jnp.zeros_like, params)
    step = make_step(cfg, mesh)
    losses: list[float] = []
    for i, tokens in enumerate(corpus(cfg)):
        params, velocity, loss = step(params, velocity, jax.device_put(tokens, NamedSharding(mesh, PS("dp"))))
        log.info("step %d loss %.5f", i, loss)
        losses.append(float(loss))
    return {"loss": np.array(losses), "params": jax.device_get(params)}


def reference(argv=()):
    cfg = parse(argv)
    G = cfg.n_heads // cfg.n_kv_heads

    def loss_fn(p, tok):
        x = p["embed"][tok[:, :-1]]
        a, T = p["attn"], tok.shape[1] - 1
        h = rms_norm(x, a["norm"])
        heads = 0.0
        for i in range(cfg.n_heads):
            q = rope((h @ a["wq"][:, i])[:, :, None], cfg.rope_base)[:, :, 0]
            k = rope((h @ a["wk"][:, i // G])[:, :, None], cfg.rope_base)[:, :, 0]
            s = jnp.where(np.tri(T, dtype=bool), q @ k.swapaxes(1, 2) * cfg.head_dim**-0.5, -jnp.inf)
            heads += jax.nn.softmax(s) @ (h @ a["wv"][:, i // G]) @ a["wo"][i]
        x = x + heads + a["bo"]
        m = p["mlp"]
        h = rms_norm(x, m["norm"])
        x = x + rms_norm(jax.nn.silu(h @ m["gate"]) * (h @ m["up"]), m["mid_norm"]) @ m["down"]
        logp = jax.nn.log_softmax(rms_norm(x, p["final_norm"]) @ p["head"])
        return -jnp.mean(jnp.sum(logp * jax.nn.one_hot(tok[:, 1:], cfg.vocab), -1))

    grad = jax.jit(jax.value_and_grad(loss_fn))
    params, losses = init(cfg), []
    velocity = jax.tree.map(jnp.zeros_like, params)
    for tokens in corpus(cfg):
        loss, g = grad(params, tokens)
        velocity = jax.tree.map(lambda v, g: cfg.momentum * v + g, velocity, g)
        params = jax.tree.map(lambda p, v: p - cfg.lr * v, params, velocity)
        losses.append(float(loss))
    return {"loss": np.array(losses), "params": jax.device_get(params)}


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    got, want = main(), reference()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), got, want)
    log.info("matches the single-device run")
