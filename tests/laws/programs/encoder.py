"""An encoder of padded sequences without positions, with a pooled classifier and a loss by token."""

import jax
import jax.numpy as jnp

from shardtypes import bool_, f32, i32, laws


def norm(x):
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / jnp.sqrt(x.var(axis=-1, keepdims=True) + 1e-5)


def encode(x: f32["B L D"], mask: bool_["B L"], w: f32["D D"]) -> f32["B L D"]:
    y = norm(x)
    s = jnp.einsum("bqd,de,bke->bqk", y, w, y)
    s = jnp.where(mask[:, None, :], s, -1e9)
    p = jax.nn.softmax(s, axis=-1)
    return x + jnp.einsum("bqk,bkd->bqd", p, y)


def classify(x: f32["B L D"], mask: bool_["B L"], w: f32["D D"]) -> f32["B D"]:
    y = jnp.where(mask[..., None], encode(x, mask, w), 0)
    total = y.sum(axis=1)
    return total / mask.sum(axis=1)[:, None]


def loss(x: f32["B L D"], targets: i32["B L"], lengths: i32["B"]) -> f32[""]:
    real = jnp.arange(x.shape[1]) < lengths[:, None]
    nll = -jnp.take_along_axis(jax.nn.log_softmax(x), targets[..., None], -1)[..., 0]
    return jnp.where(real, nll, 0).sum() / real.sum()


LAWS = {
    "padding": lambda: laws.padding(encode, "L"),
    "padding, pooled": lambda: laws.padding(classify, "L"),
    "padding, loss": lambda: laws.padding(loss, "L", mask="lengths"),
    "equivariant": lambda: laws.equivariant(encode, "L"),
    "independent": lambda: laws.independent(encode, "B"),
}
