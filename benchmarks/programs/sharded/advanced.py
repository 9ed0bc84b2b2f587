"""Hand-written gradients, rings, split optimizers and stages over the mesh axes ``d`` and ``t``."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from shardtypes import Array, f32, i32, pytree_dataclass, typed_shard_map


@jax.custom_vjp
def gathered(w):
    return lax.all_gather(w, "d", axis=0, tiled=True)


def _gathered_forward(w):
    return gathered(w), None


def _gathered_backward(_, cotangent):
    return (lax.psum_scatter(cotangent, "d", scatter_dimension=0, tiled=True),)


gathered.defvjp(_gathered_forward, _gathered_backward)


@pytree_dataclass
class Adam:
    step: f32[""]
    first: f32["M/d F"]
    second: f32["M/d F"]


@pytree_dataclass
class Norms:
    scale: f32["M"]
    bias: f32["M"]


@partial(typed_shard_map, check_rep=False)
def custom_gradients(
    x: f32["B/d M"], y: f32["B/d F"], w: f32["M/d F"]
) -> tuple[f32["M/d F"], f32[""]]:
    def loss(w):
        return jnp.sum((x @ gathered(w) - y) ** 2)

    value, grad = jax.value_and_grad(loss)(w)
    count = y.size * lax.axis_size("d")
    return w - grad / count, lax.psum(value, "d") / count


@partial(typed_shard_map, check_rep=False)
def zero_optimizer(
    x: f32["B/d M"], y: f32["B/d F"], w: f32["M F"], state: Adam
) -> tuple[f32["M F"], Adam]:
    grad = jax.grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
    shard = lax.psum_scatter(
        grad, "d", scatter_dimension=0, tiled=True
    ) / lax.axis_size("d")
    step = jnp.abs(state.step) + 1.0
    first = 0.9 * state.first + 0.1 * shard
    second = 0.99 * jnp.abs(state.second) + 0.01 * shard**2
    update = first / (1.0 - 0.9**step) * lax.rsqrt(second / (1.0 - 0.99**step) + 1e-4)
    rows = w.shape[0] // lax.axis_size("d")
    mine = lax.dynamic_slice_in_dim(w, lax.axis_index("d") * rows, rows, axis=0)
    new: f32["M F"] = lax.all_gather(mine - 0.01 * update, "d", axis=0, tiled=True)
    return new, Adam(step=step, first=first, second=second)


@partial(typed_shard_map, check_rep=False)
def causal_ring(
    q: f32["B/d L/t H D"], k: f32["B/d L/t H D"], v: f32["B/d L/t H D"]
) -> f32["B/d L/t H D"]:
    devices, me = lax.axis_size("t"), lax.axis_index("t")
    length = q.shape[1]
    rows = me * length + jnp.arange(length)

    def visit(carry, step):
        k, v, peak, total, mixed = carry
        columns = (me - step) % devices * length + jnp.arange(length)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
        scores = jnp.where(rows[:, None] >= columns[None, :], scores, -1e30)
        upper = jnp.maximum(peak, jnp.max(scores, axis=-1))
        weights = jnp.exp(scores - upper[..., None])
        shrink = jnp.exp(peak - upper)
        total = total * shrink + jnp.sum(weights, axis=-1)
        mixed = mixed * shrink[..., None] + jnp.einsum("bhqk,bkhd->bhqd", weights, v)
        k, v = lax.ppermute(
            (k, v), "t", [(i, (i + 1) % devices) for i in range(devices)]
        )
        return (k, v, upper, total, mixed), None

    shape = (q.shape[0], q.shape[2], length)
    start = (
        k,
        v,
        jnp.full(shape, -1e30),
        jnp.zeros(shape),
        jnp.zeros((*shape, q.shape[-1])),
    )
    (_, _, _, total, mixed), _ = lax.scan(visit, start, jnp.arange(devices))
    return jnp.moveaxis(mixed / total[..., None], 1, 2)


@typed_shard_map
def sequence_parallel_mlp(
    x: f32["B/d L/t M"],
    norms: Norms,
    up: f32["M F/t"],
    gate: f32["M F/t"],
    down: f32["F/t M"],
) -> f32["B/d L/t M"]:
    def layer_norm(x: f32["B/d L/t M"]) -> f32["B/d L/t M"]:
        mean = jnp.mean(x, axis=-1, keepdims=True)
        variance = jnp.mean((x - mean) ** 2, axis=-1, keepdims=True)
        return (x - mean) * lax.rsqrt(variance + 1e-5) * norms.scale + norms.bias

    h = lax.all_gather(layer_norm(x), "t", axis=1, tiled=True)
    hidden: f32["B/d L F/t"] = jax.nn.silu(h @ gate) * (h @ up)
    return x + lax.psum_scatter(hidden @ down, "t", scatter_dimension=1, tiled=True)


@typed_shard_map
def expert_layer(
    x: f32["T/t M"], router: f32["M E"], up: f32["E/t M F"], down: f32["E/t F M"]
) -> tuple[f32["T/t M"], f32[""]]:
    gates: f32["T/t E"] = jax.nn.softmax(x @ router, axis=-1)
    chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), gates.shape[-1])
    sent = jnp.einsum("te,tm->etm", chosen, x)
    arrived: f32["E/t T M"] = lax.all_to_all(
        sent, "t", split_axis=0, concat_axis=1, tiled=True
    )
    hidden = jax.nn.relu(jnp.einsum("etm,emf->etf", arrived, up))
    made = jnp.einsum("etf,efm->etm", hidden, down)
    back: f32["E T/t M"] = lax.all_to_all(
        made, "t", split_axis=1, concat_axis=0, tiled=True
    )
    load = lax.pmean(jnp.mean(chosen, axis=0), "t")
    importance = lax.pmean(jnp.mean(gates, axis=0), "t")
    y: f32["T/t M"] = jnp.einsum("te,te,etm->tm", gates, chosen, back)
    return y, gates.shape[-1] * jnp.sum(load * importance)


@jax.custom_vjp
def vocabulary_entropy(logits, labels):
    return _entropy_forward(logits, labels)[0]


def _entropy_forward(logits, labels):
    width = logits.shape[-1]
    peak = lax.pmax(jnp.max(logits, axis=-1), "t")
    exponentials = jnp.exp(logits - peak[:, None])
    total = lax.psum(jnp.sum(exponentials, axis=-1), "t")
    own = jax.nn.one_hot(labels - lax.axis_index("t") * width, width)
    picked = lax.psum(jnp.sum(logits * own, axis=-1), "t")
    return jnp.log(total) + peak - picked, (exponentials / total[:, None], own)


def _entropy_backward(kept, cotangent):
    probabilities, own = kept
    return (probabilities - own) * cotangent[:, None], None


vocabulary_entropy.defvjp(_entropy_forward, _entropy_backward)


@partial(typed_shard_map, check_rep=False)
def split_vocabulary(
    h: f32["B/d M"], unembed: f32["M V/t"], labels: i32["B/d"]
) -> tuple[f32["M V/t"], f32[""]]:
    def loss(unembed):
        return jnp.mean(vocabulary_entropy(h @ unembed, labels))

    value, grad = jax.value_and_grad(loss)(unembed)
    return unembed - 0.5 * lax.pmean(grad, "d"), lax.pmean(value, "d")


@partial(typed_shard_map, check_rep=False)
def accumulated_fully_sharded(
    xs: f32["N B/d M"], ys: f32["N B/d F/t"], w: f32["M/d F/t"]
) -> tuple[f32["M/d F/t"], f32[""]]:
    def microbatch(carry, batch):
        total, grads = carry
        x, y = batch
        weight = lax.all_gather(w, "d", axis=0, tiled=True)
        error = x @ weight - y
        grad = lax.psum_scatter(x.T @ error, "d", scatter_dimension=0, tiled=True)
        return (total + jnp.sum(error**2), grads + grad), None

    (total, grads), _ = lax.scan(
        microbatch, (jnp.zeros(()), jnp.zeros_like(w)), (xs, ys)
    )
    norm = jnp.sqrt(lax.psum(jnp.sum(grads**2), ("d", "t")))
    count = xs.shape[0] * xs.shape[1] * lax.axis_size("d")
    return w - grads / jnp.maximum(norm, 1.0), lax.psum(total, ("d", "t")) / count


@partial(typed_shard_map, check_rep=False)
def stages(
    xs: f32["N B/d M"], layers: f32["S/t M M"], targets: f32["N B/d M"]
) -> f32[""]:
    devices, me = lax.axis_size("t"), lax.axis_index("t")
    count = xs.shape[0]

    def tick(carry, step):
        held, total = carry
        fed = jnp.where(me == 0, xs[jnp.minimum(step, count - 1)], held)
        made, _ = lax.scan(lambda x, w: (jnp.tanh(x @ w), None), fed, layers)
        place = step - (devices - 1)
        error = jnp.mean((made - targets[jnp.clip(place, 0, count - 1)]) ** 2)
        total = total + jnp.where((me == devices - 1) & (place >= 0), error, 0.0)
        return (
            lax.ppermute(made, "t", [(i, i + 1) for i in range(devices - 1)]),
            total,
        ), None

    (_, total), _ = lax.scan(
        tick, (jnp.zeros_like(xs[0]), jnp.zeros(())), jnp.arange(count + devices - 1)
    )
    return lax.pmean(lax.psum(total, "t"), "d") / count


@typed_shard_map
def decode(
    q: f32["B/d H D"],
    keys: f32["B/d S/t H D"],
    values: f32["B/d S/t H D"],
    length: i32[""],
) -> f32["B/d H D"]:
    scores = jnp.einsum("bhd,bshd->bhs", q, keys) * q.shape[-1] ** -0.5
    positions = lax.axis_index("t") * keys.shape[1] + jnp.arange(keys.shape[1])
    scores = jnp.where(positions <= length, scores, -1e30)
    peak = lax.pmax(jnp.max(scores, axis=-1), "t")
    weights: f32["B/d H S/t"] = jnp.exp(scores - peak[..., None])
    total = lax.psum(jnp.sum(weights, axis=-1), "t")
    return (
        lax.psum(jnp.einsum("bhs,bshd->bhd", weights, values), "t") / total[..., None]
    )


@pytree_dataclass
class Layer:
    qkv: f32["3 M/d H/t D"]
    out: f32["H/t D M/d"]


@partial(typed_shard_map, check_rep=False)
def deep(x: f32["B/d L M"], layers: Array["N", Layer]) -> f32["B/d L M"]:
    @jax.checkpoint
    def block(x: f32["B/d L M"], layer: Layer) -> tuple[f32["B/d L M"], None]:
        h = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)
        qkv = lax.all_gather(layer.qkv, "d", axis=1, tiled=True)
        q, k, v = jnp.einsum("blm,cmhd->cblhd", h, qkv)
        mixed = jax.nn.dot_product_attention(0.1 * q, k, v, is_causal=True)
        out = lax.all_gather(layer.out, "d", axis=2, tiled=True)
        return x + lax.psum(jnp.einsum("blhd,hdm->blm", mixed, out), "t") * 0.01, None

    x, _ = lax.scan(block, x, layers)
    return x
