"""DeepSpeed-Ulysses attention together with a vocabulary-parallel tied embedding.

Mesh: ``sp`` cuts the sequence (heads, inside of attention), ``vp`` cuts the vocabulary.
"""

import os

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") or "--xla_force_host_platform_device_count=8"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

IGNORE = -1


class AllToAll:
    """Swaps a cut of the sequence for a cut of the heads.  Tensors are (batch, time, heads, head_dim)."""

    def __init__(self, axis):
        self.axis = axis

    def to_heads(self, x):
        return lax.all_to_all(x, self.axis, split_axis=2, concat_axis=1, tiled=True)

    def to_sequence(self, x):
        return lax.all_to_all(x, self.axis, split_axis=1, concat_axis=2, tiled=True)


class VocabParallel:
    """Rows of the (tied) embedding table are spread over ``axis``."""

    def __init__(self, axis):
        self.axis = axis

    def _localize(self, table, ids):
        rows = table.shape[0]
        local = ids - lax.axis_index(self.axis) * rows
        mine = (local >= 0) & (local < rows)
        return jnp.clip(local, 0, rows - 1), mine

    def lookup(self, table, ids):
        local, mine = self._localize(table, ids)
        out = jnp.where(mine[..., None], table[local], 0.0)
        return lax.psum(out, self.axis)

    def cross_entropy(self, table, x, targets):
        logits = jnp.einsum("btd,vd->btv", x, table)
        top = lax.pmax(lax.stop_gradient(logits.max(axis=-1)), self.axis)
        sum_exp = jnp.exp(logits - top[..., None]).sum(axis=-1)
        log_z = top + jnp.log(lax.psum(sum_exp, self.axis))
        local, mine = self._localize(table, targets)
        hit = jnp.take_along_axis(logits, local[..., None], axis=-1).squeeze(-1)
        hit = lax.psum(jnp.where(mine, hit, 0.0), self.axis)
        return log_z - hit

    def predict(self, table, x):
        """Argmax over the whole vocabulary (the smallest id if there are several)."""
        logits = lax.stop_gradient(jnp.einsum("btd,vd->btv", x, table))
        best = logits.max(axis=-1)
        ids = logits.argmax(axis=-1) + lax.axis_index(self.axis) * table.shape[0]
        winner = best == lax.pmax(best, self.axis)
        return lax.pmin(jnp.where(winner, ids, jnp.iinfo(jnp.int32).max), self.axis)


class UlyssesLM:
    def __init__(self, sp, vp, vocab=64, dim=32, heads=16, layers=2, seq=64, batch=2):
        devices = mesh_utils.create_device_mesh((sp, vp), devices=jax.devices()[: sp * vp])
        self.mesh = Mesh(devices, ("sp", "vp"))
        self.vocab, self.dim, self.heads, self.layers = vocab, dim, heads, layers
        self.seq, self.batch = seq, batch
        self.head_dim = dim // heads
        self.a2a = AllToAll("sp")
        self.vocab_parallel = VocabParallel("vp")
        self.specs = {"table": PartitionSpec("vp"), "layers": PartitionSpec()}

    def init(self, seed=0):
        rng = np.random.default_rng(seed)
        d = self.dim
        normal = lambda *s: rng.normal(size=s, scale=s[-2] ** -0.5).astype(np.float32)
        return {
            "table": 0.3 * rng.normal(size=(self.vocab, d)).astype(np.float32),
            "layers": [
                {"qkv": normal(d, 3 * d), "proj": normal(d, d), "up": normal(d, 2 * d), "down": normal(2 * d, d)}
                for _ in range(self.layers)
            ],
        }

    # -- per-device code ------------------------------------------------------------------------

    def positions(self, t):
        """Sinusoids of the local t positions."""
        pos = lax.axis_index("sp") * t + jnp.arange(t)
        rates = 1000.0 ** (-jnp.arange(self.dim // 2) / (self.dim // 2))
        angle = pos[:, None] * rates
        return jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], axis=-1)

    def slopes(self, h):
        """ALiBi slopes of the local h heads."""
        index = lax.axis_index("sp") * h + jnp.arange(h)
        return 2.0 ** (-4.0 * (index + 1) / self.heads)

    def attention(self, layer, x):
        b, t, d = x.shape
        qkv = (self.norm(x) @ layer["qkv"]).reshape(b, t, 3, self.heads, self.head_dim)
        q, k, v = (self.a2a.to_heads(qkv[:, :, i]) for i in range(3))
        length, h = q.shape[1], q.shape[2]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * self.head_dim**-0.5
        distance = jnp.arange(length)[:, None] - jnp.arange(length)[None, :]
        scores = scores - self.slopes(h)[:, None, None] * distance
        scores = jnp.where(distance >= 0, scores, -jnp.inf)
        weights = jax.nn.softmax(scores, axis=-1)
        out = jnp.einsum("bhqk,bkhd->bqhd", weights, v)
        out = self.a2a.to_sequence(out)
        return out.reshape(b, t, d) @ layer["proj"]

    @staticmethod
    def norm(x):
        return x / jnp.sqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-5)

    def trunk(self, params, ids):
        x = self.vocab_parallel.lookup(params["table"], ids)
        x = x + self.positions(ids.shape[1])
        for layer in params["layers"]:
            x = x + self.attention(layer, x)
            x = x + jax.nn.gelu(self.norm(x) @ layer["up"]) @ layer["down"]
        return self.norm(x)

    def loss(self, params, ids, targets):
        x = self.trunk(params, ids)
        valid = (targets != IGNORE).astype(jnp.float32)
        nll = self.vocab_parallel.cross_entropy(params["table"], x, targets)
        correct = self.vocab_parallel.predict(params["table"], x) == targets
        count = lax.psum(valid.sum(), "sp")
        loss = lax.psum((nll * valid).sum(), "sp") / count
        accuracy = lax.psum((correct * valid).sum(), "sp") / count
        return loss, accuracy

    # -- training -------------------------------------------------------------------------------

    def train_step(self, lr):
        loss = jax.shard_map(
            self.loss,
            mesh=self.mesh,
            in_specs=(self.specs, PartitionSpec(None, "sp"), PartitionSpec(None, "sp")),
            out_specs=(PartitionSpec(), PartitionSpec()),
            check_vma=False,
        )

        def step(params, ids, targets):
            (value, accuracy), grads = jax.value_and_grad(loss, has_aux=True)(params, ids, targets)
            return jax.tree.map(lambda p, g: p - lr * g, params, grads), value, accuracy

        return jax.jit(step)

    def data(self, steps):
        rng = np.random.default_rng(1)
        for _ in range(steps):
            text = rng.integers(0, self.vocab, (self.batch, self.seq + 1), dtype=np.int32)
            text[:, 1::2] = text[:, 0:-1:2]  # every other token is said twice
            ids, targets = text[:, :-1], text[:, 1:].copy()
            targets[0, self.seq // 2 + 5 :] = IGNORE  # a shorter document
            yield ids, targets

    def place(self, params):
        table = jax.device_put(params["table"], NamedSharding(self.mesh, self.specs["table"]))
        return {"table": table, "layers": jax.device_put(params["layers"], NamedSharding(self.mesh, PartitionSpec()))}


def main(sp=4, vp=2, steps=3, lr=0.3):
    model = UlyssesLM(sp, vp)
    params = model.place(model.init())
    step = model.train_step(lr)
    losses, accuracies = [], []
    for ids, targets in model.data(steps):
        params, loss, accuracy = step(params, ids, targets)
        losses.append(loss)
        accuracies.append(accuracy)
    return {"loss": np.array(losses), "accuracy": np.array(accuracies), **jax.tree.map(np.asarray, params)}


def reference(steps=3, lr=0.3):
    model = UlyssesLM(1, 1)
    T, H, hd = model.seq, model.heads, model.head_dim

    def loss_fn(p, ids, targets):
        pos = np.arange(T)
        angle = pos[:, None] * 1000.0 ** (-np.arange(model.dim // 2) / (model.dim // 2))
        x = p["table"][ids] + jnp.asarray(np.concatenate([np.sin(angle), np.cos(angle)], -1), jnp.float32)
        for layer in p["layers"]:
            q, k, v = jnp.split(model.norm(x) @ layer["qkv"], 3, axis=-1)
            outs = []
            for i in range(H):
                cut = slice(i * hd, (i + 1) * hd)
                s = q[..., cut] @ k[..., cut].mT / np.sqrt(hd) - 2 ** (-4 * (i + 1) / H) * (pos[:, None] - pos)
                outs.append(jax.nn.softmax(jnp.where(np.tri(T, dtype=bool), s, -1e30)) @ v[..., cut])
            x = x + jnp.concatenate(outs, -1) @ layer["proj"]
            x = x + jax.nn.gelu(model.norm(x) @ layer["up"]) @ layer["down"]
        logits = model.norm(x) @ p["table"].T
        valid = targets != IGNORE
        nll = -jnp.take_along_axis(jax.nn.log_softmax(logits), targets[..., None], -1)[..., 0]
        mean = lambda a: jnp.sum(a * valid) / valid.sum()
        return mean(nll), mean(logits.argmax(-1) == targets)

    params, losses, accuracies = model.init(), [], []
    grad = jax.jit(jax.value_and_grad(loss_fn, has_aux=True))
    for ids, targets in model.data(steps):
        (loss, accuracy), g = grad(params, ids, targets)
        params = jax.tree.map(lambda p, g: p - lr * g, params, g)
        losses.append(loss)
        accuracies.append(accuracy)
    return {"loss": np.array(losses), "accuracy": np.array(accuracies), **jax.tree.map(np.asarray, params)}


if __name__ == "__main__":
    got, expected = main(), reference()
    for (path, a), b in zip(jax.tree_util.tree_leaves_with_path(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=jax.tree_util.keystr(path))
    print("loss", *got["loss"], "accuracy", *got["accuracy"])
