"""Training a gated linear-attention language model on a ("data", "seq") mesh.

Rows of the batch are split over "data", positions over "seq", optimizer moments over "data".
Each sequence shard summarises its tokens into a decay and a state; the summaries are gathered
and each shard folds the ones before it into its incoming state.
"""
import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

PAD = 0
AXES = ("data", "seq")


@dataclasses.dataclass(frozen=True)
class Config:
    vocab: int = 64
    d_model: int = 32
    n_layers: int = 2
    n_heads: int = 4
    head_dim: int = 8
    conv_width: int = 3
    seq_len: int = 64
    chunk: int = 4
    batch: int = 8
    accum: int = 2
    steps: int = 8
    peak_lr: float = 2e-2
    weight_decay: float = 0.1
    max_norm: float = 1.0
    z_coef: float = 1e-2
    word_drop: float = 0.1
    seed: int = 0
    data_shards: int = 2


def init_params(cfg, key):
    n, d, h, dh = cfg.n_layers, cfg.d_model, cfg.n_heads, cfg.head_dim
    keys = iter(jax.random.split(key, 12))

    def dense(*shape, fan_in=d):
        return jax.random.normal(next(keys), shape) / np.sqrt(fan_in)

    layers = dict(
        conv=dense(n, cfg.conv_width, d, fan_in=cfg.conv_width),
        w_in=dense(n, 5, d, h, dh), b_decay=jnp.ones((n, h, dh)),
        wo=dense(n, h, dh, d, fan_in=h * dh),
        w_up=dense(n, d, 2 * d), w_down=dense(n, 2 * d, d, fan_in=2 * d))
    return dict(embed=dense(cfg.vocab, d), pos=0.5 * dense(cfg.seq_len, d), layers=layers,
                head=dense(d, cfg.vocab))


def rms_norm(x):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def neighbours(shift):
    """Pairs that send each sequence shard's data `shift` shards on, without wrapping."""
    n = lax.axis_size("seq")
    return [(i, i + shift) for i in range(n) if 0 <= i + shift < n]


def causal_conv(x, kernel):
    """Depthwise convolution over time; the left halo is from the previous shard."""
    width, t = kernel.shape[0], x.shape[1]
    halo = lax.ppermute(x[:, t - (width - 1):], "seq", neighbours(1))
    padded = jnp.concatenate([halo, x], axis=1)
    return sum(padded[:, i:i + t] * kernel[i] for i in range(width))


def incoming_state(log_decay, state):
    """State at the left edge of this shard, from the summaries of the shards before it."""
    decays, states = lax.all_gather((jnp.exp(log_decay), state), "seq")
    me = lax.axis_index("seq")

    def fold(carry, summary):
        index, decay, state = summary
        return jnp.where(index < me, decay[..., None] * carry + state, carry), None

    summaries = (jnp.arange(len(decays)), decays, states)
    return lax.scan(fold, jnp.zeros_like(state), summaries)[0]


def gated_linear_attention(q, k, v, log_a, chunk):
    """S_t = a_t * S_{t-1} + k_t v_t^T, o_t = q_t S_t, for a sequence sharded over "seq"."""
    b, t, h, dk = q.shape
    q, k, v, log_a = (jnp.moveaxis(x.reshape(b, t // chunk, chunk, h, dk), 1, 0)
                      for x in (q, k, v, log_a))
    g = jnp.cumsum(log_a, axis=2)
    total = g[:, :, -1]
    q_in, k_out = q * jnp.exp(g), k * jnp.exp(total[:, :, None] - g)
    chunk_states = jnp.einsum("nbchk,nbchv->nbhkv", k_out, v)

    def advance(state, xs):
        log_decay, update = xs
        return jnp.exp(log_decay)[..., None] * state + update, state

    summary, _ = lax.scan(advance, jnp.zeros_like(chunk_states[0]), (total, chunk_states))
    start = incoming_state(total.sum(axis=0), summary)
    _, before = lax.scan(advance, start, (total, chunk_states))
    scores = jnp.einsum("nbchk,nbshk->nbhcs", q_in, k * jnp.exp(-g))
    scores = jnp.where(jnp.tril(jnp.ones((chunk, chunk), bool)), scores, 0.0)
    within = jnp.einsum("nbhcs,nbshv->nbchv", scores, v)
    out = within + jnp.einsum("nbchk,nbhkv->nbchv", q_in, before)
    return jnp.moveaxis(out, 0, 1).reshape(b, t, h, dk)


def apply_model(cfg, params, tokens):
    t = tokens.shape[1]
    first = lax.axis_index("seq") * t
    x = params["embed"][tokens] + lax.dynamic_slice_in_dim(params["pos"], first, t)

    @jax.checkpoint
    def layer(x, w):
        h = jax.nn.silu(causal_conv(rms_norm(x), w["conv"]))
        q, k, v, decay, gate = jnp.einsum("btd,cdhk->cbthk", h, w["w_in"])
        log_a = jax.nn.log_sigmoid(decay + w["b_decay"]) / 4.0
        q *= cfg.head_dim**-0.5
        out = gated_linear_attention(q, k, v, log_a, cfg.chunk) * jax.nn.silu(gate)
        x = x + jnp.einsum("bthk,hkd->btd", out, w["wo"])
        return x + jax.nn.gelu(rms_norm(x) @ w["w_up"]) @ w["w_down"], None

    x, _ = lax.scan(layer, x, params["layers"])
    return rms_norm(x) @ params["head"]


def next_tokens(tokens):
    """Targets; the last one comes from the next shard (PAD at the end of the row)."""
    following = lax.ppermute(tokens[:, :1], "seq", neighbours(-1))
    return jnp.concatenate([tokens[:, 1:], following], axis=1)


def drop_words(cfg, tokens, key):
    """Replaces random input tokens by PAD, drawn per global row and position."""
    b, t = tokens.shape
    rows = lax.axis_index("data") * b + jnp.arange(b)
    keys = jax.vmap(functools.partial(jax.random.fold_in, key))(rows)
    keep = jax.vmap(lambda k: jax.random.bernoulli(k, 1 - cfg.word_drop, (cfg.seq_len,)))(keys)
    keep = lax.dynamic_slice_in_dim(keep, lax.axis_index("seq") * t, t, axis=1)
    return jnp.where(keep, tokens, PAD)


def loss_sums(cfg, params, inputs, targets):
    """Local sums over real target tokens: nll, squared log-normaliser, hits."""
    logits = apply_model(cfg, params, inputs)
    weight = (targets != PAD).astype(jnp.float32)
    log_z = jax.nn.logsumexp(logits, axis=-1)
    nll = log_z - jnp.take_along_axis(logits, targets[..., None], axis=-1)[..., 0]
    hits = (logits.argmax(axis=-1) == targets) * weight
    return (nll * weight).sum(), (log_z**2 * weight).sum(), hits.sum()


def make_optimizer(cfg):
    schedule = optax.warmup_cosine_decay_schedule(
        cfg.peak_lr / 4, cfg.peak_lr, warmup_steps=2, decay_steps=cfg.steps)
    return optax.adamw(schedule, b2=0.95, weight_decay=cfg.weight_decay)


def flat_padded(x):
    n = lax.axis_size("data")
    return jnp.pad(x.reshape(-1), (0, -x.size % n))


def take_slice(x):
    """This device's part of a replicated leaf, flattened and padded."""
    return flat_padded(x).reshape(lax.axis_size("data"), -1)[lax.axis_index("data")]


def scatter_grad(g):
    """Sum over the mesh of a leaf's gradient; each device keeps its slice."""
    return lax.psum_scatter(flat_padded(lax.psum(g, "seq")), "data", tiled=True)


def restore(part, like):
    full = lax.all_gather(part, "data", tiled=True)
    return full[:like.size].reshape(like.shape)


def train_step(cfg, opt, params, opt_state, tokens, key):
    targets = jax.vmap(next_tokens)(tokens)
    count = lax.psum((targets != PAD).sum(), AXES)

    def micro(carry, xs):
        index, tokens, targets = xs
        inputs = drop_words(cfg, tokens, jax.random.fold_in(key, index))

        def objective(params):
            nll, z, _ = loss_sums(cfg, params, inputs, targets)
            return (nll + cfg.z_coef * z) / count, (nll, z)

        grads, sums = jax.grad(objective, has_aux=True)(params)
        return jax.tree.map(jnp.add, carry, (grads, sums)), None

    zero = (jax.tree.map(jnp.zeros_like, params), (0.0, 0.0))
    (grads, sums), _ = lax.scan(micro, zero, (jnp.arange(cfg.accum), tokens, targets))
    nll, z = jax.tree.map(lambda s: lax.psum(s, AXES) / count, sums)
    grads = jax.tree.map(scatter_grad, grads)
    norm = jnp.sqrt(lax.psum(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)), "data"))
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, cfg.max_norm / norm), grads)
    parts = jax.tree.map(take_slice, params)
    updates, opt_state = opt.update(grads, opt_state, parts)
    parts = optax.apply_updates(parts, updates)
    return jax.tree.map(restore, parts, params), opt_state, jnp.stack([nll, z, norm])


def eval_step(cfg, params, tokens):
    targets = next_tokens(tokens)
    nll, _, hits = loss_sums(cfg, params, tokens, targets)
    nll, hits, count = lax.psum((nll, hits, (targets != PAD).sum()), AXES)
    return jnp.stack([nll / count, hits / count])


def make_tokens(cfg, rng, rows):
    """Modular walks of random stride and length, padded with PAD."""
    step = rng.integers(1, 4, size=(rows, 1))
    walk = rng.integers(0, 63, size=(rows, 1)) + step * np.arange(cfg.seq_len)
    lengths = rng.integers(cfg.seq_len // 4, cfg.seq_len + 1, size=(rows, 1))
    inside = np.arange(cfg.seq_len) < lengths
    return np.where(inside, 1 + walk % (cfg.vocab - 1), PAD).astype(np.int32)


def main():
    cfg = Config()
    mesh = Mesh(np.asarray(jax.devices()).reshape(cfg.data_shards, -1), AXES)
    init_key, drop_key = jax.random.split(jax.random.key(cfg.seed))
    replicated = NamedSharding(mesh, P())
    params = jax.device_put(init_params(cfg, init_key), replicated)
    opt = make_optimizer(cfg)
    smap = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
    state_shapes = jax.eval_shape(opt.init, jax.tree.map(jnp.ravel, params))
    state_specs = jax.tree.map(lambda s: P("data") if s.ndim else P(), state_shapes)
    init_opt = jax.jit(smap(lambda p: opt.init(jax.tree.map(take_slice, p)),
                            in_specs=P(), out_specs=state_specs))
    step_fn = jax.jit(smap(functools.partial(train_step, cfg, opt),
                           in_specs=(P(), state_specs, P(None, "data", "seq"), P()),
                           out_specs=(P(), state_specs, P())))
    eval_fn = jax.jit(smap(functools.partial(eval_step, cfg),
                           in_specs=(P(), P("data", "seq")), out_specs=P()))

    rng = np.random.default_rng(cfg.seed)
    opt_state = init_opt(params)
    history = []
    for step in range(cfg.steps):
        tokens = make_tokens(cfg, rng, cfg.accum * cfg.batch)
        tokens = tokens.reshape(cfg.accum, cfg.batch, cfg.seq_len)
        params, opt_state, metrics = step_fn(
            params, opt_state, tokens, jax.random.fold_in(drop_key, step))
        history.append(np.asarray(metrics))
    nll, z, norm = np.stack(history, axis=1)
    eval_nll, accuracy = np.asarray(eval_fn(params, make_tokens(cfg, rng, 2 * cfg.batch)))
    weights = {name: np.asarray(params["layers"][name]) for name in ("conv", "b_decay")}
    return dict(nll=nll, z=z, norm=norm, eval_nll=eval_nll, accuracy=accuracy,
                head=np.asarray(params["head"]), **weights)


def reference():
    """The same on one device, token by token and without chunks or accumulation."""
    cfg = Config()

    def model(params, tokens):
        def layer(x, w):
            padded = jnp.pad(rms_norm(x), ((0, 0), (cfg.conv_width - 1, 0), (0, 0)))
            h = jax.nn.silu(sum(w["conv"][i] * padded[:, i:i + cfg.seq_len]
                                for i in range(cfg.conv_width)))
            q, k, v, decay, gate = jnp.einsum("btd,cdhk->ctbhk", h, w["w_in"])
            a = jax.nn.sigmoid(decay + w["b_decay"]) ** 0.25

            def tick(state, xs):
                q, k, v, a = xs
                state = a[..., None] * state + k[..., None] * v[..., None, :]
                return state, jnp.einsum("bhk,bhkv->bhv", q, state) / cfg.head_dim**0.5

            empty = jnp.zeros((len(tokens), cfg.n_heads, cfg.head_dim, cfg.head_dim))
            _, out = lax.scan(tick, empty, (q, k, v, a))
            x = x + jnp.einsum("tbhk,hkd->btd", out * jax.nn.silu(gate), w["wo"])
            return x + jax.nn.gelu(rms_norm(x) @ w["w_up"]) @ w["w_down"], None

        x, _ = lax.scan(layer, params["embed"][tokens] + params["pos"], params["layers"])
        return rms_norm(x) @ params["head"]

    def means(params, inputs, tokens):
        """Means over real target tokens: nll, squared log-normaliser, hits."""
        logits, targets = model(params, inputs)[:, :-1], tokens[:, 1:]
        log_z = jax.nn.logsumexp(logits, axis=-1)
        nll = -(jax.nn.log_softmax(logits) * jax.nn.one_hot(targets, cfg.vocab)).sum(axis=-1)
        hits = logits.argmax(axis=-1) == targets
        return [jnp.average(x, weights=targets != PAD) for x in (nll, log_z**2, hits)]

    @jax.jit
    def step_fn(params, opt_state, tokens, key):
        def keep(index):
            micro, row = index // cfg.batch, index % cfg.batch
            row_key = jax.random.fold_in(jax.random.fold_in(key, micro), row)
            return jax.random.bernoulli(row_key, 1 - cfg.word_drop, (cfg.seq_len,))

        inputs = jnp.where(jax.vmap(keep)(jnp.arange(len(tokens))), tokens, PAD)

        def objective(params):
            nll, z, _ = means(params, inputs, tokens)
            return nll + cfg.z_coef * z, (nll, z)

        grads, (nll, z) = jax.grad(objective, has_aux=True)(params)
        norm = optax.global_norm(grads)
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, cfg.max_norm / norm), grads)
        updates, opt_state = opt.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, (nll, z, norm)

    init_key, drop_key = jax.random.split(jax.random.key(cfg.seed))
    params, opt = init_params(cfg, init_key), make_optimizer(cfg)
    opt_state, history, rng = opt.init(params), [], np.random.default_rng(cfg.seed)
    for step in range(cfg.steps):
        tokens = make_tokens(cfg, rng, cfg.accum * cfg.batch)
        key = jax.random.fold_in(drop_key, step)
        params, opt_state, metrics = step_fn(params, opt_state, tokens, key)
        history.append(metrics)
    nll, z, norm = np.array(history).T
    tokens = make_tokens(cfg, rng, 2 * cfg.batch)
    eval_nll, _, accuracy = jax.jit(means)(params, tokens, tokens)
    weights = {name: params["layers"][name] for name in ("conv", "b_decay")}
    return dict(nll=nll, z=z, norm=norm, eval_nll=eval_nll, accuracy=accuracy,
                head=params["head"], **weights)


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    print("agree:", ", ".join(wanted))
