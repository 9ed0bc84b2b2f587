"""A nearest-neighbour index over a (data, model) mesh: rows of the corpus are split over "data", features over "model".
Builds a k-means codebook by Lloyd's iterations and answers queries by merging the shards' best candidates."""
import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxtyping import Array, Float, Int


@dataclasses.dataclass(frozen=True)
class IndexConfig:
    rows: int = 96
    features: int = 16
    clusters: int = 5
    iterations: int = 3
    classes: int = 4
    neighbours: int = 8
    temperature: float = 0.2


class Corpus(NamedTuple):
    points: Float[Array, "rows features"]
    labels: Int[Array, " rows"]


class Codebook(NamedTuple):
    centroids: Float[Array, "clusters features"]
    sizes: Float[Array, " clusters"]
    inertia: Float[Array, ""]


POINTS, ROWS, FEATURES = P("data", "model"), P("data"), P(None, "model")
CORPUS_SPECS = Corpus(points=POINTS, labels=ROWS)
CODEBOOK_SPECS = Codebook(centroids=FEATURES, sizes=P(), inertia=P())


def normalize(x: Float[Array, "n features"]) -> Float[Array, "n features"]:
    """Unit length over all the features, of which this device holds a part."""
    square = lax.psum(jnp.sum(x * x, axis=-1, keepdims=True), "model")
    return x * lax.rsqrt(square + 1e-12)


def squared_distances(x: Float[Array, "n features"], c: Float[Array, "k features"]) -> Float[Array, "n k"]:
    partial = jnp.sum(x * x, -1)[:, None] - 2 * x @ c.T + jnp.sum(c * c, -1)[None, :]
    return lax.psum(partial, "model")


def farthest_point(points: Float[Array, "n features"], distance: Float[Array, " n"]) -> Float[Array, " features"]:
    """The row of the whole corpus with the largest distance; its owner hands it to everybody."""
    row = jnp.argmax(distance)
    best = lax.pmax(distance[row], "data")
    mine = distance[row] == best
    return lax.psum(jnp.where(mine, points[row], 0.0), "data")


def initial_centroids(points: Float[Array, "n features"], k: int) -> Float[Array, "k features"]:
    """Starts from the mean, then always takes the point farthest from those chosen."""
    chosen = [lax.pmean(jnp.mean(points, axis=0), "data")]
    for _ in range(k - 1):
        nearest = jnp.min(squared_distances(points, jnp.stack(chosen)), axis=1)
        chosen.append(farthest_point(points, nearest))
    return jnp.stack(chosen)


def lloyd_step(points: Float[Array, "n features"], centroids: Float[Array, "k features"]) -> Codebook:
    distances = squared_distances(points, centroids)
    member = jax.nn.one_hot(jnp.argmin(distances, axis=1), centroids.shape[0])
    sizes: Float[Array, " k"] = lax.psum(jnp.sum(member, axis=0), "data")
    sums: Float[Array, "k features"] = lax.psum(member.T @ points, "data")
    moved = jnp.where(sizes[:, None] > 0, sums / jnp.maximum(sizes, 1.0)[:, None], centroids)
    total_rows = points.shape[0] * lax.axis_size("data")
    inertia = lax.psum(jnp.sum(jnp.min(distances, axis=1)), "data") / total_rows
    return Codebook(moved, sizes, inertia)


def build_codebook(cfg: IndexConfig, mesh: Mesh):
    @jax.jit
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(CORPUS_SPECS,), out_specs=CODEBOOK_SPECS)
    def build(corpus: Corpus) -> Codebook:
        points = normalize(corpus.points)
        start = initial_centroids(points, cfg.clusters)
        codebook = lloyd_step(points, start)
        return lax.fori_loop(1, cfg.iterations, lambda _, c: lloyd_step(points, c.centroids), codebook)

    return build


def merge_candidates(scores: Float[Array, "q n"], first_row: Int[Array, ""], k: int) -> tuple[Array, Array]:
    """Best k of the corpus for every query: each shard proposes its own k, the proposals are merged everywhere."""
    local_scores, local_rows = lax.top_k(scores, k)
    local_ids = local_rows + first_row
    candidates: Float[Array, "q shards*k"] = lax.all_gather(local_scores, "data", axis=1, tiled=True)
    candidate_ids: Int[Array, "q shards*k"] = lax.all_gather(local_ids, "data", axis=1, tiled=True)
    best, position = lax.top_k(candidates, k)
    return best, jnp.take_along_axis(candidate_ids, position, axis=1)


def lookup_labels(labels: Int[Array, " n"], ids: Int[Array, "q k"], first_row: Int[Array, ""]) -> Int[Array, "q k"]:
    local = ids - first_row
    mine = (local >= 0) & (local < labels.shape[0])
    return lax.psum(jnp.where(mine, labels[jnp.clip(local, 0, labels.shape[0] - 1)], 0), "data")


def make_search(cfg: IndexConfig, mesh: Mesh):
    @jax.jit
    @functools.partial(
        jax.shard_map, mesh=mesh, in_specs=(CORPUS_SPECS, CODEBOOK_SPECS, FEATURES), out_specs=(P(), P(), P()),
        check_vma=False,
    )
    def search(corpus: Corpus, codebook: Codebook, queries: Float[Array, "q features"]):
        points, queries = normalize(corpus.points), normalize(queries)
        # Each neighbour is discounted by the share of the corpus in the query's cluster.
        cluster = jnp.argmin(squared_distances(queries, codebook.centroids), axis=1)
        popularity: Float[Array, " q"] = codebook.sizes[cluster] / jnp.sum(codebook.sizes)
        similarity: Float[Array, "q n"] = lax.psum(queries @ points.T, "model")
        first_row = lax.axis_index("data") * points.shape[0]
        best, ids = merge_candidates(similarity, first_row, cfg.neighbours)
        weights = jax.nn.softmax(best / cfg.temperature, axis=-1) * (1 - popularity)[:, None]
        votes = jax.nn.one_hot(lookup_labels(corpus.labels, ids, first_row), cfg.classes)
        return best, ids, jnp.einsum("qk,qkc->qc", weights, votes)

    return search


def make_data(cfg: IndexConfig):
    rng = np.random.default_rng(12)
    centres = rng.normal(size=(cfg.classes, cfg.features)) * 1.5
    labels = np.sort(rng.integers(0, cfg.classes, cfg.rows))
    points = centres[labels] + rng.normal(size=(cfg.rows, cfg.features))
    queries = centres[rng.integers(0, cfg.classes, 6)] + 0.5 * rng.normal(size=(6, cfg.features))
    return Corpus(points.astype(np.float32), labels.astype(np.int32)), queries.astype(np.float32)


def main():
    cfg = IndexConfig()
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    corpus, queries = make_data(cfg)
    corpus = Corpus(*(jax.device_put(a, NamedSharding(mesh, s)) for a, s in zip(corpus, CORPUS_SPECS)))
    queries = jax.device_put(queries, NamedSharding(mesh, FEATURES))
    codebook = build_codebook(cfg, mesh)(corpus)
    best, ids, votes = make_search(cfg, mesh)(corpus, codebook, queries)
    print("cluster sizes", codebook.sizes, "inertia", codebook.inertia)
    print("nearest", ids[:, 0], "predicted", jnp.argmax(votes, axis=-1))
    return {"codebook": codebook._asdict(), "best": best, "ids": ids, "votes": votes}


def reference():
    cfg = IndexConfig()
    corpus, queries = make_data(cfg)
    unit = lambda x: x / np.linalg.norm(x, axis=-1, keepdims=True)
    points, queries = unit(corpus.points), unit(queries)
    distances = lambda x, c: ((x[:, None] - c[None]) ** 2).sum(-1)

    centroids = points.mean(0, keepdims=True)
    while len(centroids) < cfg.clusters:
        farthest = distances(points, centroids).min(1).argmax()
        centroids = np.concatenate([centroids, points[farthest : farthest + 1]])
    for _ in range(cfg.iterations):
        d = distances(points, centroids)
        members = [points[d.argmin(1) == c] for c in range(cfg.clusters)]
        inertia = d.min(1).mean()
        centroids = np.stack([m.mean(0) if len(m) else c for m, c in zip(members, centroids)])
    sizes = np.array([len(m) for m in members], np.float32)

    similarity = queries @ points.T
    ids = np.argsort(-similarity, axis=1, kind="stable")[:, : cfg.neighbours]
    best = np.take_along_axis(similarity, ids, axis=1)
    weights = np.exp(best / cfg.temperature)
    weights *= (1 - sizes[distances(queries, centroids).argmin(1)] / cfg.rows)[:, None] / weights.sum(1, keepdims=True)
    votes = (weights[..., None] * np.eye(cfg.classes)[corpus.labels[ids]]).sum(1)
    codebook = Codebook(centroids, sizes, inertia)
    return {"codebook": codebook._asdict(), "best": best, "ids": ids, "votes": votes}


def check():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), main(), reference())


if __name__ == "__main__":
    main()
    check()
