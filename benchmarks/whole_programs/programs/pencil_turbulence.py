"""Forced isotropic turbulence in a periodic box: pseudo-spectral Navier-Stokes on pencils.

In physical space a device holds all of x and blocks of y (over "rows") and z (over "cols"); in spectral space it holds
all of kz and blocks of kx (over "rows") and ky (over "cols").  Two transposes lead from one to the other.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

PHYSICAL = P(None, None, "rows", "cols")
SPECTRAL = P(None, "rows", "cols", None)


@dataclasses.dataclass(frozen=True)
class Config:
    n: int = 16
    steps: int = 4
    viscosity: float = 0.02
    power: float = 0.15  # of the forcing
    forced: float = 2.0  # wave numbers up to this one are forced
    cfl: float = 0.4

    @property
    def bins(self):
        return self.n // 2 + 1


def transpose(x, axis, split, concat):
    return lax.all_to_all(x, axis, split_axis=split, concat_axis=concat, tiled=True)


def to_spectral(u):
    v = jnp.fft.fft(u, axis=1)
    v = transpose(v, "rows", split=1, concat=2)
    v = jnp.fft.fft(v, axis=2)
    v = transpose(v, "cols", split=2, concat=3)
    return jnp.fft.fft(v, axis=3)


def to_physical(v):
    u = jnp.fft.ifft(v, axis=3)
    u = transpose(u, "cols", split=3, concat=2)
    u = jnp.fft.ifft(u, axis=2)
    u = transpose(u, "rows", split=2, concat=1)
    return jnp.fft.ifft(u, axis=1).real


def block(values, axis):
    """The part of a vector that belongs to this device."""
    size = values.shape[0] // lax.axis_size(axis)
    return lax.dynamic_slice_in_dim(values, lax.axis_index(axis) * size, size)


def wave_vectors(cfg):
    k = jnp.fft.fftfreq(cfg.n, 1.0 / cfg.n).astype(jnp.float32)
    kx = block(k, "rows")[:, None, None]
    ky = block(k, "cols")[None, :, None]
    kz = k[None, None, :]
    return jnp.stack(jnp.broadcast_arrays(kx, ky, kz))


def everywhere(x):
    return lax.psum(jnp.sum(x), ("rows", "cols"))


class Solver:
    """What the steps need to know of the local wave vectors."""

    def __init__(self, cfg):
        self.cfg = cfg
        self.k = wave_vectors(cfg)
        self.k2 = jnp.sum(self.k**2, axis=0)
        self.inverse_k2 = 1.0 / jnp.where(self.k2 == 0, 1.0, self.k2)
        self.kept = jnp.all(jnp.abs(self.k) < cfg.n / 3, axis=0)
        self.forced = (self.k2 > 0) & (self.k2 <= cfg.forced**2)
        self.parseval = float(cfg.n) ** -6

    def project(self, v):
        """Without divergence, and without the modes that alias."""
        divergence = jnp.sum(self.k * v, axis=0)
        return (v - self.k * divergence * self.inverse_k2) * self.kept

    def initial(self):
        x = jnp.arange(self.cfg.n) * (2 * jnp.pi / self.cfg.n)
        y = block(x, "rows")[None, :, None]
        z = block(x, "cols")[None, None, :]
        x = x[:, None, None]
        u = jnp.stack(
            [
                jnp.sin(x) * jnp.cos(y) * jnp.cos(z) + 0.3 * jnp.sin(2 * y + z),
                -jnp.cos(x) * jnp.sin(y) * jnp.cos(z) + 0.2 * jnp.cos(3 * z - x),
                0.4 * jnp.cos(2 * x + y) + 0.1 * jnp.sin(4 * y - z) * jnp.cos(x),
            ]
        )
        return self.project(to_spectral(u))

    def energy(self, v, where=True):
        return 0.5 * self.parseval * everywhere(jnp.where(where, jnp.abs(v) ** 2, 0.0))

    def tendency(self, v):
        """Rotational form, and a forcing that does the same work at every time."""
        u = to_physical(v)
        vorticity = to_physical(1j * jnp.cross(self.k, v, axis=0))
        lamb = to_spectral(jnp.cross(u, vorticity, axis=0))
        amplitude = self.cfg.power / (2 * self.energy(v, self.forced))
        return self.project(lamb) + amplitude * jnp.where(self.forced, v, 0.0)

    def time_step(self, v):
        fastest = lax.pmax(jnp.max(jnp.sum(jnp.abs(to_physical(v)), axis=0)), ("rows", "cols"))
        return self.cfg.cfl * (2 * jnp.pi / self.cfg.n) / fastest

    def step(self, v, _):
        """Heun's method, viscosity by an integrating factor."""
        dt = self.time_step(v)
        decay = jnp.exp(-self.cfg.viscosity * self.k2 * dt)
        first = self.tendency(v)
        guess = (v + dt * first) * decay
        v = v * decay + 0.5 * dt * (first * decay + self.tendency(guess))
        return v, {"dt": dt, **self.diagnostics(v)}

    def diagnostics(self, v):
        square = self.parseval * jnp.sum(jnp.abs(v) ** 2, axis=0)
        shell = jnp.round(jnp.sqrt(self.k2)).astype(jnp.int32)
        spectrum = jax.ops.segment_sum(square.ravel() / 2, shell.ravel(), self.cfg.bins)
        return {
            "energy": self.energy(v),
            "dissipation": self.cfg.viscosity * everywhere(self.k2 * square),
            "spectrum": lax.psum(spectrum, ("rows", "cols")),
        }


def profiles(u):
    """Mean and variance of the velocity as functions of y, and its skewness in the whole box."""
    mean = lax.pmean(jnp.mean(u, axis=(1, 3)), "cols")
    fluctuation = u - mean[:, None, :, None]
    variance = lax.pmean(jnp.mean(fluctuation**2, axis=(1, 3)), "cols")
    second = lax.pmean(jnp.mean(u**2, axis=(1, 2, 3)), ("rows", "cols"))
    third = lax.pmean(jnp.mean(u**3, axis=(1, 2, 3)), ("rows", "cols"))
    return {"mean": mean, "variance": variance, "skewness": third / second**1.5}


def make_simulation(cfg, mesh):
    history = {"dt": P(), "energy": P(), "dissipation": P(), "spectrum": P()}
    by_y = {"mean": P(None, "rows"), "variance": P(None, "rows"), "skewness": P()}

    @jax.jit
    @partial(jax.shard_map, mesh=mesh, in_specs=(), out_specs=(PHYSICAL, history, by_y), check_vma=False)
    def simulate():
        solver = Solver(cfg)
        v, log = lax.scan(solver.step, solver.initial(), length=cfg.steps)
        u = to_physical(v)
        return u, log, profiles(u)

    return simulate


def main(rows=2, cols=4):
    cfg = Config()
    mesh = jax.make_mesh((rows, cols), ("rows", "cols"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    u, log, by_y = make_simulation(cfg, mesh)()
    return {"u": np.asarray(u), **jax.tree.map(np.asarray, log | by_y)}


def reference():
    cfg = Config()
    n, axes = cfg.n, (1, 2, 3)
    x, y, z = np.meshgrid(*[np.arange(n) * 2 * np.pi / n] * 3, indexing="ij")
    k = np.stack(np.meshgrid(*[np.fft.fftfreq(n, 1 / n)] * 3, indexing="ij"))
    k2 = (k**2).sum(0)
    forced = (k2 > 0) & (k2 <= 4)
    u = np.stack([
        np.sin(x) * np.cos(y) * np.cos(z) + 0.3 * np.sin(2 * y + z),
        -np.cos(x) * np.sin(y) * np.cos(z) + 0.2 * np.cos(3 * z - x),
        0.4 * np.cos(2 * x + y) + 0.1 * np.sin(4 * y - z) * np.cos(x),
    ])  # fmt: skip

    def project(v):
        return (v - k * (k * v).sum(0) / np.maximum(k2, 1)) * (np.abs(k) < n / 3).all(0)

    def tendency(v):
        back = lambda w: np.fft.ifftn(w, axes=axes).real
        lamb = np.cross(back(v), back(1j * np.cross(k, v, axis=0)), axis=0)
        work = (np.abs(v * forced) ** 2).sum() / n**6
        return project(np.fft.fftn(lamb, axes=axes)) + cfg.power / work * forced * v

    v, log = project(np.fft.fftn(u, axes=axes)), []
    for _ in range(cfg.steps):
        dt = cfg.cfl * 2 * np.pi / n / np.abs(np.fft.ifftn(v, axes=axes).real).sum(0).max()
        e, a = np.exp(-cfg.viscosity * k2 * dt), tendency(v)
        v = v * e + dt / 2 * (a * e + tendency((v + dt * a) * e))
        square = (np.abs(v) ** 2).sum(0) / n**6
        shells = [square[np.round(np.sqrt(k2)) == s].sum() / 2 for s in range(cfg.bins)]
        log.append((dt, square.sum() / 2, cfg.viscosity * (k2 * square).sum(), shells))
    u = np.fft.ifftn(v, axes=axes).real
    moments = {"mean": u.mean((1, 3)), "variance": u.var((1, 3))}
    skewness = (u**3).mean(axes) / (u**2).mean(axes) ** 1.5
    names = ("dt", "energy", "dissipation", "spectrum")
    return {"u": u, **dict(zip(names, map(np.array, zip(*log)))), **moments, "skewness": skewness}


if __name__ == "__main__":
    for name, wanted in (got := main()) and reference().items():
        np.testing.assert_allclose(got[name], wanted, rtol=1e-4, atol=1e-4, err_msg=name)
    print("energy", got["energy"], "spectrum", got["spectrum"][-1])
