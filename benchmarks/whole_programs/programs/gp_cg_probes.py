"""Gaussian process regression without a Cholesky factor of the whole matrix.

The kernel matrix is split by rows.  Systems with it are solved by preconditioned
conjugate gradients, many right-hand sides at a time; the preconditioner is the Cholesky
factor of the diagonal block of each device.  Hyperparameters climb the marginal
likelihood, whose log-determinant is differentiated with random probes.
"""

import functools
from typing import Callable, NamedTuple

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

AXIS = "rows"
OBSERVED, QUERIES, INPUTS = 118, 27, 3
PROBES, CLIMB, RATE = 6, 8, 0.08
TOL, MOST = 1e-6, 80


class Theta(NamedTuple):
    """Logarithms of the hyperparameters."""

    length: jax.Array
    signal: jax.Array
    noise: jax.Array


class Padded(NamedTuple):
    """Points with rows of zeros at the end, to divide by the number of devices."""

    x: jax.Array
    y: jax.Array
    real: jax.Array


class Krylov(NamedTuple):
    x: jax.Array
    r: jax.Array
    p: jax.Array
    rz: jax.Array
    count: jax.Array


class Operator(NamedTuple):
    """The rows of a symmetric matrix that this device holds, and an approximate inverse."""

    times: Callable
    precondition: Callable


def theta_start():
    return Theta(jnp.zeros(INPUTS), jnp.array(0.0), jnp.array(-1.0))


def survey(count, seed):
    rng = np.random.default_rng(seed)
    x = np.sort(rng.uniform(-2, 2, (count, INPUTS)), axis=0)[:, ::-1] @ np.diag([1.0, 0.7, 1.6])
    y = np.sin(2 * x[:, 0]) + 0.4 * x[:, 1] ** 2 - 0.5 * np.cos(x[:, 2] * x[:, 0])
    return x.astype(np.float32), (y + 0.2 * rng.normal(size=count)).astype(np.float32)


def pad(x, y, multiple):
    extra = -len(x) % multiple
    real = np.arange(len(x) + extra) < len(x)
    return Padded(np.pad(x, ((0, extra), (0, 0))), np.pad(y, (0, extra)), real)


def matern(theta, a, b):
    """Matern 5/2 with one length scale for each input."""
    gap = (a[:, None] - b[None]) * jnp.exp(-theta.length)
    d2 = 5.0 * jnp.sum(gap**2, axis=-1)
    d = jnp.sqrt(jnp.where(d2 > 0, d2, 1.0)) * (d2 > 0)
    return jnp.exp(2 * theta.signal - d) * (1 + d + d2 / 3)


def everyone(v):
    return lax.all_gather(v, AXIS, axis=0, tiled=True)


def dot(a, b):
    """Inner products of the columns of two matrices that are split by rows."""
    return lax.psum(jnp.sum(a * b, axis=0), AXIS)


def first_row(rows):
    return lax.axis_index(AXIS) * rows


def own_rows(theta, data):
    """Rows of K + noise; rows of padding are those of the identity."""
    x, real = everyone(data.x), everyone(data.real)
    k = matern(theta, data.x, x) * (data.real[:, None] & real[None])
    n = data.x.shape[0]
    unit = jnp.eye(n, real.size, k=first_row(n))
    return k + unit * jnp.where(data.real, jnp.exp(2 * theta.noise), 1.0)[:, None]


def operator(theta, data):
    rows = own_rows(theta, data)
    n = rows.shape[0]
    block = lax.dynamic_slice_in_dim(rows, first_row(n), n, axis=1)
    factor = jsl.cho_factor(block, lower=True)
    return Operator(lambda v: rows @ everyone(v), functools.partial(jsl.cho_solve, factor))


def solve(op, b):
    """Conjugate gradients for all columns of b, until the worst of them is good enough."""
    enough = TOL**2 * jnp.maximum(dot(b, b), 1e-12)

    def unfinished(s):
        return (s.count < MOST) & jnp.any(dot(s.r, s.r) > enough)

    def body(s):
        ap = op.times(s.p)
        alpha = s.rz / jnp.maximum(dot(s.p, ap), 1e-30)
        r = s.r - alpha * ap
        z = op.precondition(r)
        rz = dot(r, z)
        beta = rz / jnp.maximum(s.rz, 1e-30)
        return Krylov(s.x + alpha * s.p, r, z + beta * s.p, rz, s.count + 1)

    z = op.precondition(b)
    end = lax.while_loop(unfinished, body, Krylov(jnp.zeros_like(b), b, z, dot(b, z), 0))
    return end.x, end.count


def probes(key, data):
    """Random signs, of which every row of the matrix has its own, whatever device holds it."""
    n = data.x.shape[0]
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, first_row(n) + jnp.arange(n))
    signs = jax.vmap(lambda k: jax.random.rademacher(k, (PROBES,), jnp.float32))(keys)
    return jnp.where(data.real[:, None], signs, 0.0)


def evidence_slope(theta, key, data):
    """Gradient of the log marginal likelihood for each real observation."""
    z = probes(key, data)
    columns = jnp.concatenate([data.y[:, None], z], axis=1)
    solved, count = solve(operator(theta, data), columns)
    total = lax.psum(data.real.sum(), AXIS)
    fit = dot(columns[:, :1], solved[:, :1])[0]

    def surrogate(theta):
        quad = own_rows(theta, data) @ everyone(jnp.concatenate([solved[:, :1], z], axis=1))
        trace = jnp.sum(solved[:, 1:] * quad[:, 1:]) / PROBES
        return 0.5 * (jnp.sum(solved[:, 0] * quad[:, 0]) - trace) / total

    slope = jax.tree.map(lambda g: lax.psum(g, AXIS), jax.grad(surrogate)(theta))
    return slope, fit / total, count


class Ascent:
    """Adam, upwards, with keys of its own for every step."""

    def __init__(self, key, data, rate=RATE, b1=0.9, b2=0.95):
        self.key, self.data, self.rate, self.b1, self.b2 = key, data, rate, b1, b2

    def __call__(self, carry, t):
        theta, m, v = carry
        slope, fit, count = evidence_slope(theta, jax.random.fold_in(self.key, t), self.data)
        m = jax.tree.map(lambda m, g: self.b1 * m + (1 - self.b1) * g, m, slope)
        v = jax.tree.map(lambda v, g: self.b2 * v + (1 - self.b2) * g**2, v, slope)

        def move(p, m, v):
            m_hat = m / (1 - self.b1 ** (t + 1))
            v_hat = v / (1 - self.b2 ** (t + 1))
            return p + self.rate * m_hat / (jnp.sqrt(v_hat) + 1e-3)

        return (jax.tree.map(move, theta, m, v), m, v), {"slope": slope, "fit": fit, "count": count}


def climb(key, data):
    zero = jax.tree.map(jnp.zeros_like, theta_start())
    start = (theta_start(), zero, zero)
    (theta, *_), log = lax.scan(Ascent(key, data), start, jnp.arange(CLIMB))
    return theta, log


def predict(theta, data, query):
    """Mean and variance of what would be observed at this device's part of the queries."""
    op = operator(theta, data)
    cross = matern(theta, data.x, everyone(query.x)) * data.real[:, None]
    solved, _ = solve(op, jnp.concatenate([data.y[:, None], cross], axis=1))
    explained = dot(cross, solved[:, 1:])
    m = query.x.shape[0]
    explained = lax.dynamic_slice_in_dim(explained, first_row(m), m)
    back = matern(theta, query.x, everyone(data.x)) * everyone(data.real)
    mean = back @ everyone(solved[:, 0])
    return mean, jnp.exp(2 * theta.signal) - explained + jnp.exp(2 * theta.noise)


def scores(query, mean, variance):
    """Root mean square error, log density, share of answers within two deviations."""
    miss = query.y - mean
    density = -0.5 * (miss**2 / variance + jnp.log(2 * jnp.pi * variance))
    inside = jnp.abs(miss) < 2 * jnp.sqrt(variance)
    total = lax.psum(query.real.sum(), AXIS)

    def average(value):
        return lax.psum(jnp.sum(jnp.where(query.real, value, 0.0)), AXIS) / total

    worst = lax.pmax(jnp.max(jnp.where(query.real, jnp.abs(miss), 0.0)), AXIS)
    named = {"rmse": jnp.sqrt(average(miss**2)), "density": average(density)}
    return named | {"covered": average(inside), "worst": worst}


def regression(key, data, query):
    shift = lax.psum(data.y.sum(), AXIS) / lax.psum(data.real.sum(), AXIS)
    data = data._replace(y=jnp.where(data.real, data.y - shift, 0.0))
    theta, log = climb(key, data)
    mean, variance = predict(theta, data, query)
    return theta, log, scores(query, mean + shift, variance), (mean + shift, variance)


def main():
    mesh = jax.make_mesh((8,), (AXIS,), axis_types=(jax.sharding.AxisType.Auto,))
    data = pad(*survey(OBSERVED, 0), mesh.size)
    query = pad(*survey(QUERIES, 1), mesh.size)
    fit = jax.shard_map(
        regression,
        mesh=mesh,
        in_specs=(P(), P(AXIS), P(AXIS)),
        out_specs=(P(), P(), P(), P(AXIS)),
        check_vma=False,
    )
    theta, log, score, (mean, variance) = jax.jit(fit)(jax.random.key(5), data, query)
    out = theta._asdict() | score | {"fit": log["fit"], "slope": log["slope"].length}
    out |= {"mean": mean[:QUERIES], "variance": variance[:QUERIES]}
    print("iterations of each solve:", log["count"])
    return {k: np.asarray(v) for k, v in out.items()}


def reference():
    """Dense matrices, solved directly; derivatives forward."""
    (x, y), (xq, yq) = survey(OBSERVED, 0), survey(QUERIES, 1)
    n, shift = OBSERVED, y.mean()
    y = y - shift

    def kernel(theta, a, b):
        length, signal, _ = theta
        r2 = sum((a[:, i, None] - b[None, :, i]) ** 2 / jnp.exp(length[i]) ** 2 for i in range(3))
        r = jnp.sqrt(5 * jnp.maximum(r2, 1e-12))
        return jnp.exp(signal) ** 2 * (1 + r + r**2 / 3) * jnp.exp(-r)

    def gram(theta):
        return kernel(theta, x, x) + jnp.exp(theta[2]) ** 2 * jnp.eye(n)

    @jax.jit
    def slope(theta, t):
        key = jax.random.fold_in(jax.random.key(5), t)
        keys = [jax.random.fold_in(key, i) for i in range(n)]
        z = jnp.stack([jax.random.rademacher(k, (PROBES,), jnp.float32) for k in keys])
        k, dk = gram(theta), jax.jacfwd(gram)(theta)
        a, kz = jnp.linalg.solve(k, y), jnp.linalg.solve(k, z)

        def each(d):
            trace = jnp.einsum("ip,ij...,jp->...", kz, d, z) / PROBES
            return (jnp.einsum("i,ij...,j->...", a, d, a) - trace) / (2 * n)

        return [each(d) for d in dk], y @ a / n

    theta = [np.zeros(3), np.zeros(()), np.array(-1.0)]
    m, v, slopes, fits = [0.0] * 3, [0.0] * 3, [], []
    for t in range(CLIMB):
        g, fit = slope([jnp.float32(p) for p in theta], t)
        g = [np.asarray(p, np.float64) for p in g]
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.95 * a + 0.05 * b * b for a, b in zip(v, g)]
        scale = (1 - 0.95 ** (t + 1)) ** 0.5
        unit = [a / (1 - 0.9 ** (t + 1)) / (b**0.5 / scale + 1e-3) for a, b in zip(m, v)]
        theta = [p + RATE * u for p, u in zip(theta, unit)]
        slopes.append(g[0])
        fits.append(fit)
    k, cross = np.asarray(gram(theta)), np.asarray(kernel(theta, xq, x))
    mean = cross @ np.linalg.solve(k, y) + shift
    prior = np.exp(2 * theta[1]) + np.exp(2 * theta[2])
    variance = prior - (cross * np.linalg.solve(k, cross.T).T).sum(1)
    miss = np.abs(yq - mean)
    density = -0.5 * (miss**2 / variance + np.log(2 * np.pi * variance))
    out = {"length": theta[0], "signal": theta[1], "noise": theta[2], "fit": np.array(fits)}
    out |= {"slope": np.array(slopes), "mean": mean, "variance": variance, "worst": miss.max()}
    out |= {"rmse": np.sqrt((miss**2).mean()), "density": density.mean()}
    return out | {"covered": (miss < 2 * np.sqrt(variance)).mean()}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=5e-3, atol=1e-3, err_msg=name)
    print("gp_cg_probes: rmse", float(got["rmse"]), "log density", float(got["density"]))
