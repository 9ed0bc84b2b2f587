"""Decoding with a KV cache on a mesh of Explicit axes: shardings are part of the types.

x: batch, y: heads / hidden / vocabulary.
"""
from __future__ import annotations

import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int

V, D, N, K, H, F, L = 32, 16, 8, 4, 4, 32, 2
B, PROMPT, MAX = 4, 5, 12
WINDOW = 6


class Layer(NamedTuple):
    attn_norm: Float[Array, "L D"]
    q: Float[Array, "L D N H"]
    k: Float[Array, "L D K H"]
    v: Float[Array, "L D K H"]
    o: Float[Array, "L N H D"]
    mlp_norm: Float[Array, "L D"]
    up: Float[Array, "L D F"]
    down: Float[Array, "L F D"]


class Weights(NamedTuple):
    embed: Float[Array, "V D"]
    layers: Layer
    norm: Float[Array, "D"]


class Cache(NamedTuple):
    k: Float[Array, "L B S K H"]
    v: Float[Array, "L B S K H"]


SHARDING = Weights(
    embed=P("y", None),
    layers=Layer(
        attn_norm=P(None, None), q=P(None, None, "y", None), k=P(None, None, "y", None), v=P(None, None, "y", None),
        o=P(None, "y", None, None), mlp_norm=P(None, None), up=P(None, None, "y"), down=P(None, "y", None)),
    norm=P(None),
)
CACHE = P(None, "x", None, "y", None)


def random_weights(seed: int = 0) -> Weights:
    r = np.random.default_rng(seed)
    n = lambda fan_in, *shape: (r.standard_normal(shape) * fan_in**-0.5).astype(np.float32)
    return Weights(
        embed=n(1, V, D),
        layers=Layer(
            attn_norm=1 + n(100, L, D), q=n(D / 4, L, D, N, H), k=n(D / 4, L, D, K, H), v=n(D, L, D, K, H),
            o=n(N * H, L, N, H, D), mlp_norm=1 + n(100, L, D), up=n(D, L, D, F), down=n(F, L, F, D)),
        norm=1 + n(100, D),
    )


def prompts() -> np.ndarray:
    return np.random.default_rng(1).integers(0, V, (B, PROMPT), dtype=np.int32)


def rms(x: Float[Array, "b t D"], g: Float[Array, "D"]) -> Float[Array, "b t D"]:
    return x * lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * g


def rope(x: Float[Array, "b t n h"], pos: Int[Array, "t"]) -> Float[Array, "b t n h"]:
    half = x.shape[-1] // 2
    angle = pos[:, None] * 100.0 ** (-jnp.arange(half) / half)
    sin, cos = jnp.sin(angle)[:, None, :], jnp.cos(angle)[:, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def visible(pos: Int[Array, "t"], size: int) -> Bool[Array, "t s"]:
    s = jnp.arange(size)[None, :]
    return (s <= pos[:, None]) & (s > pos[:, None] - WINDOW)


def attend(
    q: Float[Array, "b t n h"], k: Float[Array, "b s k h"], v: Float[Array, "b s k h"], mask: Bool[Array, "t s"]
) -> Float[Array, "b t n h"]:
    b, t, n, h = q.shape
    kv = k.shape[2]
    q = q.reshape(b, t, kv, n // kv, h, out_sharding=P("x", None, "y", None, None))
    s = jnp.einsum("btkgh,bskh->bkgts", q, k) / jnp.sqrt(h)
    s = jnp.where(mask, s, -1e30)
    w = jax.nn.softmax(s, axis=-1)
    o = jnp.einsum("bkgts,bskh->btkgh", w, v)
    return o.reshape(b, t, n, h, out_sharding=P("x", None, "y", None))


def append(
    cache: Float[Array, "b s k h"], new: Float[Array, "b t k h"], at: Int[Array, ""]
) -> Float[Array, "b s k h"]:
    return lax.dynamic_update_slice_in_dim(cache, new, at, axis=1)


def apply(
    w: Weights, cache: Cache, tokens: Int[Array, "b t"], at: Int[Array, ""]
) -> tuple[Float[Array, "b V"], Cache]:
    """Logits of the last token, and the cache with all of them."""
    pos = at + jnp.arange(tokens.shape[1])
    x = w.embed.at[tokens].get(out_sharding=P("x", None, None))
    mask = visible(pos, cache.k.shape[2])

    def layer(x, inputs):
        p, ck, cv = inputs
        h = rms(x, p.attn_norm)
        q = rope(jnp.einsum("btd,dnh->btnh", h, p.q), pos)
        k = rope(jnp.einsum("btd,dkh->btkh", h, p.k), pos)
        v = jnp.einsum("btd,dkh->btkh", h, p.v)
        ck, cv = append(ck, k, at), append(cv, v, at)
        a = attend(q, ck, cv, mask)
        x = x + jnp.einsum("btnh,nhd->btd", a, p.o, out_sharding=P("x", None, None))
        h = jax.nn.silu(rms(x, p.mlp_norm) @ p.up)
        x = x + jnp.einsum("btf,fd->btd", h, p.down, out_sharding=P("x", None, None))
        return x, (ck, cv)

    x, (ck, cv) = lax.scan(layer, x, (w.layers, cache.k, cache.v))
    x = rms(x, w.norm)[:, -1]
    logits = jnp.einsum("bd,vd->bv", x, w.embed, out_sharding=P("x", "y"))
    return logits, Cache(ck, cv)


def pick(logits: Float[Array, "b V"]) -> Int[Array, "b"]:
    return jnp.argmax(jax.reshard(logits, P("x", None)), axis=-1).astype(jnp.int32)


@jax.jit
def generate(w: Weights, cache: Cache, prompt: Int[Array, "b p"]):
    n = prompt.shape[1]
    logits, cache = apply(w, cache, prompt, jnp.int32(0))

    def step(carry, i):
        cache, token = carry
        logits, cache = apply(w, cache, token[:, None], i)
        token = pick(logits)
        return (cache, token), (token, logits)

    first = pick(logits)
    _, (tokens, later) = lax.scan(step, (cache, first), jnp.arange(n, MAX))
    tokens = jnp.concatenate([first[None], tokens])
    return tokens.T, jnp.concatenate([logits[None], later])


def main(x: int = 2, y: int = 4) -> dict[str, np.ndarray]:
    mesh = jax.make_mesh((x, y), ("x", "y"), axis_types=(AxisType.Explicit,) * 2, devices=jax.devices()[: x * y])
    with jax.set_mesh(mesh):
        w = jax.tree.map(lambda a, s: jax.device_put(a, NamedSharding(mesh, s)), random_weights(), SHARDING)
        empty = jnp.zeros((L, B, MAX, K, H), out_sharding=CACHE)
        prompt = jax.device_put(prompts(), NamedSharding(mesh, P("x", None)))
        tokens, logits = generate(w, Cache(empty, empty), prompt)
    return {"tokens": np.asarray(tokens), "logits": np.asarray(logits)}


def reference() -> dict[str, np.ndarray]:
    """Without a cache, in NumPy: every step starts at the first token again."""
    w = random_weights()

    def norm(x, g):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * g

    def turn(x):
        z = np.exp(1j * np.arange(len(x))[:, None] * 100.0 ** (-np.arange(H // 2) / (H // 2)))
        y = (x[:, : H // 2] + 1j * x[:, H // 2 :]) * z
        return np.concatenate([y.real, y.imag], 1)

    def logits(ids):
        x = w.embed[ids].astype(np.float64)
        age = np.arange(len(ids))[:, None] - np.arange(len(ids))
        for i in range(L):
            p = Layer(*(a[i] for a in w.layers))
            h = norm(x, p.attn_norm)
            for j in range(N):
                g = j // (N // K)
                s = turn(h @ p.q[:, j]) @ turn(h @ p.k[:, g]).T / H**0.5
                e = np.where((age >= 0) & (age < WINDOW), np.exp(s), 0)
                x = x + e / e.sum(1, keepdims=True) @ (h @ p.v[:, g]) @ p.o[j]
            h = norm(x, p.mlp_norm) @ p.up
            x = x + (h / (1 + np.exp(-h))) @ p.down
        return norm(x, w.norm)[-1] @ w.embed.T

    tokens, all_logits = [], []
    for prompt in prompts():
        ids, out = list(prompt), []
        for _ in range(PROMPT, MAX + 1):
            out.append(logits(ids))
            ids.append(int(out[-1].argmax()))
        tokens.append(ids[PROMPT:]), all_logits.append(out)
    return {"tokens": np.array(tokens), "logits": np.array(all_logits).swapaxes(0, 1)}


if __name__ == "__main__":
    got, want = main(), reference()
    for k in want:
        np.testing.assert_allclose(got[k], want[k], rtol=1e-3, atol=1e-4, err_msg=k)
    print("ok", got["tokens"].tolist())
