"""Pre-training of a small decoder with multi-head latent attention.

Queries, keys and values pass through low-rank latents; only the latents (and one rotary
key shared by all heads) travel between the devices of a "tp" group.  Between the blocks
the residual stream is split along the sequence, so norms and down-projections see
S / tp tokens; up-projections, feed-forward and vocabulary are split over "tp".
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P

V, D, L, H = 64, 32, 2, 8  # vocabulary, width, layers, heads
RQ, RKV = 12, 16  # ranks of the latents
NOPE, ROPE, DV = 6, 4, 8  # head sizes without and with rotation, and of values
FF = 48
B, S, STEPS = 8, 16, 6
PAD = 0
CLIP, PEAK, WARM, DECAY, EPS = 0.5, 2e-2, 3, 0.05, 1e-4

ATTN = {
    "norm": P(None, None),
    "dq": P(None, None, None),
    "q_norm": P(None, None),
    "uq": P(None, None, "tp", None),
    "dkv": P(None, None, None),
    "kv_norm": P(None, None),
    "uk": P(None, None, "tp", None),
    "uv": P(None, None, "tp", None),
    "o": P(None, "tp", None, None),
}
FFN = {
    "norm": P(None, None),
    "gate": P(None, None, "tp"),
    "up": P(None, None, "tp"),
    "down": P(None, "tp", None),
}
SPECS = {"embed": P("tp", None), "attn": ATTN, "ffn": FFN, "norm": P(None), "head": P(None, "tp")}


def init(seed=0):
    rng = np.random.default_rng(seed)

    def w(*shape, fan):
        return (rng.normal(size=shape) / np.sqrt(fan)).astype(np.float32)

    def g(*shape):
        return (1 + 0.1 * rng.normal(size=shape)).astype(np.float32)

    attn = {
        "norm": g(L, D),
        "dq": w(L, D, RQ, fan=D),
        "q_norm": g(L, RQ),
        "uq": w(L, RQ, H, NOPE + ROPE, fan=RQ),
        "dkv": w(L, D, RKV + ROPE, fan=D),
        "kv_norm": g(L, RKV),
        "uk": w(L, RKV, H, NOPE, fan=RKV),
        "uv": w(L, RKV, H, DV, fan=RKV),
        "o": w(L, H, DV, D, fan=H * DV),
    }
    ffn = {
        "norm": g(L, D),
        "gate": w(L, D, FF, fan=D),
        "up": w(L, D, FF, fan=D),
        "down": w(L, FF, D, fan=FF),
    }
    embed, head = w(V, D, fan=1), w(D, V, fan=D)
    return {"embed": embed, "attn": attn, "ffn": ffn, "norm": g(D), "head": head}


def corpus(seed=1):
    """Batches of sequences that count upwards with noise, of different lengths."""
    rng = np.random.default_rng(seed)
    start, stride = rng.integers(1, V, (STEPS, B, 1)), rng.integers(1, 4, (STEPS, B, 1))
    ids = 1 + (start + stride * np.arange(S + 1) + rng.integers(0, 2, (STEPS, B, S + 1))) % (V - 1)
    length = np.sort(rng.integers(5, S + 2, (STEPS, B)), axis=1)
    ids = np.where(np.arange(S + 1) < length[..., None], ids, PAD)
    return ids.astype(np.int32)


def rms(x, g):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * g


def rotate(x, pos):
    """Rotary embedding of x[..., S, (heads,) ROPE]; pos has one axis less, or broadcasts."""
    half = x.shape[-1] // 2
    angle = pos[..., None] / 100.0 ** (jnp.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.concatenate([a * c - b * s, b * c + a * s], axis=-1)


gather_seq = partial(lax.all_gather, axis_name="tp", axis=1, tiled=True)
scatter_seq = partial(lax.psum_scatter, axis_name="tp", scatter_dimension=1, tiled=True)


def latent_attention(p, x):
    """x is this device's part of the sequence; so is the result."""
    here = x.shape[1]
    pos = lax.axis_index("tp") * here + jnp.arange(here)
    x = rms(x, p["norm"])
    cq = rms(x @ p["dq"], p["q_norm"])
    ckv, k_rope = jnp.split(x @ p["dkv"], [RKV], axis=-1)
    k_rope = rotate(k_rope, pos)
    cq, ckv, k_rope = gather_seq(cq), gather_seq(rms(ckv, p["kv_norm"])), gather_seq(k_rope)

    everything = jnp.arange(cq.shape[1])
    q = jnp.einsum("bsr,rhd->bshd", cq, p["uq"])
    q_nope, q_rope = q[..., :NOPE], rotate(q[..., NOPE:], everything[:, None])
    k_nope = jnp.einsum("bsr,rhd->bshd", ckv, p["uk"])
    v = jnp.einsum("bsr,rhd->bshd", ckv, p["uv"])
    score = jnp.einsum("bqhd,bkhd->bhqk", q_nope, k_nope)
    score += jnp.einsum("bqhd,bkd->bhqk", q_rope, k_rope)
    causal = everything[:, None] >= everything[None, :]
    score = jnp.where(causal, score / np.sqrt(NOPE + ROPE), -1e9)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(score, axis=-1), v)
    return scatter_seq(jnp.einsum("bqhd,hdm->bqm", mixed, p["o"]))


def feed_forward(p, x):
    x = gather_seq(rms(x, p["norm"]))
    return scatter_seq((jax.nn.silu(x @ p["gate"]) * (x @ p["up"])) @ p["down"])


def look_up(table, ids):
    rows = table.shape[0]
    local = ids - lax.axis_index("tp") * rows
    mine = (local >= 0) & (local < rows)
    found = jnp.where(mine[..., None], table[jnp.clip(local, 0, rows - 1)], 0.0)
    return scatter_seq(found)


def hidden(params, ids):
    def layer(x, p):
        x = x + latent_attention(p["attn"], x)
        return x + feed_forward(p["ffn"], x), None

    x, _ = lax.scan(layer, look_up(params["embed"], ids), {k: params[k] for k in ("attn", "ffn")})
    return gather_seq(rms(x, params["norm"]))


def token_losses(params, ids, targets):
    """Cross entropy of the tokens of this device's part of the sequence."""
    logits = hidden(params, ids) @ params["head"]
    width = logits.shape[-1]
    top = lax.pmax(lax.stop_gradient(logits).max(-1, keepdims=True), "tp")
    logits = logits - top
    partition = scatter_seq(jnp.exp(logits).sum(-1))
    local = targets - lax.axis_index("tp") * width
    hit = jnp.take_along_axis(logits, jnp.clip(local, 0, width - 1)[..., None], axis=-1)[..., 0]
    hit = scatter_seq(jnp.where((local >= 0) & (local < width), hit, 0.0))
    return jnp.log(partition) - hit


def own_part(x):
    n = x.shape[1] // lax.axis_size("tp")
    return lax.dynamic_slice_in_dim(x, lax.axis_index("tp") * n, n, axis=1)


def axes_left(spec):
    """Mesh axes over which a parameter of this spec is the same everywhere."""
    return tuple(a for a in ("dp", "tp") if a not in spec)


def global_norm(grads):
    def square(g, spec):
        total = jnp.sum(jnp.square(g))
        return lax.psum(total, "tp") if "tp" in spec else total

    return jnp.sqrt(sum(jax.tree.leaves(jax.tree.map(square, grads, SPECS))))


def schedule():
    return optax.warmup_cosine_decay_schedule(0.1 * PEAK, PEAK, WARM, STEPS + 2)


def is_matrix(params):
    return jax.tree_util.tree_map_with_path(lambda path, _: "norm" not in path[-1].key, params)


def optimizer():
    return optax.adamw(schedule(), b2=0.95, eps=EPS, weight_decay=DECAY, mask=is_matrix)


def train_step(tx, params, state, batch):
    ids, targets = batch[:, :-1], batch[:, 1:]
    real = targets != PAD
    count = lax.psum(real.sum(), "dp")

    def objective(params):
        losses = token_losses(params, ids, targets)
        return jnp.sum(jnp.where(own_part(real), losses, 0.0)) / count

    loss, grads = jax.value_and_grad(objective)(params)
    grads = jax.tree.map(lambda g, spec: lax.psum(g, axes_left(spec)), grads, SPECS)
    norm = global_norm(grads)
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, CLIP / norm), grads)
    updates, state = tx.update(grads, state, params)
    params = optax.apply_updates(params, updates)
    return params, state, {"loss": lax.psum(loss, ("dp", "tp")), "norm": norm}


def greedy(params, ids):
    """The likeliest next token after every token, and how likely it is."""
    logits = hidden(params, ids) @ params["head"]
    best = logits.max(-1)
    token = logits.argmax(-1) + lax.axis_index("tp") * logits.shape[-1]
    rivals, tokens = lax.all_gather(best, "tp"), lax.all_gather(token, "tp")
    winner = rivals.argmax(0)[None]
    mass = lax.psum(jnp.exp(logits - rivals.max(0)[..., None]).sum(-1), "tp")
    return jnp.take_along_axis(tokens, winner, axis=0)[0], 1.0 / mass


def build(mesh, tx, params):
    state = jax.eval_shape(tx.init, params)
    state_specs = optax.tree_map_params(
        tx, lambda _, spec: spec, state, SPECS, transform_non_params=lambda _: P()
    )
    smap = partial(jax.shard_map, mesh=mesh, check_vma=False)

    def epoch(params, state, batches):
        def step(carry, batch):
            *carry, log = train_step(tx, *carry, batch)
            return tuple(carry), log

        return lax.scan(step, (params, state), batches)

    train = smap(
        epoch,
        in_specs=(SPECS, state_specs, P(None, "dp", None)),
        out_specs=((SPECS, state_specs), P()),
    )
    decode = smap(greedy, in_specs=(SPECS, P("dp", None)), out_specs=P("dp", None))
    return jax.jit(train, donate_argnums=(0, 1)), jax.jit(decode), state_specs


def main():
    mesh = jax.make_mesh((2, 4), ("dp", "tp"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    tx, params, batches = optimizer(), init(), corpus()
    train, decode, state_specs = build(mesh, tx, params)

    def place(tree, specs):
        return jax.tree.map(lambda x, s: jax.device_put(x, NamedSharding(mesh, s)), tree, specs)

    params, state = place(params, SPECS), place(tx.init(params), state_specs)
    (params, state), log = train(params, state, batches)
    tokens, sure = decode(params, batches[0, :, :-1])
    attn = params["attn"]
    trained = {"uk": attn["uk"], "norms": attn["norm"], "embed": params["embed"]}
    out = log | trained | {"tokens": tokens, "sure": sure}
    return {k: np.asarray(v) for k, v in out.items()}


def reference():
    """One device, one sequence at a time, layers and heads unrolled."""
    angle = np.arange(S)[:, None] / 100.0 ** (np.arange(ROPE // 2) * 2 / ROPE)
    turn = np.exp(1j * angle)

    def unit(x, g):
        return g * x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)

    def spin(x):
        z = (x[:, : ROPE // 2] + 1j * x[:, ROPE // 2 :]) * turn
        return jnp.concatenate([z.real, z.imag], axis=1)

    def logits(p, ids):
        x = p["embed"][ids]
        for i in range(L):
            a, f = (jax.tree.map(lambda w: w[i], p[name]) for name in ("attn", "ffn"))
            y = unit(x, a["norm"])
            cq, down = unit(y @ a["dq"], a["q_norm"]), y @ a["dkv"]
            ckv, shared = unit(down[:, :RKV], a["kv_norm"]), spin(down[:, RKV:])
            for h in range(H):
                q = cq @ a["uq"][:, h]
                q = jnp.concatenate([q[:, :NOPE], spin(q[:, NOPE:])], axis=1)
                k = jnp.concatenate([ckv @ a["uk"][:, h], shared], axis=1)
                score = q @ k.T / (NOPE + ROPE) ** 0.5 + np.triu(np.full((S, S), -1e9), 1)
                x = x + jax.nn.softmax(score) @ (ckv @ a["uv"][:, h]) @ a["o"][h]
            y = unit(x, f["norm"])
            x = x + (jax.nn.silu(y @ f["gate"]) * (y @ f["up"])) @ f["down"]
        return unit(x, p["norm"]) @ p["head"]

    def loss(p, batch):
        out = jax.nn.log_softmax(jax.vmap(logits, (None, 0))(p, batch[:, :-1]))
        each = -jnp.take_along_axis(out, batch[:, 1:, None], axis=2)[..., 0]
        return jnp.where(batch[:, 1:] != PAD, each, 0).sum() / (batch[:, 1:] != PAD).sum()

    tx = optax.chain(optax.clip_by_global_norm(CLIP), optimizer())
    params, batches = init(), corpus()
    state, log, gradient = tx.init(params), [], jax.jit(jax.value_and_grad(loss))
    for batch in batches:
        value, grads = gradient(params, batch)
        log.append((value, optax.global_norm(grads)))
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
    final = jax.nn.softmax(jax.vmap(logits, (None, 0))(params, batches[0, :, :-1]))
    out = {"loss": [v for v, _ in log], "norm": [n for _, n in log], "embed": params["embed"]}
    out |= {"uk": params["attn"]["uk"], "norms": params["attn"]["norm"]}
    out |= {"tokens": final.argmax(-1), "sure": final.max(-1)}
    return {k: np.asarray(v) for k, v in out.items()}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-3, atol=2e-4, err_msg=name)
    print("mla_decoder: loss", got["loss"].round(4), "norm of gradients", got["norm"].round(3))
