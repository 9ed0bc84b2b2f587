"""A sequence tagger with switch layers: flax.linen modules in the setup() style, layers by nn.scan.

The dense parts are left to jit; the experts of a layer live along mesh axis 'expert' and are reached by all_to_all inside
of shard_map.  Capacity is per device, so the reference routes the tokens of each device on their own, too.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import dataclasses
import functools
import math
from typing import Any, Callable, NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec


@dataclasses.dataclass(frozen=True)
class SwitchConfig:
    vocab: int = 20
    tags: int = 7
    width: int = 16
    inner: int = 16
    heads: int = 2
    layers: int = 2
    experts: int = 16
    capacity_factor: float = 1.5
    jitter: float = 0.2
    balance_weight: float = 0.1
    batch: int = 16
    length: int = 10
    learning_rate: float = 0.3
    steps: int = 2

    def capacity(self, tokens: int) -> int:
        return math.ceil(self.capacity_factor * tokens / self.experts)


AXES = ("data", "expert")
TOKENS, EXPERTS, REPLICATED = PartitionSpec(AXES), PartitionSpec("expert"), PartitionSpec()


class Stats(NamedTuple):
    balance: jax.Array
    dropped: jax.Array


def jittered(cfg: SwitchConfig, logits, key):
    return jax.nn.softmax(logits * jax.random.uniform(key, logits.shape, minval=1 - cfg.jitter, maxval=1 + cfg.jitter))


class Routing(NamedTuple):
    dispatch: jax.Array
    combine: jax.Array
    load: jax.Array
    importance: jax.Array


def route(cfg: SwitchConfig, probs) -> Routing:
    capacity = cfg.capacity(probs.shape[0])
    chosen = jax.nn.one_hot(jnp.argmax(probs, axis=-1), cfg.experts)
    before = jnp.cumsum(chosen, axis=0) - chosen
    slot = jnp.sum(before * chosen, axis=-1).astype(jnp.int32)
    dispatch = chosen[:, :, None] * jax.nn.one_hot(slot, capacity)[:, None, :]
    return Routing(dispatch, dispatch * jnp.max(probs, axis=-1)[:, None, None], jnp.mean(chosen, axis=0), jnp.mean(probs, axis=0))


def run_experts(w_in, w_out, rows):
    hidden = jax.nn.gelu(jnp.einsum("ecd,edf->ecf", rows, w_in))
    return jnp.einsum("ecf,efd->ecd", hidden, w_out)


def exchanged(w_in, w_out, rows):
    """Sends (experts, capacity, width) to the ranks of the experts, and what they make of it back."""
    experts, capacity, width = rows.shape
    ranks = jax.lax.axis_size("expert")
    rows = jax.lax.all_to_all(rows, "expert", split_axis=0, concat_axis=1, tiled=True)
    rows = run_experts(w_in, w_out, rows.reshape(experts // ranks, ranks * capacity, width))
    rows = jax.lax.all_to_all(rows, "expert", split_axis=1, concat_axis=0, tiled=True)
    return rows.reshape(experts, capacity, width)


def moe_on_device(cfg: SwitchConfig, x, logits, w_in, w_out, key):
    tokens, key = x.reshape(-1, cfg.width), jax.random.fold_in(key, jax.lax.axis_index(AXES))
    routing = route(cfg, jittered(cfg, logits.reshape(-1, cfg.experts), key))
    rows = exchanged(w_in, w_out, jnp.einsum("sec,sd->ecd", routing.dispatch, tokens))
    y = jnp.einsum("sec,ecd->sd", routing.combine, rows)

    load, importance = jax.lax.pmean((routing.load, routing.importance), AXES)
    sent = jax.lax.psum(jnp.sum(routing.dispatch), AXES)
    total = jax.lax.psum(tokens.shape[0], AXES)
    return y.reshape(x.shape), Stats(cfg.experts * jnp.sum(load * importance), 1 - sent / total)


class SwitchLayer(nn.Module):
    cfg: SwitchConfig
    moe: Callable[..., Any]

    def setup(self):
        cfg = self.cfg
        init = nn.initializers.variance_scaling(1.0, "fan_in", "normal", batch_axis=0)
        self.router = nn.Dense(cfg.experts, use_bias=False, kernel_init=nn.initializers.normal(0.5))
        self.w_in = self.param("w_in", init, (cfg.experts, cfg.width, cfg.inner))
        self.w_out = self.param("w_out", init, (cfg.experts, cfg.inner, cfg.width))

    def __call__(self, x, key):
        return self.moe(x, self.router(x), self.w_in, self.w_out, key)


class Layer(nn.Module):
    cfg: SwitchConfig
    moe: Callable[..., Any]

    def setup(self):
        self.attention_norm, self.switch_norm = nn.LayerNorm(), nn.LayerNorm()
        self.attention = nn.MultiHeadDotProductAttention(num_heads=self.cfg.heads)
        self.switch = SwitchLayer(self.cfg, self.moe)

    def __call__(self, x, key):
        x = x + self.attention(self.attention_norm(x))
        y, stats = self.switch(self.switch_norm(x), key)
        return x + y, stats


class Tagger(nn.Module):
    cfg: SwitchConfig
    moe: Callable[..., Any]

    def setup(self):
        scanned = nn.scan(Layer, variable_axes={"params": 0}, split_rngs={"params": True}, length=self.cfg.layers)
        self.embed = nn.Embed(self.cfg.vocab, self.cfg.width, embedding_init=nn.initializers.normal(1.0))
        self.stack = scanned(self.cfg, self.moe)
        self.head = nn.Dense(self.cfg.tags)

    def __call__(self, ids, key):
        x, stats = self.stack(self.embed(ids), jax.random.split(key, self.cfg.layers))
        return self.head(x), jax.tree.map(jnp.mean, stats)


def make_step(tagger: Tagger, tx: optax.GradientTransformation):
    def loss_fn(params, ids, tags, key):
        logits, stats = tagger.apply({"params": params}, ids, key)
        loss = optax.softmax_cross_entropy_with_integer_labels(logits, tags).mean()
        return loss + tagger.cfg.balance_weight * stats.balance, (loss, stats)

    @jax.jit
    def step(params, opt_state, ids, tags, key):
        grads, (loss, stats) = jax.grad(loss_fn, has_aux=True)(params, ids, tags, key)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, {"loss": loss, **stats._asdict()}

    return step


def sentences(cfg: SwitchConfig):
    rng = np.random.default_rng(11)
    for _ in range(cfg.steps):
        ids = rng.integers(0, cfg.vocab, (cfg.batch, cfg.length), dtype=np.int32)
        yield ids, (ids + np.roll(ids, 1, axis=1)) % cfg.tags


def fit(cfg: SwitchConfig, moe, place_params, place_batch):
    tagger, tx = Tagger(cfg, moe), optax.sgd(cfg.learning_rate, momentum=0.9)
    ids, _ = next(sentences(cfg))
    params = place_params(jax.jit(tagger.init)(jax.random.key(3), ids, jax.random.key(0))["params"])
    opt_state, step, history = tx.init(params), make_step(tagger, tx), []
    for i, batch in enumerate(sentences(cfg)):
        params, opt_state, metrics = step(params, opt_state, *place_batch(batch), jax.random.key(100 + i))
        history.append(metrics)
    flat = {jax.tree_util.keystr(k): np.asarray(v) for k, v in jax.tree_util.tree_leaves_with_path(params)}
    return {"params": flat, "history": {k: np.array([h[k] for h in history]) for k in history[0]}}


def main():
    cfg = SwitchConfig()
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), AXES)
    moe = jax.shard_map(
        functools.partial(moe_on_device, cfg),
        mesh=mesh, check_vma=False,
        in_specs=(TOKENS, TOKENS, EXPERTS, EXPERTS, REPLICATED),
        out_specs=(TOKENS, REPLICATED),
    )

    def place(path, x):
        spec = PartitionSpec(None, "expert") if path[-1].key in ("w_in", "w_out") else REPLICATED
        return jax.device_put(x, NamedSharding(mesh, spec))

    place_params = functools.partial(jax.tree_util.tree_map_with_path, place)
    return fit(cfg, moe, place_params, lambda batch: jax.device_put(batch, NamedSharding(mesh, TOKENS)))


def moe_on_one_device(cfg: SwitchConfig, groups: int, x, logits, w_in, w_out, key):
    def one(i, x, logits):
        probs = jittered(cfg, logits, jax.random.fold_in(key, i))
        choice = probs.argmax(1)
        earlier = jnp.tril(choice[:, None] == choice[None, :], -1).sum(1)
        kept = earlier < cfg.capacity(len(x))
        hidden = jax.nn.gelu(jnp.einsum("sd,sdf->sf", x, w_in[choice]))
        y = jnp.einsum("sf,sfd->sd", hidden, w_out[choice]) * (probs.max(1) * kept)[:, None]
        return y, jax.nn.one_hot(choice, cfg.experts), probs, kept

    tokens, logits = x.reshape(groups, -1, cfg.width), logits.reshape(groups, -1, cfg.experts)
    y, chosen, probs, kept = jax.vmap(one)(jnp.arange(groups), tokens, logits)
    return y.reshape(x.shape), Stats(cfg.experts * chosen.mean((0, 1)) @ probs.mean((0, 1)), 1 - kept.mean())


def reference():
    cfg = SwitchConfig()
    return fit(cfg, functools.partial(moe_on_one_device, cfg, 8), lambda params: params, lambda batch: batch)


if __name__ == "__main__":
    got, want = main(), reference()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), got, want)
    print("ok", got["history"])
