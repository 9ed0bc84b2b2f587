"""Randomized PCA of a tall matrix with missing rows: observations over axis n, features over axis f.

The orthonormal bases of the subspace iteration come from TSQR, a QR decomposition of the stacked R factors of the
shards.  Only matrices of the size of the sketch are ever gathered.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from shardtypes import f32, i32, make_shardings, pytree_dataclass, typed_shard_map


class Settings(NamedTuple):
    rows: int = 128
    columns: int = 48
    components: int = 4
    oversampling: int = 4
    iterations: int = 2
    clusters: int = 3


@pytree_dataclass
class Observations:
    values: f32["rows/n columns/f"]
    weight: f32["rows/n"]  # 0 where the row is missing
    group: i32["rows/n"]


@pytree_dataclass
class Scaling:
    mean: f32["columns/f"]
    deviation: f32["columns/f"]
    count: f32[""]


@pytree_dataclass
class Pca:
    scaling: Scaling
    components: f32["components columns/f"]
    variance: f32["components"]
    ratio: f32["components"]


@pytree_dataclass
class Report:
    scores: f32["rows/n components"]
    residual: f32["rows/n"]
    outliers: f32[""]
    centres: f32["clusters components"]
    between: f32["components"]


def fit_scaling(data: Observations) -> Scaling:
    count = lax.psum(jnp.sum(data.weight), "n")
    mean = lax.psum(data.weight @ data.values, "n") / count
    centred = data.values - mean
    variance = lax.psum(data.weight @ jnp.square(centred), "n") / (count - 1)
    return Scaling(mean=mean, deviation=jnp.sqrt(variance), count=count)


def standardize(data: Observations, scaling: Scaling) -> f32["rows/n columns/f"]:
    z = (data.values - scaling.mean) / scaling.deviation
    return z * data.weight[:, None]


def positive_qr(a):
    """QR with a positive diagonal of R, which makes it unique."""
    q, r = jnp.linalg.qr(a)
    sign = jnp.where(jnp.diagonal(r) < 0, -1.0, 1.0)
    return q * sign, r * sign[:, None]


def tsqr(a, axis: str):
    """Orthonormal columns that span those of a, whose rows are cut over the axis."""
    q, r = positive_qr(a)
    k = r.shape[0]
    stacked = lax.all_gather(r, axis, axis=0, tiled=True)
    factor, _ = positive_qr(stacked)
    mine = lax.dynamic_slice_in_dim(factor, lax.axis_index(axis) * k, k, axis=0)
    return q @ mine


def apply(z: f32["rows/n columns/f"], v: f32["columns/f sketch"]) -> f32["rows/n sketch"]:
    return lax.psum(jnp.einsum("rc,cs->rs", z, v), "f")


def apply_transposed(z: f32["rows/n columns/f"], u: f32["rows/n sketch"]) -> f32["columns/f sketch"]:
    return lax.psum(jnp.einsum("rc,rs->cs", z, u), "n")


def range_finder(
    z: f32["rows/n columns/f"], start: f32["columns/f sketch"], iterations: int
) -> f32["rows/n sketch"]:
    basis = tsqr(apply(z, start), "n")
    for _ in range(iterations):
        right = tsqr(apply_transposed(z, basis), "f")
        basis = tsqr(apply(z, right), "n")
    return basis


def orient(components: f32["components columns/f"]) -> f32["components columns/f"]:
    """The largest loading of every component is positive."""
    size = jnp.abs(components)
    largest = lax.pmax(jnp.max(size, axis=1, keepdims=True), "f")
    sign = lax.psum(jnp.sum(jnp.where(size == largest, jnp.sign(components), 0.0), axis=1), "f")
    return components * jnp.sign(sign)[:, None]


def make_fit(settings: Settings):
    @jax.jit
    @typed_shard_map
    def fit(data: Observations, start: f32["columns/f sketch"]) -> Pca:
        scaling = fit_scaling(data)
        z = standardize(data, scaling)
        basis = range_finder(z, start, settings.iterations)
        small: f32["sketch columns/f"] = lax.psum(jnp.einsum("rs,rc->sc", basis, z), "n")
        gram: f32["sketch sketch"] = lax.psum(small @ small.T, "f")
        squares, vectors = jnp.linalg.eigh(gram)
        squares, vectors = squares[::-1], vectors[:, ::-1]
        k = settings.components
        components = (vectors[:, :k].T @ small) / jnp.sqrt(squares[:k, None])
        total = lax.psum(jnp.sum(jnp.square(z)), ("n", "f"))
        return Pca(
            scaling=scaling,
            components=orient(components),
            variance=squares[:k] / (scaling.count - 1),
            ratio=squares[:k] / total,
        )

    return fit


def make_inspect(settings: Settings):
    @jax.jit
    @typed_shard_map
    def inspect(pca: Pca, data: Observations) -> Report:
        """Scores, errors of the reconstruction, and how well the scores tell the groups apart."""
        z = standardize(data, pca.scaling)
        raw: f32["rows/n components"] = lax.psum(jnp.einsum("rc,kc->rk", z, pca.components), "f")
        rebuilt: f32["rows/n columns/f"] = raw @ pca.components
        residual = lax.psum(jnp.sum(jnp.square(z - rebuilt), axis=1), "f")
        mean = lax.psum(jnp.sum(residual), "n") / pca.scaling.count
        square = lax.psum(jnp.sum(data.weight * jnp.square(residual - mean)), "n") / pca.scaling.count
        outliers = lax.psum(jnp.sum(residual > mean + 1.5 * jnp.sqrt(square)), "n")
        scores = raw / jnp.sqrt(pca.variance)
        member = jax.nn.one_hot(data.group, settings.clusters) * data.weight[:, None]
        size = lax.psum(jnp.sum(member, axis=0), "n")
        centres: f32["clusters components"] = lax.psum(member.T @ scores, "n") / size[:, None]
        between = size @ jnp.square(centres) / pca.scaling.count
        return Report(scores, residual, outliers.astype(jnp.float32), centres, between)

    return inspect


def make_data(s: Settings):
    r = np.random.default_rng(7)
    group = np.sort(r.integers(0, s.clusters, s.rows)).astype(np.int32)
    latent = r.normal(size=(s.rows, s.components)) + r.normal(size=(s.clusters, s.components))[group]
    loadings = r.normal(size=(s.components, s.columns)) * np.array([3.0, 2.0, 1.4, 0.9])[:, None]
    values = latent @ loadings + 0.5 * r.normal(size=(s.rows, s.columns)) * r.gamma(2.0, size=(s.rows, 1))
    values = values * r.uniform(0.5, 3.0, s.columns) + r.normal(size=s.columns)
    weight = (r.random(s.rows) < np.linspace(0.95, 0.5, s.rows)).astype(np.float32)
    values[weight == 0] = -9.0
    start = r.normal(size=(s.columns, s.components + s.oversampling))
    return values.astype(np.float32), weight, group, start.astype(np.float32)


def main(n: int = 4, f: int = 2):
    settings = Settings()
    mesh = jax.make_mesh((n, f), ("n", "f"), axis_types=(AxisType.Auto,) * 2)
    with jax.set_mesh(mesh):
        values, weight, group, start = make_data(settings)
        data = jax.device_put(Observations(values, weight, group), make_shardings(Observations))
        pca = make_fit(settings)(data, jax.device_put(start, NamedSharding(mesh, P("f"))))
        report = make_inspect(settings)(pca, data)
    return {k: np.asarray(v) for k, v in {**vars(pca.scaling), **vars(pca), **vars(report)}.items() if k != "scaling"}


def reference():
    s = Settings()
    values, weight, group, start = make_data(s)
    kept = weight > 0
    x = values[kept].astype(np.float64)
    mean, deviation, count = x.mean(0), x.std(0, ddof=1), len(x)
    z = (values - mean) / deviation * kept[:, None]
    basis = np.linalg.qr(z @ start)[0]
    for _ in range(s.iterations):
        basis = np.linalg.qr(z @ (z.T @ basis))[0]
    _, singular, v = np.linalg.svd(basis.T @ z, full_matrices=False)
    v, squares = v[: s.components], singular[: s.components] ** 2
    v *= np.sign(np.take_along_axis(v, np.abs(v).argmax(1)[:, None], 1))
    variance, scores = squares / (count - 1), z @ v.T
    residual = ((z - scores @ v) ** 2).sum(1)
    limit = residual[kept].mean() + 1.5 * residual[kept].std()
    scores = scores / np.sqrt(variance)
    centres = np.stack([scores[kept & (group == g)].mean(0) for g in range(s.clusters)])
    between = sum((kept & (group == g)).sum() * centres[g] ** 2 for g in range(s.clusters)) / count
    return dict(
        mean=mean, deviation=deviation, count=count, components=v, variance=variance, ratio=squares / (z**2).sum(),
        scores=scores, residual=residual, outliers=(residual > limit).sum(), centres=centres, between=between,
    )  # fmt: skip


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, right in wanted.items():
        np.testing.assert_allclose(got[name], right, rtol=1e-3, atol=1e-4, err_msg=name)
    print("explained", got["ratio"], "outliers", got["outliers"])
