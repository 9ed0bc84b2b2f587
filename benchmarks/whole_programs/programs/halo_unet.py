"""Train a small segmentation U-Net with images sharded over pixel rows.

Examples are split over the "data" mesh axis and the rows of every image over
the "space" axis, so that images too tall for one accelerator can be trained.
Neighbouring row blocks exchange one-pixel halos before every 3x3 convolution.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

ROWS = "space"
BATCH = "data"
BOTH = (BATCH, ROWS)


@dataclasses.dataclass(frozen=True)
class Config:
    height: int = 32
    width: int = 24
    channels: int = 8
    groups: int = 4
    classes: int = 3
    mid_blocks: int = 2
    batch: int = 8
    steps: int = 7
    drop_rate: float = 0.2
    lr: float = 3e-3
    b1: float = 0.9
    b2: float = 0.99
    eps: float = 1e-6
    clip: float = 0.5
    seed: int = 0


def conv_params(key, c_in, c_out):
    scale = (2.0 / (9 * c_in)) ** 0.5
    w = scale * jax.random.normal(key, (3, 3, c_in, c_out))
    return {"w": w, "gain": jnp.ones((c_out,)), "bias": jnp.zeros((c_out,))}


def init_params(key, cfg):
    c = cfg.channels
    keys = iter(jax.random.split(key, 8 + cfg.mid_blocks))
    params = {
        "stem": conv_params(next(keys), 2, c),
        "down1": conv_params(next(keys), c, 2 * c),
        "down2": conv_params(next(keys), 2 * c, 2 * c),
        "up1": conv_params(next(keys), 4 * c, 2 * c),
        "up2": conv_params(next(keys), 3 * c, c),
        "row_table": 0.3 * jax.random.normal(next(keys), (cfg.height // 4, 2 * c)),
        "head": 0.3 * jax.random.normal(next(keys), (c, cfg.classes)),
        "head_bias": jnp.zeros((cfg.classes,)),
    }
    blocks = [conv_params(next(keys), 2 * c, 2 * c) for _ in range(cfg.mid_blocks)]
    params["mid"] = jax.tree.map(lambda *xs: jnp.stack(xs), *blocks)
    return params


def row_halos(x):
    """Last row of the block above and first row of the block below."""
    n = lax.axis_size(ROWS)
    downward = [(i, i + 1) for i in range(n - 1)]
    upward = [(i + 1, i) for i in range(n - 1)]
    above = lax.ppermute(x[:, -1:], ROWS, downward)
    below = lax.ppermute(x[:, :1], ROWS, upward)
    return above, below


def conv3x3(w, x, halos, stride=1):
    x = jnp.concatenate([halos[0], x, halos[1]], axis=1)
    return lax.conv_general_dilated(
        x, w, (stride, stride), ((0, 0), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def group_norm(p, x, groups):
    """Group normalisation with the statistics of the whole image."""
    b, h, w, c = x.shape
    g = x.reshape(b, h, w, groups, c // groups)
    count = h * w * (c // groups) * lax.axis_size(ROWS)
    mean = lax.psum(g.sum(axis=(1, 2, 4)), ROWS) / count
    centred = g - mean[:, None, None, :, None]
    var = lax.psum(jnp.square(centred).sum(axis=(1, 2, 4)), ROWS) / count
    g = centred * lax.rsqrt(var + 1e-5)[:, None, None, :, None]
    return g.reshape(x.shape) * p["gain"] + p["bias"]


def conv_block(p, x, groups, stride=1):
    y = conv3x3(p["w"], x, row_halos(x), stride)
    return jax.nn.silu(group_norm(p, y, groups))


def row_positions(h):
    """Row numbers of the local block within the whole image."""
    return lax.axis_index(ROWS) * h + jnp.arange(h)


def channel_dropout(key, x, rate):
    """Drops whole feature maps, independently for every example."""
    b, _, _, c = x.shape
    example = lax.axis_index(BATCH) * b + jnp.arange(b)
    keys = jax.vmap(lambda i: jax.random.fold_in(key, i))(example)
    keep = jax.vmap(lambda k: jax.random.bernoulli(k, 1.0 - rate, (c,)))(keys)
    return x * keep[:, None, None, :] / (1.0 - rate)


def unet(params, images, cfg, key=None):
    b, h, w = images.shape
    rows = row_positions(h) / (cfg.height - 1) - 0.5
    rows = jnp.broadcast_to(rows[None, :, None], images.shape)
    x = jnp.stack([images, rows], axis=-1)

    full = conv_block(params["stem"], x, cfg.groups)
    half = conv_block(params["down1"], full, cfg.groups, stride=2)
    x = conv_block(params["down2"], half, cfg.groups, stride=2)

    rows_here = x.shape[1]
    start = lax.axis_index(ROWS) * rows_here
    table = lax.dynamic_slice_in_dim(params["row_table"], start, rows_here)
    x = x + table[None, :, None, :]
    if key is not None:
        x = channel_dropout(key, x, cfg.drop_rate)

    def residual(x, p):
        y = conv3x3(p["w"], x, row_halos(x))
        return x + jax.nn.silu(group_norm(p, y, cfg.groups)), None

    upsample = lambda x: x.repeat(2, axis=1).repeat(2, axis=2)
    x, _ = lax.scan(residual, x, params["mid"])
    x = jnp.concatenate([upsample(x), half], axis=-1)
    x = conv_block(params["up1"], x, cfg.groups)
    x = jnp.concatenate([upsample(x), full], axis=-1)
    x = conv_block(params["up2"], x, cfg.groups)
    return x @ params["head"] + params["head_bias"]


def class_weights(labels, mask, cfg):
    """Inverse square root frequencies of the classes among valid pixels."""
    onehot = jax.nn.one_hot(labels, cfg.classes) * mask[..., None]
    freq = lax.psum(onehot.sum(axis=(0, 1, 2)), BOTH)
    freq = freq / freq.sum()
    return lax.rsqrt(freq + 1e-3)


def loss_share(params, images, labels, mask, key, cfg):
    """This device's share of the loss; the shares add up to the loss."""
    logp = jax.nn.log_softmax(unet(params, images, cfg, key))
    nll = -jnp.take_along_axis(logp, labels[..., None], axis=-1)[..., 0]
    weight = class_weights(labels, mask, cfg)[labels] * mask
    total = lax.psum(weight.sum(), BOTH)
    return (weight * nll).sum() / total


def clip_by_global_norm(grads, limit):
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in jax.tree.leaves(grads)))
    scale = jnp.minimum(1.0, limit / (norm + 1e-9))
    return jax.tree.map(lambda g: g * scale, grads), norm


def adam(params, grads, state, cfg):
    t = state["t"] + 1
    m = jax.tree.map(lambda m, g: cfg.b1 * m + (1 - cfg.b1) * g, state["m"], grads)
    v = jax.tree.map(lambda v, g: cfg.b2 * v + (1 - cfg.b2) * g * g, state["v"], grads)
    rate = cfg.lr * jnp.sqrt(1 - cfg.b2**t) / (1 - cfg.b1**t)
    params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + cfg.eps), params, m, v)
    return params, {"m": m, "v": v, "t": t}


def train_step(params, state, images, labels, mask, key, cfg):
    key = jax.random.fold_in(key, state["t"])
    share, grads = jax.value_and_grad(loss_share)(params, images, labels, mask, key, cfg)
    loss = lax.psum(share, BOTH)
    grads = lax.psum(grads, BOTH)
    grads, norm = clip_by_global_norm(grads, cfg.clip)
    params, state = adam(params, grads, state, cfg)
    return params, state, loss, norm


def eval_step(params, images, labels, mask, cfg):
    logits = unet(params, images, cfg)
    pred = jnp.argmax(logits, axis=-1)
    p = jax.nn.one_hot(pred, cfg.classes) * mask[..., None]
    q = jax.nn.one_hot(labels, cfg.classes) * mask[..., None]
    inter = lax.psum((p * q).sum(axis=(1, 2)), ROWS)
    union = lax.psum(jnp.maximum(p, q).sum(axis=(1, 2)), ROWS)
    image_iou = ((inter + 1.0) / (union + 1.0)).mean(axis=-1)
    image_iou = lax.all_gather(image_iou, BATCH, tiled=True)
    iou = lax.psum(inter.sum(axis=0), BATCH) / lax.psum(union.sum(axis=0), BATCH)

    fore = jax.nn.softmax(logits)[..., 1:].sum(axis=-1) * mask
    rows = row_positions(images.shape[1])
    centre = lax.psum((fore * rows[None, :, None]).sum(axis=(1, 2)), ROWS)
    centre = centre / lax.psum(fore.sum(axis=(1, 2)), ROWS)
    peak = lax.pmax(jnp.where(mask > 0, logits.max(axis=-1), -jnp.inf).max(), BOTH)
    return pred, iou, image_iou, centre, peak


def make_batch(rng, cfg):
    """Noisy discs and bars on a background; the image borders are padding."""
    yy, xx = np.mgrid[: cfg.height, : cfg.width]
    labels = np.zeros((cfg.batch, cfg.height, cfg.width), np.int32)
    mask = np.zeros(labels.shape, np.float32)
    for i in range(cfg.batch):
        cy, cx = rng.uniform(6, cfg.height - 10), rng.uniform(5, cfg.width - 8)
        radius = rng.uniform(3, 7)
        labels[i][(yy - cy) ** 2 + (xx - cx) ** 2 < radius**2] = 1
        labels[i][abs(yy - rng.uniform(4, cfg.height - 8)) < 1.5] = 2
        mask[i, : rng.integers(18, cfg.height + 1), : rng.integers(14, cfg.width + 1)] = 1
    signal = np.array([0.0, 1.0, -0.7])[labels] + 0.02 * yy
    images = signal + 0.5 * rng.standard_normal(labels.shape)
    return (images * mask).astype(np.float32), labels, mask


def main():
    cfg = Config()
    mesh = Mesh(np.array(jax.devices()).reshape(2, -1), BOTH)
    pixels = P(BATCH, ROWS)
    smap = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
    train_specs = (P(), P(), pixels, pixels, pixels, P())
    eval_specs = (P(), pixels, pixels, pixels)
    out_specs = (pixels, P(), P(), P(BATCH), P())
    train = smap(functools.partial(train_step, cfg=cfg), in_specs=train_specs, out_specs=P())
    evaluate = smap(functools.partial(eval_step, cfg=cfg), in_specs=eval_specs, out_specs=out_specs)
    train, evaluate = jax.jit(train), jax.jit(evaluate)

    init_key, key = jax.random.split(jax.random.key(cfg.seed))
    params = init_params(init_key, cfg)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"m": zeros, "v": zeros, "t": jnp.zeros((), jnp.int32)}
    params, state = jax.device_put((params, state), NamedSharding(mesh, P()))
    rng = np.random.default_rng(cfg.seed)
    put = lambda batch: [jax.device_put(a, NamedSharding(mesh, pixels)) for a in batch]

    losses, norms = [], []
    for _ in range(cfg.steps):
        params, state, loss, norm = train(params, state, *put(make_batch(rng, cfg)), key)
        losses.append(float(loss))
        norms.append(float(norm))

    images, labels, mask = make_batch(rng, cfg)
    pred, iou, image_iou, centre, peak = evaluate(params, *put((images, labels, mask)))
    hits = ((np.asarray(pred) == labels) * mask).sum()
    return {
        "loss": np.array(losses),
        "grad_norm": np.array(norms),
        "class_iou": np.asarray(iou),
        "image_iou": np.asarray(image_iou),
        "centre": np.asarray(centre),
        "peak": float(peak),
        "accuracy": float(hits / mask.sum()),
        **{name: np.asarray(params[name]) for name in ("row_table", "head", "head_bias")},
        **{f"{name}_w": np.asarray(params[name]["w"]) for name in ("stem", "mid", "up2")},
    }


def reference():
    """The same on whole images, on one device."""
    cfg = Config()

    def block(p, x, stride=1):
        pad = ((1, 1), (1, 1))
        names = ("NHWC", "HWIO", "NHWC")
        x = lax.conv_general_dilated(x, p["w"], (stride, stride), pad, dimension_numbers=names)
        g = x.reshape(*x.shape[:3], cfg.groups, -1)
        mean, var = (f(g, axis=(1, 2, 4), keepdims=True) for f in (jnp.mean, jnp.var))
        g = (g - mean) / jnp.sqrt(var + 1e-5)
        return jax.nn.silu(g.reshape(x.shape) * p["gain"] + p["bias"])

    def logits_of(params, images, key=None):
        rows = jnp.broadcast_to(jnp.linspace(-0.5, 0.5, cfg.height)[:, None], images.shape)
        full = block(params["stem"], jnp.stack([images, rows], axis=-1))
        half = block(params["down1"], full, stride=2)
        x = block(params["down2"], half, stride=2) + params["row_table"][:, None, :]
        if key is not None:
            draw = lambda i: jax.random.bernoulli(
                jax.random.fold_in(key, i), 1 - cfg.drop_rate, x.shape[-1:])
            keep = jnp.stack([draw(i) for i in range(cfg.batch)])
            x = jnp.where(keep[:, None, None, :], x / (1 - cfg.drop_rate), 0.0)
        for i in range(cfg.mid_blocks):
            x = x + block(jax.tree.map(lambda w: w[i], params["mid"]), x)
        for name, skip in (("up1", half), ("up2", full)):
            upsampled = jnp.kron(x, jnp.ones((1, 2, 2, 1)))
            x = block(params[name], jnp.concatenate([upsampled, skip], axis=-1))
        return x @ params["head"] + params["head_bias"]

    @jax.jit
    def train(params, state, images, labels, mask, key):
        onehot = jax.nn.one_hot(labels, cfg.classes)
        freq = jnp.average(onehot, axis=(0, 1, 2), weights=mask)
        weight = mask / jnp.sqrt(freq[labels] + 1e-3)

        def loss_of(params):
            logp = jax.nn.log_softmax(logits_of(params, images, key))
            return -jnp.average((onehot * logp).sum(axis=-1), weights=weight)

        loss, grads = jax.value_and_grad(loss_of)(params)
        grads, norm = clip_by_global_norm(grads, cfg.clip)
        return *adam(params, grads, state, cfg), loss, norm

    init_key, key = jax.random.split(jax.random.key(cfg.seed))
    params = init_params(init_key, cfg)
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"m": zeros, "v": zeros, "t": jnp.zeros((), jnp.int32)}
    rng = np.random.default_rng(cfg.seed)
    losses, norms = [], []
    for step in range(cfg.steps):
        batch = make_batch(rng, cfg)
        params, state, loss, norm = train(params, state, *batch, jax.random.fold_in(key, step))
        losses.append(float(loss))
        norms.append(float(norm))

    images, labels, mask = make_batch(rng, cfg)
    logits = np.asarray(jax.jit(logits_of)(params, images))
    pred = logits.argmax(axis=-1)
    p, q = (np.eye(cfg.classes)[x] * mask[..., None] for x in (pred, labels))
    inter, union = (p * q).sum(axis=(1, 2)), np.maximum(p, q).sum(axis=(1, 2))
    fore = (1 - jax.nn.softmax(logits)[..., 0]) * mask
    return {
        "loss": np.array(losses),
        "grad_norm": np.array(norms),
        "class_iou": inter.sum(axis=0) / union.sum(axis=0),
        "image_iou": ((inter + 1) / (union + 1)).mean(axis=-1),
        "centre": fore.sum(axis=2) @ np.arange(cfg.height) / fore.sum(axis=(1, 2)),
        "peak": logits[mask > 0].max(),
        "accuracy": (pred == labels)[mask > 0].mean(),
        **{name: np.asarray(params[name]) for name in ("row_table", "head", "head_bias")},
        **{f"{name}_w": np.asarray(params[name]["w"]) for name in ("stem", "mid", "up2")},
    }


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    print("agree:", ", ".join(wanted))
