"""Data parallel training of an MLP-Mixer in equinox.

All inexact leaves are raveled into one vector, of which each device owns a slice, with its momentum and moving average.
A step gathers the vector, accumulates gradients over microbatches, and scatters their sum to the owners.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

AXIS = "dp"


class Hyper(NamedTuple):
    image: int = 8
    patch: int = 2
    dim: int = 16
    hidden: int = 24
    depth: int = 2
    classes: int = 5
    dropout: float = 0.1
    batch: int = 64
    micro: int = 2
    lr: float = 0.1
    weight_decay: float = 1e-2
    clip: float = 0.2
    decay: float = 0.8
    steps: int = 2
    held_out: int = 43


class MixerBlock(eqx.Module):
    norm1: eqx.nn.LayerNorm
    norm2: eqx.nn.LayerNorm
    mix_patches: eqx.nn.MLP
    mix_channels: eqx.nn.MLP
    dropout: eqx.nn.Dropout

    def __init__(self, hp: Hyper, patches: int, *, key):
        k1, k2 = jr.split(key)
        self.norm1, self.norm2 = eqx.nn.LayerNorm(hp.dim), eqx.nn.LayerNorm(hp.dim)
        self.mix_patches = eqx.nn.MLP(patches, patches, hp.hidden, 1, jax.nn.gelu, key=k1)
        self.mix_channels = eqx.nn.MLP(hp.dim, hp.dim, hp.hidden, 1, jax.nn.gelu, key=k2)
        self.dropout = eqx.nn.Dropout(hp.dropout)

    def __call__(self, x, key):
        x = x + jax.vmap(self.mix_patches, in_axes=1, out_axes=1)(jax.vmap(self.norm1)(x))
        y = jax.vmap(self.mix_channels)(jax.vmap(self.norm2)(x))
        return x + self.dropout(y, key=key, inference=key is None)


class Mixer(eqx.Module):
    stem: eqx.nn.Conv2d
    blocks: list[MixerBlock]
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, hp: Hyper, *, key):
        k_stem, k_head, *k_blocks = jr.split(key, hp.depth + 2)
        self.stem = eqx.nn.Conv2d(3, hp.dim, hp.patch, stride=hp.patch, key=k_stem)
        self.blocks = [MixerBlock(hp, (hp.image // hp.patch) ** 2, key=k) for k in k_blocks]
        self.norm = eqx.nn.LayerNorm(hp.dim)
        self.head = eqx.nn.Linear(hp.dim, hp.classes, key=k_head)

    def features(self, image, key=None):
        x = self.stem(image).reshape(self.stem.out_channels, -1).T
        for i, block in enumerate(self.blocks):
            x = block(x, None if key is None else jr.fold_in(key, i))
        return jnp.mean(jax.vmap(self.norm)(x), axis=0)


def loss_and_hits(logits, labels):
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return nll, (jnp.argmax(logits, axis=-1) == labels).astype(jnp.float32)


@eqx.filter_value_and_grad(has_aux=True)
def objective(model: Mixer, images, labels, keys, average):
    z = jax.vmap(model.features)(images, keys)
    center = lax.stop_gradient(average(jnp.mean(z, axis=0)))
    nll, hits = loss_and_hits(jax.vmap(model.head)(z - center), labels)
    return jnp.mean(nll), jnp.mean(hits)


def clip_shard(grad, max_norm):
    norm = jnp.sqrt(lax.psum(jnp.sum(grad**2), AXIS))
    return grad * jnp.minimum(1.0, max_norm / norm), norm


class Shards(NamedTuple):
    weights: jax.Array
    ema: jax.Array
    opt: optax.OptState


class Trainer:
    def __init__(self, hp: Hyper, mesh: Mesh, model: Mixer):
        self.hp, self.mesh, self.world = hp, mesh, mesh.size
        params, self.static = eqx.partition(model, eqx.is_inexact_array)
        flat, self.unravel = ravel_pytree(params)
        self.size = flat.size
        self.tx, weights = make_tx(hp), self.pad(flat)
        shards = Shards(weights, weights, self.tx.init(weights))
        self.specs = jax.tree.map(lambda x: P(AXIS) if x.ndim else P(), shards)
        self.shards = jax.tree.map(lambda x, s: jax.device_put(x, NamedSharding(mesh, s)), shards, self.specs)
        batch = (P(AXIS), P(AXIS))
        self.step = eqx.filter_jit(self.mapped(self.local_step, (self.specs, *batch, P()), (self.specs, P())))
        self.evaluate = eqx.filter_jit(self.mapped(self.local_eval, (P(AXIS), *batch, P(AXIS)), P()))

    def mapped(self, function, in_specs, out_specs):
        return jax.shard_map(function, mesh=self.mesh, in_specs=in_specs, out_specs=out_specs, check_vma=False)

    def pad(self, flat):
        return jnp.pad(flat, (0, -self.size % self.world))

    def assemble(self, shard) -> Mixer:
        flat = lax.all_gather(shard, AXIS, tiled=True)
        return eqx.combine(self.unravel(flat[: self.size]), self.static)

    def accumulate(self, model, images, labels, key):
        micro = self.hp.micro
        images, labels = images.reshape(micro, -1, *images.shape[1:]), labels.reshape(micro, -1)

        def body(total, batch):
            i, x, y = batch
            found = objective(model, x, y, jr.split(jr.fold_in(key, i), len(y)), lambda v: lax.pmean(v, AXIS))
            return jax.tree.map(jnp.add, total, found), None

        zeros = jax.tree.map(jnp.zeros_like, eqx.filter(model, eqx.is_inexact_array))
        total, _ = lax.scan(body, ((0.0, 0.0), zeros), (jnp.arange(micro), images, labels))
        return jax.tree.map(lambda t: t / micro, total)

    def local_step(self, shards: Shards, images, labels, key):
        model, key = self.assemble(shards.weights), jr.fold_in(key, lax.axis_index(AXIS))
        (loss, accuracy), grads = self.accumulate(model, images, labels, key)
        flat, _ = ravel_pytree(grads)
        grad = lax.psum_scatter(self.pad(flat), AXIS, tiled=True) / self.world
        grad, norm = clip_shard(grad, self.hp.clip)
        updates, opt = self.tx.update(grad, shards.opt, shards.weights)
        weights = optax.apply_updates(shards.weights, updates)
        ema = optax.incremental_update(weights, shards.ema, 1 - self.hp.decay)
        metrics = lax.pmean({"loss": loss, "accuracy": accuracy}, AXIS)
        return Shards(weights, ema, opt), metrics | {"norm": norm}

    def local_eval(self, shard, images, labels, valid):
        model = self.assemble(shard)
        nll, hits = loss_and_hits(jax.vmap(lambda x: model.head(model.features(x)))(images), labels)
        sums = jnp.stack([jnp.sum(nll * valid), jnp.sum(hits * valid), jnp.sum(valid)])
        loss, accuracy, count = lax.psum(sums, AXIS)
        return {"loss": loss / count, "accuracy": accuracy / count}


def make_tx(hp: Hyper):
    return optax.chain(optax.add_decayed_weights(hp.weight_decay), optax.sgd(hp.lr, momentum=0.9, nesterov=True))


def draw(hp: Hyper, n: int, seed: int):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, hp.classes, n)
    waves = np.sin(np.arange(hp.image) * (1 + labels[:, None]) / 2)
    images = waves[:, None, :, None] * waves[:, None, None, :] + rng.normal(size=(n, 3, hp.image, hp.image))
    return images.astype(np.float32), labels.astype(np.int32)


def main():
    hp = Hyper()
    trainer = Trainer(hp, Mesh(np.array(jax.devices()), (AXIS,)), Mixer(hp, key=jr.key(0)))
    shards, history = trainer.shards, []
    for step in range(hp.steps):
        shards, metrics = trainer.step(shards, *draw(hp, hp.batch, step), jr.key(50 + step))
        history.append([float(metrics[k]) for k in ("loss", "accuracy", "norm")])
    pad = -hp.held_out % trainer.world
    images, labels = (np.pad(x, [(0, pad)] + [(0, 0)] * (x.ndim - 1)) for x in draw(hp, hp.held_out, 99))
    held_out = trainer.evaluate(shards.ema, images, labels, np.arange(len(labels)) < hp.held_out)
    weights, ema = (np.asarray(x)[: trainer.size] for x in (shards.weights, shards.ema))
    return {"weights": weights, "ema": ema, "history": np.array(history), "held_out": held_out}


def reference(world: int = 8):
    hp = Hyper()
    params, static = eqx.partition(Mixer(hp, key=jr.key(0)), eqx.is_inexact_array)
    weights, unravel = ravel_pytree(params)
    ema, tx, opt, history = weights, make_tx(hp), make_tx(hp).init(weights), []
    grad_of = eqx.filter_jit(lambda w, *batch: objective(eqx.combine(unravel(w), static), *batch, lambda v: v))
    for step in range(hp.steps):
        images, labels = (x.reshape(world, hp.micro, -1, *x.shape[1:]) for x in draw(hp, hp.batch, step))
        keys, parts = [jr.fold_in(jr.key(50 + step), d) for d in range(world)], []
        for m in range(hp.micro):
            drawn = jnp.concatenate([jr.split(jr.fold_in(k, m), images.shape[2]) for k in keys])
            values, g = grad_of(weights, np.concatenate(images[:, m]), np.concatenate(labels[:, m]), drawn)
            parts.append((*values, ravel_pytree(g)[0]))
        loss, accuracy, g = (sum(p) / hp.micro for p in zip(*parts))
        norm = jnp.linalg.norm(g)
        updates, opt = tx.update(g * jnp.minimum(1.0, hp.clip / norm), opt, weights)
        weights = weights + updates
        ema = hp.decay * ema + (1 - hp.decay) * weights
        history.append([loss, accuracy, norm])
    model = eqx.combine(unravel(ema), static)
    images, labels = draw(hp, hp.held_out, 99)
    nll, hits = loss_and_hits(jax.vmap(lambda x: model.head(model.features(x)))(images), labels)
    numbers = {"weights": weights, "ema": ema, "history": np.array(history)}
    return numbers | {"held_out": {"loss": nll.mean(), "accuracy": hits.mean()}}


if __name__ == "__main__":
    got, want = main(), reference()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), got, want)
    print("ok", got["history"], got["held_out"])
