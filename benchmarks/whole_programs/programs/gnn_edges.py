"""Graph attention network trained full-batch on one graph spread over all devices.

Nodes (features, labels, hidden states) are split into contiguous blocks, edges are
split in arbitrary order, so a node's incoming edges lie on several devices.  Every
layer gathers the projected node states, sends messages along the local edges and
scatters the summed messages back to the owners of the receiving nodes.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

GRAPH = "graph"


@dataclass(frozen=True)
class Config:
    nodes: int = 128
    edges: int = 700
    edge_multiple: int = 64
    features: int = 12
    classes: int = 4
    heads: int = 8
    head_dim: int = 4
    layers: int = 2
    steps: int = 12
    lr: float = 0.1
    momentum: float = 0.9
    l2: float = 1e-3
    keep_edge: float = 0.8

    @property
    def width(self):
        return self.heads * self.head_dim


def make_graph(cfg, seed=0):
    """Stochastic block model; some labels are unknown (-1), edges are padded."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(cfg.classes, cfg.nodes, p=np.array([0.4, 0.3, 0.2, 0.1]))
    centres = rng.normal(size=(cfg.classes, cfg.features))
    x = centres[labels] + 1.5 * rng.normal(size=(cfg.nodes, cfg.features))
    src, dst = rng.integers(0, cfg.nodes, (2, 6 * cfg.edges))
    likely = rng.random(src.size) < np.where(labels[src] == labels[dst], 0.8, 0.2)
    pairs = rng.permutation(np.unique(np.stack([src, dst], 1)[likely], axis=0))[: cfg.edges]
    padding = -len(pairs) % cfg.edge_multiple
    src, dst = np.pad(pairs, ((0, padding), (0, 0))).T
    real = np.arange(src.size) < len(pairs)
    known = rng.random(cfg.nodes) < np.linspace(0.3, 1.0, cfg.nodes)
    nodes = (x.astype(np.float32), np.where(known, labels, -1).astype(np.int32))
    return nodes, (src.astype(np.int32), dst.astype(np.int32), real.astype(np.float32))


def init_params(cfg, seed=1):
    rng = np.random.default_rng(seed)

    def dense(*shape):
        return jnp.asarray(rng.normal(size=shape) * shape[-2] ** -0.5, jnp.float32)

    layers = {
        "w": dense(cfg.layers, cfg.width, cfg.width),
        "context": 0.5 * dense(cfg.layers, cfg.width, cfg.width),
        "a_src": dense(cfg.layers, cfg.heads, cfg.head_dim),
        "a_dst": dense(cfg.layers, cfg.heads, cfg.head_dim),
        "gain": jnp.ones((cfg.layers, cfg.width)),
        "bias": jnp.zeros((cfg.layers, cfg.width)),
    }
    return {"embed": dense(cfg.features + 1, cfg.width), "layers": layers, "out": dense(cfg.width, cfg.classes)}


def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdims=True)
    return centred * lax.rsqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * gain + bias


def in_training_set(ids):
    return ids % 5 < 3


def penalty(cfg, params):
    return cfg.l2 * sum(jnp.sum(p**2) for p in jax.tree.leaves(params))


def descend(cfg, params, velocity, grads):
    velocity = jax.tree.map(lambda v, g: cfg.momentum * v + g, velocity, grads)
    return jax.tree.map(lambda p, v: p - cfg.lr * v, params, velocity), velocity


def own_rows(partial):
    """Adds the contributions of all devices and keeps the rows of the own nodes."""
    return lax.psum_scatter(partial, GRAPH, scatter_dimension=0, tiled=True)


def edge_softmax(scores, dst, real, nodes):
    """Softmax over the incoming edges of every node, wherever these edges are."""
    scores = jnp.where(real[:, None] > 0, scores, -1e30)
    top = lax.pmax(jax.ops.segment_max(lax.stop_gradient(scores), dst, nodes), GRAPH)
    weight = jnp.exp(scores - top[dst]) * real[:, None]
    total = lax.psum(jax.ops.segment_sum(weight, dst, nodes), GRAPH)
    return weight / jnp.maximum(total[dst], 1e-9)


def message_layer(cfg, h, layer, edges):
    src, dst, real = edges
    own = h.shape[0]
    nodes = own * lax.axis_size(GRAPH)
    z = (h @ layer["w"]).reshape(own, cfg.heads, cfg.head_dim)
    z_all = lax.all_gather(z, GRAPH, axis=0, tiled=True)
    score_src, score_dst = (z_all * layer["a_src"]).sum(-1), (z_all * layer["a_dst"]).sum(-1)
    scores = jax.nn.leaky_relu(score_src[src] + score_dst[dst], 0.2)
    alpha = edge_softmax(scores, dst, real, nodes)
    messages = alpha[..., None] * z_all[src]
    received = own_rows(jax.ops.segment_sum(messages, dst, nodes)).reshape(own, -1)
    mean = lax.psum(h.sum(0), GRAPH) / nodes
    return layer_norm(h + jax.nn.elu(received + mean @ layer["context"]), layer["gain"], layer["bias"])


def logits_fn(cfg, params, x, edges):
    src, dst, real = edges
    nodes = x.shape[0] * lax.axis_size(GRAPH)
    degree = own_rows(jax.ops.segment_sum(real, dst, nodes))
    h = jnp.concatenate([x, jnp.log1p(degree)[:, None]], axis=-1) @ params["embed"]

    def body(h, layer):
        return message_layer(cfg, h, layer, edges), None

    h, _ = lax.scan(body, h, params["layers"])
    return h @ params["out"]


def drop_edges(cfg, key, real):
    """Keeps a random part of the edges; the draw is made for the whole edge list."""
    own = real.shape[0]
    keep = jax.random.bernoulli(key, cfg.keep_edge, (own * lax.axis_size(GRAPH),))
    return real * lax.dynamic_slice_in_dim(keep, lax.axis_index(GRAPH) * own, own)


def class_weights(cfg, labels, mask):
    """Weights inversely proportional to the number of training nodes of a class."""
    counts = lax.psum(jnp.sum(jax.nn.one_hot(labels, cfg.classes) * mask[:, None], axis=0), GRAPH)
    return counts.sum() / (cfg.classes * jnp.maximum(counts, 1.0))


def node_loss(params, cfg, x, labels, mask, edges):
    logits = logits_fn(cfg, params, x, edges)
    weight = class_weights(cfg, labels, mask)[labels] * mask
    nll = -jnp.take_along_axis(jax.nn.log_softmax(logits), jnp.maximum(labels, 0)[:, None], axis=-1)[:, 0]
    loss = lax.psum(jnp.sum(weight * nll), GRAPH) / lax.psum(jnp.sum(weight), GRAPH)
    return loss + penalty(cfg, params), logits


def scores_of(cfg, logits, labels, mask):
    """Accuracy, and recall averaged over the classes."""
    hits = (logits.argmax(-1) == labels) * mask
    members = jax.nn.one_hot(labels, cfg.classes) * mask[:, None]
    hit_counts, support = lax.psum((hits @ members, members.sum(0)), GRAPH)
    recall = hit_counts / jnp.maximum(support, 1.0)
    return hit_counts.sum() / support.sum(), recall.mean()


def train(cfg, params, key, nodes, edges):
    x, labels = nodes
    src, dst, real = edges
    own = x.shape[0]
    ids = lax.axis_index(GRAPH) * own + jnp.arange(own)
    known = labels >= 0
    train_mask = (known & in_training_set(ids)).astype(jnp.float32)
    test_mask = (known & ~in_training_set(ids)).astype(jnp.float32)

    def step(carry, i):
        params, velocity = carry
        kept = drop_edges(cfg, jax.random.fold_in(key, i), real)
        loss_and_grad = jax.value_and_grad(node_loss, has_aux=True)
        (loss, logits), grads = loss_and_grad(params, cfg, x, labels, train_mask, (src, dst, kept))
        accuracy, _ = scores_of(cfg, logits, labels, train_mask)
        return descend(cfg, params, velocity, grads), {"loss": loss, "train_accuracy": accuracy}

    carry = (params, jax.tree.map(jnp.zeros_like, params))
    (params, _), curves = lax.scan(step, carry, jnp.arange(cfg.steps))
    logits = logits_fn(cfg, params, x, edges)
    accuracy, recall = scores_of(cfg, logits, labels, test_mask)
    return params, logits, curves | {"test_accuracy": accuracy, "test_recall": recall}


def outputs(params, logits, metrics):
    flat = {"embed": params["embed"], "out": params["out"], **params["layers"], "logits": logits, **metrics}
    return {name: np.asarray(value) for name, value in flat.items()}


def main():
    cfg = Config()
    mesh = Mesh(np.array(jax.devices()), (GRAPH,))
    nodes, edges = make_graph(cfg)
    run = jax.shard_map(
        lambda params, key, nodes, edges: train(cfg, params, key, nodes, edges),
        mesh=mesh,
        in_specs=(P(), P(), P(GRAPH), P(GRAPH)),
        out_specs=(P(), P(GRAPH), P()),
    )
    return outputs(*jax.jit(run)(init_params(cfg), jax.random.key(2), nodes, edges))


def reference():
    """The same training with dense attention over an adjacency matrix."""
    cfg = Config()
    (x, labels), (src, dst, real) = make_graph(cfg)
    known, chosen = labels >= 0, in_training_set(np.arange(cfg.nodes))

    def forward(params, kept):
        adjacent = jnp.zeros((cfg.nodes, cfg.nodes)).at[dst, src].add(kept)[..., None]
        h = jnp.concatenate([x, jnp.log1p(adjacent.sum(1))], axis=-1) @ params["embed"]
        for i in range(cfg.layers):
            layer = jax.tree.map(lambda p: p[i], params["layers"])
            z = (h @ layer["w"]).reshape(cfg.nodes, cfg.heads, cfg.head_dim)
            scores = (z * layer["a_dst"]).sum(-1)[:, None] + (z * layer["a_src"]).sum(-1)[None]
            scores = jnp.where(adjacent > 0, jax.nn.leaky_relu(scores, 0.2), -1e30)
            received = jnp.einsum("ijh,jhd->ihd", jax.nn.softmax(scores, axis=1) * adjacent, z).reshape(h.shape)
            update = jax.nn.elu(received + h.mean(0) @ layer["context"])
            h = layer_norm(h + update, layer["gain"], layer["bias"])
        return h @ params["out"]

    def scores_on(logits, mask):
        right = logits.argmax(-1) == labels
        recall = [jnp.mean(right, where=mask & (labels == c)) for c in range(cfg.classes)]
        return jnp.mean(right, where=mask), jnp.mean(jnp.array(recall))

    def loss_fn(params, kept):
        mask = known & chosen
        counts = np.bincount(labels[mask], minlength=cfg.classes)
        weight = np.where(mask, (mask.sum() / (cfg.classes * counts))[labels], 0.0)
        logits = forward(params, kept)
        nll = -jax.nn.log_softmax(logits)[np.arange(cfg.nodes), labels]
        return jnp.sum(weight * nll) / weight.sum() + penalty(cfg, params), logits

    @jax.jit
    def step(params, velocity, i):
        keep = jax.random.bernoulli(jax.random.fold_in(jax.random.key(2), i), cfg.keep_edge, real.shape)
        (loss, logits), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, real * keep)
        return *descend(cfg, params, velocity, grads), loss, scores_on(logits, known & chosen)[0]

    params, curves = init_params(cfg), []
    velocity = jax.tree.map(jnp.zeros_like, params)
    for i in range(cfg.steps):
        params, velocity, *values = step(params, velocity, i)
        curves.append(values)
    logits = forward(params, real)
    metrics = dict(zip(("loss", "train_accuracy"), np.array(curves).T))
    metrics |= dict(zip(("test_accuracy", "test_recall"), scores_on(logits, known & ~chosen)))
    return outputs(params, logits, metrics)


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    print("gnn_edges: agrees with the reference; losses", np.round(got["loss"], 4))
