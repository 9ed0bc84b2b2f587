"""Attention in its usual spellings, annotated with shapes and dtypes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from shardtypes import bf16, bool_, f32, i32, pytree_dataclass


@pytree_dataclass
class Projections:
    """The kernels of one attention layer."""

    query: f32["M H D"]
    key: f32["M H D"]
    value: f32["M H D"]
    out: f32["H D M"]


def split_heads(scale: f32["H D"], x: f32["B L H*D"]) -> f32["B H L D"]:
    heads, width = scale.shape
    x = x.reshape(x.shape[0], x.shape[1], heads, width)
    return jnp.transpose(x * scale, (0, 2, 1, 3))


def merge_heads(x: f32["B H L D"]) -> f32["B L H*D"]:
    batch, heads, length, width = x.shape
    return x.swapaxes(1, 2).reshape(batch, length, heads * width)


def causal_mask(queries: f32["B Q D"], keys: f32["B K D"]) -> bool_["Q K"]:
    rows = jnp.arange(queries.shape[1])[:, None]
    columns = jnp.arange(keys.shape[1])[None, :]
    return rows >= columns


def scores(q: f32["B Q D"], k: f32["B K D"]) -> f32["B Q K"]:
    return jnp.einsum("bqd,bkd->bqk", q, k) / jnp.sqrt(q.shape[-1])


def attend(q: f32["B Q D"], k: f32["B K D"], v: f32["B K E"]) -> f32["B Q E"]:
    logits = scores(q, k)
    logits = jnp.where(causal_mask(q, k)[None], logits, -1e9)
    weights = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bqk,bke->bqe", weights, v)


def multi_head(x: f32["B L M"], w: Projections) -> f32["B L M"]:
    q = jnp.einsum("blm,mhd->bhld", x, w.query)
    k = jnp.einsum("blm,mhd->bhld", x, w.key)
    v = jnp.einsum("blm,mhd->bhld", x, w.value)
    mixed = jax.vmap(attend, in_axes=1, out_axes=1)(q, k, v)
    return jnp.einsum("bhld,hdm->blm", mixed, w.out)


def cross(
    x: f32["B Q M"],
    memory: f32["B K N"],
    wq: f32["M D"],
    wk: f32["N D"],
    wv: f32["N E"],
) -> f32["B Q E"]:
    q, k, v = x @ wq, memory @ wk, memory @ wv
    return attend(q, k, v)


def grouped(
    q: f32["B L G H D"], k: f32["B L G D"], v: f32["B L G D"], length: i32["B"]
) -> f32["B L G H D"]:
    logits = jnp.einsum("blghd,bmgd->bghlm", q, k) * q.shape[-1] ** -0.5
    valid = jnp.arange(k.shape[1])[None, :] < length[:, None]
    logits = jnp.where(valid[:, None, None, None, :], logits, -jnp.inf)
    weights: f32["B G H L L"] = jax.nn.softmax(logits, axis=-1)
    return jnp.einsum("bghlm,bmgd->blghd", weights, v)


def rotate(angles: f32["L D"], x: f32["B L H 2*D"]) -> f32["B L H 2*D"]:
    first, second = jnp.split(x, 2, axis=-1)
    sin = jnp.sin(angles)[None, :, None, :]
    cos = jnp.cos(angles)[None, :, None, :]
    return jnp.concatenate(
        [first * cos - second * sin, second * cos + first * sin], axis=-1
    )


def interleaved(angles: f32["L D"], x: f32["B L 2*D"]) -> f32["B L 2*D"]:
    even, odd = x[..., ::2], x[..., 1::2]
    sin, cos = jnp.sin(angles), jnp.cos(angles)
    turned = jnp.stack([even * cos - odd * sin, odd * cos + even * sin], axis=-1)
    return turned.reshape(x.shape)


def extend_cache(cache: bf16["B T H D"], new: bf16["B 1 H D"]) -> bf16["B T+1 H D"]:
    return jnp.concatenate([cache, new], axis=1)


def decode(
    x: f32["B M"], keys: f32["B T H D"], values: f32["B T H D"], w: Projections
) -> f32["B M"]:
    q = jnp.einsum("bm,mhd->bhd", x, w.query)
    logits = jnp.einsum("bhd,bthd->bht", q, keys)
    weights = jnp.exp(logits - logits.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    mixed: f32["B H D"] = jnp.einsum("bht,bthd->bhd", weights, values)
    return jnp.einsum("bhd,hdm->bm", mixed, w.out)


def relative_bias(table: f32["R H"], queries: i32["Q"], keys: i32["K"]) -> f32["H Q K"]:
    distance = queries[:, None] - keys[None, :]
    found: f32["Q K H"] = jnp.take(table, distance, axis=0)
    return found.transpose(2, 0, 1)


def linear_attention(q: f32["B L D"], k: f32["B L D"], v: f32["B L E"]) -> f32["B L E"]:
    def step(
        state: f32["B D E"], qkv: tuple[f32["B D"], f32["B D"], f32["B E"]]
    ) -> tuple[f32["B D E"], f32["B E"]]:
        q_t, k_t, v_t = qkv
        state = state + k_t[:, :, None] * v_t[:, None, :]
        return state, jnp.einsum("bd,bde->be", q_t, state)

    initial = jnp.zeros((q.shape[0], q.shape[-1], v.shape[-1]))
    _, out = jax.lax.scan(
        step, initial, (q.swapaxes(0, 1), k.swapaxes(0, 1), v.swapaxes(0, 1))
    )
    return out.swapaxes(0, 1)


def pooled(
    query: f32["H D"], keys: f32["B L H D"], values: f32["B L H D"], mask: bool_["B L"]
) -> f32["B H*D"]:
    logits = jnp.einsum("hd,blhd->bhl", query, keys)
    weights = jax.nn.softmax(jnp.where(mask[:, None, :], logits, -1e9), axis=-1)
    mixed = jnp.einsum("bhl,blhd->bhd", weights, values)
    return mixed.reshape(mixed.shape[0], -1)
