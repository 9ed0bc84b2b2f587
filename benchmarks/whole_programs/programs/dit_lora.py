"""LoRA fine-tuning of a small diffusion transformer by flow matching, then sampling with classifier-free guidance.

The frozen base is in bfloat16 and cut over ("fsdp", "tensor"); adapters, their optimizer state and their moving average
are small and cut over "fsdp" only.  jit does the rest, but for the attention kernel, which wants its heads at hand.
"""
import collections
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

IMAGE, CHANNELS, PATCH = 8, 2, 2
DIM, HEADS, FF, LAYERS, NULL = 32, 4, 64, 2, 5  # NULL is the class of no class
RANK, ALPHA, DROP, SHIFT, DECAY = 4, 8.0, 0.2, 3.0, 0.8
SIDE = IMAGE // PATCH
PIXELS = PATCH * PATCH * CHANNELS

BASE = {
    "patch": P(None, "tensor"), "position": P(), "label": P(), "time": P(None, "tensor"), "out": P("tensor", None),
    "blocks": {
        **dict.fromkeys(("ada", "qkv", "up"), P(None, "fsdp", "tensor")),
        **dict.fromkeys(("proj", "down"), P(None, "tensor", "fsdp")),
    },
}
ADAPTER = {"a": P(None, "fsdp", None), "b": P(None, None, "fsdp")}
ADAPTED = {"qkv": (DIM, 3 * DIM), "proj": (DIM, DIM), "up": (DIM, FF), "down": (FF, DIM)}
KERNEL = P("fsdp", None, "tensor", None)


TrainState = collections.namedtuple("TrainState", "lora ema opt_state step")


def init_base(key):
    shapes = {"ada": (DIM, 6 * DIM), **ADAPTED}
    keys = iter(jax.random.split(key, 5 + len(shapes)))
    normal = lambda *shape: jax.random.normal(next(keys), shape) / math.sqrt(shape[-2])
    base = {"blocks": {name: normal(LAYERS, *shape) for name, shape in shapes.items()}}
    base |= {"patch": normal(PIXELS, DIM), "position": normal(SIDE * SIDE, DIM), "label": normal(NULL + 1, DIM)}
    base |= {"time": normal(DIM, DIM), "out": normal(DIM, PIXELS)}
    return jax.tree.map(lambda w: w.astype(jnp.bfloat16), base)


def init_lora(key):
    """A later round of fine-tuning: b is not zero any more."""
    keys = iter(jax.random.split(key, 2 * len(ADAPTED)))
    normal = lambda *shape: jax.random.normal(next(keys), shape) / math.sqrt(shape[-2])
    return {n: {"a": normal(LAYERS, rows, RANK), "b": 0.3 * normal(LAYERS, RANK, out)} for n, (rows, out) in ADAPTED.items()}


def patchify(images):
    b = images.shape[0]
    x = images.reshape(b, SIDE, PATCH, SIDE, PATCH, CHANNELS)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(b, SIDE * SIDE, PIXELS)


def unpatchify(tokens):
    b = tokens.shape[0]
    x = tokens.reshape(b, SIDE, SIDE, PATCH, PATCH, CHANNELS)
    return x.transpose(0, 1, 3, 2, 4, 5).reshape(b, IMAGE, IMAGE, CHANNELS)


def layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) * lax.rsqrt(x.var(-1, keepdims=True) + 1e-6)


def modulate(x, shift, scale):
    return x * (1 + scale[:, None]) + shift[:, None]


def linear(x, w, lora=None):
    y = x @ w.astype(x.dtype)
    if lora is not None:
        y = y + (ALPHA / RANK) * (x @ lora["a"]) @ lora["b"]
    return y


def time_embedding(t):
    angle = 100.0 * t[:, None] * jnp.exp(-jnp.arange(DIM // 2) / (DIM // 2) * math.log(1000.0))
    return jnp.concatenate([jnp.cos(angle), jnp.sin(angle)], axis=-1)


@functools.partial(jax.shard_map, in_specs=(KERNEL,) * 3, out_specs=KERNEL)
def attention_kernel(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), v)


def block(x, c, w, lora):
    b, t, _ = x.shape
    shift1, scale1, gate1, shift2, scale2, gate2 = jnp.split(linear(jax.nn.silu(c), w["ada"]), 6, axis=-1)
    h = modulate(layer_norm(x), shift1, scale1)
    qkv = linear(h, w["qkv"], lora["qkv"]).reshape(b, t, 3, HEADS, -1)
    q, k, v = (qkv[:, :, i] for i in range(3))
    h = attention_kernel(layer_norm(q), layer_norm(k), v).reshape(b, t, DIM)
    x = x + gate1[:, None] * linear(h, w["proj"], lora["proj"])
    h = jax.nn.gelu(linear(modulate(layer_norm(x), shift2, scale2), w["up"], lora["up"]))
    h = lax.with_sharding_constraint(h, P("fsdp", None, "tensor"))
    return x + gate2[:, None] * linear(h, w["down"], lora["down"])


def velocity(base, lora, images, t, labels):
    x = linear(patchify(images), base["patch"]) + base["position"].astype(jnp.float32)
    c = linear(time_embedding(t), base["time"]) + base["label"].astype(jnp.float32)[labels]
    x, _ = lax.scan(lambda x, ws: (block(x, c, *ws), None), x, (base["blocks"], lora))
    return unpatchify(linear(layer_norm(x), base["out"]))


def flow_loss(lora, base, batch, key):
    images, labels, mask = batch
    k_time, k_noise, k_drop = jax.random.split(key, 3)
    t = jax.nn.sigmoid(jax.random.normal(k_time, labels.shape))
    t = SHIFT * t / (1 + (SHIFT - 1) * t)
    noise = jax.random.normal(k_noise, images.shape)
    labels = jnp.where(jax.random.bernoulli(k_drop, DROP, labels.shape), NULL, labels)
    mix = t[:, None, None, None]
    predicted = velocity(base, lora, (1 - mix) * images + mix * noise, t, labels)
    error = jnp.mean(jnp.square(predicted - (noise - images)), axis=(1, 2, 3))
    return jnp.sum(error * mask) / jnp.sum(mask)


OPTIMIZER = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2, b2=0.95, eps=1e-5))


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, base, batch, key):
    key = jax.random.fold_in(key, state.step)
    loss, grads = jax.value_and_grad(flow_loss)(state.lora, base, batch, key)
    updates, opt_state = OPTIMIZER.update(grads, state.opt_state, state.lora)
    lora = optax.apply_updates(state.lora, updates)
    ema = optax.incremental_update(lora, state.ema, 1 - DECAY)
    return TrainState(lora, ema, opt_state, state.step + 1), loss, optax.global_norm(grads)


@functools.partial(jax.jit, static_argnames="steps")
def sample(base, lora, noise, labels, guidance, steps):
    def euler(x, i):
        t = jnp.full(labels.shape, 1.0 - i / steps)
        both = jnp.concatenate([labels, jnp.full_like(labels, NULL)])
        v = velocity(base, lora, jnp.concatenate([x, x]), jnp.concatenate([t, t]), both)
        conditional, free = jnp.split(v, 2)
        return x - (free + guidance * (conditional - free)) / steps, None

    return lax.scan(euler, noise, jnp.arange(steps))[0]


def data():
    r = np.random.default_rng(5)
    labels = r.integers(0, NULL, 16).astype(np.int32)
    images = r.normal(size=(16, IMAGE, IMAGE, CHANNELS)) + labels[:, None, None, None] / 2
    mask = (np.arange(16) < 13).astype(np.float32)
    return (images.astype(np.float32), labels, mask), r.normal(size=(8, *images.shape[1:])).astype(np.float32)


def main(steps=3):
    mesh = jax.make_mesh((4, 2), ("fsdp", "tensor"), axis_types=(AxisType.Auto,) * 2)
    with jax.set_mesh(mesh):
        named = lambda specs: jax.tree.map(lambda s: NamedSharding(mesh, s), specs)
        k_base, k_lora, key = jax.random.split(jax.random.key(0), 3)
        base = jax.jit(init_base, out_shardings=named(BASE))(k_base)
        lora = jax.jit(init_lora, out_shardings=named(dict.fromkeys(ADAPTED, ADAPTER)))(k_lora)
        state = TrainState(lora, jax.tree.map(jnp.copy, lora), OPTIMIZER.init(lora), jnp.int32(0))
        batch, noise = jax.device_put(data(), NamedSharding(mesh, P("fsdp")))
        losses, norms = [], []
        for _ in range(steps):
            state, loss, norm = train_step(state, base, batch, key)
            losses.append(loss), norms.append(norm)
        images = sample(base, state.ema, noise, jnp.arange(8) % NULL, 2.0, steps=3)
    return {"loss": np.array(losses), "norm": np.array(norms), "lora": state.lora, "images": images}


def reference(steps=3):
    k_base, lora, key = jax.random.split(jax.random.key(0), 3)
    base, lora = jax.tree.map(jnp.float32, (init_base(k_base), init_lora(lora)))
    (images, labels, mask), noise = data()
    norm = lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-6)
    tiles = [(slice(PATCH * i, PATCH * i + PATCH), slice(PATCH * j, PATCH * j + PATCH)) for i in range(SIDE) for j in range(SIDE)]

    def one(lora, x, t, label):
        h = jnp.stack([x[tile].ravel() for tile in tiles]) @ base["patch"] + base["position"]
        angle = 100 * t * 1000.0 ** (-jnp.arange(DIM // 2) / (DIM // 2))
        c = jax.nn.silu(jnp.concatenate([jnp.cos(angle), jnp.sin(angle)]) @ base["time"] + base["label"][label])
        for i in range(LAYERS):
            w = {n: base["blocks"][n][i] + ALPHA / RANK * lora[n]["a"][i] @ lora[n]["b"][i] for n in ADAPTED}
            m = (c @ base["blocks"]["ada"][i]).reshape(6, DIM)
            q, k, v = ((norm(h) * (1 + m[1]) + m[0]) @ w["qkv"]).reshape(-1, 3, HEADS, DIM // HEADS).transpose(1, 2, 0, 3)
            a = jax.nn.softmax(norm(q) @ norm(k).mT / math.sqrt(DIM // HEADS)) @ v
            h = h + m[2] * (a.transpose(1, 0, 2).reshape(-1, DIM) @ w["proj"])
            h = h + m[5] * (jax.nn.gelu((norm(h) * (1 + m[4]) + m[3]) @ w["up"]) @ w["down"])
        out = norm(h) @ base["out"]
        return functools.reduce(lambda y, i: y.at[tiles[i]].set(out[i].reshape(PATCH, PATCH, -1)), range(SIDE**2), x)

    def loss(lora, k):
        k1, k2, k3 = jax.random.split(k, 3)
        odds = SHIFT * jnp.exp(jax.random.normal(k1, (16,)))
        t, e = odds / (1 + odds), jax.random.normal(k2, images.shape)
        y = jnp.where(jax.random.bernoulli(k3, DROP, (16,)), NULL, labels)
        x = images + t[:, None, None, None] * (e - images)
        v = jax.vmap(one, (None, 0, 0, 0))(lora, x, t, y)
        return jnp.square(v - e + images)[mask > 0].mean()

    grad, state, ema, losses, norms = jax.jit(jax.value_and_grad(loss)), OPTIMIZER.init(lora), lora, [], []
    for i in range(steps):
        value, g = grad(lora, jax.random.fold_in(key, i))
        updates, state = OPTIMIZER.update(g, state, lora)
        lora = optax.apply_updates(lora, updates)
        ema = jax.tree.map(lambda e, w: DECAY * e + (1 - DECAY) * w, ema, lora)
        losses.append(value), norms.append(optax.global_norm(g))
    field = jax.jit(jax.vmap(one, (None, 0, None, 0)))
    for i in range(3):
        there, free = field(ema, noise, 1 - i / 3, np.arange(8) % NULL), field(ema, noise, 1 - i / 3, np.full(8, NULL))
        noise = noise - (2 * there - free) / 3
    return {"loss": np.array(losses), "norm": np.array(norms), "lora": lora, "images": noise}


if __name__ == "__main__":
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4), main(), reference())
