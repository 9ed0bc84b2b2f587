"""Layers of language models, as functions of their parameters."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float, Float32, Int


def layer_norm(
    x: Float32[Array, "batch length width"],
    scale: Float32[Array, "width"],
    bias: Float32[Array, "width"],
) -> Float32[Array, "batch length width"]:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-6) * scale + bias


def batch_norm(
    x: Float32[Array, "batch height width channels"], scale: Float32[Array, "channels"]
) -> tuple[Float32[Array, "batch height width channels"], Float32[Array, "channels"]]:
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.var(x, axis=(0, 1, 2))
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale, mean


def group_norm(
    scale: Float32[Array, "groups share"],
    x: Float32[Array, "batch length groups*share"],
) -> Float32[Array, "batch length groups*share"]:
    groups, share = scale.shape
    parts = x.reshape(x.shape[0], x.shape[1], groups, share)
    mean = parts.mean(axis=(1, 3), keepdims=True)
    deviation = parts.std(axis=(1, 3), keepdims=True)
    normed: Float32[Array, "batch length groups share"] = (
        (parts - mean) / (deviation + 1e-5) * scale
    )
    return normed.reshape(x.shape)


def dense(
    x: Float32[Array, "*rows inputs"],
    kernel: Float32[Array, "inputs outputs"],
    bias: Float32[Array, "outputs"],
) -> Float32[Array, "*rows outputs"]:
    return x @ kernel + bias


def tied_logits(
    x: Float32[Array, "batch length width"], table: Float32[Array, "vocab width"]
) -> Float32[Array, "batch length vocab"]:
    return x @ table.T


def gated(
    x: Float32[Array, "batch length width"],
    gate: Float32[Array, "width hidden"],
    up: Float32[Array, "width hidden"],
    down: Float32[Array, "hidden width"],
) -> Float32[Array, "batch length width"]:
    hidden = jax.nn.silu(x @ gate) * (x @ up)
    return hidden @ down


def residual(
    x: Float32[Array, "batch length width"],
    scale: Float32[Array, "width"],
    bias: Float32[Array, "width"],
    up: Float32[Array, "width hidden"],
    down: Float32[Array, "hidden width"],
) -> Float32[Array, "batch length width"]:
    normed = layer_norm(x, scale, bias)
    return x + jax.nn.gelu(normed @ up) @ down


def embed(
    tokens: Int[Array, "batch length"],
    table: Float32[Array, "vocab width"],
    positions: Float32[Array, "limit width"],
) -> Float32[Array, "batch length width"]:
    found = jnp.take(table, tokens, axis=0)
    places = jnp.arange(tokens.shape[1])
    return found + positions[places][None, :, :]


def sinusoids(
    times: Float32[Array, "batch"], rates: Float32[Array, "half"]
) -> Float32[Array, "batch 2*half"]:
    angles = times[:, None] * rates[None, :]
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def route(
    x: Float32[Array, "tokens width"], router: Float32[Array, "width experts"]
) -> tuple[Float32[Array, "tokens 2"], Int[Array, "tokens 2"]]:
    scores = jax.nn.softmax(x @ router, axis=-1)
    best, chosen = jax.lax.top_k(scores, 2)
    return best / jnp.sum(best, axis=-1, keepdims=True), chosen


def experts(
    x: Float32[Array, "tokens width"],
    weights: Float32[Array, "tokens experts"],
    up: Float32[Array, "experts width hidden"],
    down: Float32[Array, "experts hidden width"],
) -> Float32[Array, "tokens width"]:
    hidden = jax.nn.relu(jnp.einsum("tw,ewh->teh", x, up))
    out: Float32[Array, "tokens experts width"] = jnp.einsum(
        "teh,ehw->tew", hidden, down
    )
    return jnp.sum(out * weights[:, :, None], axis=1)


def load_balance(
    scores: Float32[Array, "tokens experts"], chosen: Int[Array, "tokens"]
) -> Float32[Array, ""]:
    hits = jax.nn.one_hot(chosen, scores.shape[-1])
    share = jnp.mean(hits, axis=0)
    weight = jnp.mean(scores, axis=0)
    return scores.shape[-1] * jnp.sum(share * weight)


def lora(
    x: Float32[Array, "batch length inputs"],
    kernel: Float32[Array, "inputs outputs"],
    a: Float32[Array, "inputs rank"],
    b: Float32[Array, "rank outputs"],
) -> Float32[Array, "batch length outputs"]:
    return x @ kernel + (x @ a) @ b


def highway(
    x: Float32[Array, "batch width"],
    gate: Float32[Array, "width width"],
    kernel: Float32[Array, "width width"],
) -> Float32[Array, "batch width"]:
    share = jax.nn.sigmoid(x @ gate)
    return share * jnp.tanh(x @ kernel) + (1 - share) * x


def film(
    x: Float32[Array, "batch height width channels"],
    condition: Float32[Array, "batch features"],
    kernel: Float32[Array, "features 2*channels"],
) -> Float32[Array, "batch height width channels"]:
    scale, shift = jnp.split(condition @ kernel, 2, axis=-1)
    return x * (1 + scale[:, None, None, :]) + shift[:, None, None, :]


def stacked_layers(
    x: Float32[Array, "batch width"], kernels: Float32[Array, "layers width width"]
) -> Float32[Array, "batch width"]:
    def layer(h: Float32[Array, "batch width"], kernel: Float32[Array, "width width"]):
        return jax.nn.relu(h @ kernel), None

    out, _ = jax.lax.scan(layer, x, kernels)
    return out


def masked_mean(
    x: Float32[Array, "batch length width"], mask: Bool[Array, "batch length"]
) -> Float32[Array, "batch width"]:
    weight = mask.astype(jnp.float32)[..., None]
    return jnp.sum(x * weight, axis=1) / jnp.sum(weight, axis=1)


def bilinear(
    x: Float[Array, "batch m"],
    y: Float[Array, "batch n"],
    kernel: Float[Array, "m n out"],
) -> Float[Array, "batch out"]:
    return jnp.einsum("bm,bn,mno->bo", x, y, kernel)


def hyper(
    x: Float32[Array, "batch inputs"], kernels: Float32[Array, "batch inputs outputs"]
) -> Float32[Array, "batch outputs"]:
    return jax.vmap(jnp.matmul, in_axes=(0, 0))(x, kernels)
