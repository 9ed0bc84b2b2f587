"""A T5-like encoder classifier in flax linen; logical axis names are mapped to a (data, model) mesh by rules."""
from typing import Any

import flax.linen as nn
import flax.struct
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training import train_state
from jax.sharding import Mesh, NamedSharding, PartitionSpec

AXIS_RULES = (
    ("activation_batch", "data"),
    ("activation_heads", "model"),
    ("activation_mlp", "model"),
    ("activation_embed", None),
    ("vocab", "model"),
    ("embed", "data"),
    ("heads", "model"),
    ("mlp", "model"),
    ("kv", None),
    ("layers", None),
)


@flax.struct.dataclass
class EncoderConfig:
    vocab: int = 48
    emb_dim: int = 16
    num_heads: int = 4
    head_dim: int = 8
    mlp_dim: int = 32
    num_layers: int = 2
    num_classes: int = 5
    max_distance: int = 4
    accum_steps: int = 2
    dtype: Any = jnp.float32


def partitioned(scale, *names):
    return nn.with_logical_partitioning(nn.initializers.normal(scale), names)


def constrain(x, *names):
    return nn.with_logical_constraint(x, names)


class RMSNorm(nn.Module):
    @nn.compact
    def __call__(self, x):
        scale = self.param("scale", nn.with_logical_partitioning(nn.initializers.ones, ("embed",)), x.shape[-1:])
        var = jnp.mean(jnp.square(x.astype(jnp.float32)), axis=-1, keepdims=True)
        return x * jax.lax.rsqrt(var + 1e-6) * scale


class RelativeBias(nn.Module):
    cfg: EncoderConfig

    @nn.compact
    def __call__(self, length):
        most = self.cfg.max_distance
        table = self.param("table", partitioned(1.0, None, "heads"), (2 * most + 1, self.cfg.num_heads))
        distance = jnp.arange(length)[None, :] - jnp.arange(length)[:, None]  # key minus query
        return table[jnp.clip(distance, -most, most) + most].transpose(2, 0, 1)[None]


class SelfAttention(nn.Module):
    cfg: EncoderConfig

    @nn.compact
    def __call__(self, x, mask, bias):
        cfg = self.cfg
        width = (cfg.emb_dim, 3 * cfg.num_heads * cfg.head_dim)
        wqkv = self.param("wqkv", partitioned(cfg.emb_dim**-0.5, "embed", "heads"), width)
        wo = self.param("wo", partitioned(0.2, "heads", "kv", "embed"), (cfg.num_heads, cfg.head_dim, cfg.emb_dim))
        qkv = (x @ wqkv.astype(cfg.dtype)).reshape(*x.shape[:2], 3, cfg.num_heads, cfg.head_dim)
        qkv = constrain(qkv, "activation_batch", None, None, "activation_heads", "kv")
        q, k, v = qkv[:, :, 0], qkv[:, :, 1], qkv[:, :, 2]
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * cfg.head_dim**-0.5 + bias
        scores = jnp.where(mask[:, None, None, :] > 0, scores, -1e9)
        out = jnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores, axis=-1), v)
        return jnp.einsum("bqhd,hde->bqe", out, wo.astype(cfg.dtype))


class MlpBlock(nn.Module):
    cfg: EncoderConfig

    @nn.compact
    def __call__(self, x):
        cfg = self.cfg
        wi = self.param("wi", partitioned(0.25, "embed", "mlp"), (cfg.emb_dim, cfg.mlp_dim))
        wo = self.param("wo", partitioned(0.2, "mlp", "embed"), (cfg.mlp_dim, cfg.emb_dim))
        h = nn.gelu(x @ wi.astype(cfg.dtype))
        h = constrain(h, "activation_batch", None, "activation_mlp")
        return h @ wo.astype(cfg.dtype)


class EncoderLayer(nn.Module):
    cfg: EncoderConfig

    @nn.compact
    def __call__(self, x, mask, bias):
        x = x + SelfAttention(self.cfg, name="attn")(RMSNorm(name="attn_norm")(x), mask, bias)
        x = x + MlpBlock(self.cfg, name="mlp")(RMSNorm(name="mlp_norm")(x))
        return constrain(x, "activation_batch", None, "activation_embed"), None


class Encoder(nn.Module):
    cfg: EncoderConfig

    @nn.compact
    def __call__(self, tokens, mask):
        cfg = self.cfg
        table = self.param("embedding", partitioned(1.0, "vocab", "embed"), (cfg.vocab, cfg.emb_dim))
        x = constrain(table[tokens].astype(cfg.dtype), "activation_batch", None, "activation_embed")
        bias = RelativeBias(cfg, name="relpos")(tokens.shape[1])
        stack = nn.scan(nn.remat(EncoderLayer), variable_axes={"params": 0}, split_rngs={"params": True},
                        in_axes=nn.broadcast, length=cfg.num_layers, metadata_params={nn.PARTITION_NAME: "layers"})
        x, _ = stack(cfg, name="layers")(x, mask, bias)
        x = RMSNorm(name="final_norm")(x)
        pooled = jnp.sum(x * mask[..., None], axis=1) / jnp.sum(mask, axis=1, keepdims=True)
        head = self.param("head", partitioned(0.25, "embed", None), (cfg.emb_dim, cfg.num_classes))
        return pooled @ head


def loss_sums(apply_fn, params, batch):
    logits = apply_fn({"params": params}, batch["tokens"], batch["mask"])
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
    return jnp.sum(losses * batch["weight"]), jnp.sum(batch["weight"])


def train_step(state, batch, accum_steps):
    micro = jax.tree.map(lambda a: a.reshape(-1, accum_steps, *a.shape[1:]).swapaxes(0, 1), batch)
    grad_fn = jax.value_and_grad(lambda p, b: loss_sums(state.apply_fn, p, b), has_aux=True)

    def accumulate(carry, mb):
        (loss, weight), grads = grad_fn(state.params, mb)
        return jax.tree.map(jnp.add, carry, (loss, weight, grads)), None

    zero = (0.0, 0.0, jax.tree.map(jnp.zeros_like, state.params))
    (loss, weight, grads), _ = jax.lax.scan(accumulate, zero, micro)
    grads = jax.tree.map(lambda g: g / weight, grads)
    return state.apply_gradients(grads=grads), {"loss": loss / weight, "grad_norm": optax.global_norm(grads)}


def make_batch(cfg, batch=8, length=8):
    rng = np.random.default_rng(3)
    return {
        "tokens": rng.integers(0, cfg.vocab, (batch, length)),
        "mask": (np.arange(length) < rng.integers(3, length + 1, (batch, 1))).astype(np.float32),
        "label": rng.integers(0, cfg.num_classes, batch),
        "weight": rng.choice([0.0, 0.5, 1.0], batch).astype(np.float32),
    }


def main():
    cfg = EncoderConfig()
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
    model, tx, batch = Encoder(cfg), optax.adamw(1e-2), make_batch(cfg)

    def init(key):
        variables = model.init(key, batch["tokens"], batch["mask"])
        return train_state.TrainState.create(apply_fn=model.apply, params=variables["params"], tx=tx)

    with jax.set_mesh(mesh), nn.logical_axis_rules(AXIS_RULES):
        key = jax.random.key(0)
        logical = nn.get_partition_spec(jax.eval_shape(init, key))
        state_shardings = nn.logical_to_mesh_sharding(logical, mesh, AXIS_RULES)
        batch_sharding = NamedSharding(mesh, PartitionSpec("data"))
        state = jax.jit(init, out_shardings=state_shardings)(key)
        step = jax.jit(train_step, in_shardings=(state_shardings, batch_sharding), out_shardings=(state_shardings, None),
                       static_argnums=2, donate_argnums=0)
        losses = []
        for _ in range(2):
            state, metrics = step(state, batch, cfg.accum_steps)
            losses.append(float(metrics["loss"]))
    print("losses", losses, "grad norm", float(metrics["grad_norm"]))
    return {"losses": losses, "grad_norm": metrics["grad_norm"], "params": nn.unbox(state.params)}


def reference():
    cfg, b, tx = EncoderConfig(), make_batch(EncoderConfig()), optax.adamw(1e-2)
    rms = lambda x, p: x / jnp.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * p["scale"]
    distance = np.clip(np.arange(8)[None] - np.arange(8)[:, None], -4, 4) + 4

    def loss_fn(params):
        x = params["embedding"][b["tokens"]]
        for i in range(cfg.num_layers):
            p = jax.tree.map(lambda w: w[i], params["layers"])
            q, k, v = jnp.split(rms(x, p["attn_norm"]) @ p["attn"]["wqkv"], 3, axis=-1)
            for h in range(cfg.num_heads):
                cut = slice(8 * h, 8 * h + 8)
                s = q[..., cut] @ k[..., cut].swapaxes(1, 2) / 8**0.5 + params["relpos"]["table"][distance, h]
                s = jax.nn.softmax(jnp.where(b["mask"][:, None, :] > 0, s, -jnp.inf))
                x = x + s @ v[..., cut] @ p["attn"]["wo"][h]
            x = x + jax.nn.gelu(rms(x, p["mlp_norm"]) @ p["mlp"]["wi"]) @ p["mlp"]["wo"]
        m = b["mask"][..., None]
        logp = jax.nn.log_softmax((rms(x, params["final_norm"]) * m).sum(1) / m.sum(1) @ params["head"])
        return -(logp[np.arange(8), b["label"]] * b["weight"]).sum() / b["weight"].sum()

    params = nn.unbox(Encoder(cfg).init(jax.random.key(0), b["tokens"], b["mask"]))["params"]
    opt_state, losses = tx.init(params), []
    for _ in range(2):
        loss, grads = jax.jit(jax.value_and_grad(loss_fn))(params)
        updates, opt_state = tx.update(grads, opt_state, params)
        params = optax.apply_updates(params, updates)
        losses.append(float(loss))
    return {"losses": losses, "grad_norm": optax.global_norm(grads), "params": params}


def check():
    got, want = main(), reference()
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), got, want)


if __name__ == "__main__":
    main()
    check()
