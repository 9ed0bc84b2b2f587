"""GPipe: the layers of a residual network over axis p, microbatches through a ring of stages, data parallel over d.

Arrays that differ from stage to stage carry a leading dimension sharded over p, of size one on each device.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, NamedSharding, PartitionSpec
from shardtypes import Array, f32, i32, pytree_dataclass, typed_shard_map

LAYERS = 8
MICRO = 6
BATCH = 8  # of a microbatch
FEATURES = 10
WIDTH = 16
HIDDEN = 24
CLASSES = 5
LR = 0.2
BETA = 0.9
DECAY = 1e-2


@pytree_dataclass
class Block:
    gain: f32["width"]
    w1: f32["width hidden"]
    b1: f32["hidden"]
    w2: f32["hidden width"]


@pytree_dataclass
class Network:
    embed: f32["features width"]
    blocks: Array["layers/p", Block]
    gain: f32["width"]
    head: f32["width classes"]


def standardize(x: f32["... width"], gain: f32["width"]) -> f32["... width"]:
    mean = jnp.mean(x, axis=-1, keepdims=True)
    var = jnp.mean(jnp.square(x - mean), axis=-1, keepdims=True)
    return (x - mean) * lax.rsqrt(var + 1e-5) * gain


def run_block(x: f32["stages/p batch/d width"], block: Block) -> f32["stages/p batch/d width"]:
    h = jnp.einsum("sbw,wh->sbh", standardize(x, block.gain), block.w1) + block.b1
    return x + jnp.einsum("sbh,hw->sbw", jax.nn.gelu(h), block.w2)


def run_stage(
    x: f32["stages/p batch/d width"], blocks: Array["layers/p", Block]
) -> f32["stages/p batch/d width"]:
    out, _ = lax.scan(lambda h, block: (run_block(h, block), None), x, blocks)
    return out


def pass_on(x: f32["stages/p batch/d width"]) -> f32["stages/p batch/d width"]:
    stages = lax.axis_size("p")
    return lax.ppermute(x, "p", [(i, (i + 1) % stages) for i in range(stages)])


def pipeline(
    x: f32["micro batch/d width"], blocks: Array["layers/p", Block]
) -> f32["micro stages/p batch/d width"]:
    """The outputs of every stage; only those of the last one are of use."""
    stage, stages = lax.axis_index("p"), lax.axis_size("p")
    micro, batch, width = x.shape

    def tick(carry, t):
        arriving, outputs = carry
        fresh = lax.dynamic_index_in_dim(x, jnp.minimum(t, micro - 1), keepdims=True)
        y = run_stage(jnp.where(stage == 0, fresh, arriving), blocks)
        done = t - (stages - 1)
        updated = lax.dynamic_update_index_in_dim(outputs, y, jnp.maximum(done, 0), axis=0)
        outputs = jnp.where(done >= 0, updated, outputs)
        return (pass_on(y), outputs), None

    start = lax.pcast((jnp.zeros((1, batch, width)), jnp.zeros((micro, 1, batch, width))), ("p", "d"), to="varying")
    (_, outputs), _ = lax.scan(tick, start, jnp.arange(micro + stages - 1))
    return outputs


def cross_entropy(logits: f32["... classes"], labels: i32["..."]) -> f32["..."]:
    picked = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return jax.nn.logsumexp(logits, axis=-1) - picked


def loss_fn(
    net: Network, x: f32["micro batch/d features"], labels: i32["micro batch/d"]
) -> tuple[f32[""], f32[""]]:
    last = lax.axis_index("p") == lax.axis_size("p") - 1
    h = jnp.einsum("mbf,fw->mbw", x, net.embed)
    h = pipeline(h, net.blocks)
    logits = jnp.einsum("msbw,wc->msbc", standardize(h, net.gain), net.head)
    each = cross_entropy(logits, labels[:, None])
    right = jnp.argmax(logits, axis=-1) == labels[:, None]
    examples = lax.psum(labels.size, "d")
    loss = lax.psum(jnp.where(last, jnp.sum(each), 0.0), ("p", "d")) / examples
    accuracy = lax.psum(jnp.where(last, jnp.sum(right), 0), ("p", "d")) / examples
    return loss, accuracy


@jax.jit
@typed_shard_map
def train_step(
    net: Network, momentum: Network, x: f32["micro batch/d features"], labels: i32["micro batch/d"]
) -> tuple[Network, Network, f32[""], f32[""], f32[""]]:
    (loss, accuracy), grads = jax.value_and_grad(loss_fn, has_aux=True)(net, x, labels)
    squares = jax.tree.map(lambda g: jnp.sum(jnp.square(g)), grads)
    norm = lax.psum(sum(jax.tree.leaves(squares.blocks)), "p")
    norm = jnp.sqrt(norm + squares.embed + squares.gain + squares.head)
    momentum = jax.tree.map(lambda m, g, p: BETA * m + g + DECAY * p, momentum, grads, net)
    net = jax.tree.map(lambda p, m: p - LR * m, net, momentum)
    return net, momentum, loss, accuracy, norm


def weights():
    k = jax.random.split(jax.random.key(0), 5)
    return dict(
        embed=jax.random.normal(k[0], (FEATURES, WIDTH)) * FEATURES**-0.5,
        w1=jax.random.normal(k[1], (LAYERS, WIDTH, HIDDEN)) * WIDTH**-0.5,
        b1=jax.random.normal(k[2], (LAYERS, HIDDEN)) * 0.1,
        w2=jax.random.normal(k[3], (LAYERS, HIDDEN, WIDTH)) * HIDDEN**-0.5,
        head=jax.random.normal(k[4], (WIDTH, CLASSES)) * WIDTH**-0.5,
    )


def examples(steps):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((steps, MICRO, BATCH, FEATURES), dtype=np.float32)
    return x, np.argmax(x[..., :CLASSES] + x[..., CLASSES:], -1).astype(np.int32)


def main(p=4, d=2, steps=2):
    mesh = jax.make_mesh((p, d), ("p", "d"), axis_types=(AxisType.Auto,) * 2, devices=jax.devices()[: p * d])
    with jax.set_mesh(mesh):
        put = lambda a, *spec: jax.device_put(a, NamedSharding(mesh, PartitionSpec(*spec)))
        w = weights()
        stacked = dict(w1=w["w1"], b1=w["b1"], w2=w["w2"], gain=jnp.ones((LAYERS, WIDTH)))
        net = Network(
            embed=put(w["embed"]),
            blocks=Array["layers/p", Block](**{n: put(a, "p") for n, a in stacked.items()}),
            gain=put(jnp.ones(WIDTH)),
            head=put(w["head"]),
        )
        momentum = jax.tree.map(jnp.zeros_like, net)
        log = []
        for x, labels in zip(*examples(steps)):
            x, labels = put(x, None, "d"), put(labels, None, "d")
            net, momentum, *metrics = train_step(net, momentum, x, labels)
            log.append([float(m) for m in metrics])
    return {"log": np.array(log), "embed": np.asarray(net.embed), "head": np.asarray(net.head)} | {
        n: np.asarray(getattr(net.blocks, n)) for n in stacked
    }


def reference(steps=2):
    p = weights() | {"gains": jnp.ones((LAYERS, WIDTH)), "gain": jnp.ones(WIDTH)}
    norm = lambda x: (x - x.mean()) / jnp.sqrt(x.var() + 1e-5)

    def logits(p, x):
        h = x @ p["embed"]
        for i in range(LAYERS):
            h = h + jax.nn.gelu((norm(h) * p["gains"][i]) @ p["w1"][i] + p["b1"][i]) @ p["w2"][i]
        return (norm(h) * p["gain"]) @ p["head"]

    def loss(p, x, y):
        z = jax.vmap(logits, (None, 0))(p, x)
        return -jax.nn.log_softmax(z)[np.arange(len(y)), y].mean(), (z.argmax(1) == y).mean()

    grad = jax.jit(jax.value_and_grad(loss, has_aux=True))
    m, log = {n: 0.0 for n in p}, []
    for x, y in zip(*examples(steps)):
        (value, accuracy), g = grad(p, x.reshape(-1, FEATURES), y.reshape(-1))
        m = {n: BETA * m[n] + g[n] + DECAY * p[n] for n in p}
        p = {n: p[n] - LR * m[n] for n in p}
        log.append([float(value), float(accuracy), sum(float((a**2).sum()) for a in g.values()) ** 0.5])
    out = {n: np.asarray(p[n]) for n in ("embed", "head", "w1", "b1", "w2")}
    return {"log": np.array(log), "gain": np.asarray(p["gains"])} | out


if __name__ == "__main__":
    got, want = main(), reference()
    for n in want:
        np.testing.assert_allclose(got[n], want[n], rtol=1e-3, atol=1e-4, err_msg=n)
    print("ok", got["log"])
