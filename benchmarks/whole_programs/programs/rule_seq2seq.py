"""Encoder-decoder that learns to sort, under ``jax.jit`` with shardings made from rules.

A rule names the logical dimensions of every weight whose path it matches; the mesh gives
each logical dimension an axis ("fsdp" for storage, "tensor" for compute) if it divides.
The only kernel by hand is the cross entropy over a vocabulary split over "tensor".
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec

Tree = Any


@dataclasses.dataclass(frozen=True)
class Settings:
    vocab: int = 40
    width: int = 32
    heads: int = 4
    head: int = 8
    hidden: int = 64
    depth: int = 2
    buckets: int = 5
    batch: int = 16
    micro: int = 4
    source: int = 10
    target: int = 11
    steps: int = 5
    rate: float = 0.02
    smooth: float = 0.1
    z_weight: float = 1e-2
    clip: float = 0.8
    decay: float = 0.1


LOGICAL = {"embed": "fsdp", "heads": "tensor", "hidden": "tensor", "vocab": "tensor", "row": "fsdp"}

RULES: list[tuple[str, tuple[str | None, ...]]] = [
    (r"tokens$", ("vocab", "embed")),
    (r"bias$", (None, "heads")),
    (r"(query|key|value)$", ("embed", "heads", None)),
    (r"merge$", ("heads", None, "embed")),
    (r"(wide|gate)$", ("embed", "hidden")),
    (r"narrow$", ("hidden", "embed")),
    (r"scale$", (None,)),
]


class Layout:
    def __init__(self, fsdp: int = 2, tensor: int = 4):
        kinds = (AxisType.Auto, AxisType.Auto)
        self.mesh = jax.make_mesh((fsdp, tensor), ("fsdp", "tensor"), axis_types=kinds)

    def sharding(self, *axes: str | None) -> NamedSharding:
        return NamedSharding(self.mesh, PartitionSpec(*axes))

    def constrain(self, x: jax.Array, *logical: str | None) -> jax.Array:
        axes = [LOGICAL.get(name) if name else None for name in logical]
        return lax.with_sharding_constraint(x, self.sharding(*axes))

    def of_weight(self, path, leaf) -> NamedSharding:
        """The first rule that matches the end of the path decides."""
        if leaf.ndim == 0:
            return self.sharding()
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        for pattern, logical in RULES:
            if re.search(pattern, name):
                axes = [LOGICAL.get(dim) if dim else None for dim in logical]
                return self.sharding(*map(self.if_it_divides, axes, leaf.shape))
        raise KeyError(f"no rule for {name}")

    def if_it_divides(self, axis, size):
        return axis if axis and size % self.mesh.shape[axis] == 0 else None

    def of_tree(self, tree: Tree) -> Tree:
        return jax.tree_util.tree_map_with_path(self.of_weight, tree)


def make_weights(s: Settings, seed: int = 0) -> Tree:
    rng = np.random.default_rng(seed)

    def matrix(*shape: int, fan: int) -> np.ndarray:
        return (rng.normal(size=shape) / np.sqrt(fan)).astype(np.float32)

    def attention() -> Tree:
        inward = ("query", "key", "value")
        block = {name: matrix(s.width, s.heads, s.head, fan=s.width) for name in inward}
        block["merge"] = matrix(s.heads, s.head, s.width, fan=s.heads * s.head)
        return block | {"scale": np.ones(s.width, np.float32)}

    def forward() -> Tree:
        block = {name: matrix(s.width, s.hidden, fan=s.width) for name in ("wide", "gate")}
        block["narrow"] = matrix(s.hidden, s.width, fan=s.hidden)
        return block | {"scale": np.ones(s.width, np.float32)}

    def stack(*parts) -> Tree:
        return {f"layer{i}": {name: make() for name, make in parts} for i in range(s.depth)}

    encoder = stack(("self", attention), ("forward", forward))
    decoder = stack(("self", attention), ("cross", attention), ("forward", forward))
    for side in (encoder, decoder):
        side["scale"] = np.ones(s.width, np.float32)
        side["bias"] = matrix(2 * s.buckets + 1, s.heads, fan=1)
    return {"tokens": matrix(s.vocab, s.width, fan=4), "encoder": encoder, "decoder": decoder}


def make_batches(s: Settings, seed: int = 1) -> Tree:
    """Sequences to sort: 0 is padding, 1 begins and 2 ends a target; long ones come last."""
    rng = np.random.default_rng(seed)
    lengths = np.sort(rng.integers(3, s.source + 1, (s.steps, s.batch)), axis=1)
    ids = rng.integers(3, s.vocab, (s.steps, s.batch, s.source))
    outside = np.arange(s.source) >= lengths[..., None]
    source = np.where(outside, 0, ids)
    ordered = np.sort(np.where(outside, s.vocab, ids), axis=-1)
    answer = np.pad(ordered % s.vocab, ((0, 0), (0, 0), (0, 1)))
    np.put_along_axis(answer, lengths[..., None], 2, axis=-1)
    given = np.pad(answer[..., :-1], ((0, 0), (0, 0), (1, 0)), constant_values=1)
    batches = {"source": source, "given": given, "answer": answer}
    return {name: ids.astype(np.int32) for name, ids in batches.items()}


class Model:
    def __init__(self, s: Settings, layout: Layout):
        self.s, self.layout = s, layout

    def normalise(self, x, scale):
        x = x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6)
        return self.layout.constrain(x * scale, "row", None, None)

    def distance_bias(self, table, n):
        gap = jnp.arange(n)[None, :] - jnp.arange(n)[:, None]
        bucket = jnp.clip(gap, -self.s.buckets, self.s.buckets) + self.s.buckets
        return jnp.moveaxis(table[bucket], -1, 0)

    def attend(self, w, x, memory, allowed, bias=0.0):
        split = ("row", None, "heads", None)
        q = self.layout.constrain(jnp.einsum("btm,mhd->bthd", x, w["query"]), *split)
        k = self.layout.constrain(jnp.einsum("bsm,mhd->bshd", memory, w["key"]), *split)
        v = self.layout.constrain(jnp.einsum("bsm,mhd->bshd", memory, w["value"]), *split)
        score = jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(self.s.head) + bias
        weight = jax.nn.softmax(jnp.where(allowed, score, -1e9), axis=-1)
        return jnp.einsum("bhts,bshd,hdm->btm", weight, v, w["merge"])

    def forward(self, w, x):
        h = jax.nn.gelu(x @ w["gate"]) * (x @ w["wide"])
        return self.layout.constrain(h, "row", None, "hidden") @ w["narrow"]

    def encode(self, w, tokens, source):
        real = (source != 0)[:, None, None, :]
        x, bias = tokens[source], self.distance_bias(w["bias"], source.shape[1])
        for i in range(self.s.depth):
            layer = w[f"layer{i}"]
            y = self.normalise(x, layer["self"]["scale"])
            x = x + self.attend(layer["self"], y, y, real, bias)
            x = x + self.forward(layer["forward"], self.normalise(x, layer["forward"]["scale"]))
        return self.normalise(x, w["scale"]), real

    def decode(self, w, tokens, given, memory, real):
        n = given.shape[1]
        x, bias = tokens[given], self.distance_bias(w["bias"], n)
        causal = jnp.tril(jnp.ones((n, n), bool))
        for i in range(self.s.depth):
            layer = w[f"layer{i}"]
            y = self.normalise(x, layer["self"]["scale"])
            x = x + self.attend(layer["self"], y, y, causal, bias)
            y = self.normalise(x, layer["cross"]["scale"])
            x = x + self.attend(layer["cross"], y, memory, real)
            x = x + self.forward(layer["forward"], self.normalise(x, layer["forward"]["scale"]))
        return self.normalise(x, w["scale"])

    def logits(self, weights, batch):
        memory, real = self.encode(weights["encoder"], weights["tokens"], batch["source"])
        x = self.decode(weights["decoder"], weights["tokens"], batch["given"], memory, real)
        out = jnp.einsum("btm,vm->btv", x, weights["tokens"]) / np.sqrt(self.s.width)
        return self.layout.constrain(out, "row", None, "vocab")


def vocabulary_kernel(logits, answer, smooth):
    """Smoothed cross entropy, log partition function and hit or miss of every token."""
    columns = logits.shape[-1]
    start = lax.axis_index("tensor") * columns
    top = lax.pmax(lax.stop_gradient(logits.max(-1)), "tensor")
    log_z = jnp.log(lax.psum(jnp.exp(logits - top[..., None]).sum(-1), "tensor")) + top
    here = answer[..., None] == start + jnp.arange(columns)
    right = lax.psum(jnp.where(here, logits, 0.0).sum(-1), "tensor")
    average = lax.psum(logits.sum(-1), "tensor") / (columns * lax.axis_size("tensor"))
    loss = log_z - (1 - smooth) * right - smooth * average
    return loss, log_z, (right >= top).astype(jnp.float32)


class Trainer:
    def __init__(self, s: Settings, layout: Layout):
        self.s, self.layout, self.model = s, layout, Model(s, layout)
        self.optimizer = optax.chain(
            optax.clip_by_global_norm(s.clip),
            optax.scale_by_adam(b2=0.95, eps=1e-4),
            optax.add_decayed_weights(s.decay, mask=self.decayed),
            optax.scale(-s.rate),
        )
        rows = PartitionSpec("fsdp", None)
        self.kernel = jax.shard_map(
            lambda logits, answer: vocabulary_kernel(logits, answer, s.smooth),
            mesh=layout.mesh,
            in_specs=(PartitionSpec("fsdp", None, "tensor"), rows),
            out_specs=(rows, rows, rows),
            check_vma=False,
        )

    @staticmethod
    def decayed(weights: Tree) -> Tree:
        keep = ("scale", "bias")
        return jax.tree_util.tree_map_with_path(lambda path, _: path[-1].key not in keep, weights)

    def sums(self, weights: Tree, batch: Tree):
        loss, log_z, hit = self.kernel(self.model.logits(weights, batch), batch["answer"])
        real = batch["answer"] != 0
        total = jnp.where(real, loss + self.s.z_weight * log_z**2, 0.0).sum()
        told = {"loss": loss, "log_z": log_z, "hit": hit}
        told = {name: jnp.where(real, value, 0.0).sum() for name, value in told.items()}
        return total, told | {"count": real.sum()}

    def accumulate(self, weights: Tree, batch: Tree):
        """Sums over all tokens, a micro-batch at a time; divided by the count at the end."""
        parts = jax.tree.map(lambda x: x.reshape(self.s.micro, -1, *x.shape[1:]), batch)
        differentiate = jax.grad(self.sums, has_aux=True)

        def add(total, part):
            part = jax.tree.map(lambda x: self.layout.constrain(x, "row", None), part)
            return jax.tree.map(jnp.add, total, differentiate(weights, part)), None

        empty = jax.eval_shape(differentiate, weights, jax.tree.map(lambda x: x[0], parts))
        zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), empty)
        (grads, told), _ = lax.scan(add, zero, parts)
        count = told.pop("count")
        return jax.tree.map(lambda g: g / count, grads), {k: v / count for k, v in told.items()}

    def step(self, weights: Tree, memory: Tree, batch: Tree):
        grads, told = self.accumulate(weights, batch)
        told["norm"] = optax.global_norm(grads)
        change, memory = self.optimizer.update(grads, memory, weights)
        return optax.apply_updates(weights, change), memory, told

    def compiled(self, weights: Tree, memory: Tree):
        state = (self.layout.of_tree(weights), self.layout.of_tree(memory))
        batch = self.layout.sharding("fsdp", None)
        return jax.jit(
            self.step,
            in_shardings=(*state, batch),
            out_shardings=(*state, self.layout.sharding()),
            donate_argnums=(0, 1),
        )


def main() -> Tree:
    s, layout = Settings(), Layout()
    trainer, weights, batches = Trainer(s, layout), make_weights(s), make_batches(s)
    weights = jax.device_put(weights, layout.of_tree(weights))
    memory = trainer.optimizer.init(weights)
    memory = jax.device_put(memory, layout.of_tree(memory))
    step, history = trainer.compiled(weights, memory), []
    for i in range(s.steps):
        batch = jax.tree.map(lambda x: x[i], batches)
        weights, memory, told = step(weights, memory, batch)
        history.append(told)
    out = {name: np.array([told[name] for told in history]) for name in history[0]}
    out |= {"tokens": weights["tokens"], "bias": weights["encoder"]["bias"]}
    out["query"] = weights["decoder"]["layer1"]["cross"]["query"]
    return jax.tree.map(np.asarray, out)


def reference() -> Tree:
    """Sequence by sequence, head by head, all at once."""
    s, weights, batches = Settings(), make_weights(Settings()), make_batches(Settings())

    def unit(x, g):
        return g * x / jnp.sqrt((x * x).mean(1, keepdims=True) + 1e-6)

    def attend(w, x, y, mask, table=None):
        gap = np.clip(np.arange(len(y))[None] - np.arange(len(x))[:, None], -5, 5) + 5
        for h in range(s.heads):
            score = (x @ w["query"][:, h]) @ (y @ w["key"][:, h]).T / s.head**0.5
            score = jnp.where(mask, score if table is None else score + table[:, h][gap], -1e9)
            yield jax.nn.softmax(score) @ (y @ w["value"][:, h]) @ w["merge"][h]

    def forward(w, x):
        x = unit(x, w["scale"])
        return (jax.nn.gelu(x @ w["gate"]) * (x @ w["wide"])) @ w["narrow"]

    def logits(p, source, given):
        e, d, real = p["encoder"], p["decoder"], source[None] != 0
        x, y = p["tokens"][source], p["tokens"][given]
        for w in (e["layer0"], e["layer1"]):
            n = unit(x, w["self"]["scale"])
            x = x + sum(attend(w["self"], n, n, real, e["bias"]))
            x = x + forward(w["forward"], x)
        x = unit(x, e["scale"])
        for w in (d["layer0"], d["layer1"]):
            n = unit(y, w["self"]["scale"])
            y = y + sum(attend(w["self"], n, n, np.tri(len(n), dtype=bool), d["bias"]))
            y = y + sum(attend(w["cross"], unit(y, w["cross"]["scale"]), x, real))
            y = y + forward(w["forward"], y)
        return unit(y, d["scale"]) @ p["tokens"].T / s.width**0.5

    def loss(p, batch):
        out = jax.vmap(logits, (None, 0, 0))(p, batch["source"], batch["given"])
        real = batch["answer"] != 0
        z = jax.nn.logsumexp(out, axis=-1)
        soft = 0.9 * jax.nn.one_hot(batch["answer"], s.vocab) + 0.1 / s.vocab
        each = -(jax.nn.log_softmax(out) * soft).sum(-1)
        mean = lambda x: (x * real).sum() / real.sum()
        hit = mean(out.argmax(-1) == batch["answer"])
        return mean(each + s.z_weight * z**2), {"loss": mean(each), "log_z": mean(z), "hit": hit}

    optimizer = Trainer(s, Layout()).optimizer
    memory, history = optimizer.init(weights), []
    gradient = jax.jit(jax.grad(loss, has_aux=True))
    for i in range(s.steps):
        grads, told = gradient(weights, jax.tree.map(lambda x: x[i], batches))
        history.append(told | {"norm": optax.global_norm(grads)})
        change, memory = optimizer.update(grads, memory, weights)
        weights = optax.apply_updates(weights, change)
    out = {name: np.array([told[name] for told in history]) for name in history[0]}
    out |= {"tokens": weights["tokens"], "bias": weights["encoder"]["bias"]}
    return out | {"query": weights["decoder"]["layer1"]["cross"]["query"]}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-3, atol=5e-4, err_msg=name)
    print("rule_seq2seq: loss", got["loss"], "hits", got["hit"])
