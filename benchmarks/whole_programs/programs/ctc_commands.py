"""Spoken commands, trained with CTC, where recordings are too long for one device.

Utterances go to rows of the mesh ("data") and their frames are cut into chunks over its columns
("time").  Convolutions borrow frames from the neighbouring chunks, a gated recurrence runs over
every chunk in both directions and is told afterwards what came before, and for the dynamic
programs (CTC, edit distance) each device gets all frames of a part of its row's utterances.
Words are the output symbols, 0 is the blank.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

BANDS, CHANNELS, WIDTH, UNITS, WORDS = 8, 12, 16, 10, 7
BATCH, FRAMES, MOST = 16, 48, 5
STEPS, PEAK, CLIP, KEEP = 10, 2e-2, 1.5, 0.8
SMOOTH = 0.1  # weight of the distance from uniform posteriors
SPAN, STRIPE = 6, 2  # frames and bands that augmentation wipes out
NEVER = -1e9
EVERYWHERE = ("data", "time")

conv = partial(lax.conv_general_dilated, padding="VALID", dimension_numbers=("NWC", "WIO", "NWC"))


class Utterances(NamedTuple):
    frames: jax.Array
    n_frames: jax.Array
    words: jax.Array
    n_words: jax.Array


LAYOUT = Utterances(P("data", "time"), P("data"), P(EVERYWHERE), P(EVERYWHERE))


def recordings(seed):
    """Each word has a spectrum; it is said for a few frames, with noise and at some loudness."""
    spectra = np.random.default_rng(0).normal(size=(WORDS + 1, BANDS))
    rng = np.random.default_rng(seed)
    frames = np.zeros((BATCH, FRAMES, BANDS), np.float32)
    words = np.zeros((BATCH, MOST), np.int32)
    n_frames, n_words = np.zeros((2, BATCH), np.int32)
    for u in range(BATCH):
        said = rng.integers(1, WORDS + 1, rng.integers(2, MOST + 1))
        sound = np.repeat(spectra[said], rng.integers(6, 12, said.size), 0)[:FRAMES]
        sound = rng.uniform(0.5, 2.0) * (sound + 0.4 * rng.normal(size=sound.shape)) + rng.normal()
        n_frames[u], n_words[u] = len(sound), len(said)
        frames[u, : len(sound)], words[u, : len(said)] = sound, said
    return Utterances(frames, n_frames, words, n_words)


def first_params():
    rng = np.random.default_rng(1)

    def weights(*shape):
        return (rng.normal(size=shape) / np.sqrt(np.prod(shape[:-1]))).astype(np.float32)

    bias = np.float32([-1.5] + [0.0] * WORDS)
    return {
        "near": {"w": weights(5, BANDS, CHANNELS), "b": weights(CHANNELS)},
        "wide": {"w": weights(4, CHANNELS, WIDTH), "b": weights(WIDTH)},
        "onward": {"gate": weights(WIDTH, UNITS), "value": weights(WIDTH, UNITS)},
        "backward": {"gate": weights(WIDTH, UNITS), "value": weights(WIDTH, UNITS)},
        "out": {"w": weights(2 * UNITS, WORDS + 1), "b": bias},
    }


def clock(chunk):
    """What number each frame of the own chunk has in the recording."""
    return lax.axis_index("time") * chunk + jnp.arange(chunk)


def spoken(x, n):
    return (clock(x.shape[1]) < n[:, None])[..., None]


def with_context(x, left, right):
    """The own frames between the last ones of the chunk before and the first ones of the next."""
    n = lax.axis_size("time")
    before = lax.ppermute(x[:, -left:], "time", [(i, i + 1) for i in range(n - 1)])
    after = lax.ppermute(x[:, :right], "time", [(i + 1, i) for i in range(n - 1)])
    return jnp.concatenate([before, x, after], axis=1)


def convolve(layer, x, stride, left, right):
    x = with_context(x, left, right)
    return jax.nn.gelu(conv(x, layer["w"], (stride,)) + layer["b"])


def level(x, n):
    """Mean and variance of each band over the whole recording, taken out."""
    here = spoken(x, n)
    count = n[:, None, None]
    mean = lax.psum(jnp.sum(x * here, 1, keepdims=True), "time") / count
    centred = (x - mean) * here
    variance = lax.psum(jnp.sum(centred**2, 1, keepdims=True), "time") / count
    return centred * lax.rsqrt(variance + 1e-3)


def augment(x, n, key):
    """Wipes a span of frames and a stripe of bands, drawn for each utterance of the batch."""
    rows = x.shape[0]
    names = lax.axis_index("data") * rows + jnp.arange(rows)
    keys = jax.vmap(partial(jax.random.fold_in, key))(names)
    when, which = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    draw = jax.vmap(lambda key, most: jax.random.randint(key, (1,), 0, most))
    start, band = draw(when, n - SPAN), draw(which, jnp.full(rows, BANDS - STRIPE + 1))
    t, f = clock(x.shape[1]), jnp.arange(BANDS)
    gap, stripe = (t >= start) & (t < start + SPAN), (f >= band) & (f < band + STRIPE)
    return x * ~(gap[:, :, None] | stripe[:, None, :])


def recur(layer, x, here, reverse):
    """h = a h' + (1 - a) v along the recording, or from its end."""
    a = jnp.where(here, jax.nn.sigmoid(x @ layer["gate"]), 1.0)
    b = (1.0 - a) * jnp.tanh(x @ layer["value"])

    def within(carry, gates):
        decay, h = carry
        a, b = gates
        now = (a * decay, a * h + b)
        return now, now

    def across(h, chunk):
        decay, last = chunk
        return decay * h + last, h

    nothing = jnp.zeros_like(a[:, 0])
    steps = (a.swapaxes(0, 1), b.swapaxes(0, 1))
    ends, (decay, h) = lax.scan(within, (nothing + 1.0, nothing), steps, reverse=reverse)
    chunks = lax.all_gather(ends, "time")
    _, entering = lax.scan(across, nothing, chunks, reverse=reverse)
    return (h + decay * entering[lax.axis_index("time")]).swapaxes(0, 1)


def posteriors(params, frames, n_frames, key=None):
    x = level(frames, n_frames)
    if key is not None:
        x = augment(x, n_frames, key)
    x = convolve(params["near"], x, 1, 2, 2)
    x = x * spoken(x, n_frames)
    x = convolve(params["wide"], x, 2, 1, 1)
    n = (n_frames + 1) // 2
    here = spoken(x, n)
    x = x * here
    h = [recur(params[way], x, here, way == "backward") for way in ("onward", "backward")]
    logits = jnp.concatenate(h, -1) @ params["out"]["w"] + params["out"]["b"]
    return jax.nn.log_softmax(logits), here, n


def gather_own(logp, n):
    """All frames of those utterances of the row that this device decodes."""
    own = logp.shape[0] // lax.axis_size("time")
    whole = lax.all_to_all(logp, "time", split_axis=0, concat_axis=1, tiled=True)
    return whole, lax.dynamic_slice_in_dim(n, lax.axis_index("time") * own, own)


def ctc(logp, n, words, n_words):
    """Minus the log probability of these words: the sum over all alignments."""
    states = jnp.zeros(2 * MOST + 1, jnp.int32).at[1::2].set(words)
    jump = (states != 0) & (states != jnp.roll(states, 2)) & (jnp.arange(states.size) > 1)
    def frame(alpha, step):
        t, now = step
        stay = jnp.logaddexp(alpha, jnp.roll(alpha, 1).at[0].set(NEVER))
        total = jnp.logaddexp(stay, jnp.where(jump, jnp.roll(alpha, 2), NEVER))
        return jnp.where(t < n, total + now[states], alpha), None

    start = jnp.full(states.size, NEVER).at[0].set(0.0)
    alpha, _ = lax.scan(frame, start, (jnp.arange(len(logp)), logp))
    return -jnp.logaddexp(alpha[2 * n_words], alpha[2 * n_words - 1])


def errors(logp, n, words, n_words):
    """Edit distance between the best path, collapsed, and the words."""
    best = jnp.argmax(logp, -1)
    fresh = (best != 0) & (best != jnp.roll(best, 1).at[0].set(0)) & (jnp.arange(len(best)) < n)
    columns = jnp.arange(MOST + 1)

    def heard(row, step):
        word, counts = step
        swapped = row[:-1] + (words != word)
        new = jnp.concatenate([row[:1] + 1, jnp.minimum(row[1:] + 1, swapped)])
        new = lax.cummin(new - columns) + columns
        return jnp.where(counts, new, row), None

    row, _ = lax.scan(heard, columns, (best, fresh))
    return row[n_words]


def objective(params, batch, key):
    """This device's part of the loss: all parts sum to that of the batch."""
    logp, here, n = posteriors(params, batch.frames, batch.n_frames, key)
    uniform = -jnp.sum(logp.mean(-1, keepdims=True) * here) / lax.psum(n.sum(), "data")
    nll = jax.vmap(ctc)(*gather_own(logp, n), batch.words, batch.n_words).sum()
    return nll / lax.psum(batch.n_words.sum(), EVERYWHERE) + SMOOTH * uniform


def train(mesh, params):
    adam = optax.adam(lambda count: PEAK * jnp.minimum(1.0, (count + 1.0) / 4.0))
    optimizer = optax.chain(optax.clip_by_global_norm(CLIP), adam)
    given = (P(), P(), P(), LAYOUT, P())

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=given, out_specs=P(), check_vma=False)
    def step(params, average, memory, batch, key):
        loss, grads = jax.value_and_grad(objective)(params, batch, key)
        loss, grads = lax.psum((loss, grads), EVERYWHERE)
        updates, memory = optimizer.update(grads, memory)
        params = optax.apply_updates(params, updates)
        average = jax.tree.map(lambda mean, p: KEEP * mean + (1 - KEEP) * p, average, params)
        return params, average, memory, (loss, optax.global_norm(grads))

    average, memory, log = params, optimizer.init(params), []
    for i in range(STEPS):
        key = jax.random.fold_in(jax.random.key(3), i)
        params, average, memory, said = step(params, average, memory, recordings(10 + i % 3), key)
        log.append(said)
    return average, np.array(log)


def judge(params, batch):
    logp, _, n = posteriors(params, batch.frames, batch.n_frames)
    own = (*gather_own(logp, n), batch.words, batch.n_words)
    wrong = jax.vmap(errors)(*own)
    sums = lax.psum(jnp.stack([wrong.sum(), batch.n_words.sum()]), EVERYWHERE)
    rates = lax.pmean(jnp.mean(wrong / batch.n_words), EVERYWHERE)
    return jax.vmap(ctc)(*own), logp, sums, rates


def main():
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(4, devices.size)), EVERYWHERE)
    average, log = train(mesh, first_params())
    said = (P(EVERYWHERE), P("data", "time"), P(), P())
    test = jax.shard_map(judge, mesh=mesh, in_specs=(P(), LAYOUT), out_specs=said, check_vma=False)
    nll, logp, sums, rates = jax.jit(test)(average, recordings(97))
    return {"nll": nll, "logp": logp, "sums": sums, "rates": rates, "log": log, **average["out"]}


def reference():
    def network(p, batch, key):
        valid = jnp.arange(FRAMES)[:, None] < batch.n_frames[:, None, None]
        x = jnp.asarray(batch.frames)
        mean = x.mean(1, keepdims=True, where=valid)
        x = jnp.where(valid, (x - mean) / jnp.sqrt(x.var(1, keepdims=True, where=valid) + 1e-3), 0)
        if key is not None:
            keys = [jax.random.split(jax.random.fold_in(key, u)) for u in range(BATCH)]
            t = [jax.random.randint(k, (), 0, n - SPAN) for (k, _), n in zip(keys, batch.n_frames)]
            f = [jax.random.randint(k, (), 0, BANDS - STRIPE + 1) for _, k in keys]
            for u, i in np.ndindex(BATCH, SPAN):
                x = x.at[u, t[u] + i].set(0).at[u, :, f[u] + i % STRIPE].set(0)
        pad = jnp.pad(x, ((0, 0), (2, 2), (0, 0)))
        y = sum(pad[:, i : i + FRAMES] @ p["near"]["w"][i] for i in range(5))
        pad = jnp.pad(jax.nn.gelu(y + p["near"]["b"]) * valid, ((0, 0), (1, 2), (0, 0)))
        y = sum(pad[:, i : i + FRAMES : 2] @ p["wide"]["w"][i] for i in range(4))
        valid = valid[:, ::2]
        y = jax.nn.gelu(y + p["wide"]["b"]) * valid

        def run(way, order):
            def cell(h, now):
                y, on = now
                g = jax.nn.sigmoid(y @ p[way]["gate"])
                return (jnp.where(on, g * h + (1 - g) * jnp.tanh(y @ p[way]["value"]), h),) * 2

            inputs = [jnp.moveaxis(v, 1, 0)[::order] for v in (y, valid)]
            return lax.scan(cell, jnp.zeros((BATCH, UNITS)), inputs)[1][::order]

        h = jnp.concatenate([run("onward", 1), run("backward", -1)], -1).swapaxes(0, 1)
        return h @ p["out"]["w"] + p["out"]["b"], 1.0 - valid[..., 0]

    def costs(p, batch, key):
        logits, padding = network(p, batch, key)
        label_padding = jnp.arange(MOST) >= batch.n_words[:, None]
        nll = optax.ctc_loss(logits, padding, batch.words, label_padding * 1.0)
        return nll, jax.nn.log_softmax(logits), 1.0 - padding

    @jax.jit
    @jax.value_and_grad
    def grad(p, batch, key):
        nll, logp, valid = costs(p, batch, key)
        uniform = -(logp.mean(-1) * valid).sum() / valid.sum()
        return nll.sum() / batch.n_words.sum() + SMOOTH * uniform

    p = average = first_params()
    adam, log = optax.adam(lambda c: PEAK * jnp.clip((c + 1) / 4, 0, 1)), []
    memory = adam.init(p)
    for i in range(STEPS):
        key = jax.random.fold_in(jax.random.key(3), i)
        loss, g = grad(p, recordings(10 + i % 3), key)
        norm = np.sqrt(sum(np.sum(np.square(v)) for v in jax.tree.leaves(g)))
        log.append((loss, norm))
        updates, memory = adam.update(jax.tree.map(lambda v: v * min(1, CLIP / norm), g), memory)
        p = optax.apply_updates(p, updates)
        average = jax.tree.map(lambda a, b: a + (1 - KEEP) * (b - a), average, p)
    batch = recordings(97)
    nll, logp, valid = map(np.asarray, jax.jit(costs)(average, batch, None))
    wrong = np.zeros(BATCH)
    for u in range(BATCH):
        path = logp[u].argmax(-1)[valid[u] > 0]
        heard = [w for i, w in enumerate(path) if w and (i == 0 or path[i - 1] != w)]
        words = batch.words[u, : batch.n_words[u]]
        table = np.add.outer(np.arange(len(heard) + 1), np.arange(len(words) + 1))
        for i, j in np.ndindex(len(heard), len(words)):
            swap = table[i, j] + (heard[i] != words[j])
            table[i + 1, j + 1] = min(table[i, j + 1] + 1, table[i + 1, j] + 1, swap)
        wrong[u] = table[-1, -1]
    sums, rates = np.array([wrong.sum(), batch.n_words.sum()]), np.mean(wrong / batch.n_words)
    return dict(nll=nll, logp=logp, sums=sums, rates=rates, log=np.array(log), **average["out"])


if __name__ == "__main__":
    got, want = main(), reference()
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=2e-3, atol=1e-3, err_msg=name)
    print("ctc_commands: agrees; errors", got["sums"], got["rates"], "loss and norm", got["log"])
