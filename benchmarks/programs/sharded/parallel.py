"""Parallel algorithms that trainers are made of: statistics, exchanges, optimisers and losses over ``d`` and ``t``."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import f32, i32, pytree_dataclass, typed_shard_map


@pytree_dataclass
class Moments:
    first: f32["M/d F/t"]
    second: f32["M/d F/t"]


def gather_rows(w: f32["M/d F"]) -> f32["M F"]:
    return lax.all_gather(w, "d", axis=0, tiled=True)


@partial(typed_shard_map, check_rep=False)
def prefetched(x: f32["B/d M"], layers: f32["N M/d M"]) -> f32["B/d M"]:
    def step(carry, following):
        x, weight = carry
        upcoming = gather_rows(following)
        return (jnp.tanh(x @ weight), upcoming), None

    (x, last), _ = lax.scan(step, (x, gather_rows(layers[0])), layers[1:])
    return jnp.tanh(x @ last)


@typed_shard_map
def two_dimensional(
    x: f32["B/d M/t"], up: f32["M/t F/d"], down: f32["F/t M/d"]
) -> f32["B/d M/t"]:
    first = lax.all_gather(up, "d", axis=1, tiled=True)
    hidden = jax.nn.gelu(
        lax.psum_scatter(x @ first, "t", scatter_dimension=1, tiled=True)
    )
    second = lax.all_gather(down, "d", axis=1, tiled=True)
    return lax.psum_scatter(hidden @ second, "t", scatter_dimension=1, tiled=True)


@typed_shard_map
def sequence_norm(x: f32["B/d L/t M"], scale: f32["M"]) -> f32["B/d L/t M"]:
    length = x.shape[1] * lax.axis_size("t")
    mean = lax.psum(jnp.sum(x, axis=1, keepdims=True), "t") / length
    centered = x - mean
    variance = lax.psum(jnp.sum(centered**2, axis=1, keepdims=True), "t") / length
    return centered * lax.rsqrt(variance + 1e-5) * scale


@typed_shard_map
def smoothed_loss(logits: f32["T/d V/t"], labels: i32["T/d"]) -> f32[""]:
    width = logits.shape[1]
    peak = lax.pmax(lax.stop_gradient(jnp.max(logits, axis=1, keepdims=True)), "t")
    logprobs = (
        logits
        - peak
        - jnp.log(lax.psum(jnp.sum(jnp.exp(logits - peak), axis=1, keepdims=True), "t"))
    )
    hit = labels[:, None] == jnp.arange(width) + width * lax.axis_index("t")
    right: f32["T/d"] = lax.psum(jnp.sum(jnp.where(hit, logprobs, 0.0), axis=1), "t")
    average: f32["T/d"] = lax.pmean(jnp.mean(logprobs, axis=1), "t")
    return -lax.pmean(jnp.mean(0.9 * right + 0.1 * average), "d")


@partial(typed_shard_map, check_rep=False)
def switch(
    x: f32["T/t M"], router: f32["M E"], up: f32["E/t M F"], down: f32["E/t F M"]
) -> f32["T/t M"]:
    gates: f32["T/t E"] = jax.nn.softmax(x @ router, axis=-1)
    chosen = jax.nn.one_hot(jnp.argmax(gates, axis=-1), gates.shape[-1])
    place = jnp.sum((jnp.cumsum(chosen, axis=0) - 1.0) * chosen, axis=-1).astype(
        jnp.int32
    )
    routed = chosen[:, :, None] * jax.nn.one_hot(place, x.shape[0])[:, None, :]
    sent = jnp.einsum("tec,tm->ecm", routed, x)
    arrived = lax.all_to_all(sent, "t", split_axis=0, concat_axis=1, tiled=True)
    hidden = jax.nn.relu(jnp.einsum("ecm,emf->ecf", arrived, up))
    made = jnp.einsum("ecf,efm->ecm", hidden, down)
    returned = lax.all_to_all(made, "t", split_axis=1, concat_axis=0, tiled=True)
    weight: f32["T/t"] = jnp.max(gates, axis=-1)
    return weight[:, None] * jnp.einsum("tec,ecm->tm", routed, returned)


@typed_shard_map
def running_statistics(
    x: f32["B/d C/t"], running: f32["C/t"]
) -> tuple[f32["B/d C/t"], f32["C/t"]]:
    total, squares = lax.psum((jnp.sum(x, axis=0), jnp.sum(x * x, axis=0)), "d")
    count = x.shape[0] * lax.axis_size("d")
    mean = total / count
    variance = squares / count - mean * mean
    return (x - mean) * lax.rsqrt(variance + 1e-5), 0.9 * running + 0.1 * mean


@partial(typed_shard_map, check_rep=False)
def best(scores: f32["B/d V/t"]) -> tuple[f32["B/d 4"], i32["B/d 4"]]:
    values, places = lax.top_k(scores, 4)
    places = places + scores.shape[1] * lax.axis_index("t")
    values = lax.all_gather(values, "t", axis=1, tiled=True)
    places = lax.all_gather(places, "t", axis=1, tiled=True)
    top, at = lax.top_k(values, 4)
    return top, jnp.take_along_axis(places, at, axis=1)


@typed_shard_map
def clipped_adam(
    x: f32["B/d M"], y: f32["B/d F/t"], w: f32["M/d F/t"], moments: Moments
) -> tuple[f32["M/d F/t"], Moments]:
    weight = lax.all_gather(w, "d", axis=0, tiled=True)
    error: f32["B/d F/t"] = x @ weight - y
    count = x.shape[0] * lax.axis_size("d")
    grad: f32["M/d F/t"] = (
        lax.psum_scatter(x.T @ error, "d", scatter_dimension=0, tiled=True) / count
    )
    norm = jnp.sqrt(lax.psum(jnp.sum(grad**2), ("d", "t")))
    grad = grad * jnp.minimum(1.0, 1.0 / norm)
    first = 0.9 * moments.first + 0.1 * grad
    second = 0.99 * jnp.abs(moments.second) + 0.01 * grad**2
    return w - 0.01 * first * lax.rsqrt(second + 1e-6), Moments(
        first=first, second=second
    )


@partial(typed_shard_map, check_rep=False)
def accumulated(
    xs: f32["N B/d M"], ys: f32["N B/d F"], w: f32["M F"]
) -> tuple[f32["M F"], f32[""]]:
    def loss(w, x, y):
        return jnp.sum((x @ w - y) ** 2)

    def step(carry, batch):
        total, grads = carry
        value, grad = jax.value_and_grad(loss)(w, *batch)
        return (total + value, grads + grad), None

    (total, grads), _ = lax.scan(step, (jnp.zeros(()), jnp.zeros_like(w)), (xs, ys))
    count = ys.size * lax.axis_size("d")
    return w - 0.1 * lax.psum(grads, "d") / count, lax.psum(total, "d") / count


@typed_shard_map
def exchanged_attention(
    q: f32["B/d L/t H D"], k: f32["B/d L/t H D"], v: f32["B/d L/t H D"]
) -> f32["B/d L/t H D"]:
    def to_heads(x: f32["B/d L/t H D"]) -> f32["B/d L H/t D"]:
        return lax.all_to_all(x, "t", split_axis=2, concat_axis=1, tiled=True)

    q, k, v = to_heads(q), to_heads(k), to_heads(v)
    weights = jax.nn.softmax(
        jnp.einsum("blhd,bmhd->bhlm", q, k) * q.shape[-1] ** -0.5, axis=-1
    )
    mixed: f32["B/d L H/t D"] = jnp.einsum("bhlm,bmhd->blhd", weights, v)
    return lax.all_to_all(mixed, "t", split_axis=1, concat_axis=2, tiled=True)


@typed_shard_map
def preconditioned(x: f32["B/d M"], g: f32["B/d F"], w: f32["M F"]) -> f32["M F"]:
    count = x.shape[0] * lax.axis_size("d")
    inputs = lax.psum(x.T @ x, "d") / count
    outputs = lax.psum(g.T @ g, "d") / count
    grad = lax.psum(x.T @ g, "d") / count
    left = jnp.linalg.solve(inputs + jnp.eye(x.shape[1]), grad)
    return w - 0.1 * jnp.linalg.solve(outputs + jnp.eye(g.shape[1]), left.T).T


@typed_shard_map
def halo(x: f32["B/d L/t M"], kernel: f32["3 M F"]) -> f32["B/d L/t F"]:
    size = lax.axis_size("t")
    before = lax.ppermute(x[:, -1:], "t", [(i, i + 1) for i in range(size - 1)])
    after = lax.ppermute(x[:, :1], "t", [(i + 1, i) for i in range(size - 1)])
    padded = jnp.concatenate([before, x, after], axis=1)
    windows = jnp.stack([padded[:, k : k + x.shape[1]] for k in range(3)])
    return jnp.einsum("kblm,kmf->blf", windows, kernel)


@typed_shard_map
def equalized(x: f32["N/d"]) -> tuple[f32["N/d"], f32["16"]]:
    bins = jnp.clip((x * 4.0 + 8.0).astype(jnp.int32), 0, 15)
    counts = lax.psum(jnp.zeros((16,)).at[bins].add(1.0), "d")
    share = jnp.cumsum(counts) / jnp.sum(counts)
    return share[bins], counts


@typed_shard_map
def prefix_sums(x: f32["B/d L/t"]) -> f32["B/d L/t"]:
    local = jnp.cumsum(x, axis=1)
    totals = lax.all_gather(local[:, -1], "t", axis=1)
    earlier = jnp.arange(totals.shape[1]) < lax.axis_index("t")
    return local + jnp.sum(jnp.where(earlier, totals, 0.0), axis=1, keepdims=True)


@typed_shard_map
def contrastive(images: f32["B/d M"], texts: f32["B/d M"]) -> f32[""]:
    images = images * lax.rsqrt(jnp.sum(images**2, axis=1, keepdims=True))
    texts = texts * lax.rsqrt(jnp.sum(texts**2, axis=1, keepdims=True))
    others: f32["B M"] = lax.all_gather(texts, "d", axis=0, tiled=True)
    logprobs = jax.nn.log_softmax(images @ others.T, axis=1)
    own = jnp.arange(images.shape[0]) + images.shape[0] * lax.axis_index("d")
    return -lax.pmean(
        jnp.mean(jnp.take_along_axis(logprobs, own[:, None], axis=1)), "d"
    )


def cluster(points: f32["N M"], centers: f32["K M"]) -> tuple[f32["K M"], f32[""]]:
    def local(points, centers):
        distances = jnp.sum((points[:, None] - centers[None]) ** 2, axis=-1)
        nearest = jax.nn.one_hot(jnp.argmin(distances, axis=1), centers.shape[0])
        sums, counts = lax.psum((nearest.T @ points, jnp.sum(nearest, axis=0)), "d")
        spread = lax.pmean(jnp.mean(jnp.min(distances, axis=1)), "d")
        return sums / jnp.maximum(counts, 1.0)[:, None], spread

    return jax.shard_map(
        local, in_specs=(P("d", None), P(None, None)), out_specs=(P(None, None), P())
    )(points, centers)
