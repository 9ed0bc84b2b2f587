"""Decoder-only language model in flax.nnx with a training step written for one device of a (data, model) mesh.

Model and optimizer are split into a graph definition and a state; the state enters `jax.shard_map` cut up over 'model',
and is merged there into a model that holds the local heads and the local hidden units.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

PAD = 0


@dataclass(frozen=True)
class GPTConfig:
    vocab: int = 24
    length: int = 8
    dim: int = 16
    heads: int = 4
    head_dim: int = 4
    hidden: int = 32
    layers: int = 2
    dropout: float = 0.1
    batch: int = 16
    steps: int = 2
    lr: float = 0.2
    max_norm: float = 1.0
    data: int = 4
    model: int = 2
    model_axis: str | None = "model"

    def reduce(self, x):
        return x if self.model_axis is None else lax.psum(x, self.model_axis)


def normal(rngs: nnx.Rngs, *shape: int, scale: float | None = None) -> nnx.Param:
    return nnx.Param((scale or shape[0] ** -0.5) * jax.random.normal(rngs.params(), shape))


class RMSNorm(nnx.Module):
    def __init__(self, dim: int):
        self.scale = nnx.Param(jnp.ones(dim))

    def __call__(self, x):
        return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * self.scale[...]


class SelfAttention(nnx.Module):
    def __init__(self, cfg: GPTConfig, rngs: nnx.Rngs):
        self.cfg = cfg
        self.qkv = normal(rngs, cfg.dim, cfg.heads * 3 * cfg.head_dim)
        self.out = normal(rngs, cfg.heads * cfg.head_dim, cfg.dim)
        self.out_bias = normal(rngs, cfg.dim, scale=0.2)

    def __call__(self, x):
        b, t, _ = x.shape
        qkv = (x @ self.qkv[...]).reshape(b, t, -1, 3, self.cfg.head_dim)
        q, k, v = (qkv[:, :, :, i] for i in range(3))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / self.cfg.head_dim**0.5
        weights = jax.nn.softmax(jnp.where(jnp.tri(t, dtype=bool), scores, -1e9), axis=-1)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(b, t, -1)
        return self.cfg.reduce(mixed @ self.out[...]) + self.out_bias[...]


class FeedForward(nnx.Module):
    def __init__(self, cfg: GPTConfig, rngs: nnx.Rngs):
        self.cfg = cfg
        self.up = normal(rngs, cfg.dim, cfg.hidden)
        self.up_bias = normal(rngs, cfg.hidden, scale=0.2)
        self.down = normal(rngs, cfg.hidden, cfg.dim)
        self.down_bias = normal(rngs, cfg.dim, scale=0.2)

    def __call__(self, x):
        h = jax.nn.gelu(x @ self.up[...] + self.up_bias[...])
        return self.cfg.reduce(h @ self.down[...]) + self.down_bias[...]


class Block(nnx.Module):
    def __init__(self, cfg: GPTConfig, rngs: nnx.Rngs):
        self.norm1, self.norm2 = RMSNorm(cfg.dim), RMSNorm(cfg.dim)
        self.attention, self.mlp = SelfAttention(cfg, rngs), FeedForward(cfg, rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nnx.Module):
    def __init__(self, cfg: GPTConfig, rngs: nnx.Rngs):
        self.cfg = cfg
        self.embed = normal(rngs, cfg.vocab, cfg.dim, scale=0.5)
        self.position = normal(rngs, cfg.length, cfg.dim, scale=0.5)
        self.blocks = nnx.List([Block(cfg, rngs) for _ in range(cfg.layers)])
        self.norm = RMSNorm(cfg.dim)

    def __call__(self, tokens, key):
        x = self.embed[...][tokens] + self.position[...][: tokens.shape[1]]
        keep = jax.random.bernoulli(key, 1 - self.cfg.dropout, x.shape)
        x = jnp.where(keep, x / (1 - self.cfg.dropout), 0)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.embed[...].T


COLUMNS, ROWS = P(None, "model"), P("model", None)
SHARDED = {"qkv": COLUMNS, "out": ROWS, "up": COLUMNS, "up_bias": P("model"), "down": ROWS}


def spec_of(path, _leaf=None) -> P:
    """The spec of a parameter, or of the momentum that belongs to it."""
    where = jax.tree_util.keystr(path)
    return next((spec for name, spec in SHARDED.items() if f"['{name}']" in where), P())


def token_nll(model: GPT, tokens, key):
    inputs, targets = tokens[:, :-1], tokens[:, 1:]
    nll, mask = optax.softmax_cross_entropy_with_integer_labels(model(inputs, key), targets), targets != PAD
    return jnp.sum(nll * mask), jnp.sum(mask)


def objective(model: GPT, tokens, key):
    total, count = token_nll(model, tokens, key)
    loss = total / lax.pmean(count, "data")
    return loss / lax.axis_size("model"), loss


def synchronise(grads):
    def one(path, g):
        g = lax.psum(g, "model") if spec_of(path) == P() else g
        return lax.pmean(g, "data")

    return jax.tree_util.tree_map_with_path(one, grads)


def grad_norm(grads):
    squares = {True: 0.0, False: 0.0}
    for path, g in jax.tree_util.tree_leaves_with_path(grads):
        squares["model" in spec_of(path)] += jnp.sum(g**2)
    return jnp.sqrt(lax.psum(squares[True], "model") + squares[False])


def train_step(cfg: GPTConfig, graphdef, state, tokens, key):
    model, optimizer = nnx.merge(graphdef, state)
    key = jax.random.fold_in(key, lax.axis_index("data"))
    (_, loss), grads = nnx.value_and_grad(objective, has_aux=True)(model, tokens, key)
    grads = synchronise(grads)
    norm = grad_norm(grads)
    clip = jnp.minimum(1.0, cfg.max_norm / norm)
    optimizer.update(model, jax.tree.map(lambda g: g * clip, grads))
    return nnx.state((model, optimizer)), {"loss": lax.pmean(loss, "data"), "norm": norm}


def corpus(cfg: GPTConfig):
    rng = np.random.default_rng(2)
    for _ in range(cfg.steps):
        start, stride = rng.integers(1, cfg.vocab, (2, cfg.batch, 1))
        tokens = 1 + (start + stride * np.arange(cfg.length + 1)) % (cfg.vocab - 1)
        lengths = rng.integers(3, cfg.length + 2, (cfg.batch, 1))
        yield np.where(np.arange(cfg.length + 1) < lengths, tokens, PAD).astype(np.int32)


def create(cfg: GPTConfig):
    model = GPT(cfg, nnx.Rngs(params=5))
    return model, nnx.Optimizer(model, optax.sgd(cfg.lr, momentum=0.9), wrt=nnx.Param)


def numbers(params, history):
    flat = {jax.tree_util.keystr(k): np.asarray(v) for k, v in jax.tree_util.tree_leaves_with_path(params)}
    return {"params": flat, "history": {k: np.array([h[k] for h in history]) for k in history[0]}}


def main():
    cfg = GPTConfig()
    mesh = Mesh(np.array(jax.devices()).reshape(cfg.data, cfg.model), ("data", "model"))
    graphdef, state = nnx.split(create(cfg))
    specs = jax.tree_util.tree_map_with_path(spec_of, state)
    state = jax.tree.map(lambda x, spec: jax.device_put(x, NamedSharding(mesh, spec)), state, specs)
    step = jax.jit(jax.shard_map(
        partial(train_step, cfg, graphdef), mesh=mesh,
        in_specs=(specs, P("data"), P()), out_specs=(specs, P()), check_vma=False))
    history = []
    for i, tokens in enumerate(corpus(cfg)):
        state, metrics = step(state, tokens, jax.random.key(i))
        history.append(metrics)
    return numbers(nnx.state(nnx.merge(graphdef, state)[0]), history)


def reference():
    cfg = GPTConfig(model_axis=None)
    model, optimizer = create(cfg)

    def loss_fn(model, tokens, key):
        shards = jnp.split(tokens, cfg.data)
        parts = [token_nll(model, x, jax.random.fold_in(key, i)) for i, x in enumerate(shards)]
        return sum(total for total, _ in parts) / sum(count for _, count in parts)

    grad, history = nnx.jit(nnx.value_and_grad(loss_fn)), []
    for i, tokens in enumerate(corpus(cfg)):
        loss, grads = grad(model, tokens, jax.random.key(i))
        norm = optax.global_norm(grads)
        optimizer.update(model, jax.tree.map(lambda g: g * jnp.minimum(1.0, cfg.max_norm / norm), grads))
        history.append({"loss": loss, "norm": norm})
    return numbers(nnx.state(model), history)


if __name__ == "__main__":
    got, want = main(), reference()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), got, want)
    print("ok", got["history"])
