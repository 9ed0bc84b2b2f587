"""GPipe over a "stage" axis: microbatches move along the stages by ppermute inside one scan; the batch is split over "data"."""
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec as P


CONFIG = dict(
    vocab=32,
    seq_len=8,
    dim=16,
    hidden=32,
    num_layers=8,
    num_microbatches=4,
    batch=16,
    lr=1e-2,
    clip=1.0,
)

LAYER_SPECS = dict(mix=P("stage"), w1=P("stage"), b1=P("stage"), w2=P("stage"), gain=P("stage"))
PARAM_SPECS = dict(embed=P(), layers=LAYER_SPECS, head=P())


def init_params(key, c):
    ks = jax.random.split(key, 5)
    n, d, f, t = c["num_layers"], c["dim"], c["hidden"], c["seq_len"]
    layers = dict(
        mix=jax.random.normal(ks[0], (n, t, t)) / math.sqrt(t),
        w1=jax.random.normal(ks[1], (n, d, f)) / math.sqrt(d),
        b1=jnp.zeros((n, f)),
        w2=jax.random.normal(ks[2], (n, f, d)) / math.sqrt(f),
        gain=jnp.ones((n, d)),
    )
    return dict(
        embed=jax.random.normal(ks[3], (c["vocab"], d)),
        layers=layers,
        head=jax.random.normal(ks[4], (d, c["vocab"])) / math.sqrt(d),
    )


def normalize(x):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def block(p, x, depth):
    """Mixes along the (causal) sequence, then along the features; deeper layers add less."""
    scale = lax.rsqrt(depth.astype(jnp.float32) + 1.0)
    mix = jnp.tril(p["mix"])
    x = x + scale * jnp.einsum("ts,bsd->btd", mix, normalize(x) * p["gain"])
    h = jax.nn.gelu(normalize(x) @ p["w1"] + p["b1"])
    return x + scale * (h @ p["w2"])


def run_stage(layers, x):
    """Applies the layers that live on this stage, in order."""
    per_stage = layers["gain"].shape[0]
    first = lax.axis_index("stage") * per_stage
    depths = first + jnp.arange(per_stage)

    def body(h, layer_and_depth):
        layer, depth = layer_and_depth
        return block(layer, h, depth), None

    x, _ = lax.scan(body, x, (layers, depths))
    return x


def split_microbatches(x, n):
    """Row i goes to microbatch i % n, so that every microbatch sees the whole range of the batch."""
    return x.reshape(x.shape[0] // n, n, *x.shape[1:]).swapaxes(0, 1)


def pipeline(layers, inputs):
    """inputs: [microbatches, rows, seq, dim]; the result is meaningful on the last stage only."""
    stage, num_stages = lax.axis_index("stage"), lax.axis_size("stage")
    num_micro = inputs.shape[0]
    forward = [(i, (i + 1) % num_stages) for i in range(num_stages)]

    def tick(carry, t):
        arriving, outputs = carry
        fresh = lax.dynamic_index_in_dim(inputs, jnp.minimum(t, num_micro - 1), keepdims=False)
        x = run_stage(layers, jnp.where(stage == 0, fresh, arriving))
        done = t - (num_stages - 1)
        updated = lax.dynamic_update_index_in_dim(outputs, x, jnp.maximum(done, 0), axis=0)
        outputs = jnp.where(done >= 0, updated, outputs)
        return (lax.ppermute(x, "stage", forward), outputs), None

    start = (jnp.zeros_like(inputs[0]), jnp.zeros_like(inputs))
    (_, outputs), _ = lax.scan(tick, start, jnp.arange(num_micro + num_stages - 1))
    return outputs


def local_loss(params, tokens, targets, *, num_microbatches):
    tokens = split_microbatches(tokens, num_microbatches)
    targets = split_microbatches(targets, num_microbatches)
    outputs = pipeline(params["layers"], params["embed"][tokens])
    logits = normalize(outputs) @ params["head"]
    nll = optax.softmax_cross_entropy_with_integer_labels(logits, targets).mean()
    is_last = lax.axis_index("stage") == lax.axis_size("stage") - 1
    nll = lax.psum(jnp.where(is_last, nll, 0.0), "stage")
    return lax.pmean(nll, "data")


def build(c, mesh):
    loss_fn = jax.shard_map(
        functools.partial(local_loss, num_microbatches=c["num_microbatches"]),
        mesh=mesh,
        in_specs=(PARAM_SPECS, P("data"), P("data")),
        out_specs=P(),
        check_vma=False,
    )
    tx = optax.chain(optax.clip_by_global_norm(c["clip"]), optax.adam(c["lr"]))

    @jax.jit
    def step(params, opt_state, tokens, targets):
        loss, grads = jax.value_and_grad(loss_fn)(params, tokens, targets)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss, optax.global_norm(grads)

    return tx, step


def make_batch(c):
    rng = np.random.default_rng(7)
    tokens = rng.integers(0, c["vocab"], (c["batch"], c["seq_len"]))
    return tokens, (tokens * 3 + np.arange(c["seq_len"])) % c["vocab"]


def main():
    c = CONFIG
    mesh = jax.make_mesh((2, 4), ("data", "stage"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    tx, step = build(c, mesh)
    shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), PARAM_SPECS, is_leaf=lambda s: isinstance(s, P))
    params = jax.device_put(init_params(jax.random.key(0), c), shardings)
    opt_state = tx.init(params)
    tokens, targets = jax.device_put(make_batch(c), NamedSharding(mesh, P("data")))
    losses, norms = [], []
    for i in range(2):
        params, opt_state, loss, norm = step(params, opt_state, tokens, targets)
        losses.append(float(loss))
        norms.append(float(norm))
        print(f"step {i} loss {losses[-1]:.5f} grad norm {norms[-1]:.5f}")
    return dict(losses=losses, norms=norms, w1=np.asarray(params["layers"]["w1"]), embed=np.asarray(params["embed"]))


def reference():
    """The layers one after another on the whole batch."""
    c = CONFIG
    tokens, targets = make_batch(c)

    def loss_fn(params):
        x = params["embed"][tokens]
        rms = lambda a: a / jnp.sqrt((a ** 2).mean(-1, keepdims=True) + 1e-6)
        for i in range(c["num_layers"]):
            p = jax.tree.map(lambda w: w[i], params["layers"])
            x = x + jnp.einsum("ts,bsd->btd", jnp.tril(p["mix"]), rms(x) * p["gain"]) / math.sqrt(i + 1)
            x = x + jax.nn.gelu(rms(x) @ p["w1"] + p["b1"]) @ p["w2"] / math.sqrt(i + 1)
        logp = jax.nn.log_softmax(rms(x) @ params["head"])
        return -jnp.take_along_axis(logp, targets[..., None], -1).mean()

    tx = optax.chain(optax.clip_by_global_norm(c["clip"]), optax.adam(c["lr"]))
    params = init_params(jax.random.key(0), c)
    opt_state, losses, norms = tx.init(params), [], []
    grad_fn = jax.jit(jax.value_and_grad(loss_fn))
    for _ in range(2):
        loss, grads = grad_fn(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        losses.append(float(loss))
        norms.append(float(optax.global_norm(grads)))
    return dict(losses=losses, norms=norms, w1=np.asarray(params["layers"]["w1"]), embed=np.asarray(params["embed"]))


def check():
    got, want = main(), reference()
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-4, atol=1e-4, err_msg=name)


if __name__ == "__main__":
    main()
    check()
