"""ZeRO-1 with pmap: weights replicated, Adam moments cut into one chunk per device.

Everything lives in one flat vector (ravel_pytree).  A step is

    local grads --psum_scatter--> my chunk of the sum --Adam--> my chunk of weights --all_gather--> all weights

The examples carry a weight (0 for the padding that fills up the last batch).
"""
import os
os.environ.setdefault('XLA_FLAGS', '--xla_force_host_platform_device_count=8')

from functools import partial
from typing import NamedTuple

import numpy as onp
import jax
import jax.numpy as np
from jax import random
from jax.flatten_util import ravel_pytree

FEATURES, CLASSES = 12, 5
WIDTHS = (FEATURES, 24, 24, CLASSES)
BATCH = 64
STEPS = 4
LR, B1, B2, EPS = 3e-2, 0.9, 0.98, 1e-3
DECAY = 0.05
CLIP = 0.25
KEEP = 0.8
SMOOTH = 0.1


class Moments(NamedTuple):
    count: jax.Array
    mu: jax.Array
    nu: jax.Array


class Metrics(NamedTuple):
    loss: jax.Array
    accuracy: jax.Array
    grad_norm: jax.Array


# --- model -------------------------------------------------------------------

def init_mlp(key):
    params = []
    for fan_in, fan_out in zip(WIDTHS[:-1], WIDTHS[1:]):
        key, sub = random.split(key)
        params.append({'w': random.normal(sub, (fan_in, fan_out)) * (2 / fan_in) ** .5,
                       'b': np.zeros(fan_out)})
    return params


def mlp(params, x, key):
    for i, layer in enumerate(params[:-1]):
        x = np.maximum(x @ layer['w'] + layer['b'], 0)
        mask = random.bernoulli(random.fold_in(key, i), KEEP, x.shape)
        x = np.where(mask, x / KEEP, 0)
    return x @ params[-1]['w'] + params[-1]['b']


def smoothed_xent(logits, y):
    logp = jax.nn.log_softmax(logits, axis=-1)
    target = (1 - SMOOTH) * jax.nn.one_hot(y, CLASSES) + SMOOTH / CLASSES
    return -np.sum(target * logp, axis=-1)


TEMPLATE = init_mlp(random.PRNGKey(0))
FLAT0, unravel = ravel_pytree(TEMPLATE)
SIZE = FLAT0.shape[0]
# No decay for biases
DECAY_MASK = ravel_pytree([{'w': np.ones_like(l['w']), 'b': np.zeros_like(l['b'])} for l in TEMPLATE])[0]


def padded(vec, n):
    """Up to a multiple of the number of devices."""
    return np.pad(vec, (0, -vec.shape[0] % n))


# --- one step on one device --------------------------------------------------

def loss_and_hits(flat, x, y, weight, key):
    logits = mlp(unravel(flat[:SIZE]), x, key)
    losses = smoothed_xent(logits, y)
    hits = np.argmax(logits, axis=-1) == y
    return np.sum(weight * losses), np.sum(weight * hits)


def my_chunk(vec):
    n, i = jax.lax.axis_size('devices'), jax.lax.axis_index('devices')
    chunk = vec.shape[0] // n
    return jax.lax.dynamic_slice(vec, (i * chunk,), (chunk,))


def adam(state, g):
    count = state.count + 1
    mu = B1 * state.mu + (1 - B1) * g
    nu = B2 * state.nu + (1 - B2) * g ** 2
    mu_hat = mu / (1 - B1 ** count)
    nu_hat = nu / (1 - B2 ** count)
    return mu_hat / (np.sqrt(nu_hat) + EPS), Moments(count, mu, nu)


@partial(jax.pmap, axis_name='devices', in_axes=(None, 0, 0, 0, 0, None), out_axes=(None, 0, None))
def train_step(flat, moments, x, y, weight, key):
    n = jax.lax.axis_size('devices')
    key = random.fold_in(key, jax.lax.axis_index('devices'))
    (loss, hits), grads = jax.value_and_grad(loss_and_hits, has_aux=True)(flat, x, y, weight, key)

    total = jax.lax.psum(np.sum(weight), 'devices')
    loss = jax.lax.psum(loss, 'devices') / total
    hits = jax.lax.psum(hits, 'devices') / total

    g = jax.lax.psum_scatter(grads, 'devices', scatter_dimension=0, tiled=True) / total
    norm = np.sqrt(jax.lax.psum(np.sum(g ** 2), 'devices'))
    g = g * np.minimum(1.0, CLIP / (norm + 1e-6))

    update, moments = adam(moments, g)
    chunk = my_chunk(flat)
    decay = DECAY * my_chunk(padded(DECAY_MASK, n)) * chunk
    chunk = chunk - LR * (update + decay)
    flat = jax.lax.all_gather(chunk, 'devices', tiled=True)
    return flat, moments, Metrics(loss, hits, norm)


# --- data --------------------------------------------------------------------

def batches():
    rng = onp.random.RandomState(3)
    centers = rng.randn(CLASSES, FEATURES)
    for step in range(STEPS):
        y = onp.sort(rng.randint(0, CLASSES, BATCH))
        x = (centers[y] + 0.7 * rng.randn(BATCH, FEATURES)).astype('float32')
        weight = onp.ones(BATCH, 'float32')
        weight[BATCH - 13 - step:] = 0    # the rest of the batch is padding
        yield x, y, weight


def split_for_devices(a, n):
    return a.reshape((n, a.shape[0] // n) + a.shape[1:])


def main():
    n = jax.device_count()
    flat = padded(FLAT0, n)
    zeros = np.zeros((n, flat.shape[0] // n))
    moments = Moments(np.zeros(n, 'int32'), zeros, zeros)
    key = random.PRNGKey(42)
    history = []
    for step, (x, y, weight) in enumerate(batches()):
        x, y, weight = (split_for_devices(a, n) for a in (x, y, weight))
        flat, moments, metrics = train_step(flat, moments, x, y, weight, random.fold_in(key, step))
        history.append(metrics)
    return _results(flat, moments.mu.reshape(-1), moments.nu.reshape(-1), history)


def _results(flat, mu, nu, history):
    return {'weights': onp.asarray(flat)[:SIZE], 'mu': onp.asarray(mu)[:SIZE], 'nu': onp.asarray(nu)[:SIZE],
            'loss': onp.array([m.loss for m in history]), 'accuracy': onp.array([m.accuracy for m in history]),
            'grad_norm': onp.array([m.grad_norm for m in history])}


def reference():
    """Plain Adam; only the dropout masks have to be drawn for each group of examples."""
    n = jax.device_count()
    flat, mu, nu, history = FLAT0, np.zeros(SIZE), np.zeros(SIZE), []

    def loss_fn(flat, x, y, weight, key):
        parts = [loss_and_hits(flat, *(split_for_devices(a, n)[i] for a in (x, y, weight)), random.fold_in(key, i))
                 for i in range(n)]
        return sum(p[0] for p in parts) / weight.sum(), sum(p[1] for p in parts) / weight.sum()

    grad = jax.jit(jax.value_and_grad(loss_fn, has_aux=True))
    for step, (x, y, weight) in enumerate(batches()):
        (loss, acc), g = grad(flat, x, y, weight, random.fold_in(random.PRNGKey(42), step))
        norm = np.linalg.norm(g)
        g = g * np.minimum(1.0, CLIP / (norm + 1e-6))
        mu, nu = B1 * mu + (1 - B1) * g, B2 * nu + (1 - B2) * g * g
        t = step + 1
        update = mu / (1 - B1 ** t) / (np.sqrt(nu / (1 - B2 ** t)) + EPS)
        flat = flat - LR * (update + DECAY * DECAY_MASK * flat)
        history.append(Metrics(loss, acc, norm))
    return _results(flat, mu, nu, history)


if __name__ == '__main__':
    ours, plain = main(), reference()
    for k in plain:
        onp.testing.assert_allclose(ours[k], plain[k], rtol=1e-3, atol=1e-4, err_msg=k)
    print('losses', ours['loss'])
