"""Click prediction with a DLRM: hybrid parallel embeddings, data parallel MLPs, one mesh axis.

The two large tables are cut by rows: a device looks up, for the whole batch, the ids that it owns, and psum_scatter
hands every device the finished bags of its own examples.
The small tables are whole, each on one device: all_to_all swaps (my examples, all tables) for (all examples, my tables).
"""
import os
from functools import partial
from typing import NamedTuple

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import NamedSharding, PartitionSpec as P

AXIS = "dev"

DENSE = 6
DIM = 8
LARGE_TABLES, ROWS, BAG = 2, 64, 4
SMALL_TABLES, SMALL_ROWS = 8, 12
BATCH = 32
STEPS = 3
LR_MLP, LR_TABLE = 0.05, 0.3
L2 = 1e-3
BINS = 16
MOMENTUM = 0.9


class Params(NamedTuple):
    large: jax.Array
    small: jax.Array
    bottom: list
    top: list


class State(NamedTuple):
    params: Params
    accum_large: jax.Array
    accum_small: jax.Array
    opt: optax.OptState
    mean: jax.Array
    var: jax.Array


def init_mlp(key, sizes):
    keys = jax.random.split(key, len(sizes) - 1)
    return [
        {"w": jax.random.normal(k, (i, o)) * (2 / i) ** 0.5, "b": jnp.zeros(o)}
        for k, i, o in zip(keys, sizes[:-1], sizes[1:])
    ]


def mlp(layers, x):
    for layer in layers[:-1]:
        x = jax.nn.relu(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


features = 1 + LARGE_TABLES + SMALL_TABLES
pairs = np.tril_indices(features, -1)
tx = optax.chain(optax.clip_by_global_norm(0.5), optax.sgd(LR_MLP, momentum=MOMENTUM, nesterov=True))


def init_state(key):
    a, b, c, d = jax.random.split(key, 4)
    params = Params(
        large=0.5 * jax.random.normal(a, (LARGE_TABLES, ROWS, DIM)),
        small=0.5 * jax.random.normal(b, (SMALL_TABLES, SMALL_ROWS, DIM)),
        bottom=init_mlp(c, (DENSE, 16, DIM)),
        top=init_mlp(d, (DIM + len(pairs[0]), 16, 1)),
    )
    return State(
        params,
        jnp.zeros((LARGE_TABLES, ROWS, 1)),
        jnp.zeros((SMALL_TABLES, SMALL_ROWS, 1)),
        tx.init((params.bottom, params.top)),
        jnp.zeros(DENSE),
        jnp.ones(DENSE),
    )


def state_specs():
    shapes = jax.eval_shape(init_state, jax.random.key(0))
    specs = jax.tree.map(lambda _: P(), shapes)
    rows, tables = P(None, AXIS), P(AXIS)
    return specs._replace(
        params=specs.params._replace(large=rows, small=tables), accum_large=rows, accum_small=tables
    )


# ---- embeddings ----


def lookup_large(tables, ids):
    ids = jax.lax.all_gather(ids, AXIS, tiled=True)
    rows = tables.shape[1]
    local = ids - jax.lax.axis_index(AXIS) * rows
    here = (ids >= 0) & (local >= 0) & (local < rows)
    safe = jnp.where(here, local, 0)
    vectors = jax.vmap(lambda table, i: table[i], in_axes=(0, 1), out_axes=1)(tables, safe)
    bags = jnp.where(here[..., None], vectors, 0.0).sum(axis=2)
    bags = jax.lax.psum_scatter(bags, AXIS, scatter_dimension=0, tiled=True)
    return bags


def lookup_small(tables, ids):
    ids = jax.lax.all_to_all(ids, AXIS, split_axis=1, concat_axis=0, tiled=True)
    vectors = jax.vmap(lambda table, i: table[i], in_axes=(0, 1), out_axes=1)(tables, ids)
    return jax.lax.all_to_all(vectors, AXIS, split_axis=0, concat_axis=1, tiled=True)


def predict(params, batch, mean, var):
    dense = (batch["dense"] - mean) * jax.lax.rsqrt(var + 1e-3)
    x = mlp(params.bottom, dense)
    sizes = jnp.maximum((batch["bags"] >= 0).sum(axis=-1, keepdims=True), 1)
    large = lookup_large(params.large, batch["bags"]) / sizes
    small = lookup_small(params.small, batch["ids"])
    z = jnp.concatenate([x[:, None], large, small], axis=1)
    dots = jnp.einsum("bid,bjd->bij", z, z)[:, pairs[0], pairs[1]]
    return mlp(params.top, jnp.concatenate([x, dots], axis=1))[:, 0]


# ---- training ----


def loss_fn(params, batch, mean, var):
    logits = predict(params, batch, mean, var)
    losses = optax.sigmoid_binary_cross_entropy(logits, batch["click"])
    # Negatives were downsampled, weight undoes it
    total = jax.lax.psum(batch["weight"].sum(), AXIS)
    loss = jax.lax.psum(jnp.sum(losses * batch["weight"]), AXIS) / total
    decay = jax.lax.psum(jnp.sum(params.large**2) + jnp.sum(params.small**2), AXIS)
    return loss + L2 * decay / 2, (loss, logits)


def rowwise_adagrad(table, accum, grad):
    accum = accum + jnp.mean(grad**2, axis=-1, keepdims=True)
    return table - LR_TABLE * grad / (jnp.sqrt(accum) + 1e-3), accum


def moments(dense):
    n = dense.shape[0] * jax.lax.axis_size(AXIS)
    mean = jax.lax.psum(dense.sum(axis=0), AXIS) / n
    var = jax.lax.psum(((dense - mean) ** 2).sum(axis=0), AXIS) / n
    return mean, var


def auc(logits, batch):
    """Area under the ROC curve from histograms of all devices' scores."""
    bins = jnp.clip((jax.nn.sigmoid(logits) * BINS).astype(int), 0, BINS - 1)
    count = lambda w: jax.lax.psum(jax.ops.segment_sum(w, bins, BINS), AXIS)
    pos = count(batch["weight"] * batch["click"])
    neg = count(batch["weight"] * (1 - batch["click"]))
    below = jnp.cumsum(neg) - neg
    return jnp.sum(pos * (below + neg / 2)) / (pos.sum() * neg.sum())


def train_step(state, batch):
    mean, var = moments(batch["dense"])
    mean, var = 0.5 * state.mean + 0.5 * mean, 0.5 * state.var + 0.5 * var
    grad = jax.grad(loss_fn, has_aux=True)
    grads, (loss, logits) = grad(state.params, batch, mean, var)

    large, accum_large = rowwise_adagrad(state.params.large, state.accum_large, grads.large)
    small, accum_small = rowwise_adagrad(state.params.small, state.accum_small, grads.small)
    updates, opt = tx.update((grads.bottom, grads.top), state.opt)
    bottom, top = optax.apply_updates((state.params.bottom, state.params.top), updates)

    state = State(Params(large, small, bottom, top), accum_large, accum_small, opt, mean, var)
    metrics = {"loss": loss, "auc": auc(logits, batch), "mlp_grad": optax.global_norm((grads.bottom, grads.top))}
    return state, metrics


# ---- data ----


def click_log(steps, seed=0):
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(LARGE_TABLES, ROWS))
    small_taste = rng.normal(size=(SMALL_TABLES, SMALL_ROWS))
    for _ in range(steps):
        # ids follow a power law, dense features a drift over the batch
        bags = (ROWS * rng.random((BATCH, LARGE_TABLES, BAG)) ** 1.5).astype(np.int32)
        bags[rng.random(bags.shape) < 0.3] = -1
        ids = rng.integers(0, SMALL_ROWS, (BATCH, SMALL_TABLES)).astype(np.int32)
        dense = rng.normal(size=(BATCH, DENSE)) + np.linspace(-1, 1, BATCH)[:, None]
        score = dense[:, 0] + 0.5 * small_taste[np.arange(SMALL_TABLES), ids].sum(1)
        score += np.where(bags >= 0, taste[np.arange(LARGE_TABLES)[:, None], bags], 0).sum((1, 2))
        click = (score > 0.5).astype(np.float32)
        weight = np.where(click > 0, 1.0, rng.choice([1.0, 3.0], BATCH)).astype(np.float32)
        yield {"dense": dense.astype(np.float32), "bags": bags, "ids": ids, "click": click, "weight": weight}


def main(device_count: int = 8):
    mesh = jax.make_mesh(
        (device_count,), (AXIS,), axis_types=(jax.sharding.AxisType.Auto,), devices=jax.devices()[:device_count]
    )
    specs = state_specs()
    place = lambda tree: jax.tree.map(lambda s: NamedSharding(mesh, s), tree)
    state = jax.jit(init_state, out_shardings=place(specs))(jax.random.key(3))
    step = jax.jit(
        jax.shard_map(train_step, mesh=mesh, in_specs=(specs, P(AXIS)), out_specs=(specs, P())), donate_argnums=0
    )
    score = jax.jit(
        jax.shard_map(predict, mesh=mesh, in_specs=(specs.params, P(AXIS), P(), P()), out_specs=P(AXIS))
    )

    history = []
    *train, test = click_log(STEPS + 1)
    for batch in train:
        batch = jax.device_put(batch, NamedSharding(mesh, P(AXIS)))
        state, metrics = step(state, batch)
        history.append({k: float(v) for k, v in metrics.items()})
    logits = np.asarray(score(state.params, test, state.mean, state.var))
    norms = jax.tree.map(lambda a: float(np.linalg.norm(a)), state.params)
    return {"history": history, "test_logits": logits, "norms": norms}


def reference():
    return main(1)


if __name__ == "__main__":
    print(main())
