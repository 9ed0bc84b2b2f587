"""A small image diffusion model, flax.nnx, FSDP by jit.

Weights and their EMA live sharded over the 'data' axis (where a dimension divides).  Two things are written by hand with shard_map: the noise of every batch shard, and the channel-parallel
bottleneck of the ConvNeXt block.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import dataclasses
import functools as ft
import typing as tp

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P


@dataclasses.dataclass
class Settings:
    size: int = 8
    channels: int = 3
    width: int = 16
    expansion: int = 2
    batch: int = 64
    micro_batches: int = 2
    timesteps: int = 100
    buckets: int = 4
    lr: float = 0.05
    ema: float = 0.9
    steps: int = 3
    data: int = 4
    model: int = 2


cfg = Settings()
BATCH = P("data")


class Bottleneck(nnx.Module):
    """Expand - gelu - global response norm - project, with the expanded channels over 'model'."""

    def __init__(self, dim: int, mesh: tp.Optional[Mesh], rngs: nnx.Rngs):
        hidden = dim * cfg.expansion
        init = nnx.initializers.lecun_normal()
        self.w_in = nnx.Param(init(rngs.params(), (dim, hidden)))
        self.gamma = nnx.Param(0.5 * jnp.ones(hidden))
        self.w_out = nnx.Param(init(rngs.params(), (hidden, dim)))
        self.b_out = nnx.Param(0.1 * jax.random.normal(rngs.params(), (dim,)))
        self.mesh = mesh

    def __call__(self, x):
        weights = self.w_in[...], self.gamma[...], self.w_out[...], self.b_out[...]
        if self.mesh is None:
            return self.local(x, *weights, mean=lambda a: a, add=lambda a: a)
        average = ft.partial(jax.lax.pmean, axis_name="model")
        add = ft.partial(jax.lax.psum, axis_name="model")
        block = jax.shard_map(
            ft.partial(self.local, mean=average, add=add),
            mesh=self.mesh,
            in_specs=(BATCH, P(None, "model"), P("model"), P("model", None), P()),
            out_specs=BATCH, check_vma=False,
        )
        return block(x, *weights)

    @staticmethod
    def local(x, w_in, gamma, w_out, b_out, *, mean, add):
        h = jax.nn.gelu(x @ w_in)  # [n, h, w, hidden]
        energy = jnp.sqrt(jnp.sum(h**2, axis=(1, 2), keepdims=True) + 1e-6)
        relative = energy / mean(jnp.mean(energy, axis=-1, keepdims=True))
        h = h + gamma * h * relative
        return add(h @ w_out) + b_out


class Denoiser(nnx.Module):
    def __init__(self, mesh: tp.Optional[Mesh], rngs: nnx.Rngs):
        w = cfg.width
        self.stem = nnx.Conv(cfg.channels, w, (3, 3), rngs=rngs)
        self.time = nnx.Linear(w, w, rngs=rngs)
        self.down = nnx.Conv(w, w, (2, 2), strides=(2, 2), rngs=rngs)
        self.bottleneck = Bottleneck(w, mesh, rngs)
        self.up = nnx.Conv(w, w, (3, 3), rngs=rngs)
        self.head = nnx.Conv(2 * w, cfg.channels, (3, 3), rngs=rngs)

    def __call__(self, x, t):
        freqs = jnp.exp(-jnp.arange(cfg.width // 2) * 0.7)
        angle = t[:, None] * freqs[None, :]
        temb = self.time(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1))
        skip = jax.nn.silu(self.stem(x) + temb[:, None, None, :])
        h = self.down(skip)
        h = h + self.bottleneck(h)
        h = jnp.repeat(jnp.repeat(h, 2, axis=1), 2, axis=2)
        h = jax.nn.silu(self.up(h))
        return self.head(jnp.concatenate([h, skip], axis=-1))


# ------------------------------------------------------------------ diffusion


def alpha_bar(t):
    return jnp.cos(0.5 * jnp.pi * (t + 1) / (cfg.timesteps + 1)) ** 2


def corrupt(x, key):
    """x -> (noisy x, t, noise), all for the images at hand."""
    k_t, k_noise = jax.random.split(key)
    t = jax.random.randint(k_t, (x.shape[0],), 0, cfg.timesteps)
    noise = jax.random.normal(k_noise, x.shape)
    a = alpha_bar(t)[:, None, None, None]
    return jnp.sqrt(a) * x + jnp.sqrt(1 - a) * noise, t, noise


def corrupt_shard(x, key):
    return corrupt(x, jax.random.fold_in(key, jax.lax.axis_index("data")))


def bucketed(err, t):
    """Mean error for early, ..., late timesteps over the whole batch."""
    onehot = jax.nn.one_hot(t * cfg.buckets // cfg.timesteps, cfg.buckets)
    return (err @ onehot) / jnp.maximum(jnp.sum(onehot, axis=0), 1)


def loss_fn(params, graph, noisy, t, noise):
    predicted = nnx.merge(graph, params)(noisy, t)
    err = jnp.mean((predicted - noise) ** 2, axis=(1, 2, 3))
    return jnp.mean(err), bucketed(err, t)


# ------------------------------------------------------------------- training


def fsdp_spec(leaf, n):
    """Cuts the last dimension that divides, and keeps small weights whole."""
    for axis in reversed(range(leaf.ndim)):
        if leaf.size >= 64 and leaf.shape[axis] % n == 0:
            return P(*[None] * axis, "data")
    return P()


def make_step(mesh, graph):
    noise_batch = jax.shard_map(
        corrupt_shard, mesh=mesh, in_specs=(BATCH, P()), out_specs=(BATCH, BATCH, BATCH), check_vma=False)

    def constrain(params):
        return jax.tree.map(
            lambda p: jax.lax.with_sharding_constraint(p, NamedSharding(mesh, fsdp_spec(p, cfg.data))), params)

    @jax.jit
    def step(params, ema, images, seed_key, i):
        key = jax.random.fold_in(seed_key, i)
        micro = images.reshape(cfg.micro_batches, -1, *images.shape[1:])

        def accumulate(grads, m):
            noisy, t, noise = noise_batch(micro[m], jax.random.fold_in(key, m))
            (loss, per_bucket), g = jax.value_and_grad(loss_fn, has_aux=True)(params, graph, noisy, t, noise)
            return jax.tree.map(jnp.add, grads, g), (loss, per_bucket)

        zeros = jax.tree.map(jnp.zeros_like, params)
        grads, (losses, per_bucket) = jax.lax.scan(accumulate, zeros, jnp.arange(cfg.micro_batches))
        grads = jax.tree.map(lambda g: g / cfg.micro_batches, grads)
        params = constrain(jax.tree.map(lambda p, g: p - cfg.lr * g, params, grads))
        ema = constrain(jax.tree.map(lambda e, p: cfg.ema * e + (1 - cfg.ema) * p, ema, params))
        return params, ema, jnp.mean(losses), jnp.mean(per_bucket, axis=0)

    return step


def images():
    rng = np.random.default_rng(0)
    ramp = np.linspace(-1, 1, cfg.size)
    for _ in range(cfg.steps):
        slope = rng.normal(size=(cfg.batch, 2, cfg.channels))
        rows = slope[:, 0][:, None, None, :] * ramp[:, None, None]
        cols = slope[:, 1][:, None, None, :] * ramp[None, :, None]
        yield (rows + cols).astype(np.float32)


def flat(state):
    return {jax.tree_util.keystr(k): np.asarray(v) for k, v in jax.tree_util.tree_leaves_with_path(state)}


def main():
    devices = np.asarray(jax.devices()).reshape(cfg.data, cfg.model)
    mesh = Mesh(devices, ("data", "model"))
    graph, params = nnx.split(Denoiser(mesh, nnx.Rngs(0)))
    params = jax.tree.map(lambda p: jax.device_put(p, NamedSharding(mesh, fsdp_spec(p, cfg.data))), params)
    ema = jax.tree.map(jnp.copy, params)
    step = make_step(mesh, graph)
    losses, buckets = [], []
    for i, x in enumerate(images()):
        x = jax.device_put(x, NamedSharding(mesh, BATCH))
        params, ema, loss, per_bucket = step(params, ema, x, jax.random.key(1), i)
        losses.append(loss)
        buckets.append(per_bucket)
    return {"loss": np.array(losses), "buckets": np.array(buckets), "params": flat(params), "ema": flat(ema)}


def reference():
    graph, params = nnx.split(Denoiser(None, nnx.Rngs(0)))
    ema = params
    shards, rows = cfg.data, cfg.batch // cfg.micro_batches

    def batch_loss(params, x, key):
        losses, buckets = [], []
        for m in range(cfg.micro_batches):
            pieces = jnp.split(x[m * rows : (m + 1) * rows], shards)
            k = jax.random.fold_in(key, m)
            drawn = [corrupt(piece, jax.random.fold_in(k, d)) for d, piece in enumerate(pieces)]
            loss, bucket = loss_fn(params, graph, *(jnp.concatenate(parts) for parts in zip(*drawn)))
            losses.append(loss)
            buckets.append(bucket)
        return sum(losses) / len(losses), sum(buckets) / len(buckets)

    grad = jax.jit(jax.value_and_grad(batch_loss, has_aux=True))
    losses, buckets = [], []
    for i, x in enumerate(images()):
        (loss, bucket), g = grad(params, x, jax.random.fold_in(jax.random.key(1), i))
        params = jax.tree.map(lambda p, g: p - cfg.lr * g, params, g)
        ema = jax.tree.map(lambda e, p: cfg.ema * e + (1 - cfg.ema) * p, ema, params)
        losses.append(loss)
        buckets.append(bucket)
    return {"loss": np.array(losses), "buckets": np.array(buckets), "params": flat(params), "ema": flat(ema)}


if __name__ == "__main__":
    got, want = main(), reference()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), got, want)
    print("loss", got["loss"], "by timestep", got["buckets"][-1])
