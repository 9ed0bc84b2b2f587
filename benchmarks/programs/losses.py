"""Losses, metrics and sampling."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Bool, Float32, Int32


def cross_entropy(
    logits: Float32[Array, "batch length vocab"],
    targets: Int32[Array, "batch length"],
    mask: Bool[Array, "batch length"],
) -> Float32[Array, ""]:
    logprobs = jax.nn.log_softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(logprobs, targets[..., None], axis=-1)[..., 0]
    weight = mask.astype(jnp.float32)
    return -jnp.sum(chosen * weight) / jnp.sum(weight)


def next_token(
    logits: Float32[Array, "batch length vocab"], tokens: Int32[Array, "batch length"]
) -> Float32[Array, "batch length-1"]:
    logprobs = jax.nn.log_softmax(logits[:, :-1], axis=-1)
    targets = jax.nn.one_hot(tokens[:, 1:], logits.shape[-1])
    return -jnp.sum(logprobs * targets, axis=-1)


def smoothed(
    logits: Float32[Array, "batch classes"], labels: Int32[Array, "batch"]
) -> Float32[Array, "batch"]:
    hot = jax.nn.one_hot(labels, logits.shape[1])
    soft = hot * 0.9 + 0.1 / logits.shape[1]
    logprobs = logits - jax.nn.logsumexp(logits, axis=1, keepdims=True)
    return -jnp.sum(soft * logprobs, axis=1)


def contrastive(
    images: Float32[Array, "batch width"],
    texts: Float32[Array, "batch width"],
    scale: Float32[Array, ""],
) -> Float32[Array, ""]:
    images = images / jnp.linalg.norm(images, axis=1, keepdims=True)
    texts = texts / jnp.linalg.norm(texts, axis=1, keepdims=True)
    logits = images @ texts.T * scale
    labels = jnp.arange(images.shape[0])
    rows = jax.nn.log_softmax(logits, axis=1)[labels, labels]
    columns = jax.nn.log_softmax(logits, axis=0)[labels, labels]
    return -jnp.mean(rows + columns) / 2


def distill(
    student: Float32[Array, "batch classes"], teacher: Float32[Array, "batch classes"]
) -> Float32[Array, ""]:
    target = jax.nn.softmax(teacher, axis=-1)
    divergence: Float32[Array, "batch"] = jnp.sum(
        target * (jnp.log(target) - jax.nn.log_softmax(student)), axis=-1
    )
    return divergence.mean()


def kl(
    mean: Float32[Array, "batch latent"], logvar: Float32[Array, "batch latent"]
) -> Float32[Array, "batch"]:
    return 0.5 * jnp.sum(jnp.exp(logvar) + mean**2 - 1 - logvar, axis=1)


def accuracy(
    logits: Float32[Array, "batch classes"], labels: Int32[Array, "batch"]
) -> Float32[Array, ""]:
    right = jnp.argmax(logits, axis=-1) == labels
    return jnp.mean(right.astype(jnp.float32))


def top_accuracy(
    logits: Float32[Array, "batch classes"], labels: Int32[Array, "batch"]
) -> Float32[Array, ""]:
    _, best = jax.lax.top_k(logits, 5)
    hit = jnp.any(best == labels[:, None], axis=-1)
    return jnp.mean(hit.astype(jnp.float32))


def confusion(
    predicted: Int32[Array, "batch"],
    labels: Int32[Array, "batch"],
    weights: Float32[Array, "classes"],
) -> Float32[Array, "classes classes"]:
    classes = weights.shape[0]
    counts = jnp.zeros((classes, classes), jnp.float32)
    counts = counts.at[labels, predicted].add(1.0)
    return counts * weights[:, None]


def calibration(
    probs: Float32[Array, "batch classes"],
    labels: Int32[Array, "batch"],
    edges: Float32[Array, "bins"],
) -> Float32[Array, "bins"]:
    confidence = jnp.max(probs, axis=-1)
    right = (jnp.argmax(probs, axis=-1) == labels).astype(jnp.float32)
    inside = (confidence[:, None] < edges[None, :]).astype(jnp.float32)
    gap: Float32[Array, "batch"] = jnp.abs(confidence - right)
    return jnp.sum(inside * gap[:, None], axis=0) / (jnp.sum(inside, axis=0) + 1e-6)


def triplet(
    anchor: Float32[Array, "batch width"],
    positive: Float32[Array, "batch width"],
    negatives: Float32[Array, "many width"],
) -> Float32[Array, ""]:
    near = jnp.sum((anchor - positive) ** 2, axis=-1)
    far = jnp.sum((anchor[:, None, :] - negatives[None, :, :]) ** 2, axis=-1)
    return jnp.mean(jax.nn.relu(near[:, None] - far + 0.2))


def focal(
    logits: Float32[Array, "batch boxes classes"], labels: Int32[Array, "batch boxes"]
) -> Float32[Array, "batch"]:
    probs = jax.nn.softmax(logits, axis=-1)
    chosen = jnp.take_along_axis(probs, labels[:, :, None], axis=2).squeeze(axis=2)
    return jnp.mean(-((1 - chosen) ** 2) * jnp.log(chosen), axis=1)


def sample(
    key: Array,
    logits: Float32[Array, "batch vocab"],
    temperature: Float32[Array, "batch"],
) -> Int32[Array, "batch"]:
    scaled = logits / temperature[:, None]
    return jax.random.categorical(key, scaled, axis=-1)


def nucleus(
    logits: Float32[Array, "batch vocab"], threshold: Float32[Array, "batch"]
) -> Float32[Array, "batch vocab"]:
    ordered = jnp.sort(logits, axis=-1)[:, ::-1]
    mass = jnp.cumsum(jax.nn.softmax(ordered, axis=-1), axis=-1)
    kept = jnp.sum(mass < threshold[:, None], axis=-1, keepdims=True)
    cutoff: Float32[Array, "batch 1"] = jnp.take_along_axis(ordered, kept, axis=-1)
    return jnp.where(logits < cutoff, -jnp.inf, logits)


def gradient_step(
    kernel: Float32[Array, "inputs classes"],
    x: Float32[Array, "batch inputs"],
    labels: Int32[Array, "batch"],
) -> tuple[Float32[Array, ""], Float32[Array, "inputs classes"]]:
    def loss(kernel: Float32[Array, "inputs classes"]) -> Float32[Array, ""]:
        return smoothed(x @ kernel, labels).mean()

    value, gradient = jax.value_and_grad(loss)(kernel)
    return value, kernel - 0.1 * gradient


def per_example_norms(
    kernel: Float32[Array, "inputs classes"],
    x: Float32[Array, "batch inputs"],
    labels: Int32[Array, "batch"],
) -> Float32[Array, "batch"]:
    def loss(kernel, row, label):
        return smoothed((row @ kernel)[None], label[None])[0]

    gradients: Float32[Array, "batch inputs classes"] = jax.vmap(
        jax.grad(loss), in_axes=(None, 0, 0)
    )(kernel, x, labels)
    return jnp.sqrt(jnp.sum(gradients**2, axis=(1, 2)))
