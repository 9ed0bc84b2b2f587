"""A decoder with rotary positions, trained with scan and remat, and decoded with a cache."""

import jax
import jax.numpy as jnp
import numpy as np

from shardtypes import f32, i32, laws, pytree_dataclass

SLOTS = 10


@pytree_dataclass
class Params:
    embed: f32["V D"]
    wq: f32["N D H K"]
    wk: f32["N D H K"]
    wv: f32["N D H K"]
    wo: f32["N H K D"]
    w1: f32["N D F"]
    w2: f32["N F D"]
    g1: f32["N D"]
    g2: f32["N D"]


def rms(x, g):
    square = jnp.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(square + 1e-6) * g


def rope(x, positions):
    half = x.shape[-1] // 2
    freq = 1.0 / (10000.0 ** (jnp.arange(half) / half))
    angle = positions[:, None] * freq
    sin, cos = jnp.sin(angle)[:, None], jnp.cos(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attend(q, k, v, mask):
    s = jnp.einsum("bqhk,bshk->bhqs", q, k) / jnp.sqrt(q.shape[-1])
    s = jnp.where(mask, s, -1e9)
    p = jax.nn.softmax(s, axis=-1)
    return jnp.einsum("bhqs,bshk->bqhk", p, v)


def project(x, wq, wk, wv, positions):
    q = rope(jnp.einsum("bld,dhk->blhk", x, wq), positions)
    k = rope(jnp.einsum("bld,dhk->blhk", x, wk), positions)
    v = jnp.einsum("bld,dhk->blhk", x, wv)
    return q, k, v


def decoder(params: Params, tokens: i32["B L"]) -> f32["B L V"]:
    positions = jnp.arange(tokens.shape[1])
    mask = positions[:, None] >= positions[None, :]
    x = params.embed[tokens]

    def layer(x, weights):
        wq, wk, wv, wo, w1, w2, g1, g2 = weights
        q, k, v = project(rms(x, g1), wq, wk, wv, positions)
        x = x + jnp.einsum("bqhk,hkd->bqd", attend(q, k, v, mask), wo)
        x = x + jax.nn.gelu(rms(x, g2) @ w1) @ w2
        return x, None

    weights = params.wq, params.wk, params.wv, params.wo, params.w1, params.w2, params.g1, params.g2
    x, _ = jax.lax.scan(jax.checkpoint(layer), x, weights)
    return x @ params.embed.T


def cached(params, tokens, cache, start):
    keys, values = cache
    positions = start + jnp.arange(tokens.shape[1])
    mask = jnp.arange(SLOTS)[None, :] <= positions[:, None]
    x = params.embed[tokens]
    for n in range(params.wq.shape[0]):
        y = rms(x, params.g1[n])
        q, k, v = project(y, params.wq[n], params.wk[n], params.wv[n], positions)
        keys = jax.lax.dynamic_update_slice(keys, k[None], (n, 0, start, 0, 0))
        values = jax.lax.dynamic_update_slice(values, v[None], (n, 0, start, 0, 0))
        x = x + jnp.einsum("bqhk,hkd->bqd", attend(q, keys[n], values[n], mask), params.wo[n])
        x = x + jax.nn.gelu(rms(x, params.g2[n]) @ params.w1[n]) @ params.w2[n]
    return x @ params.embed.T, (keys, values)


def prefill(params, tokens):
    layers, _, heads, size = params.wq.shape
    empty = jnp.zeros((layers, tokens.shape[0], SLOTS, heads, size), params.embed.dtype)
    return cached(params, tokens, (empty, empty), 0)


def step(params, tokens, cache, position):
    return cached(params, tokens, cache, position)


def example():
    """Parameters of two layers, two heads of four, and tokens."""
    rng = np.random.default_rng(0)

    def random(*shape):
        return (0.5 * rng.standard_normal(shape)).astype(np.float32)

    layers = random(2, 8, 2, 4), random(2, 8, 2, 4), random(2, 8, 2, 4), random(2, 2, 4, 8)
    rest = random(2, 8, 16), random(2, 16, 8), np.ones((2, 8), np.float32), np.ones((2, 8), np.float32)
    return Params(random(11, 8), *layers, *rest), rng.integers(0, 11, (2, 7))


LAWS = {
    "causal": lambda: laws.causal(decoder, "L"),
    "independent": lambda: laws.independent(decoder, "B"),
    "causal, given": lambda: laws.causal(jax.jit(decoder), "L", *example()),
    "incremental": lambda: laws.incremental(*example(), full=decoder, prefill=prefill, step=step),
}
