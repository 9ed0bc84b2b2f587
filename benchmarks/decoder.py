"""A training step of a decoder at Llama-405B's shapes, with tensor, sequence and data parallel collectives by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

LAYERS, DIM, HEADS, KV_HEADS, HEAD_DIM, HIDDEN, VOCAB = (
    126,
    16384,
    128,
    8,
    128,
    53248,
    128256,
)
BATCH, LENGTH = 16, 8192

LAYER_SPECS = {
    "norm1": P(),
    "norm2": P(),
    "wq": P(None, None, "t"),
    "wk": P(None, None, "t"),
    "wv": P(None, None, "t"),
    "wo": P(None, "t"),
    "gate": P(None, None, "t"),
    "up": P(None, None, "t"),
    "down": P(None, "t"),
}
SPECS = {"embed": P("t"), "layers": LAYER_SPECS, "norm": P(), "head": P(None, "t")}
SHARED = ("norm1", "norm2")


def shapes(layers: int = LAYERS) -> dict[str, Any]:
    """The weights, without numbers."""

    def weight(*sizes: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct(sizes, jnp.bfloat16)

    stack = {
        "norm1": weight(layers, DIM),
        "norm2": weight(layers, DIM),
        "wq": weight(layers, DIM, HEADS * HEAD_DIM),
        "wk": weight(layers, DIM, KV_HEADS * HEAD_DIM),
        "wv": weight(layers, DIM, KV_HEADS * HEAD_DIM),
        "wo": weight(layers, HEADS * HEAD_DIM, DIM),
        "gate": weight(layers, DIM, HIDDEN),
        "up": weight(layers, DIM, HIDDEN),
        "down": weight(layers, HIDDEN, DIM),
    }
    return {
        "embed": weight(VOCAB, DIM),
        "layers": stack,
        "norm": weight(DIM),
        "head": weight(DIM, VOCAB),
    }


def norm(x: jax.Array, scale: jax.Array) -> jax.Array:
    wide = x.astype(jnp.float32)
    return (wide * lax.rsqrt(jnp.mean(wide * wide, -1, keepdims=True) + 1e-5)).astype(
        x.dtype
    ) * scale


def rotated(x: jax.Array) -> jax.Array:
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 500000.0 ** (-jnp.arange(half) / half)
    sin, cos = (
        jnp.sin(angles)[:, None].astype(x.dtype),
        jnp.cos(angles)[:, None].astype(x.dtype),
    )
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    """x: [batch, length / t, dim]"""
    full = lax.all_gather(norm(x, p["norm1"]), "t", axis=1, tiled=True)
    q, k, v = (
        (full @ p[name]).reshape(*full.shape[:2], -1, HEAD_DIM)
        for name in ("wq", "wk", "wv")
    )
    q, k = rotated(q), rotated(k)
    q = q.reshape(*q.shape[:2], k.shape[2], -1, HEAD_DIM)
    scores = jnp.einsum("bqhgd,bkhd->bhgqk", q, k).astype(jnp.float32) * HEAD_DIM**-0.5
    causal = jnp.arange(full.shape[1])[:, None] >= jnp.arange(full.shape[1])
    probs = jax.nn.softmax(jnp.where(causal, scores, -1e30), -1).astype(x.dtype)
    out = (
        jnp.einsum("bhgqk,bkhd->bqhgd", probs, v).reshape(*full.shape[:2], -1) @ p["wo"]
    )
    return lax.psum_scatter(out, "t", scatter_dimension=1, tiled=True)


def mlp(p: dict[str, jax.Array], x: jax.Array) -> jax.Array:
    full = lax.all_gather(norm(x, p["norm2"]), "t", axis=1, tiled=True)
    out = (jax.nn.silu(full @ p["gate"]) * (full @ p["up"])) @ p["down"]
    return lax.psum_scatter(out, "t", scatter_dimension=1, tiled=True)


def looked_up(table: jax.Array, ids: jax.Array) -> jax.Array:
    rows = table.shape[0]
    local = ids - lax.axis_index("t") * rows
    inside = (local >= 0) & (local < rows)
    found = jnp.where(inside[..., None], table[jnp.where(inside, local, 0)], 0)
    return lax.psum_scatter(found, "t", scatter_dimension=1, tiled=True)


def local_loss(
    params: dict[str, Any], tokens: jax.Array, targets: jax.Array, unrolled: bool
) -> jax.Array:
    """This device's part of the mean: of its examples, and of its share of the vocabulary."""
    x = looked_up(params["embed"], tokens)

    @jax.checkpoint
    def block(x: jax.Array, p: dict[str, jax.Array]) -> tuple[jax.Array, None]:
        x = x + attention(p, x)
        return x + mlp(p, x), None

    if unrolled:
        for number in range(params["layers"]["norm1"].shape[0]):
            x, _ = block(
                x, jax.tree.map(lambda w, number=number: w[number], params["layers"])
            )
    else:
        x, _ = lax.scan(block, x, params["layers"])
    full = lax.all_gather(norm(x, params["norm"]), "t", axis=1, tiled=True)
    logits = (full @ params["head"]).astype(jnp.float32)
    peak = lax.pmax(lax.stop_gradient(logits).max(-1), "t")
    total = lax.psum(jnp.exp(logits - peak[..., None]).sum(-1), "t")
    rows = logits.shape[-1]
    local = targets - lax.axis_index("t") * rows
    inside = (local >= 0) & (local < rows)
    picked = jnp.take_along_axis(logits, jnp.where(inside, local, 0)[..., None], -1)[
        ..., 0
    ]
    picked = lax.psum(jnp.where(inside, picked, 0.0), "t")
    return (jnp.log(total) + peak - picked).mean()


def train_step(
    layers: int = LAYERS, unrolled: bool = False, d: int = 4, t: int = 4
) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """The step, its arguments, and nothing more: it holds its mesh."""
    mesh = AbstractMesh((d, t), ("d", "t"), axis_types=(AxisType.Auto,) * 2)

    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(SPECS, P("d"), P("d")),
        out_specs=(SPECS, P()),
    )
    def step(
        params: dict[str, Any], tokens: jax.Array, targets: jax.Array
    ) -> tuple[Any, jax.Array]:
        loss, gradients = jax.value_and_grad(
            lambda p: lax.pmean(local_loss(p, tokens, targets, unrolled), "d")
        )(params)
        return jax.tree.map(lambda w, g: w - 1e-5 * g, params, gradients), loss

    ids = jax.ShapeDtypeStruct((BATCH, LENGTH), jnp.int32)
    return jax.jit(step), (shapes(layers), ids, ids), {}
