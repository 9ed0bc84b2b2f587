"""Train a text retriever with a queue of old keys, then search a sharded index with it.

Training follows MoCo: queries come from the trained encoder, keys from its slow copy, and
negatives from the batches of all devices and from a queue, of which every device holds a
part.  Only queries travel: each device scores all of them against the keys that it has.
"""

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import PartitionSpec

DEV = "dev"
SPLIT, SAME = PartitionSpec(DEV), PartitionSpec()

VOCAB, LENGTH, WIDTH, HIDDEN, OUT = 50, 9, 24, 32, 16
DOCS, QUESTIONS, BATCH, STEPS, KEEP = 145, 43, 32, 8, 5
QUEUE = 96
SLOW = 0.7
NEVER = -1e9


def shared(**extra):
    return field(metadata={"static": True}, **extra)


@jax.tree_util.register_dataclass
@dataclass
class Encoder:
    """A bag of words and two layers; ``scale`` is the logarithm of 1 / temperature."""

    table: jax.Array
    first: jax.Array
    bias: jax.Array
    second: jax.Array
    scale: jax.Array
    dropped: int = shared(default=0)

    def __call__(self, tokens):
        seen = (tokens != self.dropped).astype(jnp.float32)[..., None]
        mean = jnp.sum(self.table[tokens] * seen, axis=-2) / jnp.maximum(seen.sum(-2), 1.0)
        return unit(jnp.tanh(mean @ self.first + self.bias) @ self.second)


@jax.tree_util.register_dataclass
@dataclass
class Queue:
    """The last keys of this device and the documents that they stand for."""

    keys: jax.Array
    ids: jax.Array
    at: jax.Array

    def push(self, keys, ids):
        rows = lambda old, new: lax.dynamic_update_slice_in_dim(old, new, self.at, axis=0)
        at = (self.at + ids.shape[0]) % self.ids.shape[0]
        return Queue(rows(self.keys, keys), rows(self.ids, ids), at)


def new_encoder(seed=0):
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return (rng.normal(size=shape) / np.sqrt(shape[0])).astype(np.float32)

    table = normal(VOCAB, WIDTH) * 5
    bias = 0.1 * normal(HIDDEN)
    return Encoder(table, normal(WIDTH, HIDDEN), bias, normal(HIDDEN, OUT), np.float32(1.5))


def library(seed=3):
    """Documents in order of topic, whose words overlap; 0 is padding."""
    rng = np.random.default_rng(seed)
    topic = np.sort(rng.integers(0, 12, DOCS))
    words = 1 + (topic[:, None] * 4 + rng.integers(0, 9, (DOCS, LENGTH))) % (VOCAB - 1)
    length = rng.integers(4, LENGTH + 1, (DOCS, 1))
    return np.where(np.arange(LENGTH) < length, words, 0).astype(np.int32)


def ask(docs, chosen, seed):
    """Questions keep some words of their document and get some that are noise."""
    rng = np.random.default_rng(seed)
    kept = rng.random((len(chosen), LENGTH)) < 0.6
    noise = np.where(rng.random(kept.shape) < 0.3, rng.integers(1, VOCAB, kept.shape), 0)
    return np.where(kept, docs[chosen], noise).astype(np.int32)


def lessons(docs):
    rng = np.random.default_rng(8)
    chosen = np.stack([np.sort(rng.integers(0, DOCS, BATCH)) for _ in range(STEPS)])
    asked = np.stack([ask(docs, row, 100 + i) for i, row in enumerate(chosen)])
    return asked, docs[chosen], chosen.astype(np.int32)


def exam(docs):
    chosen = np.random.default_rng(9).integers(0, DOCS, QUESTIONS).astype(np.int32)
    return ask(docs, chosen, 99), chosen


def unit(x):
    return x / jnp.sqrt(jnp.sum(x * x, axis=-1, keepdims=True) + 1e-8)


def fill(x, rows, value=0):
    widths = [(0, rows - len(x))] + [(0, 0)] * (x.ndim - 1)
    return np.pad(x, widths, constant_values=value)


def rounded_up(count, parts):
    return -(-count // parts) * parts


def whole(x):
    """All devices' rows, one after the other."""
    return lax.all_gather(x, DEV, tiled=True)


def share(x):
    """Sums over devices, of which each keeps its own rows."""
    return lax.psum_scatter(x, DEV, scatter_dimension=0, tiled=True)


def start_of(rows):
    return lax.axis_index(DEV) * rows


def spmd(mesh, ins, outs, **jit_options):
    """Decorator: a function of one device's parts becomes one of whole arrays."""

    def wrap(f):
        mapped = jax.shard_map(f, mesh=mesh, in_specs=ins, out_specs=outs, check_vma=False)
        return jax.jit(mapped, **jit_options)

    return wrap


def contrast(encoder, asked, ids, keys, queue):
    """Sum over the own questions of their losses, and how many find their own key first."""
    mine = encoder(asked)
    sharp = jnp.exp(encoder.scale)
    own = sharp * jnp.sum(mine * keys, axis=-1)
    held = jnp.concatenate([keys, queue.keys])
    held_ids = jnp.concatenate([ids, queue.ids])
    score = sharp * whole(mine) @ held.T
    rival = (held_ids >= 0) & (whole(ids)[:, None] != held_ids)
    score = jnp.where(rival, score, NEVER)
    best = lax.pmax(lax.stop_gradient(score).max(axis=1), DEV)
    mass = share(jnp.exp(score - best[:, None]).sum(axis=1))
    first = start_of(own.size)
    best = lax.dynamic_slice_in_dim(best, first, own.size)
    loss = jnp.logaddexp(own, best + jnp.log(mass)) - own
    return loss.sum(), jnp.sum(own > best)


def schedule_of(step):
    return SLOW + (1 - SLOW) * step / (2 * STEPS)


OPTIMIZER = optax.adamw(5e-3, b2=0.95, eps=1e-3, weight_decay=1e-2)


def study(carry, lesson):
    encoder, slow, moments, queue, step = carry
    asked, documents, ids = lesson
    batch = asked.shape[0] * lax.axis_size(DEV)
    keys = slow(documents)

    def objective(encoder):
        loss, found = contrast(encoder, asked, ids, keys, queue)
        return loss / batch, found

    (loss, found), grads = jax.value_and_grad(objective, has_aux=True)(encoder)
    loss, found, grads = lax.psum((loss, found, grads), DEV)
    norm = optax.global_norm(grads)
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, 0.5 / norm), grads)
    updates, moments = OPTIMIZER.update(grads, moments, encoder)
    encoder = optax.apply_updates(encoder, updates)
    keep = schedule_of(step)
    slow = jax.tree.map(lambda old, new: keep * old + (1 - keep) * new, slow, encoder)
    told = {"loss": loss, "norm": norm, "found": found / batch}
    return (encoder, slow, moments, queue.push(keys, ids), step + 1), told


def make_course(mesh):
    queue_specs = Queue(SPLIT, SPLIT, SAME)
    lesson = PartitionSpec(None, DEV)

    @spmd(mesh, (SAME, queue_specs, (lesson,) * 3), (SAME, SAME, queue_specs, SAME))
    def course(encoder, queue, lessons):
        carry = (encoder, encoder, OPTIMIZER.init(encoder), queue, 0)
        (encoder, slow, _, queue, _), told = lax.scan(study, carry, lessons)
        return encoder, slow, queue, told

    return course


def make_index(mesh):
    @spmd(mesh, (SAME, SPLIT, SPLIT), (SPLIT, SAME))
    def index(encoder, docs, real):
        """Embeddings around the mean of all documents."""
        out = encoder(docs)
        weight = real.astype(out.dtype)[:, None]
        mean = lax.psum((out * weight).sum(axis=0), DEV) / lax.psum(weight.sum(), DEV)
        return unit(out - mean), mean

    return index


def merged(score, keep):
    """The best of all documents for the own questions, from the best of every device."""
    top, place = lax.top_k(score, keep)
    place = place + start_of(score.shape[1])
    n = lax.axis_size(DEV)

    def to_owner(x):
        x = x.reshape(n, -1, keep)
        x = lax.all_to_all(x, DEV, split_axis=0, concat_axis=0)
        return jnp.swapaxes(x, 0, 1).reshape(-1, n * keep)

    top, place = to_owner(top), to_owner(place)
    value, order = lax.top_k(top, keep)
    return value, jnp.take_along_axis(place, order, axis=1)


def make_search(mesh):
    @spmd(mesh, (SAME, SPLIT, SPLIT, SAME, SPLIT, SPLIT), (SPLIT, SPLIT, SAME))
    def search(encoder, vectors, real, mean, asked, answer):
        question = unit(encoder(asked) - mean)
        score = jnp.where(real, whole(question) @ vectors.T, NEVER)
        value, place = merged(score, KEEP)
        local = whole(answer) - start_of(real.size)
        here = (local >= 0) & (local < real.size)
        local = jnp.clip(local, 0, real.size - 1)[:, None]
        gold = jnp.where(here, jnp.take_along_axis(score, local, axis=1)[:, 0], 0.0)
        gold = lax.psum(gold, DEV)
        rank = 1 + share(jnp.sum(score > gold[:, None], axis=1))
        known = answer >= 0
        count = lax.psum(known.sum(), DEV)

        def average(x):
            return lax.psum(jnp.sum(jnp.where(known, x, 0.0)), DEV) / count

        hit = jnp.any(place == answer[:, None], axis=1)
        margin = value[:, 0] - value[:, 1]
        told = {"recall": average(hit), "mrr": average(1.0 / rank), "margin": average(margin)}
        told["worst"] = lax.pmax(jnp.max(jnp.where(known, rank, 0)), DEV)
        return value, place, told

    return search


def main():
    mesh = jax.make_mesh((8,), (DEV,), axis_types=(jax.sharding.AxisType.Auto,))
    docs = library()
    empty = Queue(np.zeros((QUEUE, OUT), np.float32), np.full(QUEUE, -1, np.int32), 0)
    encoder, slow, queue, told = make_course(mesh)(new_encoder(), empty, lessons(docs))
    rows = rounded_up(DOCS, mesh.size)
    padded, real = fill(docs, rows), np.arange(rows) < DOCS
    vectors, mean = make_index(mesh)(slow, padded, real)
    asked, answer = exam(docs)
    questions = rounded_up(QUESTIONS, mesh.size)
    asked, answer = fill(asked, questions), fill(answer, questions, -1)
    value, place, found = make_search(mesh)(encoder, vectors, real, mean, asked, answer)
    out = told | found | {"value": value[:QUESTIONS], "place": place[:QUESTIONS]}
    out |= {"table": encoder.table, "slow": slow.second, "scale": encoder.scale}
    out |= {"mean": mean, "queued": queue.keys.sum(0)}
    return {name: np.asarray(array) for name, array in out.items()}


def reference():
    """The queue is a list of batches, the index one array that is sorted."""
    docs, (asked, read, ids) = library(), lessons(library())
    encoder = jax.tree.map(jnp.asarray, new_encoder())
    slow, told, history = encoder, [], []

    def embed(e, tokens):
        seen = tokens != 0
        words = jax.nn.one_hot(tokens, VOCAB) * seen[..., None]
        mean = (words.sum(1) / np.maximum(seen.sum(1), 1)[:, None]) @ e.table
        h = jnp.tanh(mean @ e.first + e.bias) @ e.second
        return h / jnp.linalg.norm(h, axis=1, keepdims=True)

    def objective(e, asked, ids, keys, old_keys, old_ids):
        every, every_ids = jnp.concatenate([keys, *old_keys]), np.concatenate([ids, *old_ids])
        score = jnp.exp(e.scale) * embed(e, asked) @ every.T
        allowed = (ids[:, None] != every_ids) | np.eye(*score.shape, dtype=bool)
        logp = jax.nn.log_softmax(jnp.where(allowed, score, -jnp.inf))
        won = jnp.where(allowed, score, -jnp.inf).argmax(1) == np.arange(BATCH)
        return -jnp.diag(logp).mean(), won.mean()

    tx = optax.chain(optax.clip_by_global_norm(0.5), OPTIMIZER)
    state = tx.init(encoder)
    for t in range(STEPS):
        keys = embed(slow, read[t])
        old = history[-QUEUE // BATCH :]
        args = (asked[t], ids[t], keys, [k for k, _ in old], [i for _, i in old])
        (loss, won), grads = jax.value_and_grad(objective, has_aux=True)(encoder, *args)
        told.append((loss, optax.global_norm(grads), won))
        updates, state = tx.update(grads, state, encoder)
        encoder = optax.apply_updates(encoder, updates)
        keep = 0.7 + 0.3 * t / 16
        slow = jax.tree.map(lambda a, b: keep * a + (1 - keep) * b, slow, encoder)
        history.append((keys, ids[t]))
    vectors, (asked, answer) = embed(slow, docs), exam(docs)
    mean = vectors.mean(0)
    toward, vectors = embed(encoder, asked) - mean, vectors - mean
    score = np.asarray(unit(toward) @ unit(vectors).T)
    order = np.argsort(-score, axis=1, kind="stable")
    value = np.take_along_axis(score, order, axis=1)[:, :KEEP]
    rank = 1 + (score > score[np.arange(QUESTIONS), answer][:, None]).sum(1)
    out = dict(zip(("loss", "norm", "found"), np.array(told).T))
    out |= {"recall": np.mean([a in row for a, row in zip(answer, order[:, :KEEP])])}
    out |= {"mrr": np.mean(1 / rank), "worst": rank.max(), "value": value, "place": order[:, :KEEP]}
    out |= {"margin": np.mean(value[:, 0] - value[:, 1]), "table": encoder.table}
    out |= {"slow": slow.second, "scale": encoder.scale, "mean": mean}
    out["queued"] = sum(k.sum(0) for k, _ in history[-QUEUE // BATCH :])
    return {name: np.asarray(array) for name, array in out.items()}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, array in wanted.items():
        np.testing.assert_allclose(got[name], array, rtol=2e-3, atol=5e-4, err_msg=name)
    print("moco_retriever: loss", got["loss"], "recall", got["recall"], "mrr", got["mrr"])
