"""Serving a decoder-only model whose KV cache is split over the sequence.

Mesh axis "seq" splits the cache by position; "heads" splits attention heads, the MLP
and the vocabulary.  Prefill is a ring over "seq"; decoding merges partial attention.
"""
import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

NEG_INF = -1e30


@dataclasses.dataclass(frozen=True)
class ServeConfig:
    vocab: int = 96
    d_model: int = 32
    n_layers: int = 2
    n_heads: int = 8
    head_dim: int = 8
    max_len: int = 64
    batch: int = 4
    new_tokens: int = 14
    top_k: int = 20
    temperature: float = 0.8
    head_shards: int = 2
    seed: int = 0


ModelParams = collections.namedtuple("ModelParams", "embed layers unembed")
LayerParams = collections.namedtuple("LayerParams", "wqkv wo w_up w_down")
KVCache = collections.namedtuple("KVCache", "k v lengths")

PARAM_SPECS = ModelParams(
    embed=P("heads"), unembed=P(None, "heads"),
    layers=LayerParams(wqkv=P(None, None, None, "heads"), wo=P(None, "heads"),
                       w_up=P(None, None, "heads"), w_down=P(None, "heads")))
CACHE_SPECS = KVCache(*[P(None, None, "seq", "heads")] * 2, lengths=P())


def init_params(cfg, key):
    n, d, f, h, dh = cfg.n_layers, cfg.d_model, 2 * cfg.d_model, cfg.n_heads, cfg.head_dim
    keys = iter(jax.random.split(key, 6))

    def dense(*shape, scale):
        return scale * jax.random.normal(next(keys), shape)

    layers = LayerParams(
        dense(n, 3, d, h, dh, scale=1.5 * d**-0.5), dense(n, h, dh, d, scale=(h * dh) ** -0.5),
        dense(n, d, f, scale=d**-0.5), dense(n, f, d, scale=f**-0.5))
    embed, unembed = dense(cfg.vocab, d, scale=1.0), dense(d, cfg.vocab, scale=1.5 * d**-0.5)
    return ModelParams(embed, layers, unembed)


def rms_norm(x):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def rope(x, positions, base=10000.0):
    """Rotates the last axis of x by the positions of its tokens."""
    a, b = jnp.split(x, 2, axis=-1)
    angle = positions[..., None, None] * base ** (-jnp.arange(a.shape[-1]) / a.shape[-1])
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def partial_attention(q, k, v, mask):
    """Unnormalised output, maximum and sum over one block of keys."""
    mask = mask[:, :, None, :]
    scores = jnp.einsum("bthd,bshd->bths", q, k) / np.sqrt(q.shape[-1])
    scores = jnp.where(mask, scores, NEG_INF)
    peak = scores.max(axis=-1)
    probs = jnp.where(mask, jnp.exp(scores - peak[..., None]), 0.0)
    return jnp.einsum("bths,bshd->bthd", probs, v), peak, probs.sum(axis=-1)


def merge(left, right):
    (out_a, peak_a, sum_a), (out_b, peak_b, sum_b) = left, right
    peak = jnp.maximum(peak_a, peak_b)
    a, b = jnp.exp(peak_a - peak), jnp.exp(peak_b - peak)
    return out_a * a[..., None] + out_b * b[..., None], peak, sum_a * a + sum_b * b


def block_positions(block, owner):
    return owner * block + jnp.arange(block)


def vocab_slot(ids, width):
    """Row of ids in this device's slice of the vocabulary, and whether it is there."""
    local = ids - lax.axis_index("heads") * width
    return jnp.clip(local, 0, width - 1), (local >= 0) & (local < width)


class SeqCacheServer:
    """Holds placed parameters and the compiled prefill, decode, sample and score steps."""

    def __init__(self, cfg, mesh, params):
        self.cfg = cfg
        self.params = jax.tree.map(
            lambda x, s: jax.device_put(x, NamedSharding(mesh, s)), params, PARAM_SPECS)

        def compiled(fn, ins, outs):
            return jax.jit(jax.shard_map(fn, mesh=mesh, in_specs=ins, out_specs=outs,
                                         check_vma=False))

        ids, logits = P(None, "seq"), P(None, "heads")
        self.prefill = compiled(self._prefill, (PARAM_SPECS, ids, P()), (CACHE_SPECS, logits))
        self.decode = compiled(self._decode, (PARAM_SPECS, CACHE_SPECS, P()), (CACHE_SPECS, logits))
        self.sample = compiled(self._sample, (logits, P()), (P(), P()))
        self.score = compiled(self._score, (PARAM_SPECS, ids, P(), P()), P())

    def _embed(self, table, tokens):
        slot, inside = vocab_slot(tokens, table.shape[0])
        return lax.psum(jnp.where(inside[..., None], table[slot], 0.0), "heads")

    def _qkv(self, layer, x, positions):
        q, k, v = jnp.einsum("btd,cdhk->cbthk", rms_norm(x), layer.wqkv)
        return rope(q, positions), rope(k, positions), v

    def _finish_layer(self, layer, x, attn):
        x = x + lax.psum(jnp.einsum("bthk,hkd->btd", attn, layer.wo), "heads")
        h = jax.nn.gelu(rms_norm(x) @ layer.w_up)
        return x + lax.psum(h @ layer.w_down, "heads")

    def _ring_attention(self, q, k, v, lengths):
        """Causal attention; key blocks travel once around the "seq" axis."""
        n, me = lax.axis_size("seq"), lax.axis_index("seq")
        q_pos = block_positions(k.shape[1], me)[:, None]
        ring = [(i, (i + 1) % n) for i in range(n)]

        def hop(carry, step):
            k, v, acc = carry
            k_pos = block_positions(k.shape[1], (me - step) % n)
            mask = (q_pos >= k_pos) & (k_pos < lengths[:, None, None])
            acc = merge(acc, partial_attention(q, k, v, mask))
            k, v = lax.ppermute((k, v), "seq", ring)
            return (k, v, acc), None

        empty = (jnp.zeros(q.shape), jnp.full(q.shape[:3], NEG_INF), jnp.zeros(q.shape[:3]))
        (_, _, (out, _, total)), _ = lax.scan(hop, (k, v, empty), jnp.arange(n))
        return out / jnp.maximum(total, 1e-9)[..., None]

    def _cached_attention(self, q, k, v, positions):
        """One query per row over the sharded cache."""
        k_pos = block_positions(k.shape[1], lax.axis_index("seq"))
        mask = k_pos <= positions[:, None, None]
        out, local_peak, total = partial_attention(q, k, v, mask)
        peak = lax.pmax(local_peak, "seq")
        weight = jnp.exp(local_peak - peak)
        out, total = lax.psum((out * weight[..., None], total * weight), "seq")
        return out / total[..., None]

    def _write(self, cache, new, positions):
        """Stores new entries at their positions on the shard that owns them."""
        block = cache.shape[1]
        slot = positions - lax.axis_index("seq") * block
        owned = (slot >= 0) & (slot < block)
        rows, slot = jnp.arange(len(positions)), jnp.clip(slot, 0, block - 1)
        return cache.at[rows, slot].set(jnp.where(owned[:, None, None], new, cache[rows, slot]))

    def _forward(self, params, tokens, lengths):
        """Hidden states, keys and values of full sequences, sharded over "seq"."""
        pos = block_positions(tokens.shape[1], lax.axis_index("seq"))[None, :]

        def body(x, layer):
            q, k, v = self._qkv(layer, x, pos)
            return self._finish_layer(layer, x, self._ring_attention(q, k, v, lengths)), (k, v)

        x, (k, v) = lax.scan(body, self._embed(params.embed, tokens), params.layers)
        return rms_norm(x), k, v, pos

    def _log_normalizer(self, logits):
        peak = lax.pmax(logits.max(axis=-1), "heads")
        return peak + jnp.log(lax.psum(jnp.exp(logits - peak[..., None]).sum(axis=-1), "heads"))

    def _prefill(self, params, tokens, lengths):
        x, k, v, pos = self._forward(params, tokens, lengths)
        is_last = (pos == lengths[:, None] - 1)[..., None]
        last = lax.psum(jnp.where(is_last, x, 0.0).sum(axis=1), "seq")
        return KVCache(k, v, lengths), last @ params.unembed

    def _decode(self, params, cache, tokens):
        pos = cache.lengths

        def body(x, xs):
            layer, k_cache, v_cache = xs
            q, k, v = self._qkv(layer, x, pos[:, None])
            k_cache = self._write(k_cache, k[:, 0], pos)
            v_cache = self._write(v_cache, v[:, 0], pos)
            attn = self._cached_attention(q, k_cache, v_cache, pos)
            return self._finish_layer(layer, x, attn), (k_cache, v_cache)

        x = self._embed(params.embed, tokens[:, None])
        x, (k, v) = lax.scan(body, x, (params.layers, cache.k, cache.v))
        return KVCache(k, v, pos + 1), rms_norm(x[:, 0]) @ params.unembed

    def _sample(self, logits, key):
        """Top-k sampling over the whole vocabulary; returns tokens and log-probs."""
        logits = logits / self.cfg.temperature
        width = logits.shape[-1]
        vals, ids = lax.top_k(logits, min(self.cfg.top_k, width))
        ids += lax.axis_index("heads") * width
        vals, ids = lax.all_gather((vals, ids), "heads", axis=1, tiled=True)
        vals, order = lax.top_k(vals, self.cfg.top_k)
        choice = jax.random.categorical(key, vals)[:, None]
        token = jnp.take_along_axis(jnp.take_along_axis(ids, order, axis=1), choice, axis=1)
        logp = jnp.take_along_axis(vals, choice, axis=1)[:, 0] - self._log_normalizer(logits)
        return token[:, 0], logp

    def _score(self, params, tokens, starts, lengths):
        """Log-likelihood of the tokens from position starts up to lengths."""
        x, _, _, pos = self._forward(params, tokens, lengths)
        n = lax.axis_size("seq")
        following = lax.ppermute(tokens[:, :1], "seq", [(i, (i - 1) % n) for i in range(n)])
        targets = jnp.concatenate([tokens[:, 1:], following], axis=1)
        logits = x @ params.unembed
        slot, inside = vocab_slot(targets, logits.shape[-1])
        picked = jnp.take_along_axis(logits, slot[..., None], axis=-1)[..., 0]
        logp = lax.psum(jnp.where(inside, picked, 0.0), "heads") - self._log_normalizer(logits)
        scored = (pos + 1 >= starts[:, None]) & (pos + 1 < lengths[:, None])
        return lax.psum(jnp.where(scored, logp, 0.0).sum(axis=-1), "seq")

    def generate(self, prompts, lengths, key):
        """Prefills the prompts and appends cfg.new_tokens sampled tokens."""
        cache, logits = self.prefill(self.params, prompts, lengths)
        tokens, rows, logps = np.array(prompts), np.arange(len(prompts)), []
        for step in range(self.cfg.new_tokens):
            token, logp = self.sample(logits, jax.random.fold_in(key, step))
            tokens[rows, lengths + step] = np.asarray(token)
            logps.append(np.asarray(logp))
            cache, logits = self.decode(self.params, cache, token)
        return tokens, logits, np.stack(logps)


def make_prompts(cfg):
    """Random prompts of random lengths, padded with 0."""
    rng = np.random.default_rng(cfg.seed)
    lengths = rng.integers(9, cfg.max_len - cfg.new_tokens - 1, size=cfg.batch, dtype=np.int32)
    prompts = rng.integers(1, cfg.vocab, size=(cfg.batch, cfg.max_len), dtype=np.int32)
    return prompts * (np.arange(cfg.max_len) < lengths[:, None]), lengths


def main():
    cfg = ServeConfig()
    devices = np.asarray(jax.devices())
    mesh = Mesh(devices.reshape(-1, cfg.head_shards), ("seq", "heads"))
    init_key, sample_key = jax.random.split(jax.random.key(cfg.seed))
    server = SeqCacheServer(cfg, mesh, init_params(cfg, init_key))
    prompts, lengths = make_prompts(cfg)
    tokens, logits, logps = server.generate(prompts, lengths, sample_key)
    ends = lengths + cfg.new_tokens
    new = server.score(server.params, tokens, lengths, ends)
    whole = server.score(server.params, tokens, np.ones_like(lengths), ends)
    return {
        "token_checksum": float((tokens * np.arange(1, cfg.max_len + 1)).mean()),
        "tokens": tokens,
        "sample_logp": logps,
        "final_logits": np.asarray(logits),
        "whole_nll_per_token": -float(whole.sum()) / (ends - 1).sum(),
        "continuation_nll_per_token": -float(new.mean()) / cfg.new_tokens,
        "whole_logp": np.asarray(whole),
        "continuation_logp": np.asarray(new),
    }


def reference():
    """The same on one device, without a cache: every token reads the whole sequence again."""
    cfg = ServeConfig()
    init_key, sample_key = jax.random.split(jax.random.key(cfg.seed))
    params = init_params(cfg, init_key)
    positions = jnp.arange(cfg.max_len)

    @jax.jit
    def logits_of(tokens):
        x = params.embed[tokens]
        for i in range(cfg.n_layers):
            layer = jax.tree.map(lambda w: w[i], params.layers)
            q, k, v = jnp.einsum("btd,cdhk->cbthk", rms_norm(x), layer.wqkv)
            q, k = rope(q, positions), rope(k, positions)
            scores = jnp.einsum("bthk,bshk->bhts", q, k) / np.sqrt(cfg.head_dim)
            scores = jnp.where(positions[:, None] >= positions, scores, -jnp.inf)
            x = x + jnp.einsum("bhts,bshk,hkd->btd", jax.nn.softmax(scores), v, layer.wo)
            x = x + jax.nn.gelu(rms_norm(x) @ layer.w_up) @ layer.w_down
        return rms_norm(x) @ params.unembed

    tokens, lengths = make_prompts(cfg)
    rows, logps = np.arange(cfg.batch), []
    for step in range(cfg.new_tokens):
        logits = logits_of(tokens)[rows, lengths + step - 1] / cfg.temperature
        vals, ids = lax.top_k(logits, cfg.top_k)
        choice = jax.random.categorical(jax.random.fold_in(sample_key, step), vals)
        tokens[rows, lengths + step] = ids[rows, choice]
        logps.append(jax.nn.log_softmax(logits)[rows, ids[rows, choice]])

    logits, ends = logits_of(tokens), lengths + cfg.new_tokens
    logp = jax.nn.log_softmax(logits[:, :-1])
    logp = np.take_along_axis(np.asarray(logp), tokens[:, 1:, None], axis=-1)[..., 0]
    whole = [logp[row, : ends[row] - 1].sum() for row in rows]
    new = [logp[row, lengths[row] - 1 : ends[row] - 1].sum() for row in rows]
    return {
        "token_checksum": (tokens @ np.arange(1, cfg.max_len + 1)).sum() / tokens.size,
        "tokens": tokens,
        "sample_logp": np.stack(logps),
        "final_logits": np.asarray(logits[rows, ends - 1]),
        "whole_nll_per_token": -sum(whole) / (ends - 1).sum(),
        "continuation_nll_per_token": -np.mean(new) / cfg.new_tokens,
        "whole_logp": np.array(whole),
        "continuation_logp": np.array(new),
    }


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    print("agree:", ", ".join(wanted))
