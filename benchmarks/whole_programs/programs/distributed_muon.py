"""Muon with distributed momentum.

The hidden layers of a small next-character MLP are owned by the ranks of axis "dp" (weights, momentum and the
Newton-Schulz iterations), their matrices are cut over "tp" as well.  A step gathers the layers, scatters the sums of
their gradients to the owners and orthogonalizes there; embedding, head and biases are left to momentum SGD.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
from shardtypes import Array, f32, i32, pytree_dataclass, typed_shard_map

CONTEXT, VOCAB, WIDTH, HIDDEN, LAYERS = 3, 24, 16, 32, 8
MUON_LR, SGD_LR, BETA, CLIP = 0.05, 0.5, 0.9, 0.4
QUINTIC = (3.4445, -4.7750, 2.0315)


@pytree_dataclass
class Layer:
    gain: f32["width"]
    w_in: f32["width hidden/tp"]
    w_out: f32["hidden/tp width"]
    bias: f32["width"]


@pytree_dataclass
class Params:
    embed: f32["context vocab width"]
    layers: Array["layers/dp", Layer]
    head: f32["width vocab/tp"]


def rms_norm(x: f32["batch/dp length width"]) -> f32["batch/dp length width"]:
    return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-6)


def lookup(embed: f32["context vocab width"], tokens: i32["batch/dp length"]) -> f32["batch/dp length width"]:
    """Every position sees the tokens at it and just before it, each through a table of its own."""
    length = tokens.shape[1]
    past = [jnp.pad(tokens, ((0, 0), (i, 0)))[:, :length] for i in range(embed.shape[0])]
    return sum(table[ids] for table, ids in zip(embed, past))


def mlp(x: f32["batch/dp length width"], layer: Layer) -> f32["batch/dp length width"]:
    h: f32["batch/dp length hidden/tp"] = jnp.square(jax.nn.relu((rms_norm(x) * layer.gain) @ layer.w_in))
    return lax.psum(h @ layer.w_out, "tp") + layer.bias


def cross_entropy(
    logits: f32["batch/dp length vocab/tp"], targets: i32["batch/dp length"]
) -> tuple[f32["batch/dp length"], f32["batch/dp length"]]:
    """Loss and whether the prediction is right, of every token."""
    columns = logits.shape[-1]
    first = lax.axis_index("tp") * columns
    best = lax.stop_gradient(jnp.max(logits, axis=-1))
    top = lax.pmax(best, "tp")
    log_z = top + jnp.log(lax.psum(jnp.sum(jnp.exp(logits - top[..., None]), axis=-1), "tp"))
    local = targets - first
    here = (local >= 0) & (local < columns)
    hit = jnp.take_along_axis(logits, jnp.clip(local, 0, columns - 1)[..., None], axis=-1)[..., 0]
    hit = lax.psum(jnp.where(here, hit, 0.0), "tp")
    right = lax.psum((here & (jnp.argmax(logits, axis=-1) == local) & (best == top)).astype(jnp.float32), "tp")
    return log_z - hit, right


def loss_fn(
    layers: Array["layers", Layer],
    embed: f32["context vocab width"],
    head: f32["width vocab/tp"],
    tokens: i32["batch/dp length"],
    targets: i32["batch/dp length"],
) -> tuple[f32[""], f32[""]]:
    x, _ = lax.scan(lambda x, layer: (x + mlp(x, layer), None), lookup(embed, tokens), layers)
    nll, right = cross_entropy(rms_norm(x) @ head, jnp.maximum(targets, 0))
    valid = (targets >= 0).astype(jnp.float32)
    count = lax.psum(jnp.sum(valid), "dp")
    loss = lax.psum(jnp.sum(nll * valid), "dp") / count
    accuracy = lax.psum(jnp.sum(right * valid), "dp") / count
    return loss, accuracy


def orthogonalize(g: f32["layers/dp width hidden/tp"]) -> f32["layers/dp width hidden/tp"]:
    """Newton-Schulz: all singular values towards one."""
    a, b, c = QUINTIC
    square = lax.psum(jnp.sum(jnp.square(g), axis=(1, 2), keepdims=True), "tp")
    x = g / (jnp.sqrt(square) + 1e-7)
    for _ in range(5):
        gram = lax.psum(jnp.einsum("lwh,lvh->lwv", x, x), "tp")
        polynomial = b * gram + c * gram @ gram
        x = a * x + jnp.einsum("lwv,lvh->lwh", polynomial, x)
    hidden = g.shape[-1] * lax.axis_size("tp")
    return 0.2 * max(g.shape[1], hidden) ** 0.5 * x


def gather(layers: Array["layers/dp", Layer]) -> Array["layers", Layer]:
    return jax.tree.map(lambda w: lax.all_gather(w, "dp", axis=0, tiled=True), layers)


def scatter(grads: Array["layers", Layer]) -> Array["layers/dp", Layer]:
    return jax.tree.map(lambda g: lax.psum_scatter(g, "dp", scatter_dimension=0, tiled=True), grads)


def global_norm(grads: Params) -> f32[""]:
    total = lambda *leaves: sum(jnp.sum(jnp.square(g)) for g in leaves)
    layers = grads.layers
    cut = lax.psum(total(layers.w_in, layers.w_out), ("dp", "tp")) + lax.psum(total(grads.head), "tp")
    return jnp.sqrt(cut + lax.psum(total(layers.gain, layers.bias), "dp") + total(grads.embed))


@jax.jit
@typed_shard_map
def train_step(
    params: Params, momentum: Params, tokens: i32["batch/dp length"], targets: i32["batch/dp length"]
) -> tuple[Params, Params, f32[""], f32[""], f32[""]]:
    value_and_grad = jax.value_and_grad(loss_fn, argnums=(0, 1, 2), has_aux=True)
    (loss, accuracy), (d_layers, d_embed, d_head) = value_and_grad(
        gather(params.layers), params.embed, params.head, tokens, targets
    )
    grads = Params(embed=d_embed, layers=scatter(d_layers), head=d_head)
    norm = global_norm(grads)
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, CLIP / norm), grads)
    momentum = jax.tree.map(lambda m, g: BETA * m + g, momentum, grads)
    ahead = jax.tree.map(lambda m, g: BETA * m + g, momentum, grads)  # Nesterov
    step = jax.tree.map(lambda u: SGD_LR * u, ahead)
    w_in = MUON_LR * orthogonalize(ahead.layers.w_in)
    w_out = MUON_LR * orthogonalize(ahead.layers.w_out.swapaxes(1, 2)).swapaxes(1, 2)
    moved = Array["layers/dp", Layer](gain=step.layers.gain, w_in=w_in, w_out=w_out, bias=step.layers.bias)
    step = Params(embed=step.embed, layers=moved, head=step.head)
    return jax.tree.map(jnp.subtract, params, step), momentum, loss, accuracy, norm


def weights():
    r = np.random.default_rng(3)
    normal = lambda scale, *shape: (scale * r.standard_normal(shape)).astype(np.float32)
    layers = dict(
        gain=1 + normal(0.1, LAYERS, WIDTH), w_in=normal(WIDTH**-0.5, LAYERS, WIDTH, HIDDEN),
        w_out=normal(0.3 * HIDDEN**-0.5, LAYERS, HIDDEN, WIDTH), bias=normal(0.1, LAYERS, WIDTH),
    )  # fmt: skip
    return normal(0.7, CONTEXT, VOCAB, WIDTH), layers, normal(WIDTH**-0.5, WIDTH, VOCAB)


def batches(steps):
    r = np.random.default_rng(4)
    for _ in range(steps):
        text = r.integers(0, VOCAB, (8, 13)).astype(np.int32)
        text[:, 2:] = np.where(r.random((8, 11)) < 0.7, (text[:, 1:-1] + 2 * text[:, :-2]) % VOCAB, text[:, 2:])
        lengths = r.integers(3, 13, (8, 1))
        yield text[:, :-1], np.where(np.arange(12) < lengths, text[:, 1:], -1)


def main(dp=4, tp=2, steps=3):
    mesh = jax.make_mesh((dp, tp), ("dp", "tp"), axis_types=(AxisType.Auto,) * 2)
    put = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, P(*spec)))
    cut = dict(gain=P("dp"), w_in=P("dp", None, "tp"), w_out=P("dp", "tp", None), bias=P("dp"))
    with jax.set_mesh(mesh):
        embed, layers, head = weights()
        layers = Array["layers/dp", Layer](**{name: put(w, *cut[name]) for name, w in layers.items()})
        params = Params(embed=put(embed), layers=layers, head=put(head, None, "tp"))
        momentum, log = jax.tree.map(jnp.zeros_like, params), []
        for tokens, targets in batches(steps):
            params, momentum, *metrics = train_step(params, momentum, put(tokens, "dp"), put(targets, "dp"))
            log.append([float(m) for m in metrics])
    return {"log": np.array(log), "embed": params.embed, "head": params.head} | {n: getattr(params.layers, n) for n in cut}


def reference(steps=3):
    norm = lambda x: x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6)
    embed, layers, head = weights()
    p, log = {"embed": embed, "head": head, **layers}, []

    def loss(p, tokens, targets):
        padded = jnp.pad(tokens, ((0, 0), (CONTEXT - 1, 0)))
        x = sum(p["embed"][i][padded[:, CONTEXT - 1 - i :][:, : tokens.shape[1]]] for i in range(CONTEXT))
        for i in range(LAYERS):
            x = x + jax.nn.relu(norm(x) * p["gain"][i] @ p["w_in"][i]) ** 2 @ p["w_out"][i] + p["bias"][i]
        logits, valid = norm(x) @ p["head"], targets >= 0
        nll = -(jax.nn.log_softmax(logits) * jax.nn.one_hot(targets, VOCAB)).sum(-1)
        return nll.sum() / valid.sum(), ((logits.argmax(-1) == targets) & valid).sum() / valid.sum()

    def ortho(g):
        if g.shape[0] > g.shape[1]:
            return ortho(g.T).T
        x = g / (np.linalg.norm(g) + 1e-7)
        for _ in range(5):
            s = x @ x.T
            x = QUINTIC[0] * x + (QUINTIC[1] * s + QUINTIC[2] * s @ s) @ x
        return 0.2 * max(g.shape) ** 0.5 * x

    grad, m = jax.jit(jax.value_and_grad(loss, has_aux=True)), {n: np.zeros_like(w) for n, w in p.items()}
    for tokens, targets in batches(steps):
        (value, accuracy), g = grad(p, tokens, targets)
        size = sum(float((a**2).sum()) for a in g.values()) ** 0.5
        g = {n: np.asarray(a) * min(1, CLIP / size) for n, a in g.items()}
        m = {n: BETA * m[n] + g[n] for n in p}
        u = {n: BETA * m[n] + g[n] for n in p}
        muon = {n: MUON_LR * np.stack([ortho(a) for a in u[n]]) for n in ("w_in", "w_out")}
        p = {n: p[n] - muon.get(n, SGD_LR * u[n]) for n in p}
        log.append([float(value), float(accuracy), size])
    return {"log": np.array(log), **p}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, right in wanted.items():
        np.testing.assert_allclose(got[name], right, rtol=1e-3, atol=1e-4, err_msg=name)
    print("loss, accuracy, norm", *got["log"])
