"""A graph network forecasts a field on a ring of latitudes and longitudes (GraphCast in small), in equinox.

Nodes are numbered longitude first and cut into sectors over mesh axis "sector"; edges belong to the sector of their
receiver. Before each round of messages a sector fetches the last columns of its western and the first columns of its
eastern neighbour. Samples are cut over "sample".
"""

import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree


@dataclass
class Config:
    lon: int = 16
    lat: int = 5
    reach: int = 2
    """How many columns an edge can span."""
    fields: int = 3
    width: int = 12
    rounds: int = 1
    rollout: int = 2
    batch: int = 8
    micro: int = 2
    steps: int = 2
    noise: float = 0.05
    lr: float = 1e-2
    ema: float = 0.9

    @property
    def nodes(self) -> int:
        return self.lon * self.lat

    @property
    def halo(self) -> int:
        return self.reach * self.lat


cfg = Config()


class Graph(NamedTuple):
    senders: Int[Array, "sectors edges"]  # into the sector's nodes with a halo on either side
    receivers: Int[Array, "sectors edges"]  # into the sector's own nodes
    offset: Float[Array, "sectors edges 2"]
    real: Bool[Array, "sectors edges"]
    area: Float[Array, "nodes"]


def build_graph(sectors: int, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    edges = []
    for x in range(cfg.lon):
        for y in range(cfg.lat):
            for dx in range(-cfg.reach, cfg.reach + 1):
                for dy in (-1, 0, 1):
                    if (dx or dy) and 0 <= y + dy < cfg.lat and rng.random() < 0.7:
                        sender = (x + dx) % cfg.lon * cfg.lat + y + dy
                        edges.append((sender, x * cfg.lat + y, dx, dy))
    edges = np.array(edges)
    size = cfg.nodes // sectors
    groups = [edges[edges[:, 1] // size == i] for i in range(sectors)]
    longest = max(map(len, groups))
    padded = np.stack([np.pad(g, ((0, longest - len(g)), (0, 0))) for g in groups])
    real = np.arange(longest) < np.array([len(g) for g in groups])[:, None]
    start = size * np.arange(sectors)[:, None]
    senders = np.where(real, (padded[..., 0] - start + cfg.halo) % cfg.nodes, 0)
    receivers = np.where(real, padded[..., 1] - start, 0)
    area = np.cos(np.linspace(-1.3, 1.3, cfg.lat))
    area = np.tile(area, cfg.lon) * (1 + 0.3 * np.sin(np.arange(cfg.nodes) / cfg.nodes * np.pi))
    return Graph(senders, receivers, padded[..., 2:].astype(np.float32), real, area.astype(np.float32))


def exchange_halo(h: Float[Array, "own d"]) -> Float[Array, "extended d"]:
    n = jax.lax.axis_size("sector")
    west = jax.lax.ppermute(h[-cfg.halo :], "sector", [(i, (i + 1) % n) for i in range(n)])
    east = jax.lax.ppermute(h[: cfg.halo], "sector", [(i, (i - 1) % n) for i in range(n)])
    return jnp.concatenate([west, h, east])


class MLP(eqx.Module):
    first: eqx.nn.Linear
    last: eqx.nn.Linear

    def __init__(self, n_in: int, n_out: int, key: PRNGKeyArray):
        k1, k2 = jr.split(key)
        self.first = eqx.nn.Linear(n_in, 2 * cfg.width, key=k1)
        self.last = eqx.nn.Linear(2 * cfg.width, n_out, key=k2)

    def __call__(self, *xs: Float[Array, "n _"]) -> Float[Array, "n d"]:
        x = jnp.concatenate(xs, axis=-1)
        return jax.vmap(lambda v: self.last(jax.nn.swish(self.first(v))))(x)


class Round(eqx.Module):
    message: MLP
    node: MLP

    def __init__(self, key: PRNGKeyArray):
        k1, k2 = jr.split(key)
        self.message = MLP(2 * cfg.width + 2, cfg.width, k1)
        self.node = MLP(3 * cfg.width, cfg.width, k2)

    def __call__(self, h: Float[Array, "own d"], graph: Graph) -> Float[Array, "own d"]:
        own = h.shape[0]
        extended = exchange_halo(h)
        m = self.message(extended[graph.senders], h[graph.receivers], graph.offset)
        m = jnp.where(graph.real[:, None], m, 0.0)
        received = jax.ops.segment_sum(m, graph.receivers, num_segments=own)
        degree = jax.ops.segment_sum(graph.real.astype(h.dtype), graph.receivers, num_segments=own)
        received = received / jnp.maximum(degree, 1.0)[:, None]
        # the whole globe, weighted by area
        summed = jax.lax.psum(jnp.einsum("nd,n->d", h, graph.area), "sector")
        globe = summed / jax.lax.psum(graph.area.sum(), "sector")
        return h + self.node(h, received, jnp.broadcast_to(globe, h.shape))


class Forecaster(eqx.Module):
    encoder: MLP
    rounds: list[Round]
    decoder: MLP

    def __init__(self, key: PRNGKeyArray):
        k1, k2, *ks = jr.split(key, 2 + cfg.rounds)
        self.encoder = MLP(cfg.fields, cfg.width, k1)
        self.rounds = [Round(k) for k in ks]
        self.decoder = MLP(cfg.width, cfg.fields, k2)

    def __call__(self, x: Float[Array, "own fields"], graph: Graph) -> Float[Array, "own fields"]:
        h = self.encoder(x)
        for r in self.rounds:
            h = r(h, graph)
        return x + self.decoder(h)


def sector_loss(
    params: PyTree,
    graph: Graph,
    series: Float[Array, "samples time own fields"],
    key: PRNGKeyArray,
    static: PyTree,
) -> Float[Array, ""]:
    """Mean square error of a rollout; every (sample, sector) contributes to the same number."""
    model = eqx.combine(params, static)
    graph = graph._replace(**{n: getattr(graph, n)[0] for n in ("senders", "receivers", "offset", "real")})
    samples, _, own, _ = series.shape
    ids = jax.lax.axis_index("sample") * samples + jnp.arange(samples)
    start = jax.lax.axis_index("sector") * own

    def one(series, id):
        noise = jr.normal(jr.fold_in(key, id), (cfg.nodes, cfg.fields))
        x = series[0] + cfg.noise * jax.lax.dynamic_slice_in_dim(noise, start, own)

        def advance(x, truth):
            x = model(x, graph)
            return x, jnp.sum(graph.area[:, None] * (x - truth) ** 2)

        return jax.lax.scan(advance, x, series[1:])[1].sum()

    error = jax.lax.psum(jax.vmap(one)(series, ids).sum(), ("sample", "sector"))
    weight = jax.lax.psum(graph.area.sum(), "sector") * cfg.fields * cfg.rollout
    return error / (weight * samples * jax.lax.axis_size("sample"))


def make_step(mesh: Mesh, static: PyTree, opt: optax.GradientTransformation):
    graph_spec = Graph(*[P("sector")] * 5)
    loss = jax.shard_map(
        partial(sector_loss, static=static),
        mesh=mesh,
        in_specs=(P(), graph_spec, P("sample", None, "sector"), P()),
        out_specs=P(),
    )

    @partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(params, ema, opt_state, graph, series: Float[Array, "batch time nodes fields"], key: PRNGKeyArray):
        def accumulate(grads, micro):
            value, g = jax.value_and_grad(loss)(params, graph, *micro)
            return jax.tree.map(lambda a, b: a + b / cfg.micro, grads, g), value

        pieces = series.reshape(cfg.batch // cfg.micro, cfg.micro, *series.shape[1:]).swapaxes(0, 1)
        zeros = jax.tree.map(jnp.zeros_like, params)
        grads, losses = jax.lax.scan(accumulate, zeros, (pieces, jr.split(key, cfg.micro)))
        updates, opt_state = opt.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        ema = jax.tree.map(lambda e, p: cfg.ema * e + (1 - cfg.ema) * p, ema, params)
        return params, ema, opt_state, (losses.mean(), optax.global_norm(grads), optax.global_norm(ema))

    return step


def make_series(seed: int = 1):
    """Waves that drift eastward, at a pace that grows along the batch."""
    rng = np.random.default_rng(seed)
    lon, lat = np.divmod(np.arange(cfg.nodes), cfg.lat)
    for _ in range(cfg.steps):
        pace = np.linspace(0.2, 1.5, cfg.batch)[:, None, None, None] * np.arange(cfg.rollout + 1)[:, None, None]
        waves = rng.integers(1, 4, cfg.fields)
        phase = 2 * np.pi * (lon[:, None] - pace) * waves / cfg.lon + rng.normal(size=(cfg.batch, 1, 1, 1))
        yield (np.sin(phase) * np.cos(lat - cfg.lat / 2)[:, None] + 0.2 * lon[:, None] / cfg.lon).astype(np.float32)


def main(device_count: int = 8) -> dict:
    shape = {1: (1, 1), 2: (1, 2), 4: (2, 2), 8: (2, 4)}[device_count]
    mesh = Mesh(np.array(jax.devices()[:device_count]).reshape(shape), ("sample", "sector"))
    graph = jax.device_put(Graph(*build_graph(shape[1])), NamedSharding(mesh, P("sector")))
    model = eqx.filter_jit(Forecaster)(jr.key(0))
    params, static = eqx.partition(jax.device_put(model, NamedSharding(mesh, P())), eqx.is_inexact_array)
    opt = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(cfg.lr, eps=1e-3))
    opt_state, ema = jax.jit(opt.init)(params), jax.tree.map(jnp.copy, params)
    step = make_step(mesh, static, opt)
    history = []
    for i, series in enumerate(make_series()):
        series = jax.device_put(series, NamedSharding(mesh, P("sample", None, "sector")))
        params, ema, opt_state, metrics = step(params, ema, opt_state, graph, series, jr.fold_in(jr.key(2), i))
        history.append([float(m) for m in metrics])
    return {"history": history, "norm": sum(float(np.square(p).sum()) for p in jax.tree.leaves(params)) ** 0.5}


def reference():
    return main(1)


if __name__ == "__main__":
    print(main())
