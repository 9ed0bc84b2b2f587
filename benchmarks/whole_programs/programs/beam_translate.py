"""Beam search with a recurrent translator: sentences over "batch"; vocabulary and hidden units over "vocab".

The full distribution over words is never gathered: every shard proposes its best continuations, the beams are chosen
among all proposals.  Scores have a length and a coverage penalty (Wu et al., 2016).
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

VOCAB, EMBED, HIDDEN, SOURCE = 48, 12, 16, 7
SENTENCES, BEAMS, LENGTH = 4, 4, 8
BOS, EOS = 0, 1
ALPHA, BETA = 0.7, 0.3
NEVER = -1e9

SPECS = {
    "embed": P("vocab", None), "w_x": P(None, None, "vocab"), "w_h": P(None, None, "vocab"), "b": P(None, "vocab"),
    "w_query": P(None, None), "w_out": P(None, "vocab"), "b_out": P("vocab"),
}  # fmt: skip


class Source(NamedTuple):
    encoded: jax.Array  # sentence, place, hidden
    length: jax.Array  # sentence


class Beams(NamedTuple):
    tokens: jax.Array  # sentence, beam, time
    score: jax.Array  # sentence, beam
    hidden: jax.Array  # sentence, beam, hidden
    coverage: jax.Array  # sentence, beam, place
    done: jax.Array  # sentence, beam


def first_of(size):
    """Global number of this shard's first word or hidden unit."""
    return lax.axis_index("vocab") * size


def embed(table, ids):
    rows = table.shape[0]
    local = ids - first_of(rows)
    inside = (local >= 0) & (local < rows)
    found = table[jnp.clip(local, 0, rows - 1)]
    return lax.psum(jnp.where(inside[..., None], found, 0.0), "vocab")


def gru(w, x, h):
    """All shards hold the whole state, each of them computes its own units of the next one."""
    from_x = jnp.einsum("bke,egd->gbkd", x, w["w_x"]) + w["b"][:, None, None]
    from_h = jnp.einsum("bkc,cgd->gbkd", h, w["w_h"])
    update = jax.nn.sigmoid(from_x[0] + from_h[0])
    reset = jax.nn.sigmoid(from_x[1] + from_h[1])
    candidate = jnp.tanh(from_x[2] + reset * from_h[2])
    units = candidate.shape[-1]
    own = lax.dynamic_slice_in_dim(h, first_of(units), units, axis=2)
    new = (1 - update) * candidate + update * own
    return lax.all_gather(new, "vocab", axis=2, tiled=True)


def attend(w, h, source):
    scores = jnp.einsum("bkd,de,bse->bks", h, w["w_query"], source.encoded) / HIDDEN**0.5
    inside = jnp.arange(source.encoded.shape[1]) < source.length[:, None]
    weights = jax.nn.softmax(jnp.where(inside[:, None], scores, NEVER), axis=-1)
    return weights, jnp.einsum("bks,bsd->bkd", weights, source.encoded)


def log_probabilities(logits):
    top = lax.pmax(jnp.max(logits, axis=-1, keepdims=True), "vocab")
    total = lax.psum(jnp.sum(jnp.exp(logits - top), axis=-1, keepdims=True), "vocab")
    return logits - top - jnp.log(total)


def propose(score, log_p, done):
    """The best continuations that end in a word of this shard: score, beam and word."""
    b, k, words = log_p.shape
    ids = first_of(words) + jnp.arange(words)
    stay = jnp.where(ids == EOS, 0.0, NEVER)
    log_p = jnp.where(done[..., None], stay, log_p)
    best, index = lax.top_k((score[..., None] + log_p).reshape(b, k * words), k)
    return best, index // words, first_of(words) + index % words


def select(proposals, k):
    """The best proposals of all shards."""
    score, beam, word = (lax.all_gather(a, "vocab", axis=1, tiled=True) for a in proposals)
    best, index = lax.top_k(score, k)
    take = lambda a: jnp.take_along_axis(a, index, axis=1)
    return best, take(beam), take(word)


def reorder(a, beam):
    return jnp.take_along_axis(a, beam.reshape(beam.shape + (1,) * (a.ndim - 2)), axis=1)


def start(source):
    b, places = source.encoded.shape[:2]
    mean = jnp.sum(source.encoded, axis=1) / source.length[:, None]
    return Beams(
        tokens=jnp.full((b, BEAMS, LENGTH + 1), EOS).at[..., 0].set(BOS),
        score=jnp.full((b, BEAMS), NEVER).at[:, 0].set(0.0),
        hidden=jnp.broadcast_to(mean[:, None], (b, BEAMS, HIDDEN)),
        coverage=jnp.zeros((b, BEAMS, places)),
        done=jnp.zeros((b, BEAMS), bool),
    )


def advance(w, source, t, beams):
    last = lax.dynamic_index_in_dim(beams.tokens, t, axis=2, keepdims=False)
    hidden = gru(w, embed(w["embed"], last), beams.hidden)
    weights, context = attend(w, hidden, source)
    logits = jnp.concatenate([hidden, context], axis=-1) @ w["w_out"] + w["b_out"]
    proposals = propose(beams.score, log_probabilities(logits), beams.done)
    score, beam, word = select(proposals, BEAMS)
    coverage = beams.coverage + jnp.where(beams.done[..., None], 0.0, weights)
    tokens = reorder(beams.tokens, beam)
    return Beams(
        tokens=lax.dynamic_update_index_in_dim(tokens, word, t + 1, axis=2),
        score=score,
        hidden=reorder(hidden, beam),
        coverage=reorder(coverage, beam),
        done=reorder(beams.done, beam) | (word == EOS),
    )


def rank(beams, source):
    """Beams by their final score, the best one first."""
    words = jnp.sum(beams.tokens[..., 1:] != EOS, axis=-1) + 1
    places = jnp.arange(beams.coverage.shape[-1])
    covered = jnp.log(jnp.clip(beams.coverage, 1e-3, 1.0))
    covered = jnp.sum(jnp.where(places < source.length[:, None, None], covered, 0.0), axis=-1)
    final = beams.score / ((5 + words) / 6) ** ALPHA + BETA * covered
    order = jnp.argsort(-final, axis=1)
    found = {"tokens": beams.tokens, "score": final, "coverage": beams.coverage}
    return {name: reorder(a, order) for name, a in found.items()}


def make_translate(mesh):
    @jax.jit
    @functools.partial(
        jax.shard_map, mesh=mesh, in_specs=(SPECS, Source(P("batch"), P("batch"))), out_specs=(P("batch"), P()),
        check_vma=False,
    )
    def translate(w, source):
        beams = lax.fori_loop(0, LENGTH, functools.partial(advance, w, source), start(source))
        found = rank(beams, source)
        finished = lax.pmean(jnp.mean(beams.done.astype(jnp.float32)), "batch")
        return found, finished

    return translate


def inputs():
    r = np.random.default_rng(23)
    n = lambda scale, *shape: (scale * r.normal(size=shape)).astype(np.float32)
    weights = {
        "embed": n(1.0, VOCAB, EMBED), "w_x": n(0.4, EMBED, 3, HIDDEN), "w_h": n(0.4, HIDDEN, 3, HIDDEN),
        "b": n(0.3, 3, HIDDEN), "w_query": n(0.5, HIDDEN, HIDDEN), "w_out": n(0.6, 2 * HIDDEN, VOCAB),
        "b_out": n(0.5, VOCAB),
    }  # fmt: skip
    weights["b_out"][EOS] = 1.5
    length = np.array([7, 4, 5, 2], np.int32)
    encoded = n(1.0, SENTENCES, SOURCE, HIDDEN)
    encoded[np.arange(SOURCE) >= length[:, None]] = 0.0
    return weights, Source(encoded, length)


def main():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("batch", "vocab"))
    weights, source = inputs()
    weights = {name: jax.device_put(w, NamedSharding(mesh, SPECS[name])) for name, w in weights.items()}
    source = jax.device_put(source, NamedSharding(mesh, P("batch")))
    found, finished = make_translate(mesh)(weights, source)
    return {**{name: np.asarray(a) for name, a in found.items()}, "finished": float(finished)}


def reference():
    w, source = inputs()
    sigmoid, results, done = lambda x: 1 / (1 + np.exp(-x)), [], []

    def step(h, token, s):
        gx, gh = np.einsum("e,egd->gd", w["embed"][token], w["w_x"]) + w["b"], np.einsum("c,cgd->gd", h, w["w_h"])
        z, r = sigmoid(gx[0] + gh[0]), sigmoid(gx[1] + gh[1])
        h = (1 - z) * np.tanh(gx[2] + r * gh[2]) + z * h
        a = np.exp(s @ (h @ w["w_query"]) / HIDDEN**0.5)
        a /= a.sum()
        logits = np.concatenate([h, a @ s]) @ w["w_out"] + w["b_out"]
        return h, a, logits - np.log(np.exp(logits).sum())

    for encoded, length in zip(*source):
        s = encoded[:length].astype(np.float64)
        beams = [(0.0, [BOS], s.mean(0), np.zeros(length))]
        for t in range(LENGTH):
            options = []
            for score, tokens, h, c in beams:
                if t and tokens[-1] == EOS:
                    options.append((score, tokens + [EOS], h, c))
                    continue
                h, a, p = step(h, tokens[-1], s)
                options += [(score + p[v], tokens + [v], h, c + a) for v in range(VOCAB)]
            beams = sorted(options, key=lambda o: -o[0])[:BEAMS]
        done += [b[1][-1] == EOS for b in beams]
        words = [sum(v != EOS for v in b[1][1:]) + 1 for b in beams]
        final = [
            b[0] / ((5 + n) / 6) ** ALPHA + BETA * np.log(np.clip(b[3], 1e-3, 1)).sum() for b, n in zip(beams, words)
        ]
        results.append([(beams[i][1], final[i], np.pad(beams[i][3], (0, SOURCE - length))) for i in np.argsort(final)[::-1]])
    tokens, score, coverage = (np.array([[b[i] for b in found] for found in results]) for i in range(3))
    return {"tokens": tokens, "score": score, "coverage": coverage, "finished": np.mean(done)}


if __name__ == "__main__":
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), got := main(), reference())
    print(got["tokens"][:, 0], got["score"], got["finished"])
