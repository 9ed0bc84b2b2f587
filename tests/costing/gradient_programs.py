"""Functions whose gradients send something, for ``shardlint cost`` and a trace."""

import jax
import jax.numpy as jnp
from jax import lax

from shardtypes import bf16, f32, pytree_dataclass, typed_shard_map


def squared(y):
    return jnp.mean(y**2)


@typed_shard_map
def replicated(x: f32["B/d M"], w: f32["M N"]) -> f32["M N"]:
    return jax.grad(lambda w: squared(x @ w))(w)


@typed_shard_map
def used_twice(x: f32["B/d M"], w: f32["M M"]) -> f32["M M"]:
    return jax.grad(lambda w: squared(jnp.tanh(x @ w) @ w))(w)


@typed_shard_map(check_vma=False)
def summed_by_hand(x: f32["B/d M"], w: f32["M N"]) -> f32["M N"]:
    def loss(w):
        return lax.pmean(squared(x @ w), "d")

    return lax.pmean(jax.grad(loss)(w), "d")


@typed_shard_map
def gathered(x: f32["B/d M"], w: f32["M/d N/t"], v: f32["N/t M"]) -> f32["M/d N/t"]:
    def loss(w):
        h = x @ lax.all_gather(w, "d", axis=0, tiled=True)
        y = lax.psum(h @ v, "t")
        return lax.pmean(squared(y), "d")

    return jax.grad(loss)(w)


@typed_shard_map
def layers(x: f32["B/d M"], ws: f32["L M/d M"]) -> f32["L M/d M"]:
    def loss(ws):
        def layer(x, w):
            return jnp.tanh(x @ lax.all_gather(w, "d", axis=0, tiled=True)), None

        return lax.pmean(squared(lax.scan(layer, x, ws)[0]), "d")

    return jax.grad(loss)(ws)


@typed_shard_map
def scattered(x: f32["B/d M/t"], w: f32["M/t M"]) -> f32["M/t M"]:
    def loss(w):
        y = lax.psum_scatter(x @ w, "t", scatter_dimension=1, tiled=True)
        return lax.psum(jnp.sum(y**2), ("d", "t"))

    return jax.grad(loss)(w)


@typed_shard_map
def exchanged(x: f32["B/d M"], w: f32["M M"]) -> f32["M M"]:
    def loss(w):
        y = lax.all_to_all(x @ w, "d", split_axis=1, concat_axis=0, tiled=True)
        return lax.pmean(squared(y), "d")

    return jax.grad(loss)(w)


@typed_shard_map
def ring(x: f32["B/d M"], w: f32["M/d M"]) -> f32["M/d M"]:
    def loss(w):
        n = lax.axis_size("d")
        pairs = [(i, (i + 1) % n) for i in range(n)]
        y = x @ jnp.zeros((x.shape[1], x.shape[1]))
        for _ in range(2):
            w = lax.ppermute(w, "d", pairs)
            y = y + x[:, : w.shape[0]] @ w
        return lax.pmean(squared(y), "d")

    return jax.grad(loss)(w)


@jax.custom_vjp
def copied(x):
    return x


def _copied(x):
    return x, None


def _copied_back(_, g):
    return (lax.psum(g, "t"),)


copied.defvjp(_copied, _copied_back)


@jax.custom_vjp
def reduced(x):
    return lax.psum(x, "t")


def _reduced(x):
    return lax.psum(x, "t"), None


def _reduced_back(_, g):
    return (g,)


reduced.defvjp(_reduced, _reduced_back)


@typed_shard_map(check_vma=False)
def megatron(
    x: f32["B/d M"], u: f32["M M"], w: f32["M F/t"], v: f32["F/t M"]
) -> f32["M M"]:
    def loss(u):
        h = copied(x @ u)
        return squared(reduced(jax.nn.gelu(h @ w) @ v))

    return lax.pmean(jax.grad(loss)(u), "d")


@pytree_dataclass
class Params:
    up: f32["M F/t"]
    down: bf16["F/t M"]
    bias: f32["M"]


@typed_shard_map
def of_class(x: f32["B/d M"], params: Params) -> Params:
    def loss(params):
        y = lax.psum(jax.nn.relu(x @ params.up) @ params.down, "t") + params.bias
        return lax.pmean(squared(y), "d"), y

    (_, _), grads = jax.value_and_grad(loss, has_aux=True)(params)
    return grads


@typed_shard_map
def by_vjp(x: f32["B/d M"], w: f32["M/d N"]) -> f32["M/d N"]:
    y, back = jax.vjp(lambda w: x @ lax.all_gather(w, "d", axis=0, tiled=True), w)
    return back(y)[0]


@typed_shard_map
def many_examples(x: f32["B/d M/t"], w: f32["M/t N"]) -> f32["M/t N"]:
    def loss(w):
        y = jax.vmap(lambda row: lax.psum(jnp.tanh(row @ w), "t"))(x)
        return lax.pmean(squared(y), "d")

    return jax.grad(loss)(w)


@typed_shard_map
def two_derivatives(x: f32["B/d M"], w: f32["M"]) -> f32["M"]:
    def loss(w):
        return squared(jnp.sin(x * w))

    return jax.grad(lambda w: jnp.sum(jax.grad(loss)(w) ** 2))(w)


@typed_shard_map
def forwards(x: f32["B/d M"], w: f32["M F"]) -> f32["B/d F"]:
    return jax.jvp(lambda w: lax.pmean(x @ w, "d"), (w,), (w,))[1]


@typed_shard_map
def remat(x: f32["B/d M"], w: f32["M/d M"]) -> f32["M/d M"]:
    @jax.checkpoint
    def layer(w, x):
        return jnp.tanh(x @ lax.all_gather(w, "d", axis=0, tiled=True))

    def loss(w):
        return lax.pmean(squared(layer(w, layer(w, x))), "d")

    return jax.grad(loss)(w)
