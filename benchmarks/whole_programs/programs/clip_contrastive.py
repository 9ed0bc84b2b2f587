"""CLIP: contrastive training of an image tower and a text tower (flax.linen), data parallel by shard_map.

Only embeddings are exchanged, the (global x global) matrix of similarities is never built: every device holds the rows
of its own images against all texts, and of its own texts against all images.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax.training.train_state import TrainState
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray


@dataclass(frozen=True)
class Config:
    image_size: int = 8
    patch: int = 4
    vocab: int = 30
    context: int = 6
    width: int = 16
    embed_dim: int = 12
    batch: int = 16
    steps: int = 2
    lr: float = 3e-3
    drop: float = 0.1
    ema: float = 0.9


class Batch(NamedTuple):
    images: Float[Array, "batch height width 3"]
    tokens: Int[Array, "batch context"]


class Block(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x: Float[Array, "b n d"], mask: Float[Array, "b n"]) -> Float[Array, "b n d"]:
        h = nn.LayerNorm()(x)
        q, k, v = (nn.Dense(self.width, name=n)(h) for n in "qkv")
        scores = jnp.einsum("bqd,bkd->bqk", q, k) / self.width**0.5
        scores = jnp.where(mask[:, None, :] > 0, scores, -1e9)
        x = x + nn.Dense(self.width, name="o")(jax.nn.softmax(scores) @ v)
        h = nn.Dense(2 * self.width)(nn.LayerNorm()(x))
        return x + nn.Dense(self.width)(nn.gelu(h))


class ImageTower(nn.Module):
    cfg: Config

    @nn.compact
    def __call__(self, images: Float[Array, "b h w 3"]) -> Float[Array, "b e"]:
        c = self.cfg
        x = nn.Conv(c.width, (c.patch, c.patch), (c.patch, c.patch), name="patchify")(images)
        x = x.reshape(x.shape[0], -1, c.width)
        x = x + self.param("pos", nn.initializers.normal(0.1), (x.shape[1], c.width))
        x = Block(c.width)(x, jnp.ones(x.shape[:2]))
        return nn.Dense(c.embed_dim, use_bias=False)(x.mean(axis=1))


class TextTower(nn.Module):
    cfg: Config

    @nn.compact
    def __call__(self, tokens: Int[Array, "b t"]) -> Float[Array, "b e"]:
        c = self.cfg
        mask = (tokens > 0).astype(jnp.float32)
        x = nn.Embed(c.vocab, c.width)(tokens)
        x = x + self.param("pos", nn.initializers.normal(0.1), (c.context, c.width))
        x = Block(c.width)(x, mask)
        pooled = jnp.einsum("btd,bt->bd", x, mask) / mask.sum(axis=1, keepdims=True)
        return nn.Dense(c.embed_dim, use_bias=False)(pooled)


class CLIP(nn.Module):
    cfg: Config

    def setup(self):
        self.image = ImageTower(self.cfg)
        self.text = TextTower(self.cfg)
        self.log_scale = self.param("log_scale", lambda _: jnp.log(jnp.float32(1 / 0.2)))

    def __call__(self, batch: Batch) -> tuple[Float[Array, "b e"], Float[Array, "b e"], Float[Array, ""]]:
        unit = lambda v: v / jnp.linalg.norm(v, axis=-1, keepdims=True)
        return unit(self.image(batch.images)), unit(self.text(batch.tokens)), jnp.exp(self.log_scale)


class State(TrainState):
    ema: dict
    mean_image: Float[Array, "h w 3"]


# --- loss of one device ---------------------------------------------------------------


def one_direction(
    mine: Float[Array, "local e"], everyone: Float[Array, "global e"], scale: Float[Array, ""]
) -> tuple[Float[Array, "local"], Bool[Array, "local"]]:
    logits = scale * mine @ everyone.T
    labels = jax.lax.axis_index("data") * mine.shape[0] + jnp.arange(mine.shape[0])
    losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
    return losses, jnp.argmax(logits, axis=-1) == labels


def contrastive(params, apply_fn, batch: Batch):
    img, txt, scale = apply_fn({"params": params}, batch)
    all_img = jax.lax.all_gather(img, "data", axis=0, tiled=True)
    all_txt = jax.lax.all_gather(txt, "data", axis=0, tiled=True)
    img_loss, img_hit = one_direction(img, all_txt, scale)
    txt_loss, txt_hit = one_direction(txt, all_img, scale)
    loss = (img_loss.mean() + txt_loss.mean()) / 2
    return loss, {"i2t": img_hit.mean(), "t2i": txt_hit.mean()}


def augment(key: PRNGKeyArray, images: Float[Array, "b h w c"], first: Int[Array, ""], drop: float):
    """Every image has noise of its own, whichever device it lies on."""
    keys = jax.vmap(partial(jax.random.fold_in, key))(first + jnp.arange(images.shape[0]))
    keep = jax.vmap(lambda k: jax.random.bernoulli(k, 1 - drop, images.shape[1:3]))(keys)
    return images * keep[..., None]


def train_step(state: State, batch: Batch, key: PRNGKeyArray, *, cfg: Config):
    first = jax.lax.axis_index("data") * batch.images.shape[0]
    mean_image = jax.lax.pmean(batch.images.mean(axis=0), "data")
    images = augment(key, batch.images - mean_image, first, cfg.drop)
    grad_fn = jax.value_and_grad(contrastive, has_aux=True)
    (loss, metrics), grads = grad_fn(state.params, state.apply_fn, Batch(images, batch.tokens))
    grads = jax.lax.pmean(grads, "data")
    metrics = jax.lax.pmean({"loss": loss, **metrics}, "data")
    metrics["grad_norm"] = optax.global_norm(grads)
    state = state.apply_gradients(grads=grads)
    ema = optax.incremental_update(state.params, state.ema, 1 - cfg.ema)
    return state.replace(ema=ema, mean_image=mean_image), metrics


def retrieval(params, images, tokens, mean_image, *, apply_fn):
    """Recall@3 of texts for images; the texts stay where they are, and similarities are gathered."""
    img, txt, _ = apply_fn({"params": params}, Batch(images - mean_image, tokens))
    all_img = jax.lax.all_gather(img, "data", tiled=True)
    sims = jax.lax.all_gather(all_img @ txt.T, "data", axis=1, tiled=True)
    truth = jnp.diagonal(sims)
    rank = jnp.sum(sims > truth[:, None], axis=1)
    return jnp.mean(rank < 3), jnp.mean(truth)


# --- data and training ----------------------------------------------------------------


def make_batches(cfg: Config, seed: int = 0):
    rng = np.random.default_rng(seed)
    prototypes = rng.normal(size=(5, cfg.image_size, cfg.image_size, 3))
    for _ in range(cfg.steps + 1):
        kind = rng.integers(0, 5, cfg.batch)
        images = prototypes[kind] + 0.3 * rng.normal(size=(cfg.batch, *prototypes.shape[1:]))
        tokens = 1 + 5 * kind[:, None] + rng.integers(0, 5, (cfg.batch, cfg.context))
        tokens[np.arange(cfg.context) >= rng.integers(2, cfg.context + 1, cfg.batch)[:, None]] = 0
        yield Batch(images.astype(np.float32), tokens.astype(np.int32))


def create_state(cfg: Config, batch: Batch) -> State:
    model = CLIP(cfg)
    params = jax.jit(model.init)(jax.random.key(1), batch)["params"]
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(cfg.lr, eps=1e-3, weight_decay=0.01))
    return State.create(
        apply_fn=model.apply,
        params=params,
        tx=tx,
        ema=jax.tree.map(jnp.copy, params),
        mean_image=jnp.zeros(batch.images.shape[1:]),
    )


def main(device_count: int = 8) -> dict:
    cfg = Config()
    mesh = Mesh(np.array(jax.devices()[:device_count]), ("data",))
    *batches, held_out = make_batches(cfg)
    state = create_state(cfg, Batch(*(a[:2] for a in held_out)))
    state = jax.device_put(state, NamedSharding(mesh, P()))

    step = jax.shard_map(
        partial(train_step, cfg=cfg),
        mesh=mesh,
        in_specs=(P(), P("data"), P()),
        out_specs=(P(), P()),
        check_vma=False,
    )
    step = jax.jit(step, donate_argnums=0)
    evaluate = jax.jit(
        jax.shard_map(
            partial(retrieval, apply_fn=state.apply_fn),
            mesh=mesh,
            in_specs=(P(), P("data"), P("data"), P()),
            out_specs=P(),
            check_vma=False,
        )
    )

    history = []
    for i, batch in enumerate(batches):
        batch = jax.device_put(batch, NamedSharding(mesh, P("data")))
        state, metrics = step(state, batch, jax.random.fold_in(jax.random.key(7), i))
        history.append({k: float(v) for k, v in metrics.items()})
    recall, aligned = evaluate(state.ema, held_out.images, held_out.tokens, state.mean_image)
    return {
        "history": history,
        "recall": float(recall),
        "aligned": float(aligned),
        "norm": float(jax.jit(optax.global_norm)(state.params)),
        "pos_norm": float(np.linalg.norm(state.params["image"]["pos"])),
    }


def reference():
    return main(1)


if __name__ == "__main__":
    print(main())
