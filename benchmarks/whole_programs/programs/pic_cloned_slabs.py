"""2d2v electrostatic particle-in-cell plasma: counter-streaming electrons in a periodic box.

The box is cut into slabs along x. Each slab is held by several clones (domain cloning): they see
the same fields and share out the slab's particles, so a mesh is ("slab", "clone"). Particles move
to the neighbouring slab, never to another clone. Units: dx = dy = 1, electron mass 1, charge -1.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

NX, NY = 32, 16
NPART = 512
STEPS = 14
DT_MAX, COURANT = 0.25, 0.5
B0 = 0.35                       # out of the plane
DRIFT, VTH = 1.4, 0.3
NU, KICK = 0.15, 0.12           # collisions: friction towards the bulk, and a random kick


class Particles(NamedTuple):
    """A fixed number of slots; the empty ones have tag -1 and whatever was in them before."""

    pos: jax.Array
    vel: jax.Array
    weight: jax.Array
    tag: jax.Array

    @property
    def alive(self):
        return self.tag >= 0

    def take(self, slots):
        return jax.tree.map(lambda a: a[slots], self)


class Diagnostics(NamedTuple):
    field: jax.Array
    kinetic: jax.Array
    momentum: jax.Array
    bulk: jax.Array
    mode: jax.Array
    count: jax.Array
    lost: jax.Array
    dt: jax.Array


def beam_weight(tag):
    return 0.6 + (tag * 7 % 11) / 11.0


def launch(key, tag):
    """Where a particle starts and how fast it is, given its number among all."""
    kx, ky, kv = jax.random.split(jax.random.fold_in(key, tag), 3)
    x = NX * (tag + jax.random.uniform(kx)) / NPART
    y = NY * jax.random.uniform(ky)
    side = jnp.where(tag % 2 == 0, 1.0, -1.0)
    drift = jnp.array([DRIFT * side * (1 + 0.2 * jnp.sin(2 * jnp.pi * x / NX)), 0.1])
    return jnp.stack([x, y]), drift + VTH * jax.random.normal(kv, (2,))


def mode_strength(row_mean, x):
    """Amplitude of the longest wave along x."""
    phase = 2 * jnp.pi * x / NX
    return jnp.stack([row_mean @ jnp.cos(phase), row_mean @ jnp.sin(phase)])


@dataclass(frozen=True)
class Slabs:
    """What a device has to know of the others. Methods are called inside shard_map."""

    slabs: int
    clones: int
    room: int = 24              # particles that can go to one side in one step

    @property
    def width(self):
        return NX // self.slabs

    @property
    def slots(self):
        return 2 * NPART // (self.slabs * self.clones)

    def left_edge(self):
        return lax.axis_index("slab") * self.width

    def to_right(self, a):
        return lax.ppermute(a, "slab", [(i, (i + 1) % self.slabs) for i in range(self.slabs)])

    def to_left(self, a):
        return lax.ppermute(a, "slab", [(i, (i - 1) % self.slabs) for i in range(self.slabs)])

    def total(self, a):
        """Sum of something that each device has of its own particles."""
        return lax.psum(a, ("slab", "clone"))

    # -- particles ---------------------------------------------------------------------------

    def load(self, key):
        mine = NPART // (self.slabs * self.clones)
        first = lax.axis_index("slab") * mine * self.clones
        tag = first + lax.axis_index("clone") + self.clones * jnp.arange(mine)
        pos, vel = jax.vmap(launch, in_axes=(None, 0))(key, tag)
        some = Particles(pos, vel, beam_weight(tag), tag)
        spare = self.slots - mine
        pad = lambda a: jnp.concatenate([a, jnp.zeros((spare,) + a.shape[1:], a.dtype)])
        return jax.tree.map(pad, some)._replace(tag=jnp.pad(tag, (0, spare), constant_values=-1))

    def pack(self, p, leaving):
        """The leaving particles in a buffer of fixed size, and how many did not fit."""
        slots = jnp.argsort(~leaving)[: self.room]
        buffer = p.take(slots)
        buffer = buffer._replace(tag=jnp.where(leaving[slots], buffer.tag, -1))
        return buffer, jnp.maximum(jnp.sum(leaving) - self.room, 0)

    def migrate(self, p):
        dest = jnp.floor(p.pos[:, 0] / self.width).astype(jnp.int32)
        hops = (dest - lax.axis_index("slab")) % self.slabs
        rightward, left_over = self.pack(p, p.alive & (hops == 1))
        leftward, right_over = self.pack(p, p.alive & (hops > 1))
        stay = p._replace(tag=jnp.where(hops == 0, p.tag, -1))
        arrived = (self.to_right(rightward), self.to_left(leftward))
        everyone = jax.tree.map(lambda *parts: jnp.concatenate(parts), stay, *arrived)
        order = jnp.argsort(~everyone.alive)
        crowded = jnp.sum(everyone.alive[order[self.slots:]])
        return everyone.take(order[: self.slots]), left_over + right_over + crowded

    # -- grid --------------------------------------------------------------------------------

    def stencil(self, pos):
        """Cells around each particle, in a slab with a guard row to the right, and their shares."""
        local = (pos - jnp.array([self.left_edge(), 0])) % jnp.array([NX, NY])
        cell = jnp.floor(local).astype(jnp.int32)
        fx, fy = (local - cell).T
        ix, iy = cell.T
        up = (iy + 1) % NY
        cells = jnp.stack([ix * NY + iy, ix * NY + up, (ix + 1) * NY + iy, (ix + 1) * NY + up], 1)
        shares = jnp.stack([(1 - fx) * (1 - fy), (1 - fx) * fy, fx * (1 - fy), fx * fy], 1)
        return cells, shares

    def deposit(self, p):
        cells, shares = self.stencil(p.pos)
        charge = jnp.where(p.alive, -p.weight, 0.0)
        size = (self.width + 1) * NY
        flat = jax.ops.segment_sum((charge[:, None] * shares).ravel(), cells.ravel(), size)
        rho = flat.reshape(self.width + 1, NY)
        owned = rho[:-1].at[0].add(self.to_right(rho[-1]))
        rho = lax.psum(owned, "clone")
        return rho - lax.pmean(jnp.mean(rho), "slab")       # neutralising ions

    def potential(self, rho):
        """Poisson's equation by FFT; for the transform along x the slabs are turned along y."""
        part = NY // self.slabs
        hat = jnp.fft.fft(rho, axis=1)
        hat = lax.all_to_all(hat, "slab", split_axis=1, concat_axis=0, tiled=True)
        hat = jnp.fft.fft(hat, axis=0)
        lap_x = 2 - 2 * jnp.cos(2 * jnp.pi * jnp.arange(NX) / NX)
        my_y = lax.axis_index("slab") * part + jnp.arange(part)
        lap_y = 2 - 2 * jnp.cos(2 * jnp.pi * my_y / NY)
        lap = lap_x[:, None] + lap_y[None, :]
        hat = jnp.where(lap > 1e-6, hat / jnp.maximum(lap, 1e-6), 0)
        hat = jnp.fft.ifft(hat, axis=0)
        hat = lax.all_to_all(hat, "slab", split_axis=0, concat_axis=1, tiled=True)
        return jnp.fft.ifft(hat, axis=1).real

    def electric(self, phi):
        tall = jnp.concatenate([self.to_right(phi[-1:]), phi, self.to_left(phi[:1])])
        ex = (tall[:-2] - tall[2:]) / 2
        ey = (jnp.roll(phi, 1, axis=1) - jnp.roll(phi, -1, axis=1)) / 2
        return jnp.stack([ex, ey], -1)

    def gather(self, field, pos):
        guarded = jnp.concatenate([field, self.to_left(field[:1])]).reshape(-1, 2)
        cells, shares = self.stencil(pos)
        return jnp.einsum("pc,pcd->pd", shares, guarded[cells])


def boris(vel, e, dt):
    half = vel - 0.5 * dt * e
    t = -0.5 * dt * B0
    cross = lambda v: jnp.stack([v[:, 1], -v[:, 0]], 1)
    prime = half + t * cross(half)
    return half + 2 * t / (1 + t * t) * cross(prime) - 0.5 * dt * e


def collide(dom, key, p, dt):
    mass = jnp.where(p.alive, p.weight, 0.0)
    bulk = dom.total(mass @ p.vel) / dom.total(jnp.sum(mass))
    kick = jax.vmap(lambda tag: jax.random.normal(jax.random.fold_in(key, tag), (2,)))(p.tag)
    vel = bulk + jnp.exp(-NU * dt) * (p.vel - bulk) + KICK * jnp.sqrt(dt) * kick
    return p._replace(vel=vel), bulk


def make_simulation(mesh):
    dom = Slabs(mesh.shape["slab"], mesh.shape["clone"])

    def step(carry, key):
        p, lost = carry
        rho = dom.deposit(p)
        field = dom.electric(dom.potential(rho))
        fastest = jnp.max(jnp.where(p.alive, jnp.max(jnp.abs(p.vel), axis=1), 0.0))
        dt = jnp.minimum(DT_MAX, COURANT / lax.pmax(fastest, ("slab", "clone")))
        p = p._replace(vel=boris(p.vel, dom.gather(field, p.pos), dt))
        p, bulk = collide(dom, key, p, dt)
        p = p._replace(pos=(p.pos + dt * p.vel) % jnp.array([NX, NY]))

        mass = jnp.where(p.alive, p.weight, 0.0)
        rows = dom.left_edge() + jnp.arange(dom.width)
        out = Diagnostics(
            field=0.5 * lax.psum(jnp.sum(field**2), "slab"),
            kinetic=0.5 * dom.total(jnp.sum(mass[:, None] * p.vel**2)),
            momentum=dom.total(mass @ p.vel),
            bulk=bulk,
            mode=lax.psum(mode_strength(jnp.mean(rho, axis=1), rows), "slab"),
            count=dom.total(jnp.sum(p.alive)),
            lost=dom.total(lost),
            dt=dt,
        )
        p, more = dom.migrate(p)
        return (p, lost + more), out

    def simulate(key):
        start, kicks = jax.random.split(key)
        p = dom.load(start)
        lost = jnp.zeros((), jnp.int32)
        (p, _), history = lax.scan(step, (p, lost), jax.random.split(kicks, STEPS))
        return p, dom.deposit(p), history

    everywhere = P(("slab", "clone"))
    return jax.jit(jax.shard_map(
        simulate, mesh=mesh, in_specs=P(), out_specs=(everywhere, P("slab"), P()), check_vma=False,
    ))


def main():
    mesh = jax.make_mesh((4, 2), ("slab", "clone"))
    p, rho, history = jax.device_get(make_simulation(mesh)(jax.random.key(7)))
    tags = np.sort(p.tag[p.alive])
    order = np.argsort(np.where(p.alive, p.tag, NPART), kind="stable")[:NPART]
    print("field energy", np.round(history.field, 3))
    print("kinetic energy", np.round(history.kinetic, 2), "particles", len(tags))
    return {"particles": np.int64(len(tags)), "pos": _on_circle(p.pos[order]), "vel": p.vel[order],
            "rho": rho, **history._asdict()}


def _on_circle(pos):
    """So that 0 and the length of the box are the same place."""
    angle = 2 * np.pi * np.asarray(pos, np.float64) / np.array([NX, NY])
    return np.concatenate([np.cos(angle), np.sin(angle)], 1)


def reference():
    """All particles in one list, the grid in one array, in double precision but for the draws."""
    start, kicks = jax.random.split(jax.random.key(7))
    tags = np.arange(NPART)
    x, v = (np.asarray(a, np.float64) for a in jax.vmap(lambda t: launch(start, t))(tags))
    w = 0.6 + (tags * 7 % 11) / 11.0
    kx, ky = 2 * np.pi * np.fft.fftfreq(NX), 2 * np.pi * np.fft.fftfreq(NY)
    lap = 4 * np.sin(kx / 2)[:, None] ** 2 + 4 * np.sin(ky / 2)[None] ** 2
    lap[0, 0] = np.inf

    def corners():
        i, f = np.floor(x).astype(int), x - np.floor(x)
        for a in (0, 1):
            for b in (0, 1):
                share = (f[:, 0] if a else 1 - f[:, 0]) * (f[:, 1] if b else 1 - f[:, 1])
                yield (i[:, 0] + a) % NX, (i[:, 1] + b) % NY, share

    def density():
        rho = np.zeros((NX, NY))
        for i, j, share in corners():
            np.add.at(rho, (i, j), -w * share)
        return rho - rho.mean()

    rows = []
    for key in jax.random.split(kicks, STEPS):
        rho = density()
        phi = np.fft.ifft2(np.fft.fft2(rho) / lap).real
        field = np.stack([np.roll(phi, 1, a) - np.roll(phi, -1, a) for a in (0, 1)], -1) / 2
        dt = min(DT_MAX, COURANT / np.abs(v).max())
        e = sum(share[:, None] * field[i, j] for i, j, share in corners())
        v = v - dt / 2 * e
        turn = 2 * np.arctan(dt * B0 / 2)
        c, s = np.cos(turn), np.sin(turn)
        v = v @ np.array([[c, s], [-s, c]]) - dt / 2 * e
        bulk = w @ v / w.sum()
        draws = jax.vmap(lambda t: jax.random.normal(jax.random.fold_in(key, t), (2,)))(tags)
        v = bulk + np.exp(-NU * dt) * (v - bulk) + KICK * np.sqrt(dt) * np.asarray(draws)
        x = (x + dt * v) % (NX, NY)
        wave = np.exp(2j * np.pi * np.arange(NX) / NX) @ rho.mean(1)
        rows.append(Diagnostics(0.5 * (field**2).sum(), 0.5 * (w @ v**2).sum(), w @ v, bulk,
                                np.array([wave.real, wave.imag]), NPART, 0, dt))
    history = Diagnostics(*(np.stack(column) for column in zip(*rows)))
    return {"particles": np.int64(NPART), "pos": _on_circle(x), "vel": v, "rho": density(),
            **history._asdict()}


if __name__ == "__main__":
    ours, plain = main(), reference()
    for name, value in plain.items():
        np.testing.assert_allclose(ours[name], value, rtol=2e-3, atol=2e-3, err_msg=name)
