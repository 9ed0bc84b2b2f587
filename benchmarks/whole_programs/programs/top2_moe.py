"""Mixture of experts: top-2 routing with capacity, experts spread over mesh axis e, tokens over d and e.

Tokens come in groups (as in GShard); capacity holds per group, so results do not depend on the mesh.
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from shardtypes import Array, f32, key, pytree_dataclass, typed_shard_map

GROUPS, TOKENS, MODEL, FF, EXPERTS, LAYERS = 8, 12, 16, 32, 8, 2
CAPACITY_FACTOR = 1.25
AUX, Z = 0.05, 0.01
LR, MOMENTUM = 0.3, 0.9


@pytree_dataclass
class Layer:
    router: f32["M E"]
    w_in: f32["E/e M F"]
    b_in: f32["E/e F"]
    w_out: f32["E/e F M"]
    scale: f32["M"]


@pytree_dataclass
class Model:
    layers: Array["layers", Layer]
    head: f32["M"]


def capacity(tokens: int, experts: int) -> int:
    return int(2 * tokens / experts * CAPACITY_FACTOR)


def rmsnorm(x: f32["G/d/e S M"], scale: f32["M"]) -> f32["G/d/e S M"]:
    return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6) * scale


def noise(keys: key["G/d/e"], shape: tuple[int, ...]) -> f32["G/d/e S E"]:
    return jax.vmap(lambda k: jax.random.uniform(k, shape, minval=0.9, maxval=1.1))(keys)


def route(logits: f32["G/d/e S E"]) -> tuple[f32["G/d/e S E C"], f32["E"], f32["E"], f32[""]]:
    """Combine weights; the number of first choices that each expert was given; mean gate and losses over all tokens."""
    tokens, experts = logits.shape[1:]
    cap = capacity(tokens, experts)
    gates = jax.nn.softmax(logits, axis=-1)
    first = jax.nn.one_hot(jnp.argmax(gates, axis=-1), experts)
    second = jax.nn.one_hot(jnp.argmax(gates * (1 - first), axis=-1), experts)
    g1 = jnp.sum(gates * first, axis=-1)
    g2 = jnp.sum(gates * second, axis=-1)
    total = g1 + g2
    place1 = jnp.cumsum(first, axis=1) - first
    place2 = jnp.cumsum(second, axis=1) - second + jnp.sum(first, axis=1, keepdims=True)

    def slots(mask, place, gate):
        at = jax.nn.one_hot(jnp.sum(place * mask, axis=-1), cap)  # zero from cap on
        return (gate / total)[..., None, None] * mask[..., None] * at[..., None, :]

    combine = slots(first, place1, g1) + slots(second, place2, g2)
    load = lax.psum(jnp.sum(first, axis=(0, 1)), ("d", "e"))
    importance = lax.pmean(jnp.mean(gates, axis=(0, 1)), ("d", "e"))
    z = lax.pmean(jnp.mean(jnp.square(jax.nn.logsumexp(logits, axis=-1))), ("d", "e"))
    return combine, load, importance, z


def experts(h: f32["E/e G/d C M"], layer: Layer) -> f32["E/e G/d C M"]:
    up = jnp.einsum("egcm,emf->egcf", h, layer.w_in) + layer.b_in[:, None, None]
    return jnp.einsum("egcf,efm->egcm", jax.nn.relu(up), layer.w_out)


def moe(x: f32["G/d/e S M"], layer: Layer, keys: key["G/d/e"]) -> tuple[f32["G/d/e S M"], f32[""], f32["E"]]:
    logits = jnp.einsum("gsm,me->gse", x, layer.router)
    combine, load, importance, z = route(logits * noise(keys, logits.shape[1:]))
    dispatch = (combine > 0).astype(x.dtype)
    sent: f32["E G/d/e C M"] = jnp.einsum("gsec,gsm->egcm", dispatch, x)
    here: f32["E/e G/d C M"] = lax.all_to_all(sent, "e", split_axis=0, concat_axis=1, tiled=True)
    done = experts(here, layer)
    back: f32["E G/d/e C M"] = lax.all_to_all(done, "e", split_axis=1, concat_axis=0, tiled=True)
    out = jnp.einsum("gsec,egcm->gsm", combine, back)
    share = load / jnp.sum(load)
    aux = AUX * load.shape[0] * jnp.sum(share * importance) + Z * z
    return out, aux, load


@typed_shard_map
def loss_fn(
    model: Model, x: f32["G/d/e S M"], y: f32["G/d/e S"], keys: key["layers G/d/e"]
) -> tuple[f32[""], f32["layers E"]]:
    def body(carry, layer_keys):
        h, aux = carry
        layer, k = layer_keys
        out, a, load = moe(rmsnorm(h, layer.scale), layer, k)
        return (h + out, aux + a), load

    (h, aux), loads = lax.scan(body, (x, jnp.zeros(())), (model.layers, keys))
    error = jnp.einsum("gsm,m->gs", h, model.head) - y
    mse = lax.psum(jnp.sum(jnp.square(error)), ("d", "e"))
    count = lax.psum(error.size, ("d", "e"))
    return mse / count + aux, loads


@partial(jax.jit, donate_argnums=(0, 1))
def train_step(model: Model, velocity: Model, x: f32["G/d/e S M"], y: f32["G/d/e S"], rng: key[""]):
    keys = jax.random.split(rng, (LAYERS, x.shape[0]))
    (loss, loads), grads = jax.value_and_grad(loss_fn, has_aux=True)(model, x, y, keys)
    velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, grads)
    model = jax.tree.map(lambda p, v: p - LR * v, model, velocity)
    return model, velocity, loss, loads


def create():
    k = jax.random.split(jax.random.key(1), 5)
    return dict(
        router=jax.random.normal(k[0], (LAYERS, MODEL, EXPERTS)) * 0.3,
        w_in=jax.random.normal(k[1], (LAYERS, EXPERTS, MODEL, FF)) * MODEL**-0.5,
        b_in=jax.random.normal(k[2], (LAYERS, EXPERTS, FF)) * 0.1,
        w_out=jax.random.normal(k[3], (LAYERS, EXPERTS, FF, MODEL)) * FF**-0.5,
        scale=jnp.ones((LAYERS, MODEL)),
    ), jax.random.normal(k[4], (MODEL,)) * MODEL**-0.5


def batches(steps):
    r = np.random.default_rng(5)
    x = r.standard_normal((steps, GROUPS, TOKENS, MODEL), dtype=np.float32) + 0.5
    return x, np.sin(x.sum(-1))


def main(d=2, e=4, steps=2):
    mesh = jax.make_mesh((d, e), ("d", "e"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices()[: d * e])
    with jax.set_mesh(mesh):
        put = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, PartitionSpec(*spec)))
        layers, head = create()
        layers = {n: put(a, None, "e") if n in ("w_in", "b_in", "w_out") else put(a) for n, a in layers.items()}
        model = Model(layers=Array["layers", Layer](**layers), head=put(head))
        velocity = jax.tree.map(jnp.zeros_like, model)
        losses, loads = [], []
        for i, (x, y) in enumerate(zip(*batches(steps))):
            rng = jax.random.fold_in(jax.random.key(7), i)
            x, y = put(x, ("d", "e")), put(y, ("d", "e"))
            model, velocity, loss, load = train_step(model, velocity, x, y, rng)
            losses.append(loss), loads.append(load)
    return {"loss": np.array(losses), "load": np.array(loads), "head": np.asarray(model.head)} | {
        n: np.asarray(getattr(model.layers, n)) for n in layers
    }


def reference(steps=2):
    layers, head = create()
    params = layers | {"head": head}
    cap = int(2 * TOKENS / EXPERTS * CAPACITY_FACTOR)

    def one_group(h, p, rngs):
        stats = []
        for i in range(LAYERS):
            n = p["scale"][i] * h / jnp.sqrt((h * h).mean(-1, keepdims=True) + 1e-6)
            logits = n @ p["router"][i] * jax.random.uniform(rngs[i], (TOKENS, EXPERTS), minval=0.9, maxval=1.1)
            gates = jnp.exp(logits) / jnp.exp(logits).sum(-1, keepdims=True)
            value, index = lax.top_k(gates, 2)
            value = value / value.sum(-1, keepdims=True)
            queue = index.T.reshape(-1)  # all first choices, then all second choices
            ahead = jnp.tril(queue[:, None] == queue[None, :], -1).sum(1)
            value = value * (ahead < cap).reshape(2, TOKENS).T
            add = 0.0
            for j in range(EXPERTS):
                y = jax.nn.relu(n @ p["w_in"][i, j] + p["b_in"][i, j]) @ p["w_out"][i, j]
                add += ((index == j) * value).sum(-1)[:, None] * y
            h = h + add
            chosen = jnp.stack([(index[:, 0] == j).sum() for j in range(EXPERTS)])
            stats.append((chosen, gates.mean(0), (jnp.log(jnp.exp(logits).sum(-1)) ** 2).mean()))
        return h @ p["head"], stats

    def loss(p, x, y, rngs):
        pred, stats = jax.vmap(one_group, (0, None, 1))(x, p, rngs)
        out, loads = ((pred - y) ** 2).mean(), []
        for chosen, gate, z in stats:
            load = chosen.sum(0)
            out += AUX * EXPERTS * jnp.dot(load / (GROUPS * TOKENS), gate.mean(0)) + Z * z.mean()
            loads.append(load)
        return out, jnp.stack(loads)

    grad = jax.jit(jax.value_and_grad(loss, has_aux=True))
    velocity = {n: 0.0 for n in params}
    losses, loads = [], []
    for i, (x, y) in enumerate(zip(*batches(steps))):
        rngs = jax.random.split(jax.random.fold_in(jax.random.key(7), i), (LAYERS, GROUPS))
        (value, load), g = grad(params, x, y, rngs)
        velocity = {n: MOMENTUM * velocity[n] + g[n] for n in params}
        params = {n: params[n] - LR * velocity[n] for n in params}
        losses.append(value), loads.append(load)
    return {"loss": np.array(losses), "load": np.array(loads)} | {n: np.asarray(a) for n, a in params.items()}


if __name__ == "__main__":
    got, want = main(), reference()
    for n in want:
        np.testing.assert_allclose(got[n], want[n], rtol=1e-3, atol=1e-4, err_msg=n)
    print("ok", got["loss"], got["load"].tolist())
