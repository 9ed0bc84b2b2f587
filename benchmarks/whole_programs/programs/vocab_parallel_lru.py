"""A recurrent language model whose embedding and output layer are split over the vocabulary: masked lookup, and a cross
entropy that never gathers the logits."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P
from shardtypes import Array, f32, i32, make_shardings, pytree_dataclass, typed_shard_map

SMOOTHING = 0.1
Z_LOSS = 0.01


class Hparams(NamedTuple):
    vocab: int = 48
    width: int = 16
    layers: int = 2
    learning_rate: float = 0.02


@pytree_dataclass
class RecurrentBlock:
    norm: f32["width"]
    w_gates: f32["width 2*width"]
    b_decay: f32["width"]
    w_out: f32["width width"]


Blocks = Array["layers", RecurrentBlock]


@pytree_dataclass
class Params:
    table: f32["vocab/t width"]
    blocks: Blocks
    w_logits: f32["vocab/t width"]
    b_logits: f32["vocab/t"]


@pytree_dataclass
class Metrics:
    loss: f32[""]
    log_z: f32[""]
    accuracy: f32[""]


def init(h: Hparams, key: jax.Array) -> Params:
    k = jax.random.split(key, 5)
    n, m = h.layers, h.width
    return Params(
        table=jax.random.normal(k[0], (h.vocab, m)),
        blocks=Blocks(
            norm=jnp.ones((n, m)),
            w_gates=jax.random.normal(k[1], (n, m, 2 * m)) / m**0.5,
            b_decay=jax.random.uniform(k[2], (n, m), minval=0.0, maxval=3.0),
            w_out=jax.random.normal(k[3], (n, m, m)) / m**0.5,
        ),
        w_logits=jax.random.normal(k[4], (h.vocab, m)) / m**0.5,
        b_logits=jnp.linspace(-1.0, 1.0, h.vocab),
    )


def local_index(ids, rows):
    """Ids relative to this shard's first row, and whether they fall into it."""
    local = ids - lax.axis_index("t") * rows
    inside = (local >= 0) & (local < rows)
    return jnp.where(inside, local, 0), inside


def embed(table: f32["V/t M"], ids: i32["B/d L"]) -> f32["B/d L M"]:
    local, inside = local_index(ids, table.shape[0])
    rows = jnp.where(inside[..., None], table[local], 0.0)
    return lax.psum(rows, "t")


def linear_recurrence(a: f32["B/d L M"], x: f32["B/d L M"]) -> f32["B/d L M"]:
    """h[t] = a[t] * h[t - 1] + x[t] along the sequence."""

    def combine(left, right):
        return left[0] * right[0], left[1] * right[0] + right[1]

    return lax.associative_scan(combine, (a, x), axis=1)[1]


def recurrent_block(p: RecurrentBlock, x: f32["B/d L M"]) -> f32["B/d L M"]:
    y = x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * p.norm
    decay, gate = jnp.split(y @ p.w_gates, 2, axis=-1)
    a = jax.nn.sigmoid(decay + p.b_decay)
    h = linear_recurrence(a, jnp.sqrt(1 - a * a) * y)
    return x + (h * jax.nn.gelu(gate)) @ p.w_out


def cross_entropy(hidden: f32["B/d L M"], params: Params, targets: i32["B/d L"]):
    """Per token: smoothed loss, log-partition and whether the best logit is the target's."""
    logits: f32["B/d L V/t"] = jnp.einsum("blm,vm->blv", hidden, params.w_logits) + params.b_logits
    local_vocab = logits.shape[-1]
    vocab = local_vocab * lax.axis_size("t")
    local_peak = jnp.max(lax.stop_gradient(logits), axis=-1)
    peak: f32["B/d L"] = lax.pmax(local_peak, "t")
    total: f32["B/d L"] = lax.psum(jnp.sum(jnp.exp(logits - peak[..., None]), axis=-1), "t")
    log_z = jnp.log(total) + peak
    local, inside = local_index(targets, local_vocab)
    picked = jnp.take_along_axis(logits, local[..., None], axis=-1)[..., 0]
    target_logit: f32["B/d L"] = lax.psum(jnp.where(inside, picked, 0.0), "t")
    mean_logit: f32["B/d L"] = lax.psum(jnp.sum(logits, axis=-1), "t") / vocab
    loss = log_z - (1 - SMOOTHING) * target_logit - SMOOTHING * mean_logit
    best = jnp.argmax(logits, axis=-1) + lax.axis_index("t") * local_vocab
    best = lax.pmin(jnp.where(local_peak == peak, best, vocab), "t")
    return loss + Z_LOSS * log_z**2, log_z, best == targets


@typed_shard_map
def evaluate(params: Params, tokens: i32["B/d L"], targets: i32["B/d L"]) -> Metrics:
    x = embed(params.table, tokens)
    for i in range(params.blocks.norm.shape[0]):
        x = recurrent_block(jax.tree.map(lambda w: w[i], params.blocks), x)
    loss, log_z, correct = cross_entropy(x, params, jnp.maximum(targets, 0))
    weights = (targets >= 0).astype(jnp.float32)
    count = lax.psum(jnp.sum(weights), "d")

    def mean(values):
        return lax.psum(jnp.sum(values * weights), "d") / count

    return Metrics(loss=mean(loss), log_z=mean(log_z), accuracy=mean(correct))


def make_train_step(tx):
    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def train_step(params, opt_state, tokens, targets):
        def loss_fn(p):
            metrics = evaluate(p, tokens, targets)
            return metrics.loss, metrics

        grads, metrics = jax.grad(loss_fn, has_aux=True)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, metrics

    return train_step


def make_batch(h: Hparams):
    rng = np.random.default_rng(11)
    tokens = rng.integers(0, h.vocab, (8, 12)).astype(np.int32)
    targets = (tokens * 5 + 1) % h.vocab
    targets[rng.random(targets.shape) < 0.3] = -1
    targets[:4, :5] = -1
    return tokens, targets


def main():
    h = Hparams()
    mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    tx = optax.adam(h.learning_rate)
    train_step = make_train_step(tx)
    history = []
    with jax.set_mesh(mesh):
        params = jax.jit(functools.partial(init, h), out_shardings=make_shardings(Params))(jax.random.key(1))
        opt_state = tx.init(params)
        tokens, targets = jax.device_put(make_batch(h), NamedSharding(mesh, P("d")))
        for _ in range(2):
            params, opt_state, metrics = train_step(params, opt_state, tokens, targets)
            history.append([float(metrics.loss), float(metrics.log_z), float(metrics.accuracy)])
    for loss, log_z, accuracy in history:
        print(f"loss {loss:.5f} log_z {log_z:.5f} accuracy {accuracy:.3f}")
    return {"history": history, "table": np.asarray(params.table), "w_gates": np.asarray(params.blocks.w_gates)}


def reference():
    h, tx = Hparams(), optax.adam(Hparams().learning_rate)
    tokens, targets = make_batch(h)

    def loss_fn(p):
        x = p.table[tokens]
        for i in range(h.layers):
            b = jax.tree.map(lambda w: w[i], p.blocks)
            y = x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * b.norm
            a = jax.nn.sigmoid(y @ b.w_gates[:, : h.width] + b.b_decay)
            state, out = jnp.zeros_like(x[:, 0]), []
            for t in range(x.shape[1]):
                state = a[:, t] * state + jnp.sqrt(1 - a[:, t] ** 2) * y[:, t]
                out.append(state)
            x = x + (jnp.stack(out, 1) * jax.nn.gelu(y @ b.w_gates[:, h.width :])) @ b.w_out
        logits = x @ p.w_logits.T + p.b_logits
        wanted = (1 - SMOOTHING) * jax.nn.one_hot(targets, h.vocab) + SMOOTHING / h.vocab
        log_z = jax.nn.logsumexp(logits, -1)
        loss = optax.softmax_cross_entropy(logits, wanted) + Z_LOSS * log_z**2
        return tuple(v[targets >= 0].mean() for v in (loss, log_z, logits.argmax(-1) == targets))

    params, history = init(h, jax.random.key(1)), []
    opt_state = tx.init(params)
    grad_fn = jax.jit(jax.value_and_grad(lambda p: (lambda m: (m[0], m))(loss_fn(p)), has_aux=True))
    for _ in range(2):
        (_, metrics), grads = grad_fn(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        history.append([float(m) for m in metrics])
    return {"history": history, "table": np.asarray(params.table), "w_gates": np.asarray(params.blocks.w_gates)}


def check():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), main(), reference())


if __name__ == "__main__":
    main()
    check()
