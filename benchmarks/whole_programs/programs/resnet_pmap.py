"""Data-parallel ResNet training with pmap: batch-norm statistics and gradients are averaged over the "batch" axis."""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray

AXIS = "batch"
NUM_CLASSES, WIDTH, BLOCKS = 6, 8, 2
BATCH, IMAGE = 16, 8
BASE_LR, BASE_BATCH, MOMENTUM, WEIGHT_DECAY = 0.02, 8, 0.9, 1e-2
BN_DECAY, BN_EPS = 0.8, 1e-5


class TrainState(NamedTuple):
    params: dict
    stats: dict
    velocity: dict
    step: Int[Array, ""]


def conv_init(key: PRNGKeyArray, size: int, cin: int, cout: int) -> Float[Array, "size size cin cout"]:
    return jax.random.normal(key, (size, size, cin, cout)) * (2.0 / (size * size * cin)) ** 0.5


def init_variables(key: PRNGKeyArray) -> tuple[dict, dict]:
    keys = iter(jax.random.split(key, 2 * BLOCKS + 2))
    params, stats = {"stem": conv_init(next(keys), 3, 3, WIDTH)}, {}
    names = ["stem"] + [f"block{i}_{half}" for i in range(BLOCKS) for half in "ab"]
    for name in names:
        if name != "stem":
            params[name] = conv_init(next(keys), 3, WIDTH, WIDTH)
        params[f"{name}_bn"] = {"scale": jnp.ones(WIDTH), "bias": jnp.zeros(WIDTH)}
        stats[f"{name}_bn"] = {"mean": jnp.zeros(WIDTH), "var": jnp.ones(WIDTH)}
    params["head"] = {"kernel": 0.3 * jax.random.normal(next(keys), (WIDTH, NUM_CLASSES)), "bias": jnp.zeros(NUM_CLASSES)}
    return params, stats


def conv(x: Float[Array, "b h w cin"], kernel: Float[Array, "k k cin cout"]) -> Float[Array, "b h w cout"]:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


def batch_norm(x: Float[Array, "b h w c"], params: dict, stats: dict, train: bool) -> tuple[Float[Array, "b h w c"], dict]:
    """Normalises by the statistics of the global batch in training, by the running ones otherwise."""
    if train:
        mean: Float[Array, " c"] = lax.pmean(jnp.mean(x, axis=(0, 1, 2)), AXIS)
        mean_of_squares: Float[Array, " c"] = lax.pmean(jnp.mean(x * x, axis=(0, 1, 2)), AXIS)
        var = mean_of_squares - mean * mean
        stats = {
            "mean": BN_DECAY * stats["mean"] + (1 - BN_DECAY) * mean,
            "var": BN_DECAY * stats["var"] + (1 - BN_DECAY) * var,
        }
    else:
        mean, var = stats["mean"], stats["var"]
    return (x - mean) * lax.rsqrt(var + BN_EPS) * params["scale"] + params["bias"], stats


def apply(params: dict, stats: dict, images: Float[Array, "b h w 3"], train: bool) -> tuple[Float[Array, "b classes"], dict]:
    new_stats = {}

    def conv_bn(name, x):
        x = conv(x, params[name])
        x, new_stats[f"{name}_bn"] = batch_norm(x, params[f"{name}_bn"], stats[f"{name}_bn"], train)
        return x

    x = jax.nn.relu(conv_bn("stem", images))
    for i in range(BLOCKS):
        y = jax.nn.relu(conv_bn(f"block{i}_a", x))
        x = jax.nn.relu(x + conv_bn(f"block{i}_b", y))
    pooled: Float[Array, "b c"] = jnp.mean(x, axis=(1, 2))
    return pooled @ params["head"]["kernel"] + params["head"]["bias"], new_stats


def augment(key: PRNGKeyArray, images: Float[Array, "b h w c"]) -> Float[Array, "b h w c"]:
    flip_key, noise_key = jax.random.split(key)
    flip = jax.random.bernoulli(flip_key, 0.5, images.shape[:1])
    images = jnp.where(flip[:, None, None, None], images[:, :, ::-1], images)
    return images + 0.1 * jax.random.normal(noise_key, images.shape)


def weight_penalty(params: dict) -> Float[Array, ""]:
    kernels = [p for p in jax.tree.leaves(params) if p.ndim > 1]
    return 0.5 * WEIGHT_DECAY * sum(jnp.sum(p * p) for p in kernels)


def loss_fn(params, stats, images: Float[Array, "b h w 3"], labels: Int[Array, " b"]):
    logits, stats = apply(params, stats, images, train=True)
    logp = jax.nn.log_softmax(logits)
    nll = -jnp.mean(jnp.take_along_axis(logp, labels[:, None], axis=-1))
    return nll + weight_penalty(params), (stats, nll)


def learning_rate(step: Int[Array, ""], local_batch: int) -> Float[Array, ""]:
    """Scaled with the global batch, warmed up over four steps."""
    peak = BASE_LR * local_batch * lax.axis_size(AXIS) / BASE_BATCH
    return peak * jnp.minimum(1.0, (step + 1) / 4)


def compute_gradients(state: TrainState, images, labels):
    (_, (stats, nll)), grads = jax.value_and_grad(loss_fn, has_aux=True)(state.params, state.stats, images, labels)
    return grads, stats, nll


@functools.partial(jax.pmap, axis_name=AXIS, donate_argnums=0)
def train_step(state: TrainState, images: Float[Array, "b h w 3"], labels: Int[Array, " b"], key: PRNGKeyArray):
    images = augment(key, images)
    grads, stats, nll = compute_gradients(state, images, labels)
    grads = lax.pmean(grads, AXIS)
    lr = learning_rate(state.step, images.shape[0])
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, state.velocity, grads)
    params = jax.tree.map(lambda p, v: p - lr * v, state.params, velocity)
    return TrainState(params, stats, velocity, state.step + 1), lax.pmean(nll, AXIS)


@functools.partial(jax.pmap, axis_name=AXIS)
def eval_step(state: TrainState, images: Float[Array, "b h w 3"], labels: Int[Array, " b"]):
    """Mean loss over the images whose label is not padding (-1)."""
    logits, _ = apply(state.params, state.stats, images, train=False)
    mask = labels >= 0
    picked = jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.maximum(labels, 0)[:, None], axis=-1)[:, 0]
    loss = lax.psum(-jnp.sum(jnp.where(mask, picked, 0.0)), AXIS)
    return loss / lax.psum(jnp.sum(mask), AXIS)


def replicate(tree):
    return jax.tree.map(lambda x: jnp.stack([x] * jax.local_device_count()), tree)


def shard(x):
    return x.reshape(jax.local_device_count(), -1, *x.shape[1:])


def make_data():
    rng = np.random.default_rng(9)
    images = rng.normal(size=(BATCH, IMAGE, IMAGE, 3)) * rng.uniform(0.2, 2.0, (BATCH, 1, 1, 1))
    labels = rng.integers(0, NUM_CLASSES, BATCH)
    return images.astype(np.float32), labels, np.where(np.arange(BATCH) < 13, labels, -1)


def main():
    assert jax.local_device_count() == 8
    params, stats = init_variables(jax.random.key(0))
    state = replicate(TrainState(params, stats, jax.tree.map(jnp.zeros_like, params), jnp.int32(0)))
    images, labels, eval_labels = make_data()
    losses = []
    for step in range(2):
        keys = jax.random.split(jax.random.key(step), jax.local_device_count())
        state, loss = train_step(state, shard(images), shard(labels), keys)
        losses.append(float(loss[0]))
    eval_loss = eval_step(state, shard(images), shard(eval_labels))
    print("losses", losses, "eval", float(eval_loss[0]))
    params, stats = jax.tree.map(lambda x: np.asarray(x[0]), (state.params, state.stats))
    return {"losses": losses, "eval": eval_loss[0], "params": params, "stats": stats}


def reference():
    images, labels, eval_labels = make_data()
    params, stats = init_variables(jax.random.key(0))

    def forward(params, x, norm):
        f = lambda name, x: norm(name + "_bn", conv(x, params[name])) * params[name + "_bn"]["scale"] + params[name + "_bn"]["bias"]
        x = jax.nn.relu(f("stem", x))
        for i in range(BLOCKS):
            x = jax.nn.relu(x + f(f"block{i}_b", jax.nn.relu(f(f"block{i}_a", x))))
        return jax.nn.log_softmax(x.mean((1, 2)) @ params["head"]["kernel"] + params["head"]["bias"])

    def loss_fn(params, x):
        seen = {}

        def norm(name, x):
            mean, var = x.mean((0, 1, 2)), x.var((0, 1, 2))
            seen[name] = {"mean": mean, "var": var}
            return (x - mean) / jnp.sqrt(var + BN_EPS)

        nll = -forward(params, x, norm)[np.arange(BATCH), labels].mean()
        return nll + weight_penalty(params), (nll, seen)

    velocity, losses = jax.tree.map(jnp.zeros_like, params), []
    for step in range(2):
        keys = jax.random.split(jax.random.key(step), 8)
        x = jnp.concatenate([augment(k, part) for k, part in zip(keys, images.reshape(8, 2, IMAGE, IMAGE, 3))])
        (_, (nll, seen)), grads = jax.jit(jax.value_and_grad(loss_fn, has_aux=True))(params, x)
        velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, grads)
        params = jax.tree.map(lambda p, v: p - BASE_LR * BATCH / BASE_BATCH * (step + 1) / 4 * v, params, velocity)
        stats = jax.tree.map(lambda old, new: BN_DECAY * old + (1 - BN_DECAY) * new, stats, seen)
        losses.append(float(nll))
    logp = forward(params, images, lambda n, x: (x - stats[n]["mean"]) / jnp.sqrt(stats[n]["var"] + BN_EPS))
    eval_loss = -logp[:13][np.arange(13), eval_labels[:13]].mean()
    return {"losses": losses, "eval": eval_loss, "params": params, "stats": stats}


def check():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), main(), reference())


if __name__ == "__main__":
    main()
    check()
