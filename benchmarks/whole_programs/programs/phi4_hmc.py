"""Hybrid Monte Carlo of the two-dimensional phi^4 theory, several couplings at once.

    S = sum_x [ -2 kappa phi(x) sum_mu phi(x + mu) + phi(x)^2 + lam (phi(x)^2 - 1)^2 ]

The periodic lattice is cut into tiles over a ("t", "x") mesh, every tile asks its four neighbours
for their edges.  One update is a trajectory with an accept-reject step for the whole lattice and a
sweep of heat baths for the signs, first on even and then on odd sites.  Random numbers belong to
CELL x CELL blocks of sites, so that a history does not depend on the mesh.
"""
import functools
from collections import namedtuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec as P

NT, NX, CELL = 12, 12, 3
SITES = NT * NX
LAM = 0.5
KAPPAS = (0.18, 0.24, 0.32)
WARM, MEASURED = 3, 5
LEAPS, LENGTH = 2, 1.1
OMELYAN = 0.1931833
TARGET, GAIN = 0.85, 0.4

Walker = namedtuple("Walker", "phi length tally")
Tally = namedtuple("Tally", "count accepted m1 m2 m4 low energy slices")
Draws = namedtuple("Draws", "momentum accept even odd")


def hot_start(seed=5):
    return np.random.default_rng(seed).normal(size=(len(KAPPAS), NT, NX)).astype(np.float32)


def draws_of(key, step):
    return Draws(*jax.random.split(jax.random.fold_in(key, step), 4))


# ------------------------------------------------------------------ the lattice and its mesh


def ahead(f, name, dim):
    """The field one site further along a dimension that is cut over this axis of the mesh."""
    n = lax.axis_size(name)
    first = lax.slice_in_dim(f, 0, 1, axis=dim)
    edge = lax.ppermute(first, name, [(i, (i - 1) % n) for i in range(n)])
    return jnp.concatenate([lax.slice_in_dim(f, 1, None, axis=dim), edge], axis=dim)


def behind(f, name, dim):
    n = lax.axis_size(name)
    last = lax.slice_in_dim(f, f.shape[dim] - 1, None, axis=dim)
    edge = lax.ppermute(last, name, [(i, (i + 1) % n) for i in range(n)])
    return jnp.concatenate([edge, lax.slice_in_dim(f, 0, f.shape[dim] - 1, axis=dim)], axis=dim)


def forward_sum(f):
    return ahead(f, "t", 0) + ahead(f, "x", 1)


def neighbours(f):
    return forward_sum(f) + behind(f, "t", 0) + behind(f, "x", 1)


def corner(shape):
    """Global coordinates of the first site of the own tile."""
    return lax.axis_index("t") * shape[0], lax.axis_index("x") * shape[1]


def coordinates(shape):
    t0, x0 = corner(shape)
    return t0 + jnp.arange(shape[0])[:, None], x0 + jnp.arange(shape[1])[None, :]


def everywhere(value):
    return lax.psum(value, ("t", "x"))


def scattered(draw, key, shape):
    """Random numbers for the own tile, of one key for each cell of the whole lattice."""
    rows, columns = shape[0] // CELL, shape[1] // CELL
    t0, x0 = (first // CELL for first in corner(shape))
    cell = (t0 + jnp.arange(rows))[:, None] * (NX // CELL) + x0 + jnp.arange(columns)
    keys = jax.vmap(functools.partial(jax.random.fold_in, key))(cell.ravel())
    blocks = jax.vmap(lambda k: draw(k, (CELL, CELL)))(keys)
    return blocks.reshape(rows, columns, CELL, CELL).swapaxes(1, 2).reshape(shape)


# ------------------------------------------------------------------ action and updates


def action_density(kappa, phi):
    hop = -2.0 * kappa * phi * forward_sum(phi)
    return hop + phi**2 + LAM * (phi**2 - 1.0) ** 2


def force(kappa, phi):
    return 2.0 * kappa * neighbours(phi) - 2.0 * phi - 4.0 * LAM * phi * (phi**2 - 1.0)


def integrate(kappa, phi, p, length):
    """Omelyan's minimum norm integrator."""
    eps = length / LEAPS

    def leap(state, _):
        phi, p = state
        p = p + OMELYAN * eps * force(kappa, phi)
        phi = phi + 0.5 * eps * p
        p = p + (1.0 - 2.0 * OMELYAN) * eps * force(kappa, phi)
        phi = phi + 0.5 * eps * p
        p = p + OMELYAN * eps * force(kappa, phi)
        return (phi, p), None

    return lax.scan(leap, (phi, p), None, length=LEAPS)[0]


def trajectory(kappa, phi, length, draws):
    def hamiltonian(phi, p):
        return everywhere(jnp.sum(0.5 * p**2 + action_density(kappa, phi)))

    p = scattered(jax.random.normal, draws.momentum, phi.shape)
    new, p_new = integrate(kappa, phi, p, length)
    excess = hamiltonian(new, p_new) - hamiltonian(phi, p)
    chance = jnp.minimum(1.0, jnp.exp(-excess))
    accepted = jax.random.uniform(draws.accept) < chance
    return jnp.where(accepted, new, phi), accepted, chance, excess


def heat_bath_signs(kappa, phi, draws):
    """The sign of a site, given its modulus and its neighbours, is an Ising spin in a field."""
    t, x = coordinates(phi.shape)
    parity = (t + x) % 2
    for colour, key in enumerate((draws.even, draws.odd)):
        up = jax.nn.sigmoid(4.0 * kappa * jnp.abs(phi) * neighbours(phi))
        u = scattered(jax.random.uniform, key, phi.shape)
        drawn = jnp.where(u < up, jnp.abs(phi), -jnp.abs(phi))
        phi = jnp.where(parity == colour, drawn, phi)
    return phi


# ------------------------------------------------------------------ observables


def slice_correlation(phi):
    """Of the sums over x at all distances along t."""
    sums = lax.all_gather(lax.psum(phi.sum(1), "x"), "t", tiled=True)
    shifted = jax.vmap(lambda d: jnp.roll(sums, -d))(jnp.arange(NT))
    return shifted @ sums / SITES


def low_mode(phi):
    """Power of the longest wave along x."""
    _, x = coordinates(phi.shape)
    wave = phi * jnp.exp(-2j * jnp.pi * x / NX)
    return jnp.abs(everywhere(wave.sum())) ** 2 / SITES


def measure(kappa, tally, phi, accepted, weight):
    m = everywhere(phi.sum()) / SITES
    energy = everywhere(action_density(kappa, phi).sum()) / SITES
    low, slices = low_mode(phi), slice_correlation(phi)
    new = Tally(1.0, accepted, jnp.abs(m), m**2, m**4, low, energy, slices)
    return jax.tree.map(lambda total, value: total + weight * value, tally, new), m


def summary(tally):
    mean = jax.tree.map(lambda total: total / tally.count, tally)
    chi = SITES * mean.m2
    ratio = jnp.maximum(chi / mean.low - 1.0, 0.0)
    return {
        "acceptance": mean.accepted,
        "magnetisation": mean.m1,
        "susceptibility": chi - SITES * mean.m1**2,
        "binder": 1.0 - mean.m4 / (3.0 * mean.m2**2),
        "correlation_length": jnp.sqrt(ratio) / (2.0 * np.sin(np.pi / NX)),
        "energy": mean.energy,
        "slices": mean.slices,
    }


def history(key, kappa, phi):
    """The whole run at one coupling."""

    def update(walker, step):
        draws = draws_of(key, step)
        phi, accepted, chance, excess = trajectory(kappa, walker.phi, walker.length, draws)
        phi = heat_bath_signs(kappa, phi, draws)
        warm = step < WARM
        longer = walker.length * jnp.exp(GAIN * (chance - TARGET))
        length = jnp.where(warm, longer, walker.length)
        tally, m = measure(kappa, walker.tally, phi, accepted, 1.0 - warm)
        return Walker(phi, length, tally), (m, excess)

    zeros = Tally(*[jnp.float32(0.0)] * 7, jnp.zeros(NT))
    start = Walker(phi, jnp.float32(LENGTH), zeros)
    walker, (m, excess) = lax.scan(update, start, jnp.arange(WARM + MEASURED))
    said = summary(walker.tally) | {"length": walker.length, "m": m, "excess": excess}
    return said, walker.phi


def main():
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(2, devices.size)), ("t", "x"))
    field = P(None, "t", "x")
    run = jax.shard_map(
        jax.vmap(history),
        mesh=mesh,
        in_specs=(P(), P(), field),
        out_specs=(P(), field),
        check_vma=False,
    )
    keys = jax.random.split(jax.random.key(12), len(KAPPAS))
    said, phi = jax.jit(run)(keys, jnp.array(KAPPAS), hot_start())
    return {name: np.asarray(value) for name, value in {**said, "phi": phi}.items()}


def reference():
    cells_t, cells_x = NT // CELL, NX // CELL

    @functools.partial(jax.jit, static_argnums=1)
    def cells(key, kind):
        draw = (jax.random.normal, jax.random.uniform)[kind]
        own = [draw(jax.random.fold_in(key, c), (CELL, CELL)) for c in range(cells_t * cells_x)]
        return jnp.block([own[r * cells_x : (r + 1) * cells_x] for r in range(cells_t)])

    def near(f):
        return sum(np.roll(f, s, a) for s in (1, -1) for a in (0, 1))

    def action(k, f):
        return np.sum(-k * f * near(f) + f**2 + LAM * (f**2 - 1) ** 2)

    def slope(k, f):
        return 2 * k * near(f) - 2 * f - 4 * LAM * f * (f**2 - 1)

    def walk(key, k, f):
        f, length, seen, ms, dhs = f.astype(np.float64), LENGTH, [], [], []
        black = np.indices((NT, NX)).sum(0) % 2
        for step in range(WARM + MEASURED):
            draws = draws_of(key, step)
            p = p0 = np.asarray(cells(draws.momentum, 0), np.float64)
            g, eps = f, length / LEAPS
            for _ in range(LEAPS):
                p = p + OMELYAN * eps * slope(k, g)
                g = g + eps / 2 * p
                p = p + (1 - 2 * OMELYAN) * eps * slope(k, g)
                g = g + eps / 2 * p
                p = p + OMELYAN * eps * slope(k, g)
            dh = action(k, g) - action(k, f) + np.sum(p**2 - p0**2) / 2
            chance = min(1.0, np.exp(-dh))
            accepted = float(jax.random.uniform(draws.accept)) < chance
            f = g if accepted else f
            for colour, key_of in enumerate((draws.even, draws.odd)):
                odds = np.exp(4 * k * np.abs(f) * near(f))
                plus = np.asarray(cells(key_of, 1)) < odds / (1 + odds)
                f = np.where(black == colour, np.where(plus, 1, -1) * np.abs(f), f)
            if step < WARM:
                length *= np.exp(GAIN * (chance - TARGET))
            else:
                m, s = f.mean(), f.sum(1)
                low = np.abs(np.fft.fft(f.sum(0))[1]) ** 2 / SITES
                lags = [np.sum(s * np.roll(s, -d)) / SITES for d in range(NT)]
                head = [accepted, abs(m), m**2, m**4, low, action(k, f) / SITES]
                seen.append(np.array(head + lags))
            ms.append(f.mean())
            dhs.append(dh)
        rate, m1, m2, m4, low, energy, *lags = np.mean(seen, 0)
        xi = np.sqrt(max(SITES * m2 / low - 1, 0)) / (2 * np.sin(np.pi / NX))
        said = dict(acceptance=rate, magnetisation=m1, susceptibility=SITES * (m2 - m1**2))
        said |= dict(binder=1 - m4 / 3 / m2**2, correlation_length=xi, energy=energy)
        return said | dict(slices=lags, length=length, m=ms, excess=dhs, phi=f)

    keys = jax.random.split(jax.random.key(12), len(KAPPAS))
    walks = [walk(*one) for one in zip(keys, KAPPAS, hot_start())]
    return {name: np.array([w[name] for w in walks]) for name in walks[0]}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-3, atol=1e-3, err_msg=name)
    print("phi4_hmc: agrees; acceptance", got["acceptance"], "binder", got["binder"])
    print("magnetisation", got["magnetisation"], "length", got["length"])
