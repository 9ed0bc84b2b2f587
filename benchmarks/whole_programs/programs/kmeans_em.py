"""Clustering of a large set of points: k-means++ seeding, Lloyd iterations, then EM.

Points are spread over a ("data", "features") mesh: rows over the first axis, columns
over the second.  Centroids and variances are split like the columns and the same on
all rows of the mesh; counts, mixture weights and log-likelihoods are the same everywhere.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import logsumexp
from jax.sharding import Mesh, PartitionSpec as P

LOG_2PI = float(np.log(2 * np.pi))


@dataclass(frozen=True)
class Config:
    points: int = 512
    dim: int = 8
    clusters: int = 6
    warm: int = 2
    max_iters: int = 40
    tol: float = 0.1
    em_steps: int = 15
    var_floor: float = 1e-3
    features: int = 2


class Mixture(NamedTuple):
    log_weight: jax.Array
    mean: jax.Array
    log_var: jax.Array


def make_points(cfg, seed=0):
    """Overlapping clusters of different size and spread, ordered by time of arrival."""
    rng = np.random.default_rng(seed)
    share = np.linspace(1.0, 3.0, cfg.clusters)
    arrival = np.linspace(0.0, 1.0, cfg.points)
    label = rng.choice(cfg.clusters, cfg.points, p=share / share.sum())
    label = np.where(rng.random(cfg.points) < 0.5 * arrival, cfg.clusters - 1, label)
    centre = 2.0 * rng.normal(size=(cfg.clusters, cfg.dim))
    spread = rng.uniform(0.6, 1.4, (cfg.clusters, cfg.dim))
    x = centre[label] + spread[label] * rng.normal(size=(cfg.points, cfg.dim))
    scale, offset = rng.uniform(0.5, 20.0, cfg.dim), rng.normal(size=cfg.dim)
    return (x * scale + offset).astype(np.float32)


def warm_centroids(cfg):
    """Entries of an earlier codebook, on the standardised scale."""
    return np.linspace(6.0, 9.0, cfg.warm * cfg.dim).reshape(cfg.warm, cfg.dim).astype(np.float32)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Block:
    """The part of the points on this device."""

    x: jax.Array

    @property
    def points(self):
        return self.x.shape[0] * lax.axis_size("data")

    @property
    def dim(self):
        return self.x.shape[1] * lax.axis_size("features")

    @property
    def start(self):
        return lax.axis_index("data") * self.x.shape[0]

    def standardised(self):
        mean = lax.psum(self.x.sum(0), "data") / self.points
        var = lax.psum(((self.x - mean) ** 2).sum(0), "data") / self.points
        return Block((self.x - mean) * lax.rsqrt(var))

    def distances(self, centroids):
        """Squared distances of the own points to all centroids."""
        partial = ((self.x[:, None] - centroids) ** 2).sum(-1)
        return lax.psum(partial, "features")

    def rows(self, index):
        """The own columns of the points with these global indices."""
        local = index - self.start
        inside = (local >= 0) & (local < self.x.shape[0])
        found = self.x[jnp.clip(local, 0, self.x.shape[0] - 1)]
        return lax.psum(jnp.where(inside[..., None], found, 0.0), "data")

    def draw(self, key, weight):
        """Global index of a point drawn with probability proportional to the weight."""
        cumulative = jnp.cumsum(weight)
        blocks = lax.all_gather(cumulative[-1], "data")
        before = jnp.sum(jnp.where(jnp.arange(blocks.size) < lax.axis_index("data"), blocks, 0.0))
        target = jax.random.uniform(key) * blocks.sum()
        below = jnp.sum(before + cumulative < target)
        return jnp.minimum(lax.psum(below, "data"), self.points - 1)

    def largest(self, value, k):
        """Global indices of the k points with the largest values."""
        top, index = lax.top_k(value, k)
        tops = lax.all_gather(top, "data", axis=0, tiled=True)
        indices = lax.all_gather(index + self.start, "data", axis=0, tiled=True)
        return indices[lax.top_k(tops, k)[1]]


def seed_centroids(cfg, key, block, warm):
    """k-means++: each new centroid is drawn by its distance to the nearest one so far."""
    first_key, *keys = jax.random.split(key, cfg.clusters - cfg.warm)
    first = block.rows(jax.random.randint(first_key, (), 0, block.points))

    def add(nearest, key):
        row = block.rows(block.draw(key, nearest))
        return jnp.minimum(nearest, block.distances(row[None])[:, 0]), row

    _, rest = lax.scan(add, block.distances(first[None])[:, 0], jnp.stack(keys))
    return jnp.concatenate([first[None], rest, warm])


def lloyd(cfg, block, centroids):
    """Iterates until the centroids move less than the tolerance; empty clusters are re-seeded."""

    def update(centroids):
        distance = block.distances(centroids)
        member = jax.nn.one_hot(distance.argmin(-1), cfg.clusters)
        counts = lax.psum(member.sum(0), "data")
        means = lax.psum(member.T @ block.x, "data") / jnp.maximum(counts, 1.0)[:, None]
        empty = counts == 0
        spare = block.rows(block.largest(distance.min(-1), cfg.clusters))
        return jnp.where(empty[:, None], spare[jnp.cumsum(empty) - 1], means)

    def moving(state):
        _, shift, iteration = state
        return (shift > cfg.tol) & (iteration < cfg.max_iters)

    def body(state):
        old, _, iteration = state
        new = update(old)
        shift = jnp.sqrt(lax.psum(jnp.sum((new - old) ** 2), "features"))
        return new, shift, iteration + 1

    centroids, _, iterations = lax.while_loop(moving, body, (centroids, jnp.inf, 0))
    return centroids, iterations


def start_mixture(cfg, block, centroids):
    """Weights from the hard assignment and one variance shared by all clusters."""
    distance = block.distances(centroids)
    counts = lax.psum(jax.nn.one_hot(distance.argmin(-1), cfg.clusters).sum(0), "data")
    inertia = lax.psum(distance.min(-1).sum(), "data")
    log_var = jnp.full(centroids.shape, jnp.log(inertia / (block.points * block.dim)))
    return Mixture(jnp.log(counts / block.points), centroids, log_var), inertia


def log_joint(block, mixture):
    deviation = (block.x[:, None] - mixture.mean) ** 2 * jnp.exp(-mixture.log_var)
    terms = lax.psum((deviation + mixture.log_var + LOG_2PI).sum(-1), "features")
    return mixture.log_weight - 0.5 * terms


def fit_mixture(cfg, block, mixture):
    def em_step(mixture, _):
        joint = log_joint(block, mixture)
        evidence = logsumexp(joint, axis=-1)
        resp = jnp.exp(joint - evidence[:, None])
        mass = lax.psum(resp.sum(0), "data")
        mean = lax.psum(resp.T @ block.x, "data") / mass[:, None]
        centred = (block.x[:, None] - mean) ** 2
        var = lax.psum(jnp.einsum("nk,nkd->kd", resp, centred), "data") / mass[:, None]
        log_var = jnp.log(jnp.maximum(var, cfg.var_floor))
        log_likelihood = lax.psum(evidence.sum(), "data") / block.points
        return Mixture(jnp.log(mass / block.points), mean, log_var), log_likelihood

    return lax.scan(em_step, mixture, None, length=cfg.em_steps)


def bic(cfg, points, dim, log_likelihood):
    """Bayesian information criterion of the mixture, per point."""
    free = cfg.clusters * (2 * dim + 1) - 1
    return free * jnp.log(points) / points - 2.0 * log_likelihood


def cluster(cfg, key, x, warm):
    block = Block(x).standardised()
    seeds = seed_centroids(cfg, key, block, warm)
    centroids, iterations = lloyd(cfg, block, seeds)
    mixture, inertia = start_mixture(cfg, block, centroids)
    mixture, curve = fit_mixture(cfg, block, mixture)
    joint = log_joint(block, mixture)
    final = lax.psum(logsumexp(joint, axis=-1).sum(), "data") / block.points
    summary = {"iterations": iterations, "inertia": inertia, "log_likelihood": curve}
    summary |= {"bic": bic(cfg, block.points, block.dim, final), "weight": jnp.exp(mixture.log_weight)}
    columns = {"seeds": seeds, "centroids": centroids, "mean": mixture.mean, "var": jnp.exp(mixture.log_var)}
    return summary, columns, jax.nn.softmax(joint)


def main():
    cfg = Config()
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(cfg.features, devices.size)), ("data", "features"))
    run = jax.shard_map(
        lambda key, x, warm: cluster(cfg, key, x, warm),
        mesh=mesh,
        in_specs=(P(), P("data", "features"), P(None, "features")),
        out_specs=(P(), P(None, "features"), P("data", None)),
        check_vma=False,
    )
    summary, columns, responsibility = jax.jit(run)(jax.random.key(3), make_points(cfg), warm_centroids(cfg))
    return {k: np.asarray(v) for k, v in (summary | columns | {"responsibility": responsibility}).items()}


def reference():
    cfg = Config()
    x = make_points(cfg).astype(np.float64)
    x = (x - x.mean(0)) / x.std(0)

    def distances(centroids):
        return ((x[:, None] - centroids) ** 2).sum(-1)

    first_key, *keys = jax.random.split(jax.random.key(3), cfg.clusters - cfg.warm)
    chosen = [int(jax.random.randint(first_key, (), 0, cfg.points))]
    for key in keys:
        cumulative = np.cumsum(distances(x[chosen]).min(-1))
        chosen.append(int(np.searchsorted(cumulative, float(jax.random.uniform(key)) * cumulative[-1])))
    seeds = centroids = np.concatenate([x[chosen], warm_centroids(cfg)])
    shift, iterations = np.inf, 0
    while shift > cfg.tol and iterations < cfg.max_iters:
        label, nearest = distances(centroids).argmin(-1), distances(centroids).min(-1)
        spare, old = list(np.argsort(-nearest)), centroids
        rows = [x[label == k].mean(0) if np.any(label == k) else x[spare.pop(0)] for k in range(cfg.clusters)]
        centroids = np.stack(rows)
        shift, iterations = np.linalg.norm(centroids - old), iterations + 1
    inertia = distances(centroids).min(-1).sum()
    weight = np.bincount(distances(centroids).argmin(-1), minlength=cfg.clusters) / cfg.points
    mean, var = centroids, np.full(centroids.shape, inertia / x.size)
    curve = []
    for _ in range(cfg.em_steps + 1):
        density = np.exp(-0.5 * ((x[:, None] - mean) ** 2 / var).sum(-1)) / np.sqrt((2 * np.pi * var).prod(-1))
        resp = weight * density / (weight * density).sum(-1, keepdims=True)
        curve.append(np.log((weight * density).sum(-1)).mean())
        if len(curve) <= cfg.em_steps:
            weight, mean = resp.mean(0), resp.T @ x / resp.sum(0)[:, None]
            var = np.einsum("nk,nkd->kd", resp, (x[:, None] - mean) ** 2) / resp.sum(0)[:, None]
            var = np.maximum(var, cfg.var_floor)
    result = {"iterations": iterations, "inertia": inertia, "log_likelihood": np.array(curve[:-1]), "seeds": seeds}
    result |= {"bic": bic(cfg, cfg.points, cfg.dim, curve[-1]), "weight": weight, "centroids": centroids}
    return result | {"mean": mean, "var": var, "responsibility": resp}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    print("kmeans_em: agrees with the reference;", got["iterations"], "iterations, BIC", float(got["bic"]))
