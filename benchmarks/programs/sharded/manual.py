"""Manual programs: layers, losses and optimisers inside ``shard_map`` over a mesh with axes ``d`` and ``t``."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import f32, i32, typed_shard_map


@typed_shard_map
def column_parallel(x: f32["B/d M"], w: f32["M F/t"]) -> f32["B/d F/t"]:
    return jax.nn.relu(x @ w)


@typed_shard_map
def row_parallel(x: f32["B/d F/t"], w: f32["F/t M"]) -> f32["B/d M"]:
    return lax.psum(x @ w, "t")


@typed_shard_map
def mlp(x: f32["B/d M"], up: f32["M F/t"], down: f32["F/t M"]) -> f32["B/d M"]:
    hidden = jax.nn.gelu(x @ up)
    return x + lax.psum(hidden @ down, "t")


@typed_shard_map
def scattered(x: f32["B/d F/t"], w: f32["F/t M"]) -> f32["B/d M/t"]:
    partial = x @ w
    return lax.psum_scatter(partial, "t", scatter_dimension=1, tiled=True)


@typed_shard_map
def gathered(x: f32["B/d M/t"], w: f32["M F/t"]) -> f32["B/d F/t"]:
    whole = lax.all_gather(x, "t", axis=1, tiled=True)
    return whole @ w


@typed_shard_map
def norm(x: f32["B/d M/t"], scale: f32["M/t"]) -> f32["B/d M/t"]:
    total = lax.psum(jnp.sum(x * x, axis=-1, keepdims=True), "t")
    width = x.shape[-1] * lax.axis_size("t")
    return x * lax.rsqrt(total / width + 1e-6) * scale


@typed_shard_map
def softmax(x: f32["B/d V/t"]) -> f32["B/d V/t"]:
    peak = lax.pmax(lax.stop_gradient(jnp.max(x, axis=-1, keepdims=True)), "t")
    weights = jnp.exp(x - peak)
    return weights / lax.psum(jnp.sum(weights, axis=-1, keepdims=True), "t")


@typed_shard_map
def mean_loss(x: f32["B/d M"], y: f32["B/d M"]) -> f32[""]:
    error = jnp.mean((x - y) ** 2, axis=-1)
    return lax.pmean(jnp.mean(error), "d")


@typed_shard_map
def cross_entropy(logits: f32["B/d V/t"], labels: i32["B/d"]) -> f32[""]:
    peak = lax.pmax(lax.stop_gradient(jnp.max(logits, axis=-1)), "t")
    shifted = logits - peak[:, None]
    normaliser = jnp.log(lax.psum(jnp.sum(jnp.exp(shifted), axis=-1), "t"))
    first = lax.axis_index("t") * logits.shape[-1]
    places = jnp.arange(logits.shape[-1]) + first
    hit = (labels[:, None] == places[None, :]).astype(jnp.float32)
    chosen = lax.psum(jnp.sum(shifted * hit, axis=-1), "t")
    return lax.pmean(jnp.mean(normaliser - chosen), "d")


@typed_shard_map
def gradient_norm(w: f32["M/d F/t"], bias: f32["F/t"]) -> f32[""]:
    squares = lax.psum(jnp.sum(w**2), ("d", "t")) + lax.psum(jnp.sum(bias**2), "t")
    return jnp.sqrt(squares)


@typed_shard_map
def attention(
    q: f32["B/d L H/t D"],
    k: f32["B/d L H/t D"],
    v: f32["B/d L H/t D"],
    w: f32["H/t D M"],
) -> f32["B/d L M"]:
    logits = jnp.einsum("blhd,bmhd->bhlm", q, k)
    weights = jax.nn.softmax(logits, axis=-1)
    mixed = jnp.einsum("bhlm,bmhd->blhd", weights, v)
    return lax.psum(jnp.einsum("blhd,hdm->blm", mixed, w), "t")


@typed_shard_map
def sequence_to_heads(x: f32["B/d L/t H D"]) -> f32["B/d L H/t D"]:
    return lax.all_to_all(x, "t", split_axis=2, concat_axis=1, tiled=True)


@typed_shard_map
def fsdp(x: f32["B/d M"], w: f32["M/d F"], b: f32["F/d"]) -> f32["B/d F"]:
    weight = lax.all_gather(w, "d", axis=0, tiled=True)
    bias = lax.all_gather(b, "d", axis=0, tiled=True)
    return x @ weight + bias


@typed_shard_map
def batch_norm(x: f32["B/d M/t"]) -> f32["B/d M/t"]:
    mean = lax.pmean(jnp.mean(x, axis=0), "d")
    variance = lax.pmean(jnp.mean((x - mean) ** 2, axis=0), "d")
    return (x - mean) * lax.rsqrt(variance + 1e-5)


@typed_shard_map
def biased(x: f32["B/d F/t"], w: f32["F/t M"], b: f32["M"]) -> f32["B/d M"]:
    return jax.nn.silu(lax.psum(x @ w, "t") + b)


@typed_shard_map
def activated(x: f32["B/d F/t"], w: f32["F/t M"]) -> f32["B/d M/t"]:
    return jax.nn.gelu(lax.psum_scatter(x @ w, "t", scatter_dimension=1, tiled=True))


@typed_shard_map
def norm_after(x: f32["B/d F/t"], w: f32["F/t M"], scale: f32["M"]) -> f32["B/d M"]:
    y = lax.psum(jnp.einsum("bf,fm->bm", x, w), "t")
    return y * lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-6) * scale


@typed_shard_map
def router(x: f32["B/d M/t"], w: f32["M/t E"]) -> f32["B/d E"]:
    return jax.nn.softmax(lax.psum(x @ w, "t"), axis=-1)


@typed_shard_map
def perplexity(logits: f32["B/d V"], labels: i32["B/d"]) -> f32[""]:
    hit = jax.nn.one_hot(labels, logits.shape[-1])
    chosen = jnp.sum(jax.nn.log_softmax(logits, axis=-1) * hit, axis=-1)
    return jnp.exp(lax.pmean(-jnp.mean(chosen), "d"))


def by_specs(x: f32["B M"], w: f32["M F"]) -> f32["B F"]:
    def local(x, w):
        return lax.psum(x @ w, "t")

    return jax.shard_map(
        local, in_specs=(P("d", "t"), P("t", None)), out_specs=P("d", None)
    )(x, w)


def statistics(x: f32["B M"]) -> tuple[f32["M"], f32["B"]]:
    def local(x):
        columns = lax.pmean(jnp.mean(x, axis=0), "d")
        rows = lax.psum(jnp.sum(x, axis=1), "t")
        return columns, rows

    return jax.shard_map(local, in_specs=P("d", "t"), out_specs=(P("t"), P("d")))(x)
