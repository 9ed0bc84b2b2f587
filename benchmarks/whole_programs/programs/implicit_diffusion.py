"""Advection-diffusion of a tracer in a channel, on a 2-D grid of devices.

    u_t + c . grad u = nu laplace u + s(x, y)

x is periodic, u = 0 on the walls y = 0 and y = 1.  Advection is explicit and upwind, with a step that follows the CFL
number of the present velocity; diffusion is implicit (backward Euler) and solved by conjugate gradients.  Unknowns
are cell centred.
"""
from __future__ import annotations

import dataclasses
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec

Array = jax.Array
CG_ITERATIONS = 6
STEPS = 6


@dataclasses.dataclass(frozen=True)
class Grid:
    nx: int  # cells of the whole domain
    ny: int
    length_x: float = 2.0
    length_y: float = 1.0

    @property
    def dx(self) -> float:
        return self.length_x / self.nx

    @property
    def dy(self) -> float:
        return self.length_y / self.ny

    @property
    def cell(self) -> float:
        return self.dx * self.dy


@dataclasses.dataclass(frozen=True)
class Physics:
    nu: float = 0.3
    mean_flow: float = 1.0
    shear: float = 0.5
    cfl: float = 0.4


# ---------------------------------------------------------------- neighbours


def shift(u: Array, axis_name: str, step: int, periodic: bool) -> Array:
    """What the device ``step`` places before this one holds (zeros beyond a wall)."""
    n = jax.lax.axis_size(axis_name)
    if periodic:
        pairs = [(i, (i + step) % n) for i in range(n)]
    else:
        pairs = [(i, i + step) for i in range(n) if 0 <= i + step < n]
    return jax.lax.ppermute(u, axis_name, pairs)


def with_halo_x(u: Array) -> Array:
    """(nx, ny) -> (nx + 2, ny); neighbours around the periodic direction."""
    west = shift(u[-1:, :], "px", +1, periodic=True)
    east = shift(u[:1, :], "px", -1, periodic=True)
    return jnp.concatenate([west, u, east], axis=0)


def with_halo_y(u: Array) -> Array:
    """(nx, ny) -> (nx, ny + 2); behind a wall is the mirror image with the opposite sign."""
    j, n = jax.lax.axis_index("py"), jax.lax.axis_size("py")
    below = shift(u[:, -1:], "py", +1, periodic=False)
    above = shift(u[:, :1], "py", -1, periodic=False)
    below = jnp.where(j == 0, -u[:, :1], below)
    above = jnp.where(j == n - 1, -u[:, -1:], above)
    return jnp.concatenate([below, u, above], axis=1)


def total(x: Array) -> Array:
    return jax.lax.psum(jnp.sum(x), ("px", "py"))


def dot(a: Array, b: Array) -> Array:
    return total(a * b)


# ---------------------------------------------------------------- operators


def centres(grid: Grid, nx: int, ny: int) -> tuple[Array, Array]:
    """Coordinates of the local cells, as a column and a row."""
    i = jax.lax.axis_index("px") * nx + jnp.arange(nx)
    j = jax.lax.axis_index("py") * ny + jnp.arange(ny)
    return (i[:, None] + 0.5) * grid.dx, (j[None, :] + 0.5) * grid.dy


def laplace(grid: Grid, u: Array) -> Array:
    ux, uy = with_halo_x(u), with_halo_y(u)
    in_x = (ux[2:, :] - 2 * u + ux[:-2, :]) / grid.dx**2
    in_y = (uy[:, 2:] - 2 * u + uy[:, :-2]) / grid.dy**2
    return in_x + in_y


def upwind(grid: Grid, u: Array, cx: Array, cy: Array) -> Array:
    """c . grad u with differences against the wind."""
    ux, uy = with_halo_x(u), with_halo_y(u)
    back_x, fore_x = (u - ux[:-2, :]) / grid.dx, (ux[2:, :] - u) / grid.dx
    back_y, fore_y = (u - uy[:, :-2]) / grid.dy, (uy[:, 2:] - u) / grid.dy
    return cx * jnp.where(cx > 0, back_x, fore_x) + cy * jnp.where(cy > 0, back_y, fore_y)


def velocity(physics: Physics, x: Array, y: Array, t: Array) -> tuple[Array, Array]:
    cx = physics.mean_flow * 4 * y * (1 - y) + physics.shear * jnp.sin(jnp.pi * x) * jnp.cos(t)
    cy = physics.shear * jnp.sin(jnp.pi * y) * jnp.cos(jnp.pi * x + t)
    return cx, cy


def time_step(grid: Grid, physics: Physics, cx: Array, cy: Array) -> Array:
    rate = jnp.max(jnp.abs(cx) / grid.dx + jnp.abs(cy) / grid.dy)
    return physics.cfl / jax.lax.pmax(rate, ("px", "py"))


def conjugate_gradients(apply, b: Array, guess: Array) -> tuple[Array, Array]:
    """Solves apply(x) = b in a fixed number of iterations; the residual is relative."""

    def iterate(_, state):
        x, r, p, rr = state
        q = apply(p)
        alpha = rr / dot(p, q)
        x, r = x + alpha * p, r - alpha * q
        new = dot(r, r)
        return x, r, r + (new / rr) * p, new

    r = b - apply(guess)
    x, _, _, rr = jax.lax.fori_loop(0, CG_ITERATIONS, iterate, (guess, r, r, dot(r, r)))
    return x, jnp.sqrt(rr / dot(b, b))


# ---------------------------------------------------------------- simulation


def simulate(grid: Grid, physics: Physics, u: Array):
    """Runs on every device with its own block of u."""
    x, y = centres(grid, *u.shape)
    source = jnp.exp(-40 * ((x - 0.6) ** 2 + (y - 0.4) ** 2))

    def advance(carry, _):
        u, t = carry
        cx, cy = velocity(physics, x, y, t)
        dt = time_step(grid, physics, cx, cy)
        explicit = u + dt * (source - upwind(grid, u, cx, cy))
        u, residual = conjugate_gradients(lambda v: v - dt * physics.nu * laplace(grid, v), explicit, explicit)
        mass = grid.cell * total(u)
        rms = jnp.sqrt(total(u**2) / (grid.nx * grid.ny))
        peak = jax.lax.pmax(jnp.max(u), ("px", "py"))
        column = jax.lax.psum(jnp.sum(u, axis=1), "py") * grid.dy
        return (u, t + dt), {"mass": mass, "rms": rms, "peak": peak, "residual": residual, "column": column, "dt": dt}

    (u, t), history = jax.lax.scan(advance, (u, jnp.zeros(())), length=STEPS)
    return u, t, history


def initial(grid: Grid) -> np.ndarray:
    x = (np.arange(grid.nx) + 0.5) * grid.dx
    y = (np.arange(grid.ny) + 0.5) * grid.dy
    blob = np.exp(-30 * ((x[:, None] - 1.2) ** 2 + (y - 0.6) ** 2))
    return (blob + 0.2 * np.sin(np.pi * y) * (1 + np.cos(np.pi * x[:, None]))).astype(np.float32)


def run_on(shape: tuple[int, int], grid: Grid, physics: Physics) -> dict[str, np.ndarray]:
    devices = np.array(jax.devices()[: shape[0] * shape[1]]).reshape(shape)
    mesh = Mesh(devices, axis_names=("px", "py"))
    field, scalar = PartitionSpec("px", "py"), PartitionSpec()
    history = dict.fromkeys(("mass", "rms", "peak", "residual", "dt"), scalar) | {"column": PartitionSpec(None, "px")}
    block = lambda u: simulate(grid, physics, u)
    solve = jax.jit(jax.shard_map(block, mesh=mesh, in_specs=field, out_specs=(field, scalar, history)))
    u, t, history = solve(initial(grid))
    return {"u": np.asarray(u), "t": np.asarray(t)} | {name: np.asarray(value) for name, value in history.items()}


def main() -> dict[str, np.ndarray]:
    return run_on((4, 2), Grid(32, 24), Physics())


def reference() -> dict[str, np.ndarray]:
    """The whole field in NumPy, in double precision; the implicit step is solved directly."""
    grid, physics = Grid(32, 24), Physics()
    x = ((np.arange(grid.nx) + 0.5) * grid.dx)[:, None]
    y = ((np.arange(grid.ny) + 0.5) * grid.dy)[None, :]
    source = np.exp(-40 * ((x - 0.6) ** 2 + (y - 0.4) ** 2))
    pad_y = lambda u: np.concatenate([-u[:, :1], u, -u[:, -1:]], axis=1)

    def lap(u):
        uy = pad_y(u)
        in_x = (np.roll(u, 1, 0) - 2 * u + np.roll(u, -1, 0)) / grid.dx**2
        return in_x + (uy[:, 2:] - 2 * u + uy[:, :-2]) / grid.dy**2

    u, t, history = initial(grid).astype(float), 0.0, []
    for _ in range(STEPS):
        cx = physics.mean_flow * 4 * y * (1 - y) + physics.shear * np.sin(np.pi * x) * np.cos(t)
        cy = physics.shear * np.sin(np.pi * y) * np.cos(np.pi * x + t)
        dt = physics.cfl / (np.abs(cx) / grid.dx + np.abs(cy) / grid.dy).max()
        uy = pad_y(u)
        du_x = np.where(cx > 0, u - np.roll(u, 1, 0), np.roll(u, -1, 0) - u) / grid.dx
        du_y = np.where(cy > 0, u - uy[:, :-2], uy[:, 2:] - u) / grid.dy
        b = u + dt * (source - cx * du_x - cy * du_y)
        u, r = b.copy(), dt * physics.nu * lap(b)
        p, rr = r, np.sum(r * r)
        for _ in range(CG_ITERATIONS):
            q = p - dt * physics.nu * lap(p)
            a = rr / np.sum(p * q)
            u, r = u + a * p, r - a * q
            p, rr = r + np.sum(r * r) / rr * p, np.sum(r * r)
        t += dt
        history.append({"mass": grid.cell * u.sum(), "rms": np.sqrt((u**2).mean()), "peak": u.max(), "dt": dt,
                        "residual": np.sqrt(rr / np.sum(b * b)), "column": u.sum(1) * grid.dy})
    return {"u": u, "t": np.array(t)} | {name: np.array([h[name] for h in history]) for name in history[0]}


if __name__ == "__main__":
    ours, plain = main(), reference()
    for name in plain:
        np.testing.assert_allclose(ours[name], plain[name], rtol=1e-3, atol=1e-4, err_msg=name)
    print("t", ours["t"], "mass", ours["mass"], "residual", ours["residual"])
