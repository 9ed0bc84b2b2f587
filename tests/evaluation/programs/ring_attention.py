"""Attention over a sequence that is split between devices, with keys and values sent round a ring."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P


@dataclass(frozen=True)
class Config:
    batch: int = 2
    length: int = 16
    heads: int = 2
    width: int = 4
    ring: int = 4


CONFIG = Config()


def attention(q, k, v):
    size = lax.axis_size("s")
    here = lax.axis_index("s")
    length = q.shape[1]
    rows = here * length + jnp.arange(length)
    ring = [(i, (i + 1) % size) for i in range(size)]

    def step(carry, turn):
        k, v, total, weight, largest = carry
        source = (here - turn) % size
        columns = source * length + jnp.arange(length)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / CONFIG.width**0.5
        scores = jnp.where(rows[:, None] >= columns[None, :], scores, -1e9)
        most = jnp.maximum(largest, jnp.max(scores, axis=-1))
        part = jnp.exp(scores - most[..., None])
        shrink = jnp.exp(largest - most)
        total = total * shrink[..., None] + jnp.einsum("bhqk,bkhd->bhqd", part, v)
        weight = weight * shrink + jnp.sum(part, axis=-1)
        k = lax.ppermute(k, "s", ring)
        v = lax.ppermute(v, "s", ring)
        return (k, v, total, weight, most), None

    shape = (q.shape[0], q.shape[2], length)
    start = (
        k,
        v,
        jnp.zeros((*shape, q.shape[3])),
        jnp.zeros(shape),
        jnp.full(shape, -1e30),
    )
    (_, _, total, weight, _), _ = lax.scan(step, start, jnp.arange(size))
    return jnp.swapaxes(total / weight[..., None], 1, 2)


def main():
    mesh = jax.make_mesh(
        (CONFIG.ring,), ("s",), axis_types=(jax.sharding.AxisType.Auto,)
    )
    keys = jax.random.split(jax.random.key(0), 3)
    shape = (CONFIG.batch, CONFIG.length, CONFIG.heads, CONFIG.width)
    q, k, v = (jax.random.normal(key, shape) for key in keys)
    spec = P(None, "s")
    mapped = jax.shard_map(
        attention, mesh=mesh, in_specs=(spec,) * 3, out_specs=spec, check_vma=False
    )
    return mapped(q, k, v)


if __name__ == "__main__":
    print(main().shape)
