"""Greedy speculative decoding: a cheap draft proposes a few tokens, the big model checks them all at once.

Requests are spread over 'replica', heads / hidden units / vocabulary over 'shard'.  A replica goes on until all of its
requests are done.  The draft is the model without its layers (embedding straight into the output head).
"""
import os; os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")  # noqa: E702
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
from jax import Array, nn, numpy as jnp
from jax.lax import all_gather, axis_index, fori_loop, pmax, psum, while_loop
from jax.sharding import AxisType, PartitionSpec as Spec
import numpy as np

R, S = "replica", "shard"


@dataclass(frozen=True)
class Hparams:
    vocab: int = 64
    dim: int = 32
    heads: int = 8
    head_dim: int = 8
    hidden: int = 64
    layers: int = 2
    max_len: int = 28
    max_prompt: int = 8
    requests: int = 8
    draft: int = 3          # tokens proposed per round
    buffer: int = 32        # max_len, and room for one more round


class Layer(NamedTuple):
    qkv: Array      # [dim, 3, heads, head_dim]
    out: Array      # [heads, head_dim, dim]
    up: Array       # [dim, hidden]
    down: Array     # [hidden, dim]


class Weights(NamedTuple):
    embed: Array    # [vocab, dim]
    layers: tuple[Layer, ...]
    head: Array     # [dim, vocab]


class Loop(NamedTuple):
    tokens: Array   # [b, buffer]
    length: Array   # [b], how many tokens are known
    score: Array    # [b], log probability of what was generated
    kv: Array       # [layers, 2, b, buffer, heads, head_dim]
    accepted: Array
    rounds: Array   # [b]


LAYER_SPECS = Layer(Spec(None, None, S), Spec(S), Spec(None, S), Spec(S))


def weight_specs(hp: Hparams) -> Weights:
    return Weights(Spec(), (LAYER_SPECS,) * hp.layers, Spec(None, S))


def make_weights(hp: Hparams) -> Weights:
    rng = np.random.RandomState(0)
    mat = lambda *shape, fan, gain=1.0: (gain * rng.randn(*shape) / np.sqrt(fan)).astype("f")
    layers = tuple(
        Layer(mat(hp.dim, 3, hp.heads, hp.head_dim, fan=hp.dim),
              mat(hp.heads, hp.head_dim, hp.dim, fan=hp.heads * hp.head_dim, gain=0.7),
              mat(hp.dim, hp.hidden, fan=hp.dim),
              mat(hp.hidden, hp.dim, fan=hp.hidden, gain=0.5))
        for _ in range(hp.layers))
    return Weights(mat(hp.vocab, hp.dim, fan=1), layers, mat(hp.dim, hp.vocab, fan=hp.dim, gain=2.0))


def rms(x):
    return x * jnp.reciprocal(jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6))


def rotate(x, pos):
    """x: [b, t, h, d], pos: [b, t]"""
    half = x.shape[-1] // 2
    angle = pos[..., None] * 100.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angle)[:, :, None, :], jnp.sin(angle)[:, :, None, :]
    a, b = x[..., :half], x[..., half:]
    return jnp.concatenate((a * cos - b * sin, a * sin + b * cos), -1)


@partial(jax.vmap, in_axes=(0, 0, 0))
def write(row, new, start):
    """Puts new into row at start, for every request."""
    return jax.lax.dynamic_update_slice_in_dim(row, new, start, axis=0)


def attend(layer: Layer, x, pos, cache):
    q, k, v = jnp.moveaxis(jnp.einsum("btd,dchk->btchk", rms(x), layer.qkv), 2, 0)
    q, k = rotate(q, pos), rotate(k, pos)
    keys, values = write(cache[0], k, pos[:, 0]), write(cache[1], v, pos[:, 0])
    logits = jnp.einsum("bthk,bshk->bhts", q, keys) / np.sqrt(q.shape[-1])
    visible = jnp.arange(keys.shape[1])[None, None, :] <= pos[:, :, None]
    p = nn.softmax(jnp.where(visible[:, None], logits, -1e9), axis=-1)
    o = jnp.einsum("bhts,bshk->bthk", p, values)
    return psum(jnp.einsum("bthk,hkd->btd", o, layer.out), S), jnp.stack([keys, values])


def run(w: Weights, tokens, start, kv):
    """Logits (of the local part of the vocabulary) for a block of tokens that begins at start."""
    pos = start[:, None] + jnp.arange(tokens.shape[1])
    x = w.embed[tokens]
    caches = []
    for i, layer in enumerate(w.layers):
        o, cache = attend(layer, x, pos, kv[i])
        x = x + o
        x = x + psum(nn.silu(rms(x) @ layer.up) @ layer.down, S)
        caches.append(cache)
    return rms(x) @ w.head, jnp.stack(caches)


def pick(logits):
    """The best token of the whole vocabulary, and its log probability."""
    part = logits.shape[-1]
    best, where = logits.max(-1), logits.argmax(-1) + axis_index(S) * part
    all_best, all_where = all_gather(best, S), all_gather(where, S)      # [shards, ...]
    winner = all_best.argmax(0)
    token = jnp.take_along_axis(all_where, winner[None], axis=0)[0]
    top = pmax(best, S)
    log_z = top + jnp.log(psum(jnp.exp(logits - top[..., None]).sum(-1), S))
    return token, top - log_z


def propose(w: Weights, last, count):
    """count tokens of the draft after last: [b, count]"""
    def extend(i, draft):
        prev = jnp.where(i == 0, last, draft[:, i - 1])
        token, _ = pick(rms(w.embed[prev]) @ w.head)
        return draft.at[:, i].set(token)
    return fori_loop(0, count, extend, jnp.zeros((last.shape[0], count), jnp.int32))


def decode(hp: Hparams, w: Weights, prompts, lengths):
    b, rows = prompts.shape[0], jnp.arange(prompts.shape[0])
    local_heads = w.layers[0].qkv.shape[2]
    kv = jnp.zeros((hp.layers, 2, b, hp.buffer, local_heads, hp.head_dim))
    _, kv = run(w, prompts, jnp.zeros(b, jnp.int32), kv)     # what is behind a short prompt is overwritten later
    tokens = jnp.pad(prompts, ((0, 0), (0, hp.buffer - hp.max_prompt)))
    zero = jnp.zeros(b, jnp.int32)

    def one_round(s: Loop) -> Loop:
        active = s.length < hp.max_len
        last = s.tokens[rows, s.length - 1]
        draft = propose(w, last, hp.draft)
        block = jnp.concatenate([last[:, None], draft], axis=1)
        logits, kv = run(w, block, s.length - 1, s.kv)
        wanted, logp = pick(logits)                            # [b, draft + 1]
        agree = jnp.cumprod(draft == wanted[:, :-1], axis=1)
        accepted = agree.sum(axis=1)
        new = jnp.arange(hp.draft + 1)[None, :]
        counts = (new <= accepted[:, None]) & (s.length[:, None] + new < hp.max_len)
        return Loop(
            tokens=write(s.tokens, wanted, s.length),
            length=jnp.minimum(s.length + accepted + 1, hp.max_len),
            score=s.score + (logp * counts).sum(axis=1),
            kv=kv, accepted=s.accepted + accepted * active, rounds=s.rounds + active)

    start = Loop(tokens, lengths, jnp.zeros(b), kv, zero, zero)
    end = while_loop(lambda s: jnp.any(s.length < hp.max_len), one_round, start)
    rate = psum(end.accepted.sum(), R) / psum(hp.draft * end.rounds.sum(), R)
    generated = hp.max_len - lengths
    mean_logp = psum(end.score.sum(), R) / psum(generated.sum(), R)
    return end.tokens[:, :hp.max_len], end.score, rate, mean_logp


def prompts_for(hp: Hparams):
    rng = np.random.RandomState(4)
    lengths = rng.randint(2, hp.max_prompt + 1, hp.requests).astype("int32")
    return rng.randint(0, hp.vocab, (hp.requests, hp.max_prompt)).astype("int32"), lengths


def main():
    hp = Hparams()
    mesh = jax.make_mesh((len(jax.devices()) // 4, 4), (R, S), axis_types=(AxisType.Auto,) * 2)
    server = jax.jit(jax.shard_map(
        partial(decode, hp), mesh=mesh,
        in_specs=(weight_specs(hp), Spec(R), Spec(R)),
        out_specs=(Spec(R), Spec(R), Spec(), Spec()), check_vma=False))
    results = server(make_weights(hp), *prompts_for(hp))
    return dict(zip(("tokens", "score", "rate", "mean_logp"), results))


def reference():
    """One request after the other: greedy decoding without a cache; then how the draft would have fared."""
    hp, w = Hparams(), jax.tree.map(jnp.asarray, make_weights(Hparams()))
    @jax.jit
    def log_probs(tokens):
        pos, x = jnp.arange(hp.buffer)[None], w.embed[tokens]
        rope = lambda x: rotate(x[None], pos)[0]
        for l in w.layers:
            q, k, v = jnp.einsum("td,dchk->cthk", rms(x), l.qkv)
            s = jnp.einsum("thk,shk->hts", rope(q), rope(k)) / np.sqrt(hp.head_dim)
            p = nn.softmax(jnp.where(np.tri(hp.buffer, dtype=bool), s, -jnp.inf))
            x = x + jnp.einsum("hts,shk,hkd->td", p, v, l.out)
            x = x + nn.silu(rms(x) @ l.up) @ l.down
        return nn.log_softmax(rms(x) @ w.head)

    follow = np.asarray((rms(w.embed) @ w.head).argmax(-1))    # the draft only looks at the last token
    texts, scores, accepted, rounds, generated = [], [], 0, 0, 0
    for prompt, n in zip(*prompts_for(hp)):
        text, score = list(prompt[:n]), 0.0
        while len(text) < hp.buffer:
            padded = np.pad(np.array(text), (0, hp.buffer - len(text)))
            logp = np.asarray(log_probs(padded))[len(text) - 1]
            score += logp.max() if len(text) < hp.max_len else 0.0
            text.append(int(logp.argmax()))
        at = int(n)
        while at < hp.max_len:
            guess, run_length = text[at - 1], 0
            while run_length < hp.draft and (guess := follow[guess]) == text[at + run_length]:
                run_length += 1
            accepted, rounds, at = accepted + run_length, rounds + 1, at + run_length + 1
        texts, scores = texts + [text[:hp.max_len]], scores + [score]
        generated += hp.max_len - n
    rate = accepted / (hp.draft * rounds)
    return dict(tokens=np.array(texts), score=np.array(scores), rate=rate, mean_logp=sum(scores) / generated)


if __name__ == "__main__":
    ours, plain = main(), reference()
    for name, value in plain.items():
        np.testing.assert_allclose(ours[name], value, rtol=1e-3, atol=1e-3, err_msg=name)
    print("accepted", ours["rate"], "mean log probability", ours["mean_logp"])
