"""A table that is sharded by rows, looked up by ids, and the nearest rows of all shards."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

ROWS, WIDTH, QUERIES, K = 32, 8, 6, 3
SHARDS = 4


class Found(NamedTuple):
    scores: jax.Array
    rows: jax.Array


def looked_up(table, ids):
    rows = table.shape[0]
    local = ids - lax.axis_index("rows") * rows
    inside = (local >= 0) & (local < rows)
    found = jnp.where(inside[:, None], table[jnp.where(inside, local, 0)], 0.0)
    return lax.psum(found, "rows")


def nearest(table, queries):
    scores = queries @ table.T
    best, at = lax.top_k(scores, K)
    at = at + lax.axis_index("rows") * table.shape[0]
    every = lax.all_gather(best, "rows", axis=1, tiled=True)
    places = lax.all_gather(at, "rows", axis=1, tiled=True)
    top, chosen = lax.top_k(every, K)
    return Found(top, jnp.take_along_axis(places, chosen, axis=1))


def search(table, ids):
    queries = looked_up(table, ids)
    queries = queries / jnp.linalg.norm(queries, axis=-1, keepdims=True)
    mean = lax.pmean(jnp.mean(table, axis=0), "rows")
    total = lax.psum(jnp.sum(table * table), "rows") / ROWS
    return nearest(table, queries - mean), total


def main():
    mesh = Mesh(np.array(jax.devices()[:SHARDS]), ("rows",))
    table = jax.random.normal(jax.random.key(0), (ROWS, WIDTH))
    ids = jnp.asarray(np.random.default_rng(0).integers(0, ROWS, QUERIES))
    mapped = jax.shard_map(
        search, mesh=mesh, in_specs=(P("rows"), P()), out_specs=P(), check_vma=False
    )
    return mapped(table, ids)


if __name__ == "__main__":
    print(main())
