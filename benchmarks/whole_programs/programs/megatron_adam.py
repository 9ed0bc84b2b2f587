# Megatron-style training by hand: every collective is written out.
#   mesh ("dp", "tp"); f: identity forward / all-reduce backward, g: all-reduce forward / identity backward
import os
os.environ.setdefault('XLA_FLAGS', '--xla_force_host_platform_device_count=8')
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import PartitionSpec as PS

VOCAB, HIDDEN, HEADS, FFN, SEQ, BATCH = 32, 16, 8, 64, 12, 16
HEAD = HIDDEN // HEADS
LR = 3e-3


# ---------------------------------------------------------------- operators

@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def copy_to_tp(x, axis):
    return x

copy_to_tp.defvjp(lambda x, axis: (x, None),
                  lambda axis, _, ct: (lax.psum(ct, axis),))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def reduce_from_tp(x, axis):
    return lax.psum(x, axis)

reduce_from_tp.defvjp(lambda x, axis: (lax.psum(x, axis), None),
                      lambda axis, _, ct: (ct,))


# ---------------------------------------------------------------- parameters

class Params(NamedTuple):
    embed: jax.Array     # rows over tp
    pos: jax.Array
    ln1: jax.Array
    qkv: jax.Array       # (HIDDEN, 3, HEADS * HEAD), last over tp
    proj: jax.Array      # rows over tp
    proj_b: jax.Array
    ln2: jax.Array
    fc1: jax.Array       # columns over tp
    fc1_b: jax.Array
    fc2: jax.Array       # rows over tp
    fc2_b: jax.Array


SPECS = Params(
    embed=PS('tp', None), pos=PS(), ln1=PS(),
    qkv=PS(None, None, 'tp'), proj=PS('tp', None), proj_b=PS(),
    ln2=PS(), fc1=PS(None, 'tp'), fc1_b=PS('tp'), fc2=PS('tp', None), fc2_b=PS(),
)


def init(seed):
    k = jax.random.split(jax.random.key(seed), 8)
    rnd = lambda key, *shape: 0.3 * jax.random.normal(key, shape)
    return Params(
        embed=rnd(k[0], VOCAB, HIDDEN), pos=rnd(k[1], SEQ, HIDDEN), ln1=jnp.ones(HIDDEN),
        qkv=rnd(k[2], HIDDEN, 3, HEADS * HEAD), proj=rnd(k[3], HEADS * HEAD, HIDDEN),
        proj_b=rnd(k[6], HIDDEN), ln2=jnp.ones(HIDDEN),
        fc1=rnd(k[4], HIDDEN, FFN), fc1_b=jnp.zeros(FFN),
        fc2=rnd(k[5], FFN, HIDDEN), fc2_b=rnd(k[7], HIDDEN),
    )


def data(steps):
    r = np.random.RandomState(3)
    return r.randint(0, VOCAB, (steps, BATCH, SEQ + 1)).astype(np.int32)


# ---------------------------------------------------------------- layers

def layernorm(x, g):
    mu = x.mean(-1, keepdims=True)
    var = jnp.square(x - mu).mean(-1, keepdims=True)
    return (x - mu) * lax.rsqrt(var + 1e-5) * g


def vocab_embed(table, ids):
    rows = table.shape[0]
    local = ids - lax.axis_index('tp') * rows
    mine = (local >= 0) & (local < rows)
    out = jnp.where(mine[..., None], table[jnp.clip(local, 0, rows - 1)], 0.0)
    return reduce_from_tp(out, 'tp')


def attention(p, x):
    b, t, _ = x.shape
    h = copy_to_tp(x, 'tp')
    qkv = jnp.einsum('btm,mcn->cbtn', h, p.qkv)
    q, k, v = qkv.reshape(3, b, t, -1, HEAD).transpose(0, 1, 3, 2, 4)
    logits = q @ k.swapaxes(-1, -2) / HEAD ** 0.5
    logits = jnp.where(jnp.arange(t)[:, None] >= jnp.arange(t)[None], logits, -jnp.inf)
    ctx = jax.nn.softmax(logits, axis=-1) @ v
    ctx = ctx.transpose(0, 2, 1, 3).reshape(b, t, -1)
    return reduce_from_tp(ctx @ p.proj, 'tp') + p.proj_b


def mlp(p, x):
    h = jax.nn.gelu(copy_to_tp(x, 'tp') @ p.fc1 + p.fc1_b)
    return reduce_from_tp(h @ p.fc2, 'tp') + p.fc2_b


def vocab_cross_entropy(logits, targets):
    n = logits.shape[-1]
    top = lax.pmax(lax.stop_gradient(logits).max(-1), 'tp')
    shifted = logits - top[..., None]
    denom = reduce_from_tp(jnp.exp(shifted).sum(-1), 'tp')
    local = targets - lax.axis_index('tp') * n
    hit = (local >= 0) & (local < n)
    picked = jnp.take_along_axis(shifted, jnp.clip(local, 0, n - 1)[..., None], -1)[..., 0]
    picked = reduce_from_tp(jnp.where(hit, picked, 0.0), 'tp')
    return jnp.log(denom) - picked


def local_loss(p, ids):
    x = vocab_embed(p.embed, ids[:, :-1]) + p.pos
    x = x + attention(p, layernorm(x, p.ln1))
    x = x + mlp(p, layernorm(x, p.ln2))
    logits = copy_to_tp(x, 'tp') @ p.embed.T
    return vocab_cross_entropy(logits, ids[:, 1:]).mean()


# ---------------------------------------------------------------- step

def train_step(p, opt_state, ids):
    loss, grads = jax.value_and_grad(local_loss)(p, ids)
    loss = lax.pmean(loss, 'dp')
    grads = lax.pmean(grads, 'dp')
    sq = jax.tree.map(lambda g: jnp.sum(g * g), grads)
    sharded = [s for s, spec in zip(sq, SPECS) if 'tp' in spec]
    whole = [s for s, spec in zip(sq, SPECS) if 'tp' not in spec]
    gnorm = jnp.sqrt(lax.psum(sum(sharded), 'tp') + sum(whole))
    grads = jax.tree.map(lambda g: g / jnp.maximum(gnorm, 1.0), grads)
    updates, opt_state = optax.adam(LR, eps=1e-3).update(grads, opt_state)
    return optax.apply_updates(p, updates), opt_state, loss, gnorm


def main(dp=2, tp=4, steps=2):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:dp * tp]).reshape(dp, tp), ('dp', 'tp'))
    p = init(0)
    opt_state = optax.adam(LR, eps=1e-3).init(p)
    adam_specs = (optax.ScaleByAdamState(count=PS(), mu=SPECS, nu=SPECS), optax.EmptyState())
    step = jax.jit(jax.shard_map(
        train_step, mesh=mesh,
        in_specs=(SPECS, adam_specs, PS('dp')),
        out_specs=(SPECS, adam_specs, PS(), PS()),
        check_vma=False))
    losses, norms = [], []
    for ids in data(steps):
        p, opt_state, loss, gnorm = step(p, opt_state, ids)
        losses.append(float(loss))
        norms.append(float(gnorm))
    return dict(loss=np.array(losses), gnorm=np.array(norms),
                **{n: np.asarray(a) for n, a in p._asdict().items()})


def reference(steps=2):
    p = init(0)._asdict()

    def ln(x, g):
        return (x - x.mean(-1)[..., None]) / jnp.sqrt(x.var(-1)[..., None] + 1e-5) * g

    def forward(p, ids):
        x = p['embed'][ids] + p['pos']
        y = ln(x, p['ln1'])
        out = 0.
        for h in range(HEADS):
            cols = slice(h * HEAD, (h + 1) * HEAD)
            q, k, v = (y @ p['qkv'][:, i, cols] for i in range(3))
            w = jax.nn.softmax(q @ k.transpose(0, 2, 1) / np.sqrt(HEAD) - 1e9 * (1 - np.tri(SEQ)), -1)
            out = out + w @ v @ p['proj'][cols]
        x = x + out + p['proj_b']
        x = x + jax.nn.gelu(ln(x, p['ln2']) @ p['fc1'] + p['fc1_b']) @ p['fc2'] + p['fc2_b']
        return x @ p['embed'].T

    @jax.jit
    @jax.value_and_grad
    def f(p, ids):
        lp = jax.nn.log_softmax(forward(p, ids[:, :-1]), -1)
        return -jnp.take_along_axis(lp, ids[:, 1:, None], 2).mean()

    m = {k: 0. for k in p}
    v = {k: 0. for k in p}
    losses, norms = [], []
    for t, ids in enumerate(data(steps), 1):
        loss, g = f(p, ids)
        norm = np.sqrt(sum(float(jnp.vdot(a, a)) for a in g.values()))
        for k in p:
            gk = g[k] / max(norm, 1.)
            m[k] = .9 * m[k] + .1 * gk
            v[k] = .999 * v[k] + .001 * gk ** 2
            p[k] = p[k] - LR * (m[k] / (1 - .9 ** t)) / (jnp.sqrt(v[k] / (1 - .999 ** t)) + 1e-3)
        losses.append(float(loss)), norms.append(norm)
    return dict(loss=np.array(losses), gnorm=np.array(norms), **{k: np.asarray(a) for k, a in p.items()})


if __name__ == '__main__':
    got, want = main(), reference()
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-3, atol=1e-4, err_msg=name)
    print('ok', got['loss'], got['gnorm'])
