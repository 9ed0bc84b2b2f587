"""Small decoder-only LM, FSDP over 'data' and tensor parallel over 'model', all through jit."""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P


@dataclass(frozen=True)
class Config:
    vocab: int = 64
    d: int = 32
    heads: int = 4
    head_dim: int = 8
    ff: int = 96
    layers: int = 2
    seq: int = 16
    batch: int = 16
    accum: int = 2
    lr: float = 1e-2
    clip: float = 0.5


SPECS = {
    "embed": P("model", "data"),
    "unembed": P("data", "model"),
    "final_norm": P(),
    "blocks": {
        "norm1": P(),
        "norm2": P(),
        "wq": P(None, "data", "model", None),
        "wk": P(None, "data", "model", None),
        "wv": P(None, "data", "model", None),
        "wo": P(None, "model", None, "data"),
        "w_gate": P(None, "data", "model"),
        "w_up": P(None, "data", "model"),
        "w_down": P(None, "model", "data"),
    },
}


def init_params(key, c):
    ks = iter(jax.random.split(key, 9))
    n = lambda *s, scale: jax.random.normal(next(ks), s) * scale
    return {
        "embed": n(c.vocab, c.d, scale=1.0),
        "unembed": n(c.d, c.vocab, scale=c.d**-0.5),
        "final_norm": jnp.ones(c.d),
        "blocks": {
            "norm1": jnp.ones((c.layers, c.d)),
            "norm2": jnp.ones((c.layers, c.d)),
            "wq": n(c.layers, c.d, c.heads, c.head_dim, scale=c.d**-0.5),
            "wk": n(c.layers, c.d, c.heads, c.head_dim, scale=c.d**-0.5),
            "wv": n(c.layers, c.d, c.heads, c.head_dim, scale=c.d**-0.5),
            "wo": n(c.layers, c.heads, c.head_dim, c.d, scale=c.d**-0.5),
            "w_gate": n(c.layers, c.d, c.ff, scale=c.d**-0.5),
            "w_up": n(c.layers, c.d, c.ff, scale=c.d**-0.5),
            "w_down": n(c.layers, c.ff, c.d, scale=c.ff**-0.5),
        },
    }


def get_batches(c, steps):
    rng = np.random.default_rng(0)
    toks = rng.integers(0, c.vocab, (steps, c.batch, c.seq + 1))
    keep = rng.random((steps, c.batch, c.seq)) > 0.1
    return toks.astype(np.int32), keep.astype(np.float32)


def rms(x, g):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * g


def rope(x):
    t, half = x.shape[1], x.shape[-1] // 2
    freq = 10000.0 ** (-jnp.arange(half) / half)
    ang = jnp.arange(t)[:, None] * freq
    sin, cos = jnp.sin(ang)[None, :, None], jnp.cos(ang)[None, :, None]
    a, b = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)


def forward(params, tokens, c, mesh):
    wsc = lambda x, *spec: jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P(*spec)))
    x = params["embed"][tokens] * jnp.sqrt(c.d)
    x = wsc(x, "data", None, None)
    causal = jnp.tril(jnp.ones((tokens.shape[1],) * 2, bool))

    @jax.checkpoint
    def block(x, p):
        h = rms(x, p["norm1"])
        q = wsc(jnp.einsum("btd,dhk->bthk", h, p["wq"]), "data", None, "model", None)
        k = wsc(jnp.einsum("btd,dhk->bthk", h, p["wk"]), "data", None, "model", None)
        v = wsc(jnp.einsum("btd,dhk->bthk", h, p["wv"]), "data", None, "model", None)
        q, k = rope(q), rope(k)
        s = jnp.einsum("bthk,bshk->bhts", q, k) * c.head_dim**-0.5
        s = jnp.where(causal, s, -1e30)
        a = jax.nn.softmax(s, axis=-1)
        o = jnp.einsum("bhts,bshk->bthk", a, v)
        x = x + wsc(jnp.einsum("bthk,hkd->btd", o, p["wo"]), "data", None, None)
        h = rms(x, p["norm2"])
        u = jax.nn.silu(h @ p["w_gate"]) * (h @ p["w_up"])
        u = wsc(u, "data", None, "model")
        return x + wsc(u @ p["w_down"], "data", None, None), None

    x, _ = jax.lax.scan(block, x, params["blocks"])
    logits = rms(x, params["final_norm"]) @ params["unembed"]
    return wsc(logits.astype(jnp.float32), "data", None, "model")


def loss_fn(params, toks, keep, c, mesh):
    logits = forward(params, toks[:, :-1], c, mesh)
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, toks[:, 1:])
    return jnp.sum(nll * keep), jnp.sum(keep)


def make_tx(c):
    return optax.chain(optax.clip_by_global_norm(c.clip), optax.adamw(c.lr, b2=0.95, weight_decay=0.1))


def train_step(params, opt, toks, keep, *, c, mesh):
    mb = NamedSharding(mesh, P(None, "data", None))
    toks = jax.lax.with_sharding_constraint(toks.reshape(c.accum, -1, c.seq + 1), mb)
    keep = jax.lax.with_sharding_constraint(keep.reshape(c.accum, -1, c.seq), mb)

    def micro(carry, xs):
        grads, total, count = carry
        (l, n), g = jax.value_and_grad(loss_fn, has_aux=True)(params, *xs, c, mesh)
        return (jax.tree.map(jnp.add, grads, g), total + l, count + n), None

    zero = jax.tree.map(jnp.zeros_like, params)
    (grads, total, count), _ = jax.lax.scan(micro, (zero, 0.0, 0.0), (toks, keep))
    grads = jax.tree.map(lambda g: g / count, grads)
    updates, opt = make_tx(c).update(grads, opt, params)
    params = optax.apply_updates(params, updates)
    return params, opt, {"loss": total / count, "gnorm": optax.global_norm(grads)}


def main(data=4, model=2, steps=2):
    c = Config()
    mesh = jax.make_mesh((data, model), ("data", "model"), axis_types=(AxisType.Auto,) * 2,
                         devices=jax.devices()[: data * model])
    repl = NamedSharding(mesh, P())
    psh = jax.tree.map(lambda s: NamedSharding(mesh, s), SPECS, is_leaf=lambda s: isinstance(s, P))
    tx = make_tx(c)
    params = jax.jit(partial(init_params, c=c), out_shardings=psh)(jax.random.key(0))
    opt_shape = jax.eval_shape(tx.init, params)
    osh = optax.tree_utils.tree_map_params(tx, lambda _, s: s, opt_shape, psh, transform_non_params=lambda _: repl)
    opt = jax.jit(tx.init, out_shardings=osh)(params)
    bsh = NamedSharding(mesh, P("data", None))
    step = jax.jit(partial(train_step, c=c, mesh=mesh), in_shardings=(psh, osh, bsh, bsh),
                   out_shardings=(psh, osh, repl), donate_argnums=(0, 1))
    logs = []
    for toks, keep in zip(*get_batches(c, steps)):
        params, opt, m = step(params, opt, jax.device_put(toks, bsh), jax.device_put(keep, bsh))
        logs.append(m)
    return {"loss": np.array([m["loss"] for m in logs]), "gnorm": np.array([m["gnorm"] for m in logs]),
            "wo": np.asarray(params["blocks"]["wo"]), "embed": np.asarray(params["embed"])}


def reference(steps=2):
    c = Config()
    p = init_params(jax.random.key(0), c)
    inv = 10000.0 ** (-np.arange(c.head_dim // 2) / (c.head_dim // 2))
    z = np.exp(1j * np.arange(c.seq)[:, None] * inv)

    def rotate(x):
        y = (x[..., : c.head_dim // 2] + 1j * x[..., c.head_dim // 2 :]) * z
        return jnp.concatenate([y.real, y.imag], -1)

    def norm(x, g):
        return g * x / jnp.sqrt((x**2).mean(-1)[..., None] + 1e-6)

    def one(p, tok, keep):
        x = jnp.take(p["embed"], tok[:-1], axis=0) * c.d**0.5
        for i in range(c.layers):
            b = {k: v[i] for k, v in p["blocks"].items()}
            y = norm(x, b["norm1"])
            for h in range(c.heads):
                q, k = rotate(y @ b["wq"][:, h]), rotate(y @ b["wk"][:, h])
                s = jnp.exp(q @ k.T / np.sqrt(c.head_dim)) * np.tri(c.seq)
                x = x + s / s.sum(1, keepdims=True) @ (y @ b["wv"][:, h]) @ b["wo"][h]
            y = norm(x, b["norm2"])
            g = y @ b["w_gate"]
            x = x + (g * jax.nn.sigmoid(g) * (y @ b["w_up"])) @ b["w_down"]
        lp = jax.nn.log_softmax(norm(x, p["final_norm"]) @ p["unembed"])
        return -(lp[np.arange(c.seq), tok[1:]] * keep).sum()

    f = jax.jit(jax.value_and_grad(lambda p, t, k: jax.vmap(one, (None, 0, 0))(p, t, k).sum() / k.sum()))
    m = v = jax.tree.map(jnp.zeros_like, p)
    losses, norms = [], []
    for i, (toks, keep) in enumerate(zip(*get_batches(c, steps)), 1):
        loss, g = f(p, toks, keep)
        gn = np.sqrt(sum(float((x**2).sum()) for x in jax.tree.leaves(g)))
        g = jax.tree.map(lambda x: x * min(1.0, c.clip / gn), g)
        m = jax.tree.map(lambda m, x: 0.9 * m + 0.1 * x, m, g)
        v = jax.tree.map(lambda v, x: 0.95 * v + 0.05 * x**2, v, g)
        p = jax.tree.map(lambda p, m, v: p - c.lr * (m / (1 - 0.9**i) / (jnp.sqrt(v / (1 - 0.95**i)) + 1e-8)
                                                    + 0.1 * p), p, m, v)
        losses.append(loss), norms.append(gn)
    return {"loss": np.array(losses), "gnorm": np.array(norms), "wo": np.asarray(p["blocks"]["wo"]),
            "embed": np.asarray(p["embed"])}


if __name__ == "__main__":
    got, want = main(), reference()
    for k in want:
        np.testing.assert_allclose(got[k], want[k], rtol=1e-3, atol=1e-4, err_msg=k)
    print("ok", got["loss"])
