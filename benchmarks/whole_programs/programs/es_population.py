"""Evolution strategies with population based exploration noise, under pmap.

The population is made of antithetic pairs, spread over the devices.  Every
pair has its own noise scale, which the worst pairs take over from the best.
"""

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import struct
from jax import lax
from jax.flatten_util import ravel_pytree

AXIS = "pop"


@struct.dataclass
class Config:
    pairs: int = 32
    generations: int = 8
    horizon: int = 50
    hidden: int = 16
    sigma: float = 0.15
    lr: float = 0.05
    grad_limit: float = 0.5
    ema_decay: float = 0.8
    exploit_fraction: float = 0.25
    jitter: float = 0.2
    episodes: int = 16
    seed: int = 3


class Policy(nn.Module):
    hidden: int

    @nn.compact
    def __call__(self, obs):
        x = nn.tanh(nn.Dense(self.hidden)(obs))
        x = nn.tanh(nn.Dense(self.hidden)(x))
        return 2.0 * nn.tanh(nn.Dense(1)(x))[..., 0]


class Pendulum:
    """A pole that starts near the top; an episode ends when it has fallen."""

    @staticmethod
    def reset(key):
        angle, speed = jax.random.uniform(key, (2,), minval=-0.6, maxval=0.6)
        return jnp.stack([angle, speed])

    @staticmethod
    def step(state, torque, dt=0.05):
        angle, speed = state
        speed = speed + dt * (7.0 * jnp.sin(angle) + 3.0 * torque - 0.1 * speed)
        angle = angle + dt * speed
        reward = 1.0 - angle**2 - 0.05 * speed**2 - 0.01 * torque**2
        return jnp.stack([angle, speed]), reward, jnp.abs(angle) > 1.2


@struct.dataclass
class Welford:
    count: jax.Array
    mean: jax.Array
    m2: jax.Array

    def normalise(self, obs):
        return jnp.clip((obs - self.mean) * lax.rsqrt(self.m2 / self.count + 1e-6), -5.0, 5.0)

    @classmethod
    def of_batch(cls, obs, alive):
        """Statistics of the observations of all devices, [..., dim]."""
        weight = alive.reshape(-1, 1)
        obs = obs.reshape(-1, obs.shape[-1])
        count = lax.psum(weight.sum(), AXIS)
        local_count = jnp.maximum(weight.sum(), 1.0)
        local_mean = (weight * obs).sum(axis=0) / local_count
        local_m2 = (weight * jnp.square(obs - local_mean)).sum(axis=0)
        mean = lax.psum(local_mean * local_count, AXIS) / count
        m2 = lax.psum(local_m2 + local_count * jnp.square(local_mean - mean), AXIS)
        return cls(count, mean, m2)

    def merge(self, other):
        count = self.count + other.count
        delta = other.mean - self.mean
        mean = self.mean + delta * other.count / count
        m2 = self.m2 + other.m2 + jnp.square(delta) * self.count * other.count / count
        return Welford(count, mean, m2)


@struct.dataclass
class State:
    params: Any
    ema: Any
    opt: Any
    stats: Welford
    log_sigma: jax.Array
    best: Any
    best_fitness: jax.Array
    generation: jax.Array


def rollout(cfg, stats, params, key):
    """Return of one episode, its observations and the steps it was alive."""
    policy = Policy(cfg.hidden)

    def tick(carry, _):
        state, alive = carry
        obs = jnp.stack([jnp.sin(state[0]), jnp.cos(state[0]), state[1]])
        torque = policy.apply(params, stats.normalise(obs))
        state, reward, fell = Pendulum.step(state, torque)
        return (state, alive * (1.0 - fell)), (alive * reward, obs, alive)

    start = (Pendulum.reset(key), jnp.asarray(1.0))
    _, (rewards, obs, alive) = lax.scan(tick, start, None, length=cfg.horizon)
    return rewards.sum(), obs, alive


def member_ids(count):
    """Numbers of the members on this device within the whole population."""
    return lax.axis_index(AXIS) * count + jnp.arange(count)


keys_for = jax.vmap(jax.random.fold_in, in_axes=(None, 0))


def draw_noise(key, params):
    leaves, treedef = jax.tree.flatten(params)
    keys = jax.random.split(key, len(leaves))
    noise = [jax.random.normal(k, x.shape) for k, x in zip(keys, leaves)]
    return jax.tree.unflatten(treedef, noise)


def centred_ranks(fitness):
    """Ranks of the local members in the whole population, from -0.5 to 0.5."""
    local = fitness.size
    everyone = lax.all_gather(fitness.reshape(-1), AXIS, tiled=True)
    ranks = jnp.argsort(jnp.argsort(everyone)) / (everyone.size - 1) - 0.5
    mine = lax.dynamic_slice_in_dim(ranks, lax.axis_index(AXIS) * local, local)
    return mine.reshape(fitness.shape)


def estimate_gradient(cfg, noise, ranks, sigma):
    """Ascent direction of the expected rank, summed over the population."""
    weight = (ranks[:, 0] - ranks[:, 1]) / sigma
    total = jax.tree.map(lambda e: jnp.tensordot(weight, e, axes=1), noise)
    total = lax.psum(total, AXIS)
    pairs = weight.shape[0] * lax.psum(1, AXIS)
    grad = jax.tree.map(lambda t: t / (2.0 * pairs), total)
    norm = optax.global_norm(grad)
    return jax.tree.map(lambda g: g * jnp.minimum(1.0, cfg.grad_limit / norm), grad), norm


def exploit(cfg, key, log_sigma, score):
    """The worst pairs take over (and perturb) the scale of the best pairs."""
    scores, scales = lax.all_gather((score, log_sigma), AXIS, tiled=True)
    order = jnp.argsort(-scores)
    place = jnp.argsort(order)
    moved = int(cfg.exploit_fraction * scores.shape[0])
    ids = member_ids(score.shape[0])
    my_place = place[ids]
    is_bad = my_place >= scores.shape[0] - moved
    source = order[jnp.where(is_bad, scores.shape[0] - 1 - my_place, 0)]
    shift = cfg.jitter * jax.vmap(jax.random.normal)(keys_for(key, ids))
    return jnp.where(is_bad, scales[source] + shift, log_sigma)


def select_best(members, fitness):
    """Parameters of the fittest member of the population, on every device."""
    everyone = lax.all_gather(fitness, AXIS, tiled=True)
    winner = jnp.argmax(everyone)
    owner, slot = winner // fitness.shape[0], winner % fitness.shape[0]
    is_owner = lax.axis_index(AXIS) == owner
    chosen = jax.tree.map(lambda x: jnp.where(is_owner, x[slot], 0.0), members)
    return lax.psum(chosen, AXIS), everyone[winner]


def generation_step(cfg, tx, state, key):
    key = jax.random.fold_in(key, state.generation)
    noise_key, episode_key, exploit_key = jax.random.split(key, 3)
    ids = member_ids(state.log_sigma.shape[0])
    noise = jax.vmap(draw_noise, in_axes=(0, None))(keys_for(noise_key, ids), state.params)
    sigma = jnp.exp(state.log_sigma)

    def perturbed(sign):
        shift = lambda p, e: p + sign * jnp.einsum("i,i...->i...", sigma, e)
        return jax.tree.map(shift, state.params, noise)

    run = jax.vmap(functools.partial(rollout, cfg, state.stats))
    members = jax.tree.map(lambda *x: jnp.concatenate(x), perturbed(1.0), perturbed(-1.0))
    returns, obs, alive = run(members, jnp.tile(keys_for(episode_key, ids), 2))
    fitness = returns.reshape(2, -1).T

    grad, norm = estimate_gradient(cfg, noise, centred_ranks(fitness), sigma)
    updates, opt = tx.update(jax.tree.map(jnp.negative, grad), state.opt)
    params = optax.apply_updates(state.params, updates)
    ema = optax.incremental_update(params, state.ema, 1.0 - cfg.ema_decay)

    candidate, top = select_best(members, returns)
    better = top > state.best_fitness
    best = jax.tree.map(lambda a, b: jnp.where(better, a, b), candidate, state.best)
    mean = lax.pmean(returns.mean(), AXIS)
    spread = jnp.sqrt(lax.pmean(jnp.square(returns - mean).mean(), AXIS))
    state = state.replace(
        params=params,
        ema=ema,
        opt=opt,
        stats=state.stats.merge(Welford.of_batch(obs, alive)),
        log_sigma=exploit(cfg, exploit_key, state.log_sigma, fitness.max(axis=1)),
        best=best,
        best_fitness=jnp.maximum(top, state.best_fitness),
        generation=state.generation + 1,
    )
    return state, {"fitness": mean, "spread": spread, "top": top, "grad_norm": norm}


def evaluate(cfg, params, stats, key):
    """Mean return and mean reward per step alive over fresh episodes."""
    count = cfg.episodes // lax.axis_size(AXIS)
    keys = keys_for(key, member_ids(count))
    returns, _, alive = jax.vmap(functools.partial(rollout, cfg, stats, params))(keys)
    total, steps = lax.psum((returns.sum(), alive.sum()), AXIS)
    return total / cfg.episodes, total / steps


def main():
    devices = jax.devices()
    cfg = Config()
    tx = optax.adam(cfg.lr)
    init_key, train_key, eval_key = jax.random.split(jax.random.key(cfg.seed), 3)
    params = Policy(cfg.hidden).init(init_key, jnp.zeros(3))
    stats = Welford(jnp.asarray(1e-2), jnp.zeros(3), jnp.full(3, 1e-2))
    log_sigma = jnp.full(cfg.pairs // len(devices), np.log(cfg.sigma))
    top, start = jnp.asarray(-jnp.inf), jnp.asarray(0)
    state = State(params, params, tx.init(params), stats, log_sigma, params, top, start)
    state = jax.tree.map(lambda x: np.broadcast_to(x, (len(devices), *x.shape)), state)
    pmap = functools.partial(jax.pmap, axis_name=AXIS, devices=devices)
    state = pmap(lambda x: x)(state)  # lest the first step be compiled by itself
    step = pmap(functools.partial(generation_step, cfg, tx), in_axes=(0, None))
    test = pmap(functools.partial(evaluate, cfg), in_axes=(0, 0, None))

    results = {"fitness": [], "spread": [], "top": [], "grad_norm": [], "sigma": []}
    for _ in range(cfg.generations):
        state, info = step(state, train_key)
        for name, value in info.items():
            results[name].append(float(value[0]))
        results["sigma"].append(float(jnp.exp(state.log_sigma).mean()))

    for name in ("params", "ema", "best"):
        mean, per_step = test(getattr(state, name), state.stats, eval_key)
        results[f"eval_{name}"] = np.array([mean[0], per_step[0]])
    results["log_sigma"] = np.asarray(state.log_sigma).reshape(-1)
    state = jax.tree.map(lambda x: np.asarray(x[0]), state)
    for name in ("params", "ema", "best"):
        results[name], _ = ravel_pytree(getattr(state, name))
    stats = state.stats
    results["obs_count"] = float(stats.count)
    results["obs_mean"] = stats.mean
    results["obs_std"] = np.sqrt(stats.m2 / stats.count)
    return results


def reference():
    """The same on one device, with the parameters as one vector."""
    cfg = Config()
    tx = optax.adam(cfg.lr)
    init_key, train_key, eval_key = jax.random.split(jax.random.key(cfg.seed), 3)
    params, unravel = ravel_pytree(Policy(cfg.hidden).init(init_key, jnp.zeros(3)))
    ema, best, opt, highest = params, params, tx.init(params), -np.inf
    stats = Welford(1e-2, np.zeros(3), np.full(3, 1e-2))
    log_sigma = np.full(cfg.pairs, np.log(cfg.sigma), np.float32)
    ids = jnp.arange(cfg.pairs)
    moved = int(cfg.exploit_fraction * cfg.pairs)

    @jax.jit
    def play(stats, members, keys):
        episode = lambda member, key: rollout(cfg, stats, unravel(member), key)
        return jax.vmap(episode)(members, keys)

    draw = jax.jit(lambda key: ravel_pytree(draw_noise(key, unravel(params)))[0])
    results = {"fitness": [], "spread": [], "top": [], "grad_norm": [], "sigma": []}
    for generation in range(cfg.generations):
        key = jax.random.fold_in(train_key, generation)
        noise_key, episode_key, exploit_key = jax.random.split(key, 3)
        noise = jnp.stack([draw(k) for k in keys_for(noise_key, ids)])
        sigma = np.exp(log_sigma)[:, None]
        members = jnp.concatenate([params + sigma * noise, params - sigma * noise])
        returns, obs, alive = play(stats, members, jnp.tile(keys_for(episode_key, ids), 2))

        fitness = np.asarray(returns).reshape(2, cfg.pairs)
        ranks = np.argsort(np.argsort(fitness.T.reshape(-1))).reshape(cfg.pairs, 2)
        slope = (ranks[:, :1] - ranks[:, 1:]) / (2 * cfg.pairs - 1) / sigma
        grad = (slope * noise).sum(axis=0) / (2 * cfg.pairs)
        norm = jnp.linalg.norm(grad)
        updates, opt = tx.update(-grad * jnp.minimum(1.0, cfg.grad_limit / norm), opt)
        params = params + updates
        ema = cfg.ema_decay * ema + (1 - cfg.ema_decay) * params
        if fitness.max() > highest:
            highest, best = fitness.max(), members[fitness.argmax()]

        seen = np.asarray(obs)[np.asarray(alive) > 0]
        mean = seen.mean(axis=0)
        stats = stats.merge(Welford(float(len(seen)), mean, ((seen - mean) ** 2).sum(axis=0)))

        order = np.argsort(-fitness.max(axis=0))
        changed = log_sigma.copy()
        for good, bad in zip(order[:moved], order[::-1]):
            shift = jax.random.normal(jax.random.fold_in(exploit_key, bad))
            changed[bad] = log_sigma[good] + cfg.jitter * shift
        log_sigma = changed
        values = fitness.mean(), fitness.std(), fitness.max(), norm, np.exp(log_sigma).mean()
        for name, value in zip(results, values):
            results[name].append(float(value))

    for name, vector in {"params": params, "ema": ema, "best": best}.items():
        keys = keys_for(eval_key, jnp.arange(cfg.episodes))
        returns, _, alive = play(stats, jnp.tile(vector, (cfg.episodes, 1)), keys)
        results[f"eval_{name}"] = np.array([returns.mean(), returns.sum() / alive.sum()])
        results[name] = vector
    results["log_sigma"] = log_sigma
    results["obs_count"] = float(stats.count)
    results["obs_mean"] = stats.mean
    results["obs_std"] = np.sqrt(stats.m2 / stats.count)
    return results


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    print("agree:", ", ".join(wanted))
