"""Quantile forecasts of many time series, trained fully sharded with Adafactor.

No device keeps a whole weight.  Matrices live as blocks of rows over the "fsdp" axis and all
the vectors (norm scales, biases) in one flat buffer, cut over the same axis.  A layer gathers
its matrices when it needs them; the cotangent goes back with a reduce-scatter.  Replicas of
that arrangement make up the "replica" axis, the batch is cut over both.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec as P

EVERYWHERE = ("replica", "fsdp")
QUANTILES = np.array([0.1, 0.5, 0.9], np.float32)


@dataclass(frozen=True)
class Settings:
    patch: int = 8
    context: int = 8
    width: int = 16
    heads: int = 4
    hidden: int = 32
    depth: int = 2
    series: int = 32
    steps: int = 6
    peak_lr: float = 0.3
    warmup: int = 3
    decay_power: float = 0.8
    clip_norm: float = 1.0
    clip_rms: float = 1.0
    weight_decay: float = 0.01
    tiny: float = 1e-10
    least_scale: float = 1e-2


def make_series(s):
    """Level and noise grow with the index of the series; gaps are longer in the late ones."""
    rng = np.random.default_rng(11)
    length = s.patch * (s.context + 1)
    clock = np.arange(length)
    shape = (s.steps + 1, s.series, 1)
    rank = np.linspace(0.0, 1.0, s.series)[None, :, None]
    wave = np.sin(2 * np.pi * (clock / rng.choice([12.0, 24.0], shape) + rng.random(shape)))
    noise = rng.normal(size=(s.steps + 1, s.series, length))
    values = 5.0 + 8.0 * rank + (1.0 + 2.0 * rank) * (wave + 0.3 * noise)
    seen = rng.random(values.shape) > 0.05 + 0.5 * rank
    return np.where(seen, values, 0.0).astype(np.float32), seen


def init(s, key):
    shapes = {
        "patch": (s.patch, s.width),
        "place": (s.context, s.width),
        "qkv": (s.depth, s.width, 3 * s.width),
        "proj": (s.depth, s.width, s.width),
        "up": (s.depth, s.width, s.hidden),
        "down": (s.depth, s.hidden, s.width),
        "head": (s.width, s.patch * QUANTILES.size),
    }
    keys = dict(zip(shapes, jax.random.split(key, len(shapes))))
    matrices = {n: jax.random.normal(keys[n], d) * d[-2] ** -0.5 for n, d in shapes.items()}
    vectors = {
        "norm_a": jnp.ones((s.depth, s.width)),
        "norm_b": jnp.ones((s.depth, s.width)),
        "up_bias": jnp.linspace(-0.1, 0.1, s.depth * s.hidden).reshape(s.depth, s.hidden),
        "norm_out": jnp.ones(s.width),
        "head_bias": jnp.array([-0.5, 0.0, 0.5]),
    }
    return matrices, vectors


# ---------------------------------------------------------------- sharded storage


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def gathered(shard, dim):
    return lax.all_gather(shard, "fsdp", axis=dim, tiled=True)


def _gathered_fwd(shard, dim):
    return gathered(shard, dim), None


def _gathered_bwd(dim, _, cotangent):
    mine = lax.psum_scatter(cotangent, "fsdp", scatter_dimension=dim, tiled=True)
    return (lax.psum(mine, "replica"),)


gathered.defvjp(_gathered_fwd, _gathered_bwd)


def rows_spec(matrix):
    return P(*(None,) * (matrix.ndim - 2), "fsdp")


def flatten(vectors, shards):
    flat, restore = ravel_pytree(vectors)
    return jnp.pad(flat, (0, -flat.size % shards)), restore, flat.size


# ---------------------------------------------------------------- model


def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def attend(s, x, qkv, proj):
    heads = (x @ qkv).reshape(*x.shape[:2], 3, s.heads, -1)
    q, k, v = jnp.moveaxis(heads, 2, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    causal = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    weights = jax.nn.softmax(jnp.where(causal, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ proj


def forecast(s, matrices, vectors, patches):
    """Quantiles of the next patch after each one: (series, context, patch, quantile)."""
    x = patches @ gathered(matrices["patch"], 0) + gathered(matrices["place"], 0)

    @jax.checkpoint
    def layer(x, parts):
        rows, vec = parts
        whole = {name: gathered(w, 0) for name, w in rows.items()}
        x = x + attend(s, rms_norm(x, vec["norm_a"]), whole["qkv"], whole["proj"])
        hidden = jax.nn.gelu(rms_norm(x, vec["norm_b"]) @ whole["up"] + vec["up_bias"])
        return x + hidden @ whole["down"], None

    stacked = {name: matrices[name] for name in ("qkv", "proj", "up", "down")}
    per_layer = {name: vectors[name] for name in ("norm_a", "norm_b", "up_bias")}
    x, _ = lax.scan(layer, x, (stacked, per_layer))
    out = rms_norm(x, vectors["norm_out"]) @ gathered(matrices["head"], 0)
    return out.reshape(*x.shape[:2], s.patch, QUANTILES.size) + vectors["head_bias"]


def pinball(predicted, target):
    miss = target[..., None] - predicted
    return jnp.maximum(QUANTILES * miss, (QUANTILES - 1.0) * miss).mean(-1)


def standardise(values, seen):
    """By the mean and spread of all that was observed in this batch, anywhere."""
    total = lax.psum(seen.sum(), EVERYWHERE)
    mean = lax.psum(jnp.sum(values * seen), EVERYWHERE) / total
    spread = lax.psum(jnp.sum((values - mean) ** 2 * seen), EVERYWHERE) / total
    return (values - mean) * seen * lax.rsqrt(spread)


def to_patches(s, values, seen):
    x = standardise(values, seen).reshape(-1, s.context + 1, s.patch)
    return x[:, :-1], x[:, 1:], seen.reshape(x.shape)[:, 1:]


# ---------------------------------------------------------------- Adafactor on shards


def mean_square(x, size):
    """Of one matrix of each layer, or of the flat buffer, with its size over all shards."""
    axes = tuple(range(max(x.ndim - 2, 0), x.ndim))
    return lax.psum(jnp.sum(x * x, axis=axes, keepdims=True), "fsdp") / size


def fresh_moments(shard):
    if shard.ndim == 1:
        return {"full": jnp.zeros_like(shard)}
    row, col = shard.shape[:-1], shard.shape[:-2] + shard.shape[-1:]
    return {"row": jnp.zeros(row), "col": jnp.zeros(col)}


def second_moment(s, keep, moments, grad):
    square = grad * grad + s.tiny
    if "full" in moments:
        full = keep * moments["full"] + (1 - keep) * square
        return full, {"full": full}
    row = keep * moments["row"] + (1 - keep) * square.mean(-1)
    col = keep * moments["col"] + (1 - keep) * lax.pmean(square.mean(-2), "fsdp")
    level = lax.pmean(row.mean(-1, keepdims=True), "fsdp")
    return (row / level)[..., None] * col[..., None, :], {"row": row, "col": col}


def adafactor(s, count, w, moments, grad, size):
    keep = 1.0 - (count + 1.0) ** -s.decay_power
    moment, moments = second_moment(s, keep, moments, grad)
    update = grad * lax.rsqrt(moment)
    update = update / jnp.maximum(1.0, jnp.sqrt(mean_square(update, size)) / s.clip_rms)
    rate = s.peak_lr * jnp.minimum((count + 1.0) / s.warmup, lax.rsqrt(count + 1.0))
    scale = jnp.maximum(s.least_scale, jnp.sqrt(mean_square(w, size)))
    return w - rate * scale * (update + s.weight_decay * w), moments


def train(s, restore, sizes, params, values, seen):
    def objective(params, inputs, targets, mask):
        matrices, flat = params
        vectors = restore(gathered(flat, 0)[: sizes[1]])
        predicted = forecast(s, matrices, vectors, inputs)
        count = lax.psum(mask.sum(), EVERYWHERE)
        return jnp.sum(pinball(predicted, targets) * mask) / count, predicted

    def step(carry, batch):
        params, moments, count = carry
        local = jax.value_and_grad(objective, has_aux=True)
        (loss, _), grads = local(params, *to_patches(s, *batch))
        squares = jax.tree.map(lambda g: jnp.sum(g * g), grads)
        norm = jnp.sqrt(lax.psum(sum(jax.tree.leaves(squares)), "fsdp"))
        factor = jnp.minimum(1.0, s.clip_norm / norm)
        leaves, tree = jax.tree.flatten(params)
        clipped = [g * factor for g in jax.tree.leaves(grads)]
        each = zip(leaves, tree.flatten_up_to(moments), clipped, jax.tree.leaves(sizes))
        params, moments = map(tree.unflatten, zip(*(adafactor(s, count, *one) for one in each)))
        said = {"loss": lax.psum(loss, EVERYWHERE), "norm": norm}
        return (params, moments, count + 1.0), said

    start = (params, jax.tree.map(fresh_moments, params), jnp.float32(0.0))
    (params, moments, _), history = lax.scan(step, start, (values[:-1], seen[:-1]))
    inputs, targets, mask = to_patches(s, values[-1], seen[-1])
    loss, predicted = objective(params, inputs, targets, mask)
    below = jnp.sum((targets[..., None] <= predicted) * mask[..., None], axis=(0, 1, 2))
    coverage = lax.psum(below, EVERYWHERE) / lax.psum(mask.sum(), EVERYWHERE)
    history |= {"held_out": lax.psum(loss, EVERYWHERE), "coverage": coverage}
    return history, params[0], params[1], moments[0]["up"]["row"], moments[0]["up"]["col"]


def main():
    s = Settings()
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(4, devices.size)), EVERYWHERE)
    matrices, vectors = init(s, jax.random.key(4))
    flat, restore, length = flatten(vectors, mesh.shape["fsdp"])
    sizes = {name: w.shape[-2] * w.shape[-1] for name, w in matrices.items()}, length
    specs = jax.tree.map(rows_spec, matrices)
    run = jax.shard_map(
        partial(train, s, restore, sizes),
        mesh=mesh,
        in_specs=((specs, P("fsdp")), P(None, EVERYWHERE), P(None, EVERYWHERE)),
        out_specs=(P(), specs, P("fsdp"), P(None, "fsdp"), P()),
        check_vma=False,
    )
    history, matrices, flat, row, col = jax.jit(run)((matrices, flat), *make_series(s))
    result = {**history, **matrices, "vectors": flat[:length], "row": row, "col": col}
    return {name: np.asarray(value) for name, value in result.items()}


def reference():
    s = Settings()
    matrices, vectors = init(s, jax.random.key(4))
    vectors, restore = ravel_pytree(vectors)
    params = {**matrices, "vectors": vectors}
    values, seen = make_series(s)

    def norm(x, scale):
        return x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale

    def loss_fn(p, values, seen):
        v, d = restore(p["vectors"]), s.width // s.heads
        z = (values - values[seen].mean()) / values[seen].std() * seen
        z, m = (a.reshape(s.series, s.context + 1, s.patch) for a in (z, seen))
        x = z[:, :-1] @ p["patch"] + p["place"]
        for i in range(s.depth):
            q, k, u = jnp.split(norm(x, v["norm_a"][i]) @ p["qkv"][i], 3, axis=-1)
            heads = []
            for h in range(s.heads):
                a, b, c = (t[..., h * d : (h + 1) * d] for t in (q, k, u))
                logits = a @ b.swapaxes(1, 2) / d**0.5
                future = np.triu(np.ones((s.context, s.context), bool), 1)
                heads.append(jax.nn.softmax(jnp.where(future, -jnp.inf, logits)) @ c)
            x = x + jnp.concatenate(heads, -1) @ p["proj"][i]
            inner = norm(x, v["norm_b"][i]) @ p["up"][i] + v["up_bias"][i]
            x = x + jax.nn.gelu(inner) @ p["down"][i]
        out = (norm(x, v["norm_out"]) @ p["head"]).reshape(*z[:, 1:].shape, 3)
        e = z[:, 1:, :, None] - out - v["head_bias"]
        cost = jnp.where(e > 0, QUANTILES * e, (QUANTILES - 1) * e)[m[:, 1:]]
        return cost.mean(), (e <= 0)[m[:, 1:]].mean(0)

    rms = lambda a: jnp.sqrt((a**2).mean())
    layered = {n: p if n in ("qkv", "proj", "up", "down") else p[None] for n, p in params.items()}
    row = {n: jnp.zeros(p.shape[:-1]) for n, p in layered.items()}
    col = {n: jnp.zeros((len(p), p.shape[-1])) for n, p in layered.items()}
    losses, norms = [], []
    for t in range(s.steps):
        fn = jax.value_and_grad(loss_fn, has_aux=True)
        (loss, _), grads = fn(params, values[t], seen[t])
        total = jnp.sqrt(sum((g**2).sum() for g in grads.values()))
        losses.append(loss)
        norms.append(total)
        beta = 1 - (t + 1) ** -s.decay_power
        rate = s.peak_lr * min((t + 1) / s.warmup, (t + 1) ** -0.5)
        for n, p in params.items():
            gs = (grads[n] * jnp.minimum(1, s.clip_norm / total)).reshape(layered[n].shape)
            new = []
            for i, (w, g) in enumerate(zip(p.reshape(gs.shape), gs)):
                sq = g**2 + s.tiny
                col[n] = col[n].at[i].multiply(beta)
                if n == "vectors":
                    col[n] = col[n].at[i].add((1 - beta) * sq)
                    u = g / jnp.sqrt(col[n][i])
                else:
                    col[n] = col[n].at[i].add((1 - beta) * sq.mean(0))
                    row[n] = row[n].at[i].set(beta * row[n][i] + (1 - beta) * sq.mean(1))
                    u = g / jnp.sqrt(jnp.outer(row[n][i], col[n][i]) / row[n][i].mean())
                u = u / jnp.maximum(1, rms(u) / s.clip_rms) + s.weight_decay * w
                new.append(w - rate * jnp.maximum(s.least_scale, rms(w)) * u)
            params[n] = jnp.stack(new).reshape(p.shape)
    held_out, coverage = loss_fn(params, values[-1], seen[-1])
    said = {"loss": np.array(losses), "norm": np.array(norms), "held_out": held_out}
    return said | {"coverage": coverage, **params, "row": row["up"], "col": col["up"]}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-3, atol=2e-4, err_msg=name)
    print("adafactor_forecast: losses", got["loss"], "coverage", got["coverage"])
