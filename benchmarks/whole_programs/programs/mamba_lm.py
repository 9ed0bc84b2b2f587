"""Train a small Mamba (selective state space) language model.

Parameters carry logical axis names; LOGICAL_RULES decides where they go. Almost everything is left to jit, only the
mixing along time (causal conv + selective scan) is written per device so that long sequences can be cut over `seq`.
"""
import argparse
import dataclasses
import functools
import math
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

@dataclasses.dataclass(frozen=True)
class MambaConfig:
    vocab_size: int = 40
    d_model: int = 16
    expand: int = 2
    d_state: int = 4
    d_conv: int = 4
    dt_rank: int = 2
    n_layers: int = 1
    seq_len: int = 32
    batch_size: int = 4
    lr: float = 1e-2
    steps: int = 2
    z_loss: float = 1e-3

    @property
    def d_inner(self):
        return self.expand * self.d_model

LOGICAL_RULES = (
    ("batch", "fsdp"),
    ("time", "seq"),
    ("vocab", "fsdp"),
    ("embed", None),
    ("embed_fsdp", "fsdp"),
    ("inner", None),
    ("state", None),
)

MESH_SHAPES = {1: (1, 1), 2: (1, 2), 4: (2, 2), 8: (2, 4)}

def logical_to_spec(names):
    rules = dict(LOGICAL_RULES)
    return P(*[rules[n] if n is not None else None for n in names])

def create_mesh(device_count):
    shape = MESH_SHAPES[device_count]
    devices = mesh_utils.create_device_mesh(shape, jax.devices()[:device_count])
    return Mesh(devices, ("fsdp", "seq"))

def constrain(x, mesh, *names):
    return lax.with_sharding_constraint(x, NamedSharding(mesh, logical_to_spec(names)))

# --- parameters ---

def param_axes(cfg):
    layer = dict(
        norm=("embed",),
        in_proj=("embed_fsdp", "inner"),
        conv_w=(None, "inner"),
        conv_b=("inner",),
        x_proj=("inner", None),
        dt_proj=(None, "inner"),
        dt_bias=("inner",),
        A_log=("inner", "state"),
        D=("inner",),
        out_proj=("inner", "embed_fsdp"),
    )
    return dict(
        embedding=("vocab", "embed"),
        layers=[layer for _ in range(cfg.n_layers)],
        norm_f=("embed",),
    )

def init_layer(key, cfg):
    k = jax.random.split(key, 6)
    di, n, r = cfg.d_inner, cfg.d_state, cfg.dt_rank
    dense = lambda key, fan_in, fan_out: jax.random.normal(key, (fan_in, fan_out)) / math.sqrt(fan_in)
    dt = jnp.exp(jax.random.uniform(k[4], (di,)) * (math.log(0.5) - math.log(0.01)) + math.log(0.01))
    return dict(
        norm=jnp.ones(cfg.d_model),
        in_proj=dense(k[0], cfg.d_model, 2 * di),
        conv_w=jax.random.normal(k[1], (cfg.d_conv, di)) / math.sqrt(cfg.d_conv),
        conv_b=jnp.zeros(di),
        x_proj=dense(k[2], di, r + 2 * n),
        dt_proj=dense(k[3], r, di),
        dt_bias=dt + jnp.log(-jnp.expm1(-dt)),
        A_log=jnp.log(jnp.tile(jnp.arange(1.0, n + 1), (di, 1))),
        D=jnp.ones(di),
        out_proj=dense(k[5], di, cfg.d_model),
    )

def init_params(key, cfg):
    k_emb, *k_layers = jax.random.split(key, cfg.n_layers + 1)
    return dict(
        embedding=0.3 * jax.random.normal(k_emb, (cfg.vocab_size, cfg.d_model)),
        layers=[init_layer(k, cfg) for k in k_layers],
        norm_f=jnp.ones(cfg.d_model),
    )

# --- mixing along time, on one device's piece of the sequence ---

def causal_conv(x, w, b):
    width = w.shape[0]
    n = lax.axis_size("seq")
    tail = x[:, -(width - 1):]
    halo = lax.ppermute(tail, "seq", [(i, i + 1) for i in range(n - 1)])
    padded = jnp.concatenate([halo, x], axis=1)
    return sum(padded[:, i : i + x.shape[1]] * w[i] for i in range(width)) + b

def selective_scan(u, delta, A, B, C, D):
    decay = jnp.exp(delta[..., None] * A)
    inp = (delta * u)[..., None] * B[:, :, None, :]

    def step(carry, at_t):
        a, x = at_t
        carry = (carry[0] * a, carry[1] * a + x)
        return carry, carry

    first = jnp.ones_like(decay[:, 0]), jnp.zeros_like(inp[:, 0])
    _, (decay, h) = lax.scan(step, first, (jnp.moveaxis(decay, 1, 0), jnp.moveaxis(inp, 1, 0)))
    decay, h = jnp.moveaxis(decay, 0, 1), jnp.moveaxis(h, 0, 1)

    # state that flows in from the devices to the left
    all_decay = lax.all_gather(decay[:, -1], "seq")
    all_h = lax.all_gather(h[:, -1], "seq")
    me = lax.axis_index("seq")
    h_in = jnp.zeros_like(h[:, -1])
    for i in range(lax.axis_size("seq")):
        h_in = jnp.where(i < me, all_decay[i] * h_in + all_h[i], h_in)

    h = h + decay * h_in[:, None]
    return jnp.einsum("btdn,btn->btd", h, C) + D * u

def mixer(layer, x, cfg):
    x = jax.nn.silu(causal_conv(x, layer["conv_w"], layer["conv_b"]))
    proj = x @ layer["x_proj"]
    dt, B, C = jnp.split(proj, [cfg.dt_rank, cfg.dt_rank + cfg.d_state], axis=-1)
    delta = jax.nn.softplus(dt @ layer["dt_proj"] + layer["dt_bias"])
    A = -jnp.exp(layer["A_log"])
    return selective_scan(x, delta, A, B, C, layer["D"])

MIXER_KEYS = ("conv_w", "conv_b", "x_proj", "dt_proj", "dt_bias", "A_log", "D")

# --- model ---

def rms_norm(x, scale):
    return x * lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + 1e-5) * scale

def forward(params, tokens, cfg, mesh):
    act = P("fsdp", "seq", None)
    mix = jax.shard_map(functools.partial(mixer, cfg=cfg), mesh=mesh, in_specs=(P(), act), out_specs=act)
    x = params["embedding"][tokens]
    x = constrain(x, mesh, "batch", "time", "embed")
    for layer in params["layers"]:
        h = rms_norm(x, layer["norm"]) @ layer["in_proj"]
        h, gate = jnp.split(h, 2, axis=-1)
        h = constrain(h, mesh, "batch", "time", "inner")
        h = mix({k: layer[k] for k in MIXER_KEYS}, h)
        x = x + (h * jax.nn.silu(gate)) @ layer["out_proj"]
        x = constrain(x, mesh, "batch", "time", "embed")
    x = rms_norm(x, params["norm_f"])
    logits = jnp.einsum("btd,vd->btv", x, params["embedding"])
    return constrain(logits, mesh, "batch", "time", None)

def loss_fn(params, batch, cfg, mesh):
    logits = forward(params, batch["inputs"], cfg, mesh)
    lse = jax.nn.logsumexp(logits, axis=-1)
    picked = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]
    per_token = lse - picked + cfg.z_loss * lse**2
    return jnp.sum(per_token * batch["mask"]) / jnp.sum(batch["mask"])

def make_batches(cfg, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(cfg.steps):
        start = rng.integers(0, cfg.vocab_size, (cfg.batch_size, 1))
        stride = rng.integers(1, 4, (cfg.batch_size, 1))
        text = (start + stride * np.arange(cfg.seq_len + 1)) % cfg.vocab_size
        lengths = rng.integers(cfg.seq_len // 2, cfg.seq_len + 1, (cfg.batch_size, 1))
        mask = np.arange(cfg.seq_len) < lengths
        yield dict(inputs=text[:, :-1], targets=text[:, 1:], mask=mask.astype(np.float32))

def main(device_count: int = 8):
    cfg = MambaConfig()
    mesh = create_mesh(device_count)
    shardings = jax.tree.map(
        lambda names: NamedSharding(mesh, logical_to_spec(names)), param_axes(cfg), is_leaf=lambda x: isinstance(x, tuple)
    )
    params = jax.jit(init_params, static_argnums=1, out_shardings=shardings)(jax.random.key(0), cfg)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(cfg.lr, eps=1e-4))
    opt_state = jax.jit(optimizer.init)(params)
    batch_sharding = NamedSharding(mesh, logical_to_spec(("batch", "time")))

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def train_step(params, opt_state, batch):
        loss, grads = jax.value_and_grad(loss_fn)(params, batch, cfg, mesh)
        updates, opt_state = optimizer.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, loss, optax.global_norm(grads)

    norm_of = jax.jit(optax.global_norm)
    losses, norms = [], []
    for batch in make_batches(cfg):
        batch = jax.device_put(batch, batch_sharding)
        params, opt_state, loss, norm = train_step(params, opt_state, batch)
        losses.append(float(loss))
        norms.append(float(norm))
    return {"loss": losses, "grad_norm": norms, "param_norm": float(norm_of(params))}


def reference():
    return main(1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--devices", type=int, default=8)
    print(main(parser.parse_args().devices))
