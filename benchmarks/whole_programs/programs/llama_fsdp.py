"""A small Llama trained under jit: FSDP over "fsdp", tensor parallelism over "tensor", batch over "data" and "fsdp"."""
import dataclasses
import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental import mesh_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

BATCH = ("data", "fsdp")

PARTITION_RULES = (
    ("embed/table", P("tensor", "fsdp")),
    ("attn/w[qkv]", P(None, "fsdp", "tensor")),
    ("attn/wo", P(None, "tensor", "fsdp")),
    ("mlp/w_(gate|up)", P(None, "fsdp", "tensor")),
    ("mlp/w_down", P(None, "tensor", "fsdp")),
    ("lm_head", P("fsdp", "tensor")),
    (".*", P()),
)


@dataclasses.dataclass(frozen=True)
class LlamaConfig:
    vocab_size: int = 64
    hidden_size: int = 32
    intermediate_size: int = 48
    num_layers: int = 2
    num_heads: int = 8
    num_kv_heads: int = 4
    head_dim: int = 8
    rope_theta: float = 10000.0
    learning_rate: float = 3e-3
    z_loss: float = 1e-2


def init_params(cfg, key):
    keys = iter(jax.random.split(key, 16))

    def dense(*shape, fan_in):
        return jax.random.normal(next(keys), shape, jnp.float32) / np.sqrt(fan_in)

    L, D, F = cfg.num_layers, cfg.hidden_size, cfg.intermediate_size
    q_dim, kv_dim = cfg.num_heads * cfg.head_dim, cfg.num_kv_heads * cfg.head_dim
    attn = {"wq": dense(L, D, q_dim, fan_in=D), "wk": dense(L, D, kv_dim, fan_in=D),
            "wv": dense(L, D, kv_dim, fan_in=D), "wo": dense(L, q_dim, D, fan_in=q_dim)}
    mlp = {"w_gate": dense(L, D, F, fan_in=D), "w_up": dense(L, D, F, fan_in=D), "w_down": dense(L, F, D, fan_in=F)}
    return {
        "embed": {"table": dense(cfg.vocab_size, D, fan_in=1)},
        "layers": {"attn": attn, "mlp": mlp, "attn_norm": jnp.ones((L, D)), "mlp_norm": jnp.ones((L, D))},
        "final_norm": jnp.ones((D,)),
        "lm_head": dense(D, cfg.vocab_size, fan_in=D),
    }


def match_partition_rules(rules, tree):
    def spec_of(path, leaf):
        name = jax.tree_util.keystr(path, simple=True, separator="/")
        return next(spec for rule, spec in rules if re.search(rule, name))

    return jax.tree_util.tree_map_with_path(spec_of, tree)


def rms_norm(x, scale, eps=1e-6):
    return x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axis=-1, keepdims=True) + eps) * scale


def rope(x, positions, theta):
    half = x.shape[-1] // 2
    freqs = theta ** (-jnp.arange(half, dtype=jnp.float32) / half)
    angles = positions[:, None, None] * freqs
    x1, x2 = x[..., :half], x[..., half:]
    return jnp.concatenate([x1 * jnp.cos(angles) - x2 * jnp.sin(angles), x2 * jnp.cos(angles) + x1 * jnp.sin(angles)], -1)


class Llama:
    def __init__(self, cfg, mesh):
        self.cfg = cfg
        self.mesh = mesh

    def constrain(self, x, *spec):
        return jax.lax.with_sharding_constraint(x, NamedSharding(self.mesh, P(*spec)))

    def attention(self, p, x):
        cfg = self.cfg
        b, t, _ = x.shape
        q = (x @ p["wq"]).reshape(b, t, cfg.num_heads, cfg.head_dim)
        k = (x @ p["wk"]).reshape(b, t, cfg.num_kv_heads, cfg.head_dim)
        v = (x @ p["wv"]).reshape(b, t, cfg.num_kv_heads, cfg.head_dim)
        q = self.constrain(q, BATCH, None, "tensor", None)
        k = self.constrain(k, BATCH, None, "tensor", None)
        v = self.constrain(v, BATCH, None, "tensor", None)
        positions = jnp.arange(t)
        q, k = rope(q, positions, cfg.rope_theta), rope(k, positions, cfg.rope_theta)
        q = q.reshape(b, t, cfg.num_kv_heads, -1, cfg.head_dim)
        scores = jnp.einsum("btkgd,bskd->bkgts", q, k) / np.sqrt(cfg.head_dim)
        scores = jnp.where(positions[:, None] >= positions[None, :], scores, -1e9)
        probs = jax.nn.softmax(scores, axis=-1)
        out = jnp.einsum("bkgts,bskd->btkgd", probs, v)
        out = out.reshape(b, t, cfg.num_heads * cfg.head_dim)
        return self.constrain(out @ p["wo"], BATCH, None, None)

    def mlp(self, p, x):
        h = jax.nn.silu(x @ p["w_gate"]) * (x @ p["w_up"])
        h = self.constrain(h, BATCH, None, "tensor")
        return self.constrain(h @ p["w_down"], BATCH, None, None)

    def __call__(self, params, tokens):
        x = self.constrain(params["embed"]["table"][tokens], BATCH, None, None)

        def block(x, p):
            x = x + self.attention(p["attn"], rms_norm(x, p["attn_norm"]))
            x = x + self.mlp(p["mlp"], rms_norm(x, p["mlp_norm"]))
            return x, None

        x, _ = jax.lax.scan(jax.checkpoint(block), x, params["layers"])
        logits = rms_norm(x, params["final_norm"]) @ params["lm_head"]
        return self.constrain(logits, BATCH, None, "tensor")


def loss_fn(model, params, batch):
    logits = model(params, batch["inputs"])
    log_z = jax.nn.logsumexp(logits, axis=-1)
    target = jnp.take_along_axis(logits, batch["targets"][..., None], axis=-1)[..., 0]
    nll = log_z - target + model.cfg.z_loss * jnp.square(log_z)
    return jnp.sum(nll * batch["mask"]) / jnp.sum(batch["mask"])


def make_train_step(model, tx, state_shardings, batch_sharding):
    @partial(jax.jit, in_shardings=(state_shardings, batch_sharding), out_shardings=(state_shardings, None),
             donate_argnums=0)
    def train_step(state, batch):
        loss, grads = jax.value_and_grad(partial(loss_fn, model))(state["params"], batch)
        updates, opt_state = tx.update(grads, state["opt_state"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        metrics = {"loss": loss, "grad_norm": optax.global_norm(grads)}
        return {"params": params, "opt_state": opt_state, "step": state["step"] + 1}, metrics

    return train_step


def make_batch(cfg, seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(0, cfg.vocab_size, (8, 17))
    mask = (np.arange(16)[None, :] < rng.integers(6, 17, (8, 1))).astype(np.float32)
    return {"inputs": tokens[:, :-1], "targets": tokens[:, 1:], "mask": mask}


def main():
    cfg = LlamaConfig()
    mesh = Mesh(mesh_utils.create_device_mesh((2, 2, 2)), ("data", "fsdp", "tensor"))
    model, tx = Llama(cfg, mesh), optax.adamw(cfg.learning_rate)
    def init(key):
        params = init_params(cfg, key)
        return {"params": params, "opt_state": tx.init(params), "step": jnp.zeros((), jnp.int32)}

    key = jax.random.key(0)
    specs = match_partition_rules(PARTITION_RULES, jax.eval_shape(init, key))
    state_shardings = jax.tree.map(lambda s: NamedSharding(mesh, s), specs)
    batch_sharding = NamedSharding(mesh, P(BATCH))
    state = jax.jit(init, out_shardings=state_shardings)(key)
    train_step = make_train_step(model, tx, state_shardings, batch_sharding)
    batch, losses = jax.device_put(make_batch(cfg), batch_sharding), []
    for _ in range(2):
        state, metrics = train_step(state, batch)
        losses.append(float(metrics["loss"]))
    print("losses", losses, "grad norm", float(metrics["grad_norm"]))
    return {"losses": losses, "grad_norm": metrics["grad_norm"], "lm_head": state["params"]["lm_head"]}


def reference():
    cfg, batch, tx = LlamaConfig(), make_batch(LlamaConfig()), optax.adamw(LlamaConfig().learning_rate)

    norm = lambda x, w: x / jnp.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * w

    def rotate(x):
        z = (x[..., :4] + 1j * x[..., 4:]) * jnp.exp(1j * jnp.arange(16)[:, None, None] / 10000.0 ** (jnp.arange(4) / 4))
        return jnp.concatenate([z.real, z.imag], -1)

    def loss(params):
        x = params["embed"]["table"][batch["inputs"]]
        for i in range(cfg.num_layers):
            p = jax.tree.map(lambda w: w[i], params["layers"])
            h, a, m = norm(x, p["attn_norm"]), p["attn"], p["mlp"]
            q = rotate((h @ a["wq"]).reshape(8, 16, 8, 8))
            k = jnp.repeat(rotate((h @ a["wk"]).reshape(8, 16, 4, 8)), 2, axis=2)
            v = jnp.repeat((h @ a["wv"]).reshape(8, 16, 4, 8), 2, axis=2)
            s = jnp.einsum("bthd,bshd->bhts", q, k) / 8 ** 0.5
            s = jax.nn.softmax(jnp.where(np.tril(np.ones((16, 16), bool)), s, -jnp.inf), -1)
            x = x + jnp.einsum("bhts,bshd->bthd", s, v).reshape(8, 16, 64) @ a["wo"]
            h = norm(x, p["mlp_norm"])
            x = x + (jax.nn.silu(h @ m["w_gate"]) * (h @ m["w_up"])) @ m["w_down"]
        logits = norm(x, params["final_norm"]) @ params["lm_head"]
        z = jax.nn.logsumexp(logits, -1)
        nll = z - (jax.nn.one_hot(batch["targets"], cfg.vocab_size) * logits).sum(-1)
        return ((nll + cfg.z_loss * z ** 2) * batch["mask"]).sum() / batch["mask"].sum()

    @jax.jit
    def step(params, opt_state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, value, optax.global_norm(grads)

    params = init_params(cfg, jax.random.key(0))
    params, opt_state, first, _ = step(params, tx.init(params))
    params, _, second, grad_norm = step(params, opt_state)
    return {"losses": [first, second], "grad_norm": grad_norm, "lm_head": params["lm_head"]}


def check():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), main(), reference())


if __name__ == "__main__":
    main()
    check()
