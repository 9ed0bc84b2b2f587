"""K-FAC on a small classifier, data parallel over nodes and their cores.

Kronecker factors are running averages over all examples of the mesh; the damped factors are padded
to one size and dealt out, each worker inverts its hand, and the inverses are gathered. The damping
follows Levenberg and Marquardt: exact Gauss-Newton products tell how good the quadratic model is.
"""
import os
os.environ.setdefault('XLA_FLAGS', '--xla_force_host_platform_device_count=8')

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

WORKERS = ('node', 'core')


@dataclasses.dataclass(frozen=True)
class Settings:
    widths: tuple = (12, 16, 14, 6)
    rows: int = 104             # of a batch, the last of which are padding
    steps: int = 8
    refresh: int = 2            # steps between two inversions
    decay: float = 0.8          # of the factors
    damping: float = 0.03
    damping_change: float = 0.8
    lr: float = 0.5
    momentum: float = 0.6
    trust: float = 0.2          # bound of the squared length of a step in the Fisher metric
    l2: float = 1e-3

    @property
    def layers(self):
        return [f'layer{i}' for i in range(len(self.widths) - 1)]


class KfacState(NamedTuple):
    weights: dict               # of layers: (in + 1, out), the last row is the bias
    velocity: dict
    inner: dict                 # of layers: factor of the inputs, (in + 1, in + 1)
    outer: dict                 # of layers: factor of the gradients of the outputs, (out, out)
    inner_inv: dict
    outer_inv: dict
    damping: jax.Array
    step: jax.Array


def init_weights(key, widths):
    sizes = list(zip(widths[:-1], widths[1:]))
    keys = jax.random.split(key, len(sizes))
    draw = lambda k, n, m: jax.random.normal(k, (n, m)) / n ** .5
    return {f'layer{i}': jnp.concatenate([draw(k, n, m), jnp.zeros((1, m))])
            for i, (k, (n, m)) in enumerate(zip(keys, sizes))}


def apply(weights, probes, x):
    """Logits, and what enters each layer. Probes have the gradients of the layers' outputs."""
    inputs, last = {}, len(weights) - 1
    for i, (name, w) in enumerate(sorted(weights.items())):
        inputs[name] = jnp.append(x, 1.)
        s = inputs[name] @ w + probes[name]
        x = jnp.tanh(s) if i < last else s
    return x, inputs


def no_probes(weights):
    return {name: jnp.zeros(w.shape[1]) for name, w in weights.items()}


def logits_of(weights, x):
    return apply(weights, no_probes(weights), x)[0]


def xent(logits, label):
    return -jax.nn.log_softmax(logits)[label]


def backward(weights, x, label):
    """Loss and hit, inputs and gradients of outputs: an example's gradient is their product."""
    def of_probes(probes):
        logits, inputs = apply(weights, probes, x)
        return xent(logits, label), (logits, inputs)
    (loss, (logits, a)), g = jax.value_and_grad(of_probes, has_aux=True)(no_probes(weights))
    return loss, jnp.argmax(logits) == label, a, g


class Batch(NamedTuple):
    x: jax.Array
    label: jax.Array
    mask: jax.Array

    def total(self):
        return jax.lax.psum(jnp.sum(self.mask), WORKERS)

    def mean(self, per_example):
        """Over the real examples of all workers, which are the leading dimension."""
        def one(v):
            return jax.lax.psum(jnp.tensordot(self.mask, v, axes=1), WORKERS) / self.total()
        return jax.tree.map(one, per_example)

    def moment(self, a, b):
        local = jnp.einsum('n,ni,nj->ij', self.mask, a, b)
        return jax.lax.psum(local, WORKERS) / self.total()

    def row_numbers(self):
        local = self.mask.shape[0]
        return jax.lax.axis_index(WORKERS) * local + jnp.arange(local)


def inner_product(a, b):
    return sum(jax.tree.leaves(jax.tree.map(jnp.vdot, a, b)))


def invert_together(matrices):
    """Every worker inverts its share of the matrices; all get all of the inverses."""
    workers = jax.lax.axis_size(WORKERS)
    widest = max(m.shape[0] for m in matrices)
    share = -(-len(matrices) // workers)

    def padded(m):
        spare = widest - m.shape[0]
        return jnp.pad(m, (0, spare)) + jnp.diag((jnp.arange(widest) >= m.shape[0]) * 1.)

    eye = jnp.eye(widest)
    stack = jnp.stack([padded(m) for m in matrices] + [eye] * (share * workers - len(matrices)))
    first = jax.lax.axis_index(WORKERS) * share
    hand = jax.lax.dynamic_slice_in_dim(stack, first, share)
    solve = lambda m: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(m), eye)
    inverses = jax.lax.all_gather(jax.vmap(solve)(hand), WORKERS, tiled=True)
    return [inv[:len(m), :len(m)] for inv, m in zip(inverses, matrices)]


class Kfac:
    def __init__(self, settings):
        self.cfg = settings

    def init(self, weights):
        square = lambda axis: {k: jnp.zeros((w.shape[axis],) * 2) for k, w in weights.items()}
        eye = lambda axis: {k: jnp.eye(w.shape[axis]) for k, w in weights.items()}
        return KfacState(weights, jax.tree.map(jnp.zeros_like, weights), square(0), square(1),
                         eye(0), eye(1), jnp.float32(self.cfg.damping), jnp.int32(0))

    def absorb(self, state, batch, key):
        """Factors of the true Fisher: labels are drawn from what the network predicts."""
        def draw(number, x):
            own = jax.random.fold_in(key, number)
            return jax.random.categorical(own, logits_of(state.weights, x))
        drawn = jax.vmap(draw)(batch.row_numbers(), batch.x)
        _, _, a, g = jax.vmap(backward, in_axes=(None, 0, 0))(state.weights, batch.x, drawn)
        blend = lambda old, new: self.cfg.decay * old + (1 - self.cfg.decay) * new
        return state._replace(
            inner={k: blend(state.inner[k], batch.moment(a[k], a[k])) for k in a},
            outer={k: blend(state.outer[k], batch.moment(g[k], g[k])) for k in g},
        )

    def damped(self, state, name):
        """Both factors without the bias of the running average, with their shares of damping."""
        unbias = 1 / (1 - self.cfg.decay ** (state.step + 1))
        a, g = state.inner[name] * unbias, state.outer[name] * unbias
        pi = jnp.sqrt((jnp.trace(a) / len(a)) / (jnp.trace(g) / len(g)))
        root = jnp.sqrt(state.damping + self.cfg.l2)
        return a + pi * root * jnp.eye(len(a)), g + root / pi * jnp.eye(len(g))

    def refresh(self, state):
        names = self.cfg.layers
        pairs = [self.damped(state, name) for name in names]
        inverses = invert_together([a for a, _ in pairs] + [g for _, g in pairs])
        return state._replace(inner_inv=dict(zip(names, inverses[:len(names)])),
                              outer_inv=dict(zip(names, inverses[len(names):])))

    def direction(self, state, grads):
        natural = {k: state.inner_inv[k] @ g @ state.outer_inv[k] for k, g in grads.items()}
        length = self.cfg.lr ** 2 * inner_product(natural, grads)
        scale = jnp.minimum(1., jnp.sqrt(self.cfg.trust / length))
        push = lambda v, n: self.cfg.momentum * v - self.cfg.lr * scale * n
        return jax.tree.map(push, state.velocity, natural), scale

    def objective(self, weights, batch):
        losses = jax.vmap(lambda x, label: xent(logits_of(weights, x), label))(batch.x, batch.label)
        return batch.mean(losses) + self.cfg.l2 / 2 * inner_product(weights, weights)

    def curvature(self, weights, delta, batch):
        """Of the objective along a change: Gauss-Newton, and the decay of the weights."""
        def along(x):
            logits, u = jax.jvp(lambda w: logits_of(w, x), (weights,), (delta,))
            p = jax.nn.softmax(logits)
            return p @ u ** 2 - (p @ u) ** 2
        return batch.mean(jax.vmap(along)(batch.x)) + self.cfg.l2 * inner_product(delta, delta)

    def step(self, state, inputs):
        batch, key = inputs
        state = self.absorb(state, batch, key)
        state = jax.lax.cond(state.step % self.cfg.refresh == 0, self.refresh, lambda s: s, state)

        losses, hits, a, g = jax.vmap(backward, in_axes=(None, 0, 0))(state.weights, *batch[:2])
        decay = jax.tree.map(lambda w: self.cfg.l2 * w, state.weights)
        grads = {k: batch.moment(a[k], g[k]) + decay[k] for k in a}
        squares = sum(jnp.sum(a[k] ** 2, 1) * jnp.sum(g[k] ** 2, 1) for k in a)
        mean_grad = jax.tree.map(jnp.subtract, grads, decay)
        signal = inner_product(mean_grad, mean_grad)

        velocity, scale = self.direction(state, grads)
        weights = jax.tree.map(jnp.add, state.weights, velocity)
        before, after = (self.objective(w, batch) for w in (state.weights, weights))
        bend = self.curvature(state.weights, velocity, batch)
        model = inner_product(grads, velocity) + bend / 2
        fit = (after - before) / model
        omega = self.cfg.damping_change
        change = jnp.where(fit > .75, omega, jnp.where(fit < .25, 1 / omega, 1.))
        metrics = {
            'loss': batch.mean(losses), 'accuracy': batch.mean(hits * 1.), 'scale': scale,
            'noise': (batch.mean(squares) - signal) / signal, 'model': model, 'fit': fit,
            'steepest': jax.lax.pmax(jnp.max(batch.mask * squares), WORKERS),
            'damping': state.damping,
        }
        return state._replace(weights=weights, velocity=velocity, step=state.step + 1,
                              damping=state.damping * change), metrics


def make_fit(cfg, mesh):
    optimizer = Kfac(cfg)

    @functools.partial(jax.jit, donate_argnums=0)
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=(P(), P(None, WORKERS), P()),
                       out_specs=P(), check_vma=False)
    def fit(state, batches, keys):
        return jax.lax.scan(optimizer.step, state, (batches, keys))

    return optimizer, fit


def make_data(cfg):
    rng = np.random.default_rng(21)
    centres = rng.normal(size=(cfg.widths[-1], cfg.widths[0]))
    label = np.sort(rng.integers(0, cfg.widths[-1], (cfg.steps, cfg.rows)), axis=1)
    x = centres[label] + 1.3 * rng.normal(size=(*label.shape, cfg.widths[0]))
    real = np.arange(cfg.rows) < cfg.rows - 4 - np.arange(cfg.steps)[:, None]
    return Batch(x.astype(np.float32), label.astype(np.int32), real.astype(np.float32))


def main():
    cfg = Settings()
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), WORKERS)
    optimizer, fit = make_fit(cfg, mesh)
    start, draws = jax.random.split(jax.random.key(5))
    state = optimizer.init(init_weights(start, cfg.widths))
    state = jax.device_put(state, NamedSharding(mesh, P()))
    batches = jax.device_put(make_data(cfg), NamedSharding(mesh, P(None, WORKERS)))
    state, metrics = fit(state, batches, jax.random.split(draws, cfg.steps))
    for name in ('loss', 'accuracy', 'fit', 'damping', 'scale', 'noise'):
        print(f'{name:9}', np.round(metrics[name], 4))
    return {'weights': state.weights, 'inner': state.inner, 'outer': state.outer, **metrics}


def reference():
    """Backpropagation by hand in double precision; Gauss-Newton from the whole Jacobian."""
    cfg = Settings()
    start, draws = jax.random.split(jax.random.key(5))
    ws = [np.asarray(w, float) for _, w in sorted(init_weights(start, cfg.widths).items())]
    vs, inner, outer, inverse = [0.] * 3, [0.] * 3, [0.] * 3, [None] * 3
    damping, rows = cfg.damping, []

    dot = lambda one, other: sum((a * b).sum() for a, b in zip(one, other))

    def forward(ws, x):
        inputs = []
        for w in ws:
            inputs.append(np.c_[x, np.ones(len(x))])
            s = inputs[-1] @ w
            x = np.tanh(s)
        return s - np.log(np.exp(s).sum(1, keepdims=True)), inputs

    def pull_back(ws, inputs, g):
        gs = [g]
        for w, a in zip(ws[:0:-1], inputs[:0:-1]):
            gs.insert(0, gs[0] @ w[:-1].T * (1 - a[:, :-1] ** 2))
        return gs

    def value(ws, x, label):
        return -forward(ws, x)[0][np.arange(len(x)), label].mean() + cfg.l2 / 2 * dot(ws, ws)

    keys = jax.random.split(draws, cfg.steps)
    for t, (x, label, mask, key) in enumerate(zip(*make_data(cfg), keys)):
        x, label = x[mask > 0].astype(float), label[mask > 0]
        n, classes = len(x), np.eye(cfg.widths[-1])
        logp, inputs = forward(ws, x)
        p = np.exp(logp)
        drawn = [int(jax.random.categorical(jax.random.fold_in(key, i), logp[i])) for i in range(n)]
        for i, (a, g) in enumerate(zip(inputs, pull_back(ws, inputs, p - classes[drawn]))):
            inner[i] = cfg.decay * inner[i] + (1 - cfg.decay) * a.T @ a / n
            outer[i] = cfg.decay * outer[i] + (1 - cfg.decay) * g.T @ g / n
            if t % cfg.refresh == 0:
                aa, gg = (f / (1 - cfg.decay ** (t + 1)) for f in (inner[i], outer[i]))
                pi = np.sqrt(np.diag(aa).mean() / np.diag(gg).mean())
                root = np.sqrt(damping + cfg.l2)
                inverse[i] = (np.linalg.inv(aa + pi * root * np.eye(len(aa))),
                              np.linalg.inv(gg + root / pi * np.eye(len(gg))))
        gs = pull_back(ws, inputs, p - classes[label])
        each = [a[:, :, None] * g[:, None] for a, g in zip(inputs, gs)]
        grads = [e.mean(0) + cfg.l2 * w for e, w in zip(each, ws)]
        natural = [l @ g @ r for (l, r), g in zip(inverse, grads)]
        scale = min(1., np.sqrt(cfg.trust / dot(natural, grads)) / cfg.lr)
        vs = [cfg.momentum * v - cfg.lr * scale * nat for v, nat in zip(vs, natural)]
        new = [w + v for w, v in zip(ws, vs)]
        u = np.zeros_like(p)
        for k, one in enumerate(classes):
            for a, v, g in zip(inputs, vs, pull_back(ws, inputs, np.tile(one, (n, 1)))):
                u[:, k] += np.einsum('ni,ij,nj->n', a, v, g)
        bend = ((p * u ** 2).sum(1) - (p * u).sum(1) ** 2).mean() + cfg.l2 * dot(vs, vs)
        model = dot(grads, vs) + bend / 2
        fit = (value(new, x, label) - value(ws, x, label)) / model
        squares = sum((e ** 2).sum((1, 2)) for e in each)
        signal = sum((e.mean(0) ** 2).sum() for e in each)
        rows.append({'loss': -logp[np.arange(n), label].mean(), 'fit': fit, 'model': model,
                     'accuracy': (p.argmax(1) == label).mean(), 'scale': scale,
                     'noise': squares.mean() / signal - 1, 'steepest': squares.max(),
                     'damping': damping})
        omega = cfg.damping_change
        damping *= omega if fit > .75 else 1 / omega if fit < .25 else 1.
        ws = new
    ws, inner, outer = (dict(zip(cfg.layers, values)) for values in (ws, inner, outer))
    curves = {k: np.array([r[k] for r in rows]) for k in rows[0]}
    return {'weights': ws, 'inner': inner, 'outer': outer, **curves}


if __name__ == '__main__':
    close = functools.partial(np.testing.assert_allclose, rtol=3e-3, atol=2e-3)
    jax.tree.map(close, main(), reference())
