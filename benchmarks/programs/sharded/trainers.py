"""Steps of trainers in ``shard_map``: data over ``d``, layers, vocabulary, sequence, stages or experts over ``t``."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax import lax

from shardtypes import Array, f32, i32, pytree_dataclass, typed_shard_map

OPTIMIZER = optax.adam(1e-3)


@pytree_dataclass
class Block:
    norm: f32["M/d"]
    up: f32["M/d F/t"]
    down: f32["F/t M/d"]


@typed_shard_map
def fully_sharded(
    x: f32["B/d M"], y: f32["B/d F"], w: f32["M/d F"]
) -> tuple[f32["M/d F"], f32[""]]:
    def loss(w):
        weight = lax.all_gather(w, "d", axis=0, tiled=True)
        error = x @ weight - y
        return jnp.sum(error**2) / (error.size * lax.axis_size("d"))

    part, grad = jax.value_and_grad(loss)(w)
    return w - 0.1 * grad, lax.psum(part, "d")


@typed_shard_map
def scattered_gradient(
    x: f32["B/d M"], y: f32["B/d F"], w: f32["M/d F"]
) -> f32["M/d F"]:
    weight = lax.all_gather(w, "d", axis=0, tiled=True)
    error: f32["B/d F"] = x @ weight - y
    grad = x.T @ error
    return w - 0.1 * lax.psum_scatter(grad, "d", scatter_dimension=0, tiled=True)


@partial(typed_shard_map, check_rep=False)
def data_parallel(
    x: f32["B/d M"], y: f32["B/d F"], w: f32["M F"]
) -> tuple[f32["M F"], f32[""]]:
    def loss(w):
        return jnp.mean((x @ w - y) ** 2)

    value, grad = jax.value_and_grad(loss)(w)
    grad = lax.pmean(grad, "d")
    updates, _ = OPTIMIZER.update(grad, OPTIMIZER.init(w), w)
    return optax.apply_updates(w, updates), lax.pmean(value, "d")


@partial(typed_shard_map, check_rep=False)
def split_optimizer(
    x: f32["B/d M"], y: f32["B/d F"], w: f32["M F"], momentum: f32["M/d F"]
) -> tuple[f32["M F"], f32["M/d F"]]:
    grad = x.T @ (x @ w - y)
    shard = lax.psum_scatter(grad, "d", scatter_dimension=0, tiled=True)
    momentum = 0.9 * momentum + shard
    update: f32["M F"] = lax.all_gather(momentum, "d", axis=0, tiled=True)
    return w - 0.01 * update, momentum


@typed_shard_map
def transformer_block(
    x: f32["B/d L M"],
    qkv: f32["3 M H/t D"],
    out: f32["H/t D M"],
    up: f32["M F/t"],
    down: f32["F/t M"],
) -> f32["B/d L M"]:
    h = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    q, k, v = jnp.einsum("blm,cmhd->cblhd", h, qkv)
    scores = jnp.einsum("blhd,bkhd->bhlk", q, k) * q.shape[-1] ** -0.5
    mixed: f32["B/d L H/t D"] = jnp.einsum(
        "bhlk,bkhd->blhd", jax.nn.softmax(scores, axis=-1), v
    )
    x = x + lax.psum(jnp.einsum("blhd,hdm->blm", mixed, out), "t")
    h = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
    hidden: f32["B/d L F/t"] = jax.nn.silu(h @ up)
    return x + lax.psum(hidden @ down, "t")


@typed_shard_map
def sequence_parallel(
    x: f32["B/d L/t M"], scale: f32["M"], up: f32["M F/t"], down: f32["F/t M"]
) -> f32["B/d L/t M"]:
    h = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale
    h = lax.all_gather(h, "t", axis=1, tiled=True)
    hidden = jax.nn.gelu(h @ up)
    return x + lax.psum_scatter(hidden @ down, "t", scatter_dimension=1, tiled=True)


@partial(typed_shard_map, check_rep=False)
def gathered_layers(x: f32["B/d M"], blocks: Array["N", Block]) -> f32["B/d M"]:
    @jax.checkpoint
    def layer(x: f32["B/d M"], block: Block):
        norm = lax.all_gather(block.norm, "d", axis=0, tiled=True)
        up = lax.all_gather(block.up, "d", axis=0, tiled=True)
        down = lax.all_gather(block.down, "d", axis=1, tiled=True)
        h = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * norm
        return x + lax.psum(jax.nn.relu(h @ up) @ down, "t"), None

    x, _ = lax.scan(layer, x, blocks)
    return x


@typed_shard_map
def embed(tokens: i32["B/d L"], table: f32["V/t M"]) -> f32["B/d L M"]:
    first = lax.axis_index("t") * table.shape[0]
    local = tokens - first
    here = (local >= 0) & (local < table.shape[0])
    rows = jnp.take(table, jnp.clip(local, 0, table.shape[0] - 1), axis=0)
    return lax.psum(jnp.where(here[..., None], rows, 0.0), "t")


@typed_shard_map
def vocabulary_loss(
    h: f32["B/d M"], unembed: f32["M V/t"], labels: i32["B/d"], mask: f32["B/d"]
) -> f32[""]:
    logits: f32["B/d V/t"] = h @ unembed
    peak = lax.pmax(lax.stop_gradient(jnp.max(logits, axis=-1)), "t")
    total = lax.psum(jnp.sum(jnp.exp(logits - peak[:, None]), axis=-1), "t")
    local = labels - lax.axis_index("t") * logits.shape[-1]
    here = (local >= 0) & (local < logits.shape[-1])
    safe = jnp.clip(local, 0, logits.shape[-1] - 1)
    chosen = jnp.take_along_axis(logits, safe[:, None], axis=-1)[:, 0]
    right: f32["B/d"] = lax.psum(jnp.where(here, chosen, 0.0), "t")
    losses = jnp.log(total) + peak - right
    return lax.psum(jnp.sum(losses * mask), "d") / lax.psum(jnp.sum(mask), "d")


@typed_shard_map
def clipped(
    up: f32["M/d F/t"], down: f32["F/t M/d"], bias: f32["F/t"]
) -> tuple[f32["M/d F/t"], f32["F/t"]]:
    whole = lax.psum(jnp.sum(up**2) + jnp.sum(down**2), ("d", "t"))
    norm = jnp.sqrt(whole + lax.psum(jnp.sum(bias**2), "t"))
    scale = jnp.minimum(1.0, 1.0 / norm)
    return up * scale, bias * scale


@typed_shard_map
def ring_attention(
    q: f32["B/d L/t D"], k: f32["B/d L/t D"], v: f32["B/d L/t D"]
) -> f32["B/d L/t D"]:
    size = lax.axis_size("t")
    ring = [(i, (i + 1) % size) for i in range(size)]

    def visit(_, carry):
        k, v, top, total, mixed = carry
        scores = jnp.einsum("bld,bkd->blk", q, k)
        peak = jnp.maximum(top, jnp.max(scores, axis=-1, keepdims=True))
        weights = jnp.exp(scores - peak)
        shrink = jnp.exp(top - peak)
        total = total * shrink + jnp.sum(weights, axis=-1, keepdims=True)
        mixed = mixed * shrink + weights @ v
        return (
            lax.ppermute(k, "t", ring),
            lax.ppermute(v, "t", ring),
            peak,
            total,
            mixed,
        )

    zeros = 0.0 * jnp.sum(q, axis=-1, keepdims=True)
    _, _, _, total, mixed = lax.fori_loop(
        0, size, visit, (k, v, zeros - 1e30, zeros, 0.0 * q)
    )
    return mixed / total


@partial(typed_shard_map, check_rep=False)
def pipeline(xs: f32["N B/d M"], stages: f32["S/t M M"]) -> f32["N B/d M"]:
    size, me = lax.axis_size("t"), lax.axis_index("t")
    count = xs.shape[0]
    following = [(i, i + 1) for i in range(size - 1)]

    def tick(step, carry):
        held, done = carry
        fed = jnp.where(me == 0, xs[jnp.minimum(step, count - 1)], held)
        made, _ = lax.scan(lambda x, w: (jnp.tanh(x @ w), None), fed, stages)
        place = jnp.clip(step - size + 1, 0, count - 1)
        done = jnp.where(
            (me == size - 1) & (step >= size - 1), done.at[place].set(made), done
        )
        return lax.ppermute(made, "t", following), done

    _, done = lax.fori_loop(
        0, count + size - 1, tick, (jnp.zeros_like(xs[0]), jnp.zeros_like(xs))
    )
    return lax.psum(jnp.where(me == size - 1, done, 0.0), "t")


@typed_shard_map
def experts(
    x: f32["T/t M"], router: f32["M E"], up: f32["E/t M F"], down: f32["E/t F M"]
) -> f32["T/t M"]:
    gates: f32["T/t E"] = jax.nn.softmax(x @ router, axis=-1)
    sent = jnp.einsum("te,tm->etm", gates, x)
    arrived: f32["E/t T M"] = lax.all_to_all(
        sent, "t", split_axis=0, concat_axis=1, tiled=True
    )
    hidden = jax.nn.gelu(jnp.einsum("etm,emf->etf", arrived, up))
    made = jnp.einsum("etf,efm->etm", hidden, down)
    returned: f32["E T/t M"] = lax.all_to_all(
        made, "t", split_axis=1, concat_axis=0, tiled=True
    )
    return jnp.sum(returned, axis=0)


@typed_shard_map
def accuracy(logits: f32["B/d L V"], labels: i32["B/d L"]) -> f32[""]:
    right = (jnp.argmax(logits, axis=-1) == labels).astype(jnp.float32)
    return lax.psum(jnp.sum(right), "d") / (right.size * lax.axis_size("d"))
