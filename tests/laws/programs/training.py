"""A step of training: dropout by example, gradients of micro-batches, batches over devices."""

import jax
import jax.numpy as jnp
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

from shardtypes import f32, key, laws

mesh = jax.make_mesh((4,), ("d",), axis_types=(AxisType.Auto,))


def loss(w, x, y):
    return jnp.mean((jnp.tanh(x @ w) - y) ** 2)


def gradients(w: f32["D"], x: f32["B D"], y: f32["B"], parts: int = 1) -> f32["D"]:
    xs, ys = x.reshape(parts, -1, x.shape[1]), y.reshape(parts, -1)

    def body(total, batch):
        grad = jax.grad(loss)(w, *batch)
        return total + grad / parts, None

    total, _ = jax.lax.scan(body, jnp.zeros_like(w), (xs, ys))
    return total


def one(x, k):
    keep = jax.random.bernoulli(k, 0.8, x.shape)
    return jnp.where(keep, x / 0.8, 0)


def dropped(x: f32["B D"], k: key[""]) -> f32["B D"]:
    ks = jax.random.split(k, x.shape[0])
    return jax.vmap(one)(x, ks)


def sharded(x: f32["B D"], k: key[""]) -> f32["B D"]:
    def body(x, k):
        k = jax.random.fold_in(k, jax.lax.axis_index("d"))
        keep = jax.random.bernoulli(k, 0.8, x.shape)
        return jnp.where(keep, x / 0.8, 0)

    return jax.shard_map(body, mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d"))(x, k)


def standardized(x: f32["B D"], running: f32["D"], training: bool = False) -> f32["B D"]:
    mean = x.mean(axis=0) if training else running
    return (x - mean) * 2.0


def features(x: f32["B D"], w: f32["D F"]) -> f32["B F"]:
    def body(x, w):
        y = jax.nn.relu(x @ w)
        scale = jnp.mean(y * y, axis=-1, keepdims=True)
        return y * jax.lax.rsqrt(scale + 1e-6)

    return jax.shard_map(body, mesh=mesh, in_specs=(P("d"), P()), out_specs=P("d"))(x, w)


def parallel(x: f32["B L D"]) -> f32["B L D"]:
    def body(x):
        whole = jax.lax.all_gather(x, "d", axis=1, tiled=True)
        mine = jax.lax.axis_index("d") * x.shape[1] + jnp.arange(x.shape[1])
        s = jnp.einsum("bqd,bkd->bqk", x, whole)
        s = jnp.where(mine[:, None] >= jnp.arange(whole.shape[1]), s, -jnp.inf)
        p = jax.nn.softmax(s, axis=-1)
        return jnp.einsum("bqk,bkd->bqd", p, whole)

    return jax.shard_map(body, mesh=mesh, in_specs=P(None, "d"), out_specs=P(None, "d"))(x)


LAWS = {
    "accumulates": lambda: laws.accumulates(gradients, parts=4),
    "keys": lambda: laws.keys(dropped, "B"),
    "keys, sharded": lambda: laws.keys(sharded, "B"),
    "independent": lambda: laws.independent(standardized, "B", training=False),
    "independent, sharded": lambda: laws.independent(features, "B"),
    "causal, sharded": lambda: laws.causal(parallel, "L", sizes={"L": 8}),
}
