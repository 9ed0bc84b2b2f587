"""Classify windows of sensor readings with flax.linen, on a (batch, model) mesh.

Batch norm sees the whole batch, residual MLPs are split over "model"; the train state
carries running statistics and an average of the weights; the last batch is padded.
"""

import argparse
import math
from typing import Any, Optional

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct, traverse_util
from flax.training import train_state
from jax.sharding import Mesh, PartitionSpec as P


def get_config():
    return argparse.Namespace(
        num_train=128,
        num_eval=86,
        batch_size=32,
        num_epochs=3,
        window=12,
        channels=3,
        classes=5,
        width=16,
        expand=48,
        blocks=2,
        learning_rate=0.06,
        momentum=0.9,
        weight_decay=1e-2,
        ema_decay=0.8,
        label_noise=0.1,
        jitter=0.3,
        model_parallel=2,
        seed=0,
    )


class SplitMLP(nn.Module):
    """First matrix split by columns, second by rows.  Without an axis: all of both."""

    expand: int
    axis: Optional[str] = None

    @nn.compact
    def __call__(self, x):
        shards = jax.lax.axis_size(self.axis) if self.axis else 1
        width = x.shape[-1]
        init = nn.initializers.lecun_normal()
        w_in = self.param("w_in", init, (width, self.expand // shards))
        b_in = self.param("b_in", nn.initializers.normal(0.1), (self.expand // shards,))
        w_out = self.param("w_out", init, (self.expand // shards, width))
        b_out = self.param("b_out", nn.initializers.normal(0.1), (width,))
        y = nn.gelu(x @ w_in + b_in) @ w_out
        if self.axis:
            y = jax.lax.psum(y, self.axis)
        return y + b_out


class WindowNet(nn.Module):
    config: Any
    batch_axis: Optional[str] = None
    model_axis: Optional[str] = None

    @nn.compact
    def __call__(self, x, train: bool):
        cfg = self.config
        for stride in (1, 2):
            x = nn.Conv(cfg.width, (3,), strides=(stride,), use_bias=False)(x)
            x = nn.BatchNorm(not train, momentum=0.7, axis_name=self.batch_axis)(x)
            x = nn.relu(x)
        x = jnp.concatenate([x.mean(axis=1), jnp.square(x).mean(axis=1)], axis=-1)
        for _ in range(cfg.blocks):
            x = x + SplitMLP(cfg.expand, self.model_axis)(nn.LayerNorm()(x))
        return nn.Dense(cfg.classes)(x)


class TrainState(train_state.TrainState):
    batch_stats: Any
    ema: Any


@struct.dataclass
class Metrics:
    """Sums, so that metrics of batches and of devices can be added."""

    loss: jax.Array
    correct: jax.Array
    count: jax.Array
    hits: jax.Array
    members: jax.Array

    @classmethod
    def of_batch(cls, logits, labels, weights):
        nll = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        right = (logits.argmax(axis=-1) == labels) * weights
        onehot = jax.nn.one_hot(labels, logits.shape[-1]) * weights[:, None]
        return cls(
            loss=jnp.sum(nll * weights),
            correct=jnp.sum(right),
            count=jnp.sum(weights),
            hits=jnp.sum(onehot * right[:, None], axis=0),
            members=jnp.sum(onehot, axis=0),
        )

    def merge(self, other):
        return jax.tree.map(jnp.add, self, other)

    def compute(self):
        recall = self.hits / jnp.maximum(self.members, 1)
        means = {"loss": self.loss / self.count, "accuracy": self.correct / self.count}
        return means | {"balanced": recall.mean()}


def create_state(cfg):
    example = jnp.zeros((1, cfg.window, cfg.channels))
    variables = WindowNet(cfg).init(jax.random.key(cfg.seed), example, train=False)
    steps = cfg.num_epochs * (cfg.num_train // cfg.batch_size)
    tx = optax.chain(
        optax.add_decayed_weights(cfg.weight_decay),
        optax.sgd(optax.cosine_decay_schedule(cfg.learning_rate, steps + 1), cfg.momentum),
    )
    return TrainState.create(
        apply_fn=WindowNet(cfg, "batch", "model").apply,
        tx=tx,
        ema=variables["params"],
        **variables,
    )


def param_specs(params):
    by_name = {"w_in": P(None, "model"), "b_in": P("model"), "w_out": P("model", None)}
    return traverse_util.path_aware_map(lambda path, _: by_name.get(path[-1], P()), params)


def state_specs(state):
    specs = param_specs(state.params)
    opt_state = optax.tree_map_params(
        state.tx, lambda _, s: s, state.opt_state, specs, transform_non_params=lambda _: P()
    )
    return state.replace(step=P(), params=specs, opt_state=opt_state, batch_stats=P(), ema=specs)


def jitter(key, x, scale):
    """Noise and a random gain for each example; examples are told apart by global index."""
    rows = x.shape[0]
    index = jax.lax.axis_index("batch") * rows + jnp.arange(rows)

    def one(i, window):
        noise_key, gain_key = jax.random.split(jax.random.fold_in(key, i))
        noise = scale * jax.random.normal(noise_key, window.shape)
        return window * jnp.exp(scale * jax.random.normal(gain_key)) + noise

    return jax.vmap(one)(index, x)


def sync_gradients(grads):
    """What is split over "model" comes out once for each device that has the loss."""

    def sync(grad, spec):
        grad = jax.lax.pmean(grad, "batch")
        if "model" in spec:
            return grad / jax.lax.axis_size("model")
        return jax.lax.pmean(grad, "model")

    return jax.tree.map(sync, grads, param_specs(grads))


def make_train_step(cfg):
    def train_step(state, key, images, labels):
        images = jitter(jax.random.fold_in(key, state.step), images, cfg.jitter)

        def loss_fn(params):
            variables = {"params": params, "batch_stats": state.batch_stats}
            logits, new = state.apply_fn(variables, images, train=True, mutable=["batch_stats"])
            targets = optax.smooth_labels(jax.nn.one_hot(labels, cfg.classes), cfg.label_noise)
            return optax.softmax_cross_entropy(logits, targets).mean(), (logits, new)

        (_, (logits, new)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params)
        state = state.apply_gradients(grads=sync_gradients(grads), **new)
        decay = jnp.minimum(cfg.ema_decay, state.step / (state.step + 2.0))
        ema = optax.incremental_update(state.params, state.ema, 1.0 - decay)
        metrics = Metrics.of_batch(logits, labels, jnp.ones(labels.shape))
        return state.replace(ema=ema), jax.lax.psum(metrics, "batch")

    return train_step


def eval_step(state, images, labels, weights):
    variables = {"params": state.ema, "batch_stats": state.batch_stats}
    logits = state.apply_fn(variables, images, train=False)
    return jax.lax.psum(Metrics.of_batch(logits, labels, weights), "batch")


def load_split(cfg, count, seed):
    """Waves of different frequency by class; the amplitude drifts."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(cfg.classes, count, p=np.arange(1, cfg.classes + 1) / 15)
    gain = np.linspace(0.5, 2.0, count)[:, None, None]
    time = np.arange(cfg.window)[None, :, None] + rng.uniform(0, 6, (count, 1, cfg.channels))
    waves = np.sin(time * (0.3 + 0.35 * labels[:, None, None]))
    images = gain * (waves + 0.4 * rng.normal(size=waves.shape))
    return images.astype(np.float32), labels.astype(np.int32)


def pad_batch(array, size):
    missing = size - len(array)
    return np.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1))


def evaluate(cfg, step, state, images, labels):
    total = None
    for i in range(math.ceil(len(images) / cfg.batch_size)):
        part = slice(i * cfg.batch_size, (i + 1) * cfg.batch_size)
        weights = np.ones(len(labels[part]), np.float32)
        batch = [pad_batch(a, cfg.batch_size) for a in (images[part], labels[part], weights)]
        metrics = step(state, *batch)
        total = total.merge(metrics) if total else metrics
    return total.compute()


def train_and_evaluate(cfg, mesh):
    state = create_state(cfg)
    specs = state_specs(state)
    data = P("batch")
    train_step = jax.jit(
        jax.shard_map(
            make_train_step(cfg),
            mesh=mesh,
            in_specs=(specs, P(), data, data),
            out_specs=(specs, P()),
            check_vma=False,
        ),
        donate_argnums=0,
    )
    sources = (specs, data, data, data)
    test_step = jax.jit(
        jax.shard_map(eval_step, mesh=mesh, in_specs=sources, out_specs=P(), check_vma=False)
    )
    key = jax.random.key(cfg.seed + 1)
    images, labels = load_split(cfg, cfg.num_train, 1)
    held_out = load_split(cfg, cfg.num_eval, 2)
    state = jax.tree.map(jnp.copy, state)
    history = []
    for _ in range(cfg.num_epochs):
        total = None
        for start in range(0, cfg.num_train, cfg.batch_size):
            part = slice(start, start + cfg.batch_size)
            state, metrics = train_step(state, key, images[part], labels[part])
            total = metrics if total is None else total.merge(metrics)
        told = {f"train_{k}": v for k, v in total.compute().items()}
        told |= {f"eval_{k}": v for k, v in evaluate(cfg, test_step, state, *held_out).items()}
        history.append(told)
    return state, history


def main():
    cfg = get_config()
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(cfg.model_parallel, devices.size)), ("batch", "model"))
    state, history = train_and_evaluate(cfg, mesh)
    out = {name: np.array([told[name] for told in history]) for name in history[0]}
    out |= {"ema": state.ema["SplitMLP_1"]["w_in"], "conv": state.params["Conv_0"]["kernel"]}
    out |= {name: state.params["SplitMLP_0"][name] for name in ("w_out", "b_in")}
    return jax.tree.map(np.asarray, out | {"variance": state.batch_stats["BatchNorm_1"]["var"]})


def reference():
    cfg = get_config()
    params = jax.tree.map(jnp.asarray, create_state(cfg).params)
    (x_train, y_train), (x_eval, y_eval) = load_split(cfg, 128, 1), load_split(cfg, 86, 2)

    def forward(p, x, stats):
        seen = []
        for i, stride in enumerate((1, 2)):
            x = jnp.pad(x, ((0, 0), (2 - stride, 1), (0, 0)))
            last, kernel = x.shape[1] - 2, p[f"Conv_{i}"]["kernel"]
            x = sum(x[:, j : last + j : stride] @ kernel[j] for j in range(3))
            seen += [(x.mean((0, 1)), x.var((0, 1)))]
            mean, var = stats[i] if stats else seen[-1]
            norm = p[f"BatchNorm_{i}"]
            x = jax.nn.relu((x - mean) / jnp.sqrt(var + 1e-5) * norm["scale"] + norm["bias"])
        x = jnp.concatenate([x.mean(1), (x**2).mean(1)], 1)
        for i in range(cfg.blocks):
            w, norm = p[f"SplitMLP_{i}"], p[f"LayerNorm_{i}"]
            y = (x - x.mean(1, keepdims=True)) / jnp.sqrt(x.var(1, keepdims=True) + 1e-6)
            y = y * norm["scale"] + norm["bias"]
            x = x + jax.nn.gelu(y @ w["w_in"] + w["b_in"]) @ w["w_out"] + w["b_out"]
        return x @ p["Dense_0"]["kernel"] + p["Dense_0"]["bias"], seen

    def loss(p, x, y):
        logits, seen = forward(p, x, None)
        soft = 0.9 * jax.nn.one_hot(y, cfg.classes) + 0.1 / cfg.classes
        return -(jax.nn.log_softmax(logits) * soft).sum(1).mean(), (logits, seen)

    def scores(logits, y):
        hit = logits.argmax(1) == y
        nll = -jax.nn.log_softmax(logits)[np.arange(len(y)), y].mean()
        recall = [hit[y == c].mean() if (y == c).any() else 0.0 for c in range(cfg.classes)]
        return {"loss": nll, "accuracy": hit.mean(), "balanced": np.mean(recall)}

    gradient = jax.jit(jax.grad(loss, has_aux=True))
    velocity, ema, t, history = jax.tree.map(jnp.zeros_like, params), params, 0, []
    stats = [(jnp.zeros(cfg.width), jnp.ones(cfg.width))] * 2
    for _ in range(cfg.num_epochs):
        seen_logits = []
        for start in range(0, 128, 32):
            key, x = jax.random.fold_in(jax.random.key(1), t), []
            for i in range(32):
                a, b = jax.random.split(jax.random.fold_in(key, i))
                window = x_train[start + i] * jnp.exp(0.3 * jax.random.normal(b))
                x.append(window + 0.3 * jax.random.normal(a, window.shape))
            grads, (logits, seen) = gradient(params, jnp.stack(x), y_train[start : start + 32])
            rate = cfg.learning_rate * 0.5 * (1 + math.cos(math.pi * t / 13))
            decayed = jax.tree.map(lambda g, p: g + 0.01 * p, grads, params)
            velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, decayed)
            params = jax.tree.map(lambda p, v: p - rate * v, params, velocity)
            t, d = t + 1, min(0.8, (t + 1) / (t + 3))
            ema = jax.tree.map(lambda e, p: d * e + (1 - d) * p, ema, params)
            stats = [tuple(0.7 * o + 0.3 * n for o, n in zip(*both)) for both in zip(stats, seen)]
            seen_logits.append(logits)
        told = {f"train_{k}": v for k, v in scores(jnp.concatenate(seen_logits), y_train).items()}
        final = scores(forward(ema, x_eval, stats)[0], y_eval)
        history.append(told | {f"eval_{k}": v for k, v in final.items()})
    out = {name: np.array([told[name] for told in history]) for name in history[0]}
    out |= {"ema": ema["SplitMLP_1"]["w_in"], "conv": params["Conv_0"]["kernel"]}
    out |= {name: params["SplitMLP_0"][name] for name in ("w_out", "b_in")}
    return jax.tree.map(np.asarray, out | {"variance": stats[1][1]})


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-3, atol=5e-4, err_msg=name)
    print("linen_ema_windows: eval loss", got["eval_loss"], "accuracy", got["eval_accuracy"])
