"""Images, point clouds and graphs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32


def patches(
    images: Float32[Array, "batch 32 32 channels"],
) -> Float32[Array, "batch 64 16*channels"]:
    batch, _, _, channels = images.shape
    blocks = images.reshape(batch, 8, 4, 8, 4, channels)
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(batch, 64, 16 * channels)


def embed_patches(
    images: Float32[Array, "batch 32 32 channels"],
    kernel: Float32[Array, "16*channels width"],
    positions: Float32[Array, "64 width"],
    token: Float32[Array, "width"],
) -> Float32[Array, "batch 65 width"]:
    x = patches(images) @ kernel + positions
    first = jnp.broadcast_to(token, (x.shape[0], 1, x.shape[2]))
    return jnp.concatenate([first, x], axis=1)


def conv(
    x: Float32[Array, "batch height width inputs"],
    kernel: Float32[Array, "3 3 inputs outputs"],
) -> Float32[Array, "batch height width outputs"]:
    return jax.lax.conv_general_dilated(
        x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def residual_block(
    x: Float32[Array, "batch height width channels"],
    first: Float32[Array, "3 3 channels hidden"],
    second: Float32[Array, "3 3 hidden channels"],
) -> Float32[Array, "batch height width channels"]:
    hidden = jax.nn.relu(conv(x, first))
    return x + conv(hidden, second)


def squeeze_excite(
    x: Float32[Array, "batch height width channels"],
    down: Float32[Array, "channels squeezed"],
    up: Float32[Array, "squeezed channels"],
) -> Float32[Array, "batch height width channels"]:
    pooled: Float32[Array, "batch channels"] = jnp.mean(x, axis=(1, 2))
    gate = jax.nn.sigmoid(jax.nn.relu(pooled @ down) @ up)
    return x * gate[:, None, None, :]


def classifier(
    x: Float32[Array, "batch height width channels"],
    kernel: Float32[Array, "channels classes"],
    bias: Float32[Array, "classes"],
) -> Float32[Array, "batch classes"]:
    return x.mean(axis=(1, 2)) @ kernel + bias


def upsample(
    x: Float32[Array, "batch height width channels"],
) -> Float32[Array, "batch 2*height 2*width channels"]:
    tall = jnp.repeat(x, 2, axis=1)
    return jnp.repeat(tall, 2, axis=2)


def depth_to_space(
    bias: Float32[Array, "channels"], x: Float32[Array, "batch height width 4*channels"]
) -> Float32[Array, "batch 2*height 2*width channels"]:
    batch, height, width, wide = x.shape
    parts = x.reshape(batch, height, width, 2, 2, wide // 4)
    return (
        parts.transpose(0, 1, 3, 2, 4, 5).reshape(
            batch, 2 * height, 2 * width, wide // 4
        )
        + bias
    )


def normalize(
    images: Float32[Array, "batch height width 3"],
    mean: Float32[Array, "3"],
    deviation: Float32[Array, "3"],
) -> Float32[Array, "batch height width 3"]:
    return (images - mean) / deviation


def luminance(
    images: Float32[Array, "batch height width 3"],
) -> Float32[Array, "batch height width"]:
    weights = jnp.array([0.3, 0.59, 0.11])
    return jnp.sum(images * weights, axis=-1)


def channels_first(
    x: Float32[Array, "batch height width channels"],
) -> Float32[Array, "batch channels height width"]:
    return jnp.moveaxis(x, -1, 1)


def coordinates(
    heat: Float32[Array, "batch height width points"],
) -> Float32[Array, "batch points 2"]:
    batch, height, width, points = heat.shape
    weights = jax.nn.softmax(heat.reshape(batch, height * width, points), axis=1)
    weights = weights.reshape(heat.shape)
    rows = jnp.einsum("bhwp,h->bp", weights, jnp.arange(height, dtype=jnp.float32))
    columns = jnp.einsum("bhwp,w->bp", weights, jnp.arange(width, dtype=jnp.float32))
    return jnp.stack([rows, columns], axis=-1)


def overlap(
    boxes: Float32[Array, "boxes 4"], others: Float32[Array, "others 4"]
) -> Float32[Array, "boxes others"]:
    low = jnp.maximum(boxes[:, None, :2], others[None, :, :2])
    high = jnp.minimum(boxes[:, None, 2:], others[None, :, 2:])
    size = jnp.maximum(high - low, 0.0)
    shared = size[..., 0] * size[..., 1]
    area = jnp.prod(boxes[:, 2:] - boxes[:, :2], axis=-1)
    other_area = jnp.prod(others[:, 2:] - others[:, :2], axis=-1)
    return shared / (area[:, None] + other_area[None, :] - shared)


def nearest(
    points: Float32[Array, "points 3"], centers: Float32[Array, "centers 3"]
) -> tuple[Float32[Array, "points"], Int32[Array, "points"]]:
    distance = jnp.sum((points[:, None] - centers[None, :]) ** 2, axis=-1)
    return jnp.min(distance, axis=1), jnp.argmin(distance, axis=1)


def chamfer(
    points: Float32[Array, "batch points 3"], others: Float32[Array, "batch others 3"]
) -> Float32[Array, "batch"]:
    def one(
        a: Float32[Array, "points 3"], b: Float32[Array, "others 3"]
    ) -> Float32[Array, ""]:
        near, _ = nearest(a, b)
        back, _ = nearest(b, a)
        return near.mean() + back.mean()

    return jax.vmap(one)(points, others)


def rotate_points(
    points: Float32[Array, "batch points 3"],
    rotation: Float32[Array, "batch 3 3"],
    shift: Float32[Array, "batch 3"],
) -> Float32[Array, "batch points 3"]:
    return jnp.einsum("bpi,bij->bpj", points, rotation) + shift[:, None, :]


def message_passing(
    nodes: Float32[Array, "nodes width"],
    senders: Int32[Array, "edges"],
    receivers: Int32[Array, "edges"],
    kernel: Float32[Array, "2*width hidden"],
) -> Float32[Array, "nodes hidden"]:
    pairs = jnp.concatenate([nodes[senders], nodes[receivers]], axis=-1)
    messages: Float32[Array, "edges hidden"] = jax.nn.relu(pairs @ kernel)
    return jnp.zeros((nodes.shape[0], kernel.shape[1])).at[receivers].add(messages)


def graph_convolution(
    nodes: Float32[Array, "graphs nodes inputs"],
    adjacency: Float32[Array, "graphs nodes nodes"],
    kernel: Float32[Array, "inputs outputs"],
) -> Float32[Array, "graphs nodes outputs"]:
    degree = jnp.sum(adjacency, axis=-1, keepdims=True)
    return (adjacency / degree) @ (nodes @ kernel)


def crop(
    images: Float32[Array, "batch height width channels"],
    mask: Bool[Array, "batch height width"],
) -> Float32[Array, "batch height-2 width-2 channels"]:
    kept = jnp.where(mask[..., None], images, 0.0)
    return kept[:, 1:-1, 1:-1, :]


def render(
    colors: Float32[Array, "rays samples 3"],
    density: Float32[Array, "rays samples"],
    step: Float32[Array, "samples"],
) -> Float32[Array, "rays 3"]:
    alpha = 1.0 - jnp.exp(-density * step)
    passed = jnp.cumprod(1.0 - alpha[:, :-1] + 1e-10, axis=1)
    light = jnp.concatenate([jnp.ones((alpha.shape[0], 1)), passed], axis=1)
    return jnp.sum((alpha * light)[:, :, None] * colors, axis=1)
