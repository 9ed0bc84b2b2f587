"""Replica exchange for a posterior with two mirrored modes.

The ladder of inverse temperatures runs along the mesh axis "temp", a few rungs on every
device, each with several walkers; the observations run along "data".  Walkers move by
Langevin proposals, then even or odd neighbours on the ladder try to swap.  Step sizes and
the spacing of the ladder adapt until the burn-in is over.
"""

from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, random
from jax.sharding import AxisType, PartitionSpec as P

run = SimpleNamespace(
    rungs=8,
    walkers=6,
    coldest=1.0,
    hottest=0.02,
    steps=70,
    burn=40,
    first_step=0.25,
    target=0.57,
    step_rate=0.6,
    ladder_rate=0.5,
    prior_scale=1.5,
    observed=93,
    held_out=38,
    inputs=3,
)


class Walker(NamedTuple):
    """What moves along the ladder; leading dimensions are rungs and walkers."""

    at: jax.Array
    loglik: jax.Array
    slope: jax.Array
    origin: jax.Array


class Tuning(NamedTuple):
    log_step: jax.Array  # of the own rungs
    log_gap: jax.Array  # of the whole ladder


class Sums(NamedTuple):
    """Added up after the burn-in."""

    loglik: jax.Array
    accepted: jax.Array
    swapped: jax.Array
    beta: jax.Array
    chance: jax.Array
    first: jax.Array
    second: jax.Array


def simulate_data(count, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, run.inputs)) * [1.0, 0.6, 1.4]
    x = x[np.argsort(x[:, 0])]
    logit = (x @ [1.2, -0.8, 0.5]) ** 2 - 1.0
    y = rng.random(count) < 1 / (1 + np.exp(-logit))
    return {"x": x.astype(np.float32), "y": y.astype(np.float32), "w": np.ones(count, np.float32)}


def pad_rows(data, multiple):
    grow = lambda a: np.pad(a, [(0, -len(a) % multiple)] + [(0, 0)] * (a.ndim - 1))
    return {name: grow(a) for name, a in data.items()}


def logits(at, x):
    return (x @ at[:-1]) ** 2 - 1.0 + at[-1]


def part_of_loglik(at, data):
    z = logits(at, data["x"])
    return jnp.sum(data["w"] * (data["y"] * z - jax.nn.softplus(z)))


def likelihood(at, data):
    """Log-likelihood of all observations, and its gradient, for every walker."""
    value_and_slope = jax.value_and_grad(part_of_loglik)
    each = jax.vmap(jax.vmap(value_and_slope, in_axes=(0, None)), in_axes=(0, None))
    return lax.psum(each(at, data), "data")


def log_prior(at):
    return -0.5 * jnp.sum(at**2, axis=-1) / run.prior_scale**2


def rungs_here(whole):
    """The part of an array with one entry for each rung that belongs to this device."""
    here = whole.shape[0] // lax.axis_size("temp")
    return lax.dynamic_slice_in_dim(whole, lax.axis_index("temp") * here, here)


def ladder(log_gap):
    """Inverse temperatures from the coldest to the hottest; gaps are relative."""
    share = jnp.concatenate([jnp.zeros(1), jnp.cumsum(jax.nn.softmax(log_gap))])
    return run.coldest * (run.hottest / run.coldest) ** share


def neighbour(x, offset):
    """Entries of the next rung (+1) or the one before (-1); zeros beyond the ends."""
    n = lax.axis_size("temp")
    if offset > 0:
        edge = lax.ppermute(x[:1], "temp", [(i + 1, i) for i in range(n - 1)])
        return jnp.concatenate([x[1:], edge])
    edge = lax.ppermute(x[-1:], "temp", [(i, i + 1) for i in range(n - 1)])
    return jnp.concatenate([edge, x[:-1]])


def keys_for(key):
    """One key for each walker of the own rungs."""
    number = rungs_here(jnp.arange(run.rungs))[:, None] * run.walkers + jnp.arange(run.walkers)
    return jax.vmap(jax.vmap(lambda i: random.fold_in(key, i)))(number)


def langevin(key, walker, beta, log_step, data):
    """Metropolis-adjusted Langevin move; beta and the step belong to rungs."""
    beta, step = beta[:, None], jnp.exp(log_step)[:, None]

    def drift(at, slope):
        return 0.5 * step[..., None] ** 2 * (beta[..., None] * slope - at / run.prior_scale**2)

    def draw(k):
        a, b = random.split(k)
        return random.normal(a, (run.inputs + 1,)), random.uniform(b)

    noise, uniform = jax.vmap(jax.vmap(draw))(keys_for(key))
    at = walker.at + drift(walker.at, walker.slope) + step[..., None] * noise
    loglik, slope = likelihood(at, data)
    back = (walker.at - at - drift(at, slope)) / step[..., None]
    ratio = beta * (loglik - walker.loglik) + log_prior(at) - log_prior(walker.at)
    ratio += 0.5 * jnp.sum(noise**2 - back**2, axis=-1)
    moved = jnp.log(uniform) < ratio
    new = Walker(at, loglik, slope, walker.origin)
    return choose(moved, new, walker), moved.astype(jnp.float32)


def choose(flag, yes, no):
    def pick(a, b):
        return jnp.where(flag.reshape(flag.shape + (1,) * (a.ndim - flag.ndim)), a, b)

    return jax.tree.map(pick, yes, no)


def exchange(key, walker, beta, parity):
    """The colder of two neighbours decides, the warmer is told."""
    rung = rungs_here(jnp.arange(run.rungs))
    leads = (rung % 2 == parity) & (rung + 1 < run.rungs)
    warmer = jax.tree.map(lambda x: neighbour(x, 1), walker)
    colder = jax.tree.map(lambda x: neighbour(x, -1), walker)
    gain = (beta - neighbour(beta, 1))[:, None] * (warmer.loglik - walker.loglik)
    uniform = jax.vmap(jax.vmap(random.uniform))(keys_for(key))
    down = (leads[:, None] & (jnp.log(uniform) < gain)).astype(jnp.float32)
    up = neighbour(down, -1)
    swapped = choose(down > 0, warmer, choose(up > 0, colder, walker))
    chance = jnp.where(leads[:, None], jnp.minimum(1.0, jnp.exp(gain)), 0.0)
    return swapped, down, chance.mean(axis=1)


def adapt(tuning, moved, chance, parity, t):
    """Robbins-Monro; every device computes the same ladder."""
    fade = (t + 1.0) ** -0.6 * (t < run.burn)
    log_step = tuning.log_step + run.step_rate * fade * (moved.mean(axis=1) - run.target)
    chances = lax.all_gather(chance, "temp", tiled=True)[:-1]
    tried = jnp.arange(run.rungs - 1) % 2 == parity
    average = jnp.sum(chances * tried) / tried.sum()
    log_gap = tuning.log_gap + run.ladder_rate * fade * tried * (chances - average)
    return Tuning(log_step, log_gap)


def cold_answer(walker, x):
    """Mean over the walkers of the coldest rung of the chance of each held-out event."""
    value = jax.nn.sigmoid(jax.vmap(logits, in_axes=(0, None))(walker.at[0], x)).mean(0)
    return lax.psum(jnp.where(lax.axis_index("temp") == 0, value, 0.0), "temp")


def sampler(key, data, held_out):
    rungs = run.rungs // lax.axis_size("temp")
    first = jax.vmap(jax.vmap(lambda k: random.normal(k, (run.inputs + 1,))))(keys_for(key))
    origin = jnp.broadcast_to(rungs_here(jnp.arange(run.rungs))[:, None], first.shape[:2])
    walker = Walker(first, *likelihood(first, data), origin.astype(jnp.float32))
    log_step = jnp.full(rungs, jnp.log(run.first_step))
    tuning = Tuning(log_step, jnp.zeros(run.rungs - 1))
    zero = jnp.zeros((rungs, run.walkers))
    sums = Sums(zero, zero, zero, jnp.zeros(rungs), jnp.zeros(held_out["y"].size), zero, zero)

    def sweep(carry, t):
        walker, tuning, sums = carry
        move_key, swap_key = random.split(random.fold_in(key, t + run.rungs * run.walkers))
        beta, parity = rungs_here(ladder(tuning.log_gap)), t % 2
        walker, moved = langevin(move_key, walker, beta, tuning.log_step, data)
        walker, swapped, chance = exchange(swap_key, walker, beta, parity)
        tuning = adapt(tuning, moved, chance, parity, t)
        size = jnp.sqrt(jnp.sum(walker.at[..., :-1] ** 2, axis=-1))
        answer = cold_answer(walker, held_out["x"])
        seen = Sums(walker.loglik, moved, swapped, beta, answer, size, size**2)
        sums = jax.tree.map(lambda s, x: s + x * (t >= run.burn), sums, seen)
        return (walker, tuning, sums), lax.pmean(walker.loglik.mean(), "temp")

    (walker, tuning, sums), trace = lax.scan(sweep, (walker, tuning, sums), jnp.arange(run.steps))
    sums = jax.tree.map(lambda s: s / (run.steps - run.burn), sums)
    return summary(tuning, sums, held_out) | {"trace": trace}, walker


def summary(tuning, sums, held_out):
    """Numbers that are the same on all devices."""
    gather = lambda x: lax.all_gather(x, "temp", tiled=True)
    beta, loglik = gather(sums.beta), gather(sums.loglik.mean(axis=1))
    evidence = -jnp.sum(jnp.diff(beta) * (loglik[1:] + loglik[:-1]) / 2)
    score = held_out["y"] * jnp.log(sums.chance) + (1 - held_out["y"]) * jnp.log1p(-sums.chance)
    count = lax.psum(held_out["w"].sum(), "data")
    means = sums.first
    within = jnp.mean(sums.second - means**2, axis=1)
    spread = jnp.sqrt(1 + means.var(axis=1) / within)
    return {
        "beta": beta,
        "loglik": loglik,
        "evidence": evidence,
        "accepted": gather(sums.accepted.mean(axis=1)),
        "swapped": gather(sums.swapped.mean(axis=1)),
        "spread": gather(spread),
        "score": lax.psum(jnp.sum(score * held_out["w"]), "data") / count,
        "step": gather(jnp.exp(tuning.log_step)),
    }


def main():
    mesh = jax.make_mesh((4, 2), ("temp", "data"), axis_types=(AxisType.Auto, AxisType.Auto))
    shards = mesh.shape["data"]
    data = pad_rows(simulate_data(run.observed, 0), shards)
    held_out = pad_rows(simulate_data(run.held_out, 1), shards)
    specs = (P(), P("data"), P("data"))
    sample = jax.shard_map(
        sampler, mesh=mesh, in_specs=specs, out_specs=(P(), P("temp")), check_vma=False
    )
    told, walker = jax.jit(sample)(random.key(11), data, held_out)
    told |= {"at": walker.at, "origin": walker.origin}
    return {name: np.asarray(value) for name, value in told.items()}


def reference():
    """All walkers in one flat list, swaps one pair at a time."""
    data, test = simulate_data(run.observed, 0), simulate_data(run.held_out, 1)
    R, W, d, s2 = run.rungs, run.walkers, run.inputs + 1, run.prior_scale**2

    def loglik(q):
        z = (data["x"] @ q[:-1]) ** 2 + q[-1] - 1
        return jnp.sum(jnp.where(data["y"] == 1, jax.nn.log_sigmoid(z), jax.nn.log_sigmoid(-z)))

    fold = jax.jit(lambda k: jax.vmap(lambda i: random.fold_in(k, i))(jnp.arange(R * W)))
    both = jax.jit(jax.vmap(jax.value_and_grad(loglik)))
    draws = jax.jit(jax.vmap(lambda k: random.normal(random.split(k)[0], (d,))))
    coins = jax.jit(jax.vmap(lambda k: random.uniform(random.split(k)[1])))
    plain = jax.jit(jax.vmap(random.uniform))
    starts = jax.jit(jax.vmap(lambda k: random.normal(k, (d,))))
    get = lambda *a: [np.array(x, np.float64) for x in both(jnp.float32(a[0]))]

    q = np.array(starts(fold(random.key(11))), np.float64)
    ll, g = get(q)
    origin, log_step = np.repeat(np.arange(R), W), np.full(R, np.log(run.first_step))
    gap, trace, kept = np.zeros(R - 1), [], []
    for t in range(run.steps):
        ka, kb = random.split(random.fold_in(random.key(11), t + R * W))
        share = np.append(0, np.cumsum(np.exp(gap) / np.exp(gap).sum()))
        beta = np.exp(np.log(run.hottest) * share)
        b, e = np.repeat(beta, W)[:, None], np.repeat(np.exp(log_step), W)[:, None]
        n, u = np.array(draws(fold(ka)), np.float64), np.array(coins(fold(ka)))
        new = q + e**2 / 2 * (b * g - q / s2) + e * n
        ll2, g2 = get(new)
        back = (q - new - e**2 / 2 * (b * g2 - new / s2)) / e
        ratio = b[:, 0] * (ll2 - ll) + ((q**2 - new**2) / s2 + n**2 - back**2).sum(1) / 2
        yes = np.log(u) < ratio
        q[yes], ll[yes], g[yes] = new[yes], ll2[yes], g2[yes]
        u, swaps = np.array(plain(fold(kb))).reshape(R, W), np.zeros((R, W))
        index, chance = np.arange(R * W).reshape(R, W), np.zeros(R - 1)
        for r in range(t % 2, R - 1, 2):
            gain = (beta[r] - beta[r + 1]) * (ll[index[r + 1]] - ll[index[r]])
            chance[r] = np.minimum(1, np.exp(gain)).mean()
            swaps[r] = np.log(u[r]) < gain
            for w in np.flatnonzero(swaps[r]):
                i, j = index[r, w], index[r + 1, w]
                for a in (q, ll, g, origin):
                    a[[i, j]] = a[[j, i]]
        if t < run.burn:
            fade, pairs = (t + 1.0) ** -0.6, slice(t % 2, None, 2)
            log_step += 0.6 * fade * (yes.reshape(R, W).mean(1) - run.target)
            gap[pairs] += 0.5 * fade * (chance[pairs] - chance[pairs].mean())
        else:
            z = (test["x"] @ q[:W, :-1].T) ** 2 - 1 + q[:W, -1]
            size = np.linalg.norm(q[:, :-1], axis=1).reshape(R, W)
            kept.append((1 * ll.reshape(R, W), yes.reshape(R, W), swaps, size, 1 / (1 + np.exp(-z))))
        trace.append(ll.mean())
    lls, yes, swaps, size, p = map(np.stack, zip(*kept))
    p, mean = p.mean((0, 2)), lls.mean((0, 2))
    score = np.where(test["y"] == 1, np.log(p), np.log(1 - p)).mean()
    spread = np.sqrt(1 + size.mean(0).var(1) / size.var(0).mean(1))
    out = {"beta": beta, "loglik": mean, "evidence": np.trapezoid(mean[::-1], beta[::-1])}
    out |= {"accepted": yes.mean((0, 2)), "swapped": swaps.mean((0, 2)), "spread": spread}
    out |= {"score": score, "step": np.exp(log_step), "trace": np.array(trace)}
    return out | {"at": q.reshape(R, W, d), "origin": origin.reshape(R, W)}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-3, atol=1e-3, err_msg=name)
    print("tempering_posterior: evidence", float(got["evidence"]), "swaps", got["swapped"])
