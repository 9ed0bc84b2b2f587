"""Sequence parallelism around tensor parallelism: the residual stream is split along its length over the same axis as
the heads; all_gather before the column-parallel matmuls, psum_scatter after the row-parallel ones."""
import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P
from shardtypes import Array, f32, i32, make_shardings, pytree_dataclass, typed_shard_map


@dataclass(frozen=True)
class Hparams:
    vocab: int = 40
    d_model: int = 16
    heads: int = 8
    d_head: int = 4
    d_ff: int = 32
    layers: int = 2
    lr: float = 0.2


@pytree_dataclass
class Layer:
    ln1: f32["d_model"]
    ln2: f32["d_model"]
    w_qkv: f32["3 d_model heads/t d_head"]
    w_o: f32["heads/t d_head d_model"]
    b_o: f32["d_model"]
    w_in: f32["d_model d_ff/t"]
    w_out: f32["d_ff/t d_model"]


Layers = Array["layers", Layer]


@pytree_dataclass
class Model:
    embed: f32["vocab d_model"]
    layers: Layers
    ln_f: f32["d_model"]
    unembed: f32["d_model vocab"]


def init(h: Hparams, key) -> Model:
    keys = iter(jax.random.split(key, 8))

    def normal(shape, fan_in):
        return jax.random.normal(next(keys), shape, jnp.float32) / math.sqrt(fan_in)

    n, m = h.layers, h.d_model
    return Model(
        embed=normal((h.vocab, m), 1),
        layers=Layers(
            ln1=jnp.ones((n, m)),
            ln2=jnp.ones((n, m)),
            w_qkv=normal((n, 3, m, h.heads, h.d_head), m),
            w_o=normal((n, h.heads, h.d_head, m), h.heads * h.d_head),
            b_o=normal((n, m), 10),
            w_in=normal((n, m, h.d_ff), m),
            w_out=normal((n, h.d_ff, m), h.d_ff),
        ),
        ln_f=jnp.ones((m,)),
        unembed=normal((m, h.vocab), m),
    )


def rms_norm(x: f32["B/d L/t M"], scale: f32["M"]) -> f32["B/d L/t M"]:
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6) * scale


def alibi(length: int, heads: int, first: jax.Array) -> jax.Array:
    """Distance penalties of `heads` heads from head `first` on, with the causal mask."""
    slopes = 2.0 ** -(1.0 + first + jnp.arange(heads))
    distance = jnp.arange(length)[:, None] - jnp.arange(length)[None, :]
    return jnp.where(distance >= 0, -slopes[:, None, None] * distance, -1e9)


def attention(p: Layer, x: f32["B/d L/t M"]) -> f32["B/d L/t M"]:
    full: f32["B/d L M"] = lax.all_gather(x, "t", axis=1, tiled=True)
    q, k, v = jnp.einsum("blm,cmhk->cblhk", full, p.w_qkv)
    local_heads = q.shape[2]
    bias = alibi(full.shape[1], local_heads, lax.axis_index("t") * local_heads)
    scores: f32["B/d H/t L L"] = jnp.einsum("bqhk,bshk->bhqs", q, k) / math.sqrt(q.shape[-1])
    probs = jax.nn.softmax(scores + bias, axis=-1)
    out: f32["B/d L H/t K"] = jnp.einsum("bhqs,bshk->bqhk", probs, v)
    out: f32["B/d L M {U:t}"] = jnp.einsum("bqhk,hkm->bqm", out, p.w_o)
    return lax.psum_scatter(out, "t", scatter_dimension=1, tiled=True) + p.b_o


def mlp(p: Layer, x: f32["B/d L/t M"]) -> f32["B/d L/t M"]:
    full: f32["B/d L M"] = lax.all_gather(x, "t", axis=1, tiled=True)
    hidden: f32["B/d L F/t"] = jax.nn.gelu(full @ p.w_in)
    out: f32["B/d L M {U:t}"] = hidden @ p.w_out
    return lax.psum_scatter(out, "t", scatter_dimension=1, tiled=True)


def forward(model: Model, tokens: i32["B/d L/t"]) -> f32["B/d L/t V"]:
    x = model.embed[tokens]

    def block(x: f32["B/d L/t M"], p: Layer):
        x = x + attention(p, rms_norm(x, p.ln1))
        x = x + mlp(p, rms_norm(x, p.ln2))
        return x, None

    x, _ = lax.scan(block, x, model.layers)
    return rms_norm(x, model.ln_f) @ model.unembed


def local_loss(model: Model, tokens: i32["B/d L/t"], targets: i32["B/d L/t"]) -> jax.Array:
    """This device's part of the mean; negative targets do not count."""
    logp = jax.nn.log_softmax(forward(model, tokens), axis=-1)
    picked = jnp.take_along_axis(logp, jnp.maximum(targets, 0)[..., None], axis=-1)[..., 0]
    mask = (targets >= 0).astype(jnp.float32)
    count = lax.psum(jnp.sum(mask), ("d", "t"))
    return -jnp.sum(picked * mask) / count


def reduce_gradients(g: Model) -> Model:
    """Split weights saw all the positions of their data shard; the others saw only this device's positions."""
    both = partial(lax.psum, axis_name=("d", "t"))
    data = partial(lax.psum, axis_name="d")
    layers = Layers(
        ln1=both(g.layers.ln1),
        ln2=both(g.layers.ln2),
        w_qkv=data(g.layers.w_qkv),
        w_o=data(g.layers.w_o),
        b_o=both(g.layers.b_o),
        w_in=data(g.layers.w_in),
        w_out=data(g.layers.w_out),
    )
    return Model(embed=both(g.embed), layers=layers, ln_f=both(g.ln_f), unembed=both(g.unembed))


@partial(jax.jit, static_argnames="lr")
def train_step(model, tokens, targets, lr):
    @partial(typed_shard_map, check_rep=False)
    def step(model: Model, tokens: i32["B/d L/t"], targets: i32["B/d L/t"]) -> tuple[Model, f32[""]]:
        loss, grads = jax.value_and_grad(local_loss)(model, tokens, targets)
        grads = reduce_gradients(grads)
        return jax.tree.map(lambda w, g: w - lr * g, model, grads), lax.psum(loss, ("d", "t"))

    return step(model, tokens, targets)


def make_batch(h: Hparams):
    rng = np.random.default_rng(5)
    tokens = rng.integers(0, h.vocab, (4, 17)).astype(np.int32)
    targets = np.where(rng.random((4, 16)) < 0.2, -1, tokens[:, 1:])
    return tokens[:, :-1], targets.astype(np.int32)


def main():
    h = Hparams()
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 4), ("d", "t"))
    losses = []
    with jax.set_mesh(mesh):
        model = jax.jit(partial(init, h), out_shardings=make_shardings(Model))(jax.random.key(0))
        batch = jax.device_put(make_batch(h), jax.NamedSharding(mesh, P("d", "t")))
        for _ in range(2):
            model, loss = train_step(model, *batch, lr=h.lr)
            losses.append(float(loss))
    print("losses", losses)
    return {"losses": losses, "model": jax.device_get(model)}


def reference():
    h = Hparams()
    tokens, targets = make_batch(h)
    norm = lambda x, s: x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * s
    gap = np.arange(16)[:, None] - np.arange(16)

    def loss_fn(model):
        x = model.embed[tokens]
        for i in range(h.layers):
            p = jax.tree.map(lambda w: w[i], model.layers)
            y = norm(x, p.ln1)
            for n in range(h.heads):
                q, k, v = (y @ p.w_qkv[j, :, n] for j in range(3))
                s = jnp.where(gap >= 0, q @ k.swapaxes(1, 2) / 2.0 - 2.0 ** -(1 + n) * gap, -jnp.inf)
                x = x + jax.nn.softmax(s) @ v @ p.w_o[n]
            x = x + p.b_o
            x = x + jax.nn.gelu(norm(x, p.ln2) @ p.w_in) @ p.w_out
        logits = norm(x, model.ln_f) @ model.unembed
        nll = jax.nn.logsumexp(logits, -1) - (jax.nn.one_hot(targets, h.vocab) * logits).sum(-1)
        return nll[targets >= 0].mean()

    model, losses, grad_fn = init(h, jax.random.key(0)), [], jax.value_and_grad(loss_fn)
    for _ in range(2):
        loss, grads = grad_fn(model)
        model = jax.tree.map(lambda w, g: w - h.lr * g, model, grads)
        losses.append(float(loss))
    return {"losses": losses, "model": model}


def check():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), main(), reference())


if __name__ == "__main__":
    main()
    check()
