"""Serving a small grouped-query decoder with int8 weights on a ("data", "model") mesh.

Requests are spread over "data".  Heads, hidden units and the vocabulary are cut over "model".
Weights are int8 with one scale per output channel; the down projection quantises its input,
too, with one scale per token, and accumulates in int32.
"""
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

MODEL = dict(vocab=50, padded=56, dim=16, heads=16, kv_heads=8, head_dim=4, hidden=48, layers=2)
SAMPLING = dict(temperature=0.8, top_k=8, top_p=0.85, presence=1.5, eos=36)
LIMITS = dict(requests=8, prompt=6, chunk=3, chunks=2)


class Int8(NamedTuple):
    q: jax.Array
    scale: jax.Array  # of each output channel


class State(NamedTuple):
    token: jax.Array
    position: jax.Array
    done: jax.Array
    seen: jax.Array
    keys: jax.Array
    values: jax.Array


BY_COLUMN = Int8(P(None, None, "model"), P(None, "model"))
BY_ROW = Int8(P(None, "model"), P())
WEIGHT_SPECS = {
    "embed": Int8(P("model"), P("model")),
    **dict.fromkeys(("wq", "wk", "wv", "gate", "up"), BY_COLUMN),
    **dict.fromkeys(("wo", "down"), BY_ROW),
    **dict.fromkeys(("norms", "last_norm"), P()),
}
IN_LAYERS = ("wq", "wk", "wv", "wo", "gate", "up", "down", "norms")
CACHE_SPEC = P(None, "data", None, "model")
STATE_SPECS = State(P("data"), P("data"), P("data"), P("data", "model"), CACHE_SPEC, CACHE_SPEC)


def quantise(weight, contracted):
    peak = np.abs(weight).max(axis=contracted, keepdims=True)
    integers = np.rint(weight / peak * 127).astype(np.int8)
    return Int8(integers, np.squeeze(peak / 127, axis=contracted).astype(np.float32))


def load_checkpoint(seed=1):
    """A float checkpoint, quantised; the last rows of the embedding only pad it."""
    rng = np.random.default_rng(seed)
    m = MODEL
    n, d, f, hd = m["layers"], m["dim"], m["hidden"], m["head_dim"]

    def normal(*shape, fan_in):
        return (rng.normal(size=shape) * rng.uniform(0.5, 1.5, shape[-1])) / np.sqrt(fan_in)

    return {
        "embed": quantise(normal(m["padded"], d, fan_in=4), 1),
        "wq": quantise(normal(n, d, m["heads"], hd, fan_in=d), 1),
        **{kv: quantise(normal(n, d, m["kv_heads"], hd, fan_in=d), 1) for kv in ("wk", "wv")},
        "wo": quantise(normal(n, m["heads"], hd, d, fan_in=4 * d), (1, 2)),
        **{name: quantise(normal(n, d, f, fan_in=d), 1) for name in ("gate", "up")},
        "down": quantise(normal(n, f, d, fan_in=f), 1),
        "norms": rng.uniform(0.7, 1.3, (n, 2, d)).astype(np.float32),
        "last_norm": rng.uniform(0.7, 1.3, d).astype(np.float32),
    }


def load_prompts(seed=2):
    rng = np.random.default_rng(seed)
    shape = (LIMITS["requests"], LIMITS["prompt"])
    tokens = rng.integers(4, MODEL["vocab"], shape).astype(np.int32)
    lengths = np.array([6, 2, 5, 3, 4, 6, 2, 3], np.int32)
    return np.where(np.arange(shape[1]) < lengths[:, None], tokens, 0), lengths


def rms(x, scale):
    return x * lax.rsqrt(jnp.mean(jnp.square(x), -1, keepdims=True) + 1e-6) * scale


def rotate(x, position):
    """Rotary embedding of (batch, length, heads, head_dim) at these positions."""
    half = x.shape[-1] // 2
    angle = position[..., None, None] * 100.0 ** (-jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def columns(pattern, x, w):
    """Every rank makes its own output channels."""
    return jnp.einsum(pattern, x, w.q.astype(jnp.float32)) * w.scale


class Rank:
    """The part of the decoder that one device runs, within shard_map."""

    def __init__(self, weights):
        self.weights = weights
        self.own_vocab = weights["embed"].q.shape[0]
        self.first = lax.axis_index("model") * self.own_vocab

    def embed(self, tokens):
        table, local = self.weights["embed"], tokens - self.first
        inside = (local >= 0) & (local < self.own_vocab)
        local = jnp.where(inside, local, 0)
        rows = table.q[local].astype(jnp.float32) * table.scale[local][..., None]
        return lax.psum(jnp.where(inside[..., None], rows, 0.0), "model")

    def logits(self, x):
        """Of the own part of the vocabulary; entries that only pad it can not be chosen."""
        own = columns("btd,vd->btv", rms(x, self.weights["last_norm"]), self.weights["embed"])
        real = self.first + jnp.arange(self.own_vocab) < MODEL["vocab"]
        return jnp.where(real, own, -1e9)

    def attention(self, layer, x, position, keys, values):
        q = rotate(columns("btd,dhk->bthk", x, layer["wq"]), position)
        rows = jnp.arange(x.shape[0])[:, None]
        k = rotate(columns("btd,dhk->bthk", x, layer["wk"]), position)
        keys = keys.at[rows, position].set(k)
        values = values.at[rows, position].set(columns("btd,dhk->bthk", x, layer["wv"]))
        grouped = q.reshape(*q.shape[:2], keys.shape[2], -1, q.shape[-1])
        scores = jnp.einsum("btgrk,bsgk->bgrts", grouped, keys) / np.sqrt(q.shape[-1])
        visible = jnp.arange(keys.shape[1]) <= position[..., None]
        probs = jax.nn.softmax(jnp.where(visible[:, None, None], scores, -1e9), axis=-1)
        mixed = jnp.einsum("bgrts,bsgk->btgrk", probs, values).reshape(q.shape)
        out = jnp.einsum("bthk,hkd->btd", mixed, layer["wo"].q.astype(jnp.float32))
        return lax.psum(out, "model") * layer["wo"].scale, keys, values

    def feed_forward(self, layer, x):
        gate = jax.nn.silu(columns("btd,df->btf", x, layer["gate"]))
        hidden = gate * columns("btd,df->btf", x, layer["up"])
        peak = lax.pmax(jnp.max(jnp.abs(hidden), axis=-1, keepdims=True), "model")
        step = jnp.maximum(peak, 1e-6) / 127.0
        small = jnp.round(hidden / step).astype(jnp.int8)
        total = jnp.matmul(small, layer["down"].q, preferred_element_type=jnp.int32)
        return lax.psum(total, "model") * step * layer["down"].scale

    def extend(self, tokens, position, keys, values):
        """Read more tokens of every request: own logits after each, and the longer cache."""

        def block(x, scanned):
            layer, keys, values = scanned
            normed = rms(x, layer["norms"][0])
            out, keys, values = self.attention(layer, normed, position, keys, values)
            x = x + out
            return x + self.feed_forward(layer, rms(x, layer["norms"][1])), (keys, values)

        layers = {name: self.weights[name] for name in IN_LAYERS}
        x, cache = lax.scan(block, self.embed(tokens), (layers, keys, values))
        return self.logits(x), *cache

    def log_total(self, logits):
        peak = lax.pmax(jnp.max(logits, axis=-1), "model")
        total = lax.psum(jnp.sum(jnp.exp(logits - peak[..., None]), axis=-1), "model")
        return peak + jnp.log(total)

    def logprob(self, logits, tokens):
        local = tokens - self.first
        inside = (local >= 0) & (local < self.own_vocab)
        index = jnp.clip(local, 0, self.own_vocab - 1)[..., None]
        own = jnp.take_along_axis(logits, index, axis=-1)[..., 0]
        return lax.psum(jnp.where(inside, own, 0.0), "model") - self.log_total(logits)

    def mark(self, seen, tokens):
        """The own part of the table of tokens that were said; others fall outside of it."""
        return seen | jax.nn.one_hot(tokens - self.first, self.own_vocab, dtype=bool)

    def sample(self, logits, seen, step, seed):
        """Nucleus of the best k of all ranks, then Gumbel noise of the request's own key."""
        tempered = (logits - SAMPLING["presence"] * seen) / SAMPLING["temperature"]
        best, index = lax.top_k(tempered, SAMPLING["top_k"])
        gather = functools.partial(lax.all_gather, axis_name="model", axis=1, tiled=True)
        best, candidates = gather(best), gather(index + self.first)
        best, order = lax.top_k(best, SAMPLING["top_k"])
        candidates = jnp.take_along_axis(candidates, order, axis=1)
        probs = jnp.exp(best - self.log_total(tempered)[:, None])
        kept = jnp.cumsum(probs, axis=-1) - probs < SAMPLING["top_p"]

        def noise(request):
            key = jax.random.fold_in(jax.random.fold_in(seed, request), step)
            return jax.random.gumbel(key, (SAMPLING["top_k"],))

        requests = lax.axis_index("data") * len(logits) + jnp.arange(len(logits))
        noisy = jnp.where(kept, best + jax.vmap(noise)(requests), -jnp.inf)
        return jnp.take_along_axis(candidates, noisy.argmax(-1)[:, None], axis=1)[:, 0]


def prefill(weights, tokens, lengths, seed):
    rank = Rank(weights)
    batch, length = tokens.shape
    slots = length + LIMITS["chunk"] * LIMITS["chunks"]
    layers, _, *heads = weights["wk"].q.shape
    empty = jnp.zeros((layers, batch, slots, *heads))
    position = jnp.broadcast_to(jnp.arange(length), tokens.shape)
    logits, keys, values = rank.extend(tokens, position, empty, empty)
    scored = jnp.arange(1, length) < lengths[:, None]
    surprise = -jnp.sum(rank.logprob(logits[:, :-1], tokens[:, 1:]) * scored)
    prompt_nll = lax.psum(surprise, "data") / lax.psum(scored.sum(), "data")
    final = jnp.take_along_axis(logits, (lengths - 1)[:, None, None], axis=1)[:, 0]
    seen = jnp.zeros((batch, rank.own_vocab), bool)
    token = rank.sample(final, seen, 0, seed)
    state = State(token, lengths, token == SAMPLING["eos"], rank.mark(seen, token), keys, values)
    return state, rank.logprob(final, token), prompt_nll


def decode(weights, state, start, seed):
    rank = Rank(weights)

    def one(state, step):
        read = state.token[:, None], state.position[:, None], state.keys, state.values
        logits, keys, values = rank.extend(*read)
        logits = logits[:, 0]
        token = rank.sample(logits, state.seen, step, seed)
        emitted = jnp.where(state.done, -1, token)
        logprob = jnp.where(state.done, 0.0, rank.logprob(logits, token))
        done = state.done | (token == SAMPLING["eos"])
        seen = rank.mark(state.seen, token)
        return State(token, state.position + 1, done, seen, keys, values), (emitted, logprob)

    state, (tokens, logprobs) = lax.scan(one, state, start + jnp.arange(LIMITS["chunk"]))
    said = lax.psum(jnp.sum(tokens >= 0), "data")
    mean = lax.psum(logprobs.sum(), "data") / jnp.maximum(said, 1)
    return state, tokens.T, logprobs.T, said, mean


def main():
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(4, devices.size)), ("data", "model"))
    weights = load_checkpoint()
    place = lambda spec, w: jax.device_put(w, NamedSharding(mesh, spec))
    weights = jax.tree.map(place, WEIGHT_SPECS, weights, is_leaf=lambda s: isinstance(s, P))
    shard = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
    reads, says = (WEIGHT_SPECS, P("data"), P("data"), P()), (STATE_SPECS, P("data"), P())
    start_fn = jax.jit(shard(prefill, in_specs=reads, out_specs=says))
    reads = (WEIGHT_SPECS, STATE_SPECS, P(), P())
    says = (STATE_SPECS, P("data"), P("data"), P(), P())
    decode_fn = jax.jit(shard(decode, in_specs=reads, out_specs=says), donate_argnums=1)
    seed = jax.random.key(9)
    state, logprob, prompt_nll = start_fn(weights, *load_prompts(), seed)
    tokens, logprobs = [np.asarray(state.token)[:, None]], [logprob[:, None]]
    said, means = [], []
    for chunk in range(LIMITS["chunks"]):
        state, *rest = decode_fn(weights, state, 1 + chunk * LIMITS["chunk"], seed)
        for kept, new in zip((tokens, logprobs, said, means), rest):
            kept.append(np.asarray(new))
    result = dict(tokens=np.concatenate(tokens, 1), logprobs=np.concatenate(logprobs, 1))
    result |= dict(said=said, means=means, seen=state.seen, prompt_nll=prompt_nll)
    return {name: np.asarray(value) for name, value in result.items()}


def reference():
    weights, heads, size = load_checkpoint(), MODEL["heads"], MODEL["head_dim"]
    axes = dict(embed=1, wq=1, wk=1, wv=1, wo=(1, 2), gate=1, up=1, down=1)
    w = {n: weights[n].q * np.expand_dims(weights[n].scale, axis) for n, axis in axes.items()}
    norm = lambda x, g: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * g

    def turn(x):
        z = x[..., : size // 2] + 1j * x[..., size // 2 :]
        freq = 100.0 ** (-np.arange(size // 2) / (size // 2))
        z = z * np.exp(1j * np.arange(len(x))[:, None] * freq)
        return np.concatenate([z.real, z.imag], -1)

    def forward(tokens):
        x = w["embed"][tokens]
        for i in range(MODEL["layers"]):
            y = norm(x, weights["norms"][i, 0])
            for h in range(heads):
                g = h * MODEL["kv_heads"] // heads
                q, k = turn(y @ w["wq"][i, :, h]), turn(y @ w["wk"][i, :, g])
                s = np.exp(q @ k.T / np.sqrt(size)) * np.tri(len(tokens))
                mixed = s / s.sum(-1, keepdims=True) @ (y @ w["wv"][i, :, g])
                x = x + mixed @ w["wo"][i, h]
            y = norm(x, weights["norms"][i, 1])
            gate = y @ w["gate"][i]
            hidden = gate / (1 + np.exp(-gate)) * (y @ w["up"][i])
            step = np.abs(hidden).max(-1, keepdims=True) / 127
            x = x + np.rint(hidden / step) * step @ w["down"][i]
        return (norm(x, weights["last_norm"]) @ w["embed"].T)[:, : MODEL["vocab"]]

    log_softmax = lambda z: z - np.log(np.exp(z).sum(-1, keepdims=True))
    prompts, lengths = load_prompts()
    total = 1 + LIMITS["chunk"] * LIMITS["chunks"]
    tokens, logprobs = np.full((len(prompts), total), -1), np.zeros((len(prompts), total))
    seen, nll = np.zeros((len(prompts), MODEL["padded"]), bool), []
    for r, (prompt, length) in enumerate(zip(prompts, lengths)):
        text, over = list(prompt[:length]), False
        nll += [-log_softmax(forward(text))[i, text[i + 1]] for i in range(length - 1)]
        for t in range(total):
            logits = forward(text)[-1]
            z = logits - SAMPLING["presence"] * seen[r, : MODEL["vocab"]]
            z = z / SAMPLING["temperature"]
            order = np.argsort(-z)[: SAMPLING["top_k"]]
            p = np.exp(log_softmax(z))[order]
            order = order[: 1 + np.searchsorted(np.cumsum(p), SAMPLING["top_p"])]
            key = jax.random.fold_in(jax.random.fold_in(jax.random.key(9), r), t)
            noise = np.asarray(jax.random.gumbel(key, (SAMPLING["top_k"],)))[: len(order)]
            token = order[np.argmax(z[order] + noise)]
            if not over:
                tokens[r, t], logprobs[r, t] = token, log_softmax(logits)[token]
            over, seen[r, token] = over or token == SAMPLING["eos"], True
            text.append(token)
    said = np.sum(tokens[:, 1:].reshape(len(prompts), LIMITS["chunks"], -1) >= 0, axis=(0, 2))
    means = logprobs[:, 1:].reshape(len(prompts), LIMITS["chunks"], -1).sum((0, 2)) / said
    result = dict(tokens=tokens, logprobs=logprobs, said=said, means=means)
    return result | dict(seen=seen, prompt_nll=np.mean(nll))


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-3, atol=2e-3, err_msg=name)
    print("int8_serving: agrees;", got["said"], "tokens, prompt nll", float(got["prompt_nll"]))
