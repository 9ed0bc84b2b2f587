"""A ViT in equinox: modules work on one image and are vmapped, parameters are placed by path with eqx.filter_shard on a
(data, model) mesh, and an exponential moving average of the model is kept."""
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from jaxtyping import Array, Float, Int, PRNGKeyArray

IMAGE, PATCH, CHANNELS, CLASSES = 8, 2, 3, 10
DIM, HEADS, HEAD_DIM, HIDDEN, DEPTH = 16, 4, 4, 32, 2
DROPOUT, EMA_DECAY, BATCH, LR = 0.2, 0.9, 8, 1e-2


def glorot(key: PRNGKeyArray, *shape: int, fan_in: int) -> Array:
    return jax.random.normal(key, shape) / fan_in**0.5


class LayerNorm(eqx.Module):
    weight: Float[Array, " dim"]
    bias: Float[Array, " dim"]

    def __init__(self):
        self.weight, self.bias = jnp.ones(DIM), jnp.zeros(DIM)

    def __call__(self, x: Float[Array, "seq dim"]) -> Float[Array, "seq dim"]:
        mean = jnp.mean(x, axis=-1, keepdims=True)
        var = jnp.var(x, axis=-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(var + 1e-6) * self.weight + self.bias


class Attention(eqx.Module):
    w_qkv: Float[Array, "three heads dim head_dim"]
    w_out: Float[Array, "heads_x_head_dim dim"]

    def __init__(self, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.w_qkv = glorot(k1, 3, HEADS, DIM, HEAD_DIM, fan_in=DIM)
        self.w_out = glorot(k2, HEADS * HEAD_DIM, DIM, fan_in=HEADS * HEAD_DIM)

    def __call__(self, x: Float[Array, "seq dim"]) -> Float[Array, "seq dim"]:
        q, k, v = jnp.einsum("sd,chdk->chsk", x, self.w_qkv)
        scores: Float[Array, "heads seq seq"] = jnp.einsum("hqd,hkd->hqk", q, k) / HEAD_DIM**0.5
        weights = jax.nn.softmax(scores, axis=-1)
        out: Float[Array, "seq heads head_dim"] = jnp.einsum("hqk,hkd->qhd", weights, v)
        return out.reshape(x.shape[0], -1) @ self.w_out


class Mlp(eqx.Module):
    w_up: Float[Array, "dim hidden"]
    b_up: Float[Array, " hidden"]
    w_down: Float[Array, "hidden dim"]
    dropout: eqx.nn.Dropout

    def __init__(self, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.w_up, self.b_up = glorot(k1, DIM, HIDDEN, fan_in=DIM), jnp.zeros(HIDDEN)
        self.w_down = glorot(k2, HIDDEN, DIM, fan_in=HIDDEN)
        self.dropout = eqx.nn.Dropout(DROPOUT)

    def __call__(self, x: Float[Array, "seq dim"], key: PRNGKeyArray) -> Float[Array, "seq dim"]:
        hidden = jax.nn.gelu(x @ self.w_up + self.b_up)
        return self.dropout(hidden, key=key) @ self.w_down


class Block(eqx.Module):
    norm1: LayerNorm
    attention: Attention
    norm2: LayerNorm
    mlp: Mlp

    def __init__(self, key: PRNGKeyArray):
        k1, k2 = jax.random.split(key)
        self.norm1, self.attention = LayerNorm(), Attention(k1)
        self.norm2, self.mlp = LayerNorm(), Mlp(k2)

    def __call__(self, x: Float[Array, "seq dim"], key: PRNGKeyArray) -> Float[Array, "seq dim"]:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x), key)


def patchify(image: Float[Array, "height width channels"]) -> Float[Array, "seq patch"]:
    n = IMAGE // PATCH
    cells = image.reshape(n, PATCH, n, PATCH, CHANNELS).transpose(0, 2, 1, 3, 4)
    return cells.reshape(n * n, -1)


class ViT(eqx.Module):
    w_patch: Float[Array, "patch dim"]
    positions: Float[Array, "seq dim"]
    blocks: list[Block]
    norm: LayerNorm
    head: Float[Array, "dim classes"]

    def __init__(self, key: PRNGKeyArray):
        keys = jax.random.split(key, DEPTH + 3)
        patch = PATCH * PATCH * CHANNELS
        self.w_patch = glorot(keys[0], patch, DIM, fan_in=patch)
        self.positions = 0.5 * jax.random.normal(keys[1], ((IMAGE // PATCH) ** 2, DIM))
        self.blocks = [Block(k) for k in keys[3:]]
        self.norm, self.head = LayerNorm(), glorot(keys[2], DIM, CLASSES, fan_in=DIM)

    def __call__(self, image: Float[Array, "height width channels"], key: PRNGKeyArray) -> Float[Array, " classes"]:
        x = patchify(image) @ self.w_patch + self.positions
        for block, k in zip(self.blocks, jax.random.split(key, DEPTH)):
            x = block(x, k)
        return jnp.mean(self.norm(x), axis=0) @ self.head


def spec_for(path, leaf) -> P:
    name = jax.tree_util.keystr(path)
    if ".w_qkv" in name:
        return P(None, "model")
    if ".w_up" in name:
        return P(None, "model")
    if ".b_up" in name or ".w_down" in name or ".w_out" in name:
        return P("model")
    return P()


def shard_model(tree, mesh: Mesh):
    def place(path, leaf):
        return eqx.filter_shard(leaf, NamedSharding(mesh, spec_for(path, leaf))) if eqx.is_array(leaf) else leaf

    return jax.tree_util.tree_map_with_path(place, tree)


@eqx.filter_value_and_grad
def loss_fn(model: ViT, images: Float[Array, "b h w c"], labels: Int[Array, " b"], key: PRNGKeyArray):
    keys = jax.random.split(key, images.shape[0])
    logits: Float[Array, "b classes"] = jax.vmap(model)(images, keys)
    onehot = jax.nn.one_hot(labels, CLASSES)
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * onehot, axis=-1))


@eqx.filter_jit(donate="all-except-first")
def train_step(statics, model: ViT, ema: ViT, opt_state, images, labels, key: PRNGKeyArray):
    tx, mesh = statics
    loss, grads = loss_fn(model, images, labels, key)
    updates, opt_state = tx.update(grads, opt_state, eqx.filter(model, eqx.is_array))
    model = shard_model(eqx.apply_updates(model, updates), mesh)
    ema = jax.tree.map(lambda e, p: EMA_DECAY * e + (1 - EMA_DECAY) * p if eqx.is_array(p) else e, ema, model)
    return model, ema, opt_state, loss


def make_batch():
    rng = np.random.default_rng(4)
    return rng.normal(size=(BATCH, IMAGE, IMAGE, CHANNELS)).astype(np.float32), rng.integers(0, CLASSES, BATCH)


def arrays_of(tree):
    return {jax.tree_util.keystr(k): np.asarray(v) for k, v in jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array))}


def main():
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("data", "model"))
    tx = optax.adam(LR)
    model = shard_model(ViT(jax.random.key(0)), mesh)
    ema = shard_model(jax.tree.map(lambda x: x + 0 if eqx.is_array(x) else x, model), mesh)
    opt_state = tx.init(eqx.filter(model, eqx.is_array))
    losses = []
    for step in range(2):
        images, labels = jax.device_put(make_batch(), NamedSharding(mesh, P("data")))
        key = jax.device_put(jax.random.key(step), NamedSharding(mesh, P()))
        model, ema, opt_state, loss = train_step((tx, mesh), model, ema, opt_state, images, labels, key)
        losses.append(float(loss))
    print("losses", losses)
    return {"losses": losses, "ema": arrays_of(ema)}


def reference():
    images, labels = make_batch()
    tx, model = optax.adam(LR), eqx.filter(ViT(jax.random.key(0)), eqx.is_array)
    patches = jnp.stack([images[:, y : y + 2, x : x + 2].reshape(BATCH, -1) for y in range(0, 8, 2) for x in range(0, 8, 2)], 1)

    def norm(p, x):
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-6) * p.weight + p.bias

    def loss_fn(m, keys):
        x = patches @ m.w_patch + m.positions
        for i, b in enumerate(m.blocks):
            q, k, v = (jnp.einsum("bsd,hdk->bhsk", norm(b.norm1, x), w) for w in b.attention.w_qkv)
            out = jax.nn.softmax(q @ k.swapaxes(2, 3) / 2.0) @ v
            x = x + jnp.concatenate([out[:, h] for h in range(HEADS)], -1) @ b.attention.w_out
            h = jax.nn.gelu(norm(b.norm2, x) @ b.mlp.w_up + b.mlp.b_up)
            kept = jnp.stack([jax.random.bernoulli(jax.random.split(k, DEPTH)[i], 1 - DROPOUT, h.shape[1:]) for k in keys])
            x = x + jnp.where(kept, h / (1 - DROPOUT), 0) @ b.mlp.w_down
        logits = norm(m.norm, x).mean(1) @ m.head
        return jnp.mean(jax.nn.logsumexp(logits, -1) - logits[np.arange(BATCH), labels])

    ema, opt_state, losses = model, tx.init(model), []
    for step in range(2):
        loss, grads = jax.jit(jax.value_and_grad(loss_fn))(model, jax.random.split(jax.random.key(step), BATCH))
        updates, opt_state = tx.update(grads, opt_state, model)
        model = optax.apply_updates(model, updates)
        ema = jax.tree.map(lambda e, p: 0.9 * e + 0.1 * p, ema, model)
        losses.append(float(loss))
    return {"losses": losses, "ema": arrays_of(ema)}


def check():
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4), main(), reference())


if __name__ == "__main__":
    main()
    check()
