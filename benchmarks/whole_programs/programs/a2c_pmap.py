# Advantage actor-critic over many copies of a toy environment, one pmap over all devices.
# Environments are spread over devices; parameters, optimizer and observation statistics are replicated.
import os
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from collections import namedtuple
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax

NUM_ENVS = 16
ROLLOUT = 6
OBS, ACT, HID = 4, 2, 12
GAMMA, LAMBDA = 0.95, 0.9
VF_COEF, ENT_COEF = 0.5, 0.01
LR, MAX_NORM = 0.05, 0.7

Transition = namedtuple("Transition", "obs action reward done value")
EnvState = namedtuple("EnvState", "pos vel clock")
Stats = namedtuple("Stats", "count mean m2")
Runner = namedtuple("Runner", "params opt stats env keys")


# environment: push a point to the origin
def env_reset(key):
    k1, k2 = jax.random.split(key)
    return EnvState(jax.random.normal(k1, (2,)), 0.1 * jax.random.normal(k2, (2,)), jnp.zeros((), jnp.int32))


def env_obs(s):
    return jnp.concatenate([3.0 * s.pos + 1.0, s.vel])


def env_step(s, action, key):
    vel = 0.9 * s.vel + 0.1 * jnp.tanh(action)
    pos, clock = s.pos + vel, s.clock + 1
    done = clock >= 4
    reward = -jnp.sum(pos ** 2) - 0.01 * jnp.sum(action ** 2)
    fresh = env_reset(key)
    s = jax.tree.map(lambda a, b: jnp.where(done, a, b), fresh, EnvState(pos, vel, clock))
    return s, reward, done


def init_params(key):
    k = jax.random.split(key, 4)
    dense = lambda k, i, o: {"w": jax.random.normal(k, (i, o)) / jnp.sqrt(i), "b": jnp.zeros(o)}
    return {"l1": dense(k[0], OBS, HID), "l2": dense(k[1], HID, HID), "pi": dense(k[2], HID, ACT),
            "v": dense(k[3], HID, 1), "log_std": jnp.full(ACT, -0.5)}


def network(p, obs):
    for name in ("l1", "l2"):
        obs = jnp.tanh(obs @ p[name]["w"] + p[name]["b"])
    mean = obs @ p["pi"]["w"] + p["pi"]["b"]
    value = (obs @ p["v"]["w"] + p["v"]["b"])[..., 0]
    return mean, value


def log_prob(p, mean, action):
    z = (action - mean) * jnp.exp(-p["log_std"])
    return jnp.sum(-0.5 * z ** 2 - p["log_std"] - 0.5 * jnp.log(2 * jnp.pi), -1)


# running statistics of observations, equal on all devices
def update_stats(stats, obs):
    n = jax.lax.psum(obs.shape[0], "dev")
    mean = jax.lax.psum(obs.sum(0), "dev") / n
    m2 = jax.lax.psum(jnp.square(obs - mean).sum(0), "dev")
    total = stats.count + n
    delta = mean - stats.mean
    return Stats(total, stats.mean + delta * n / total, stats.m2 + m2 + delta ** 2 * stats.count * n / total)


def normalize(stats, obs):
    return (obs - stats.mean) / jnp.sqrt(stats.m2 / stats.count + 1e-4)


def rollout(runner):
    def tick(carry, _):
        stats, env, keys = carry
        raw = jax.vmap(env_obs)(env)
        stats = update_stats(stats, raw)
        obs = normalize(stats, raw)
        mean, value = network(runner.params, obs)
        keys, noise_keys, reset_keys = jnp.moveaxis(jax.vmap(partial(jax.random.split, num=3))(keys), 1, 0)
        noise = jax.vmap(lambda k: jax.random.normal(k, (ACT,)))(noise_keys)
        action = mean + jnp.exp(runner.params["log_std"]) * noise
        env, reward, done = jax.vmap(env_step)(env, action, reset_keys)
        return (stats, env, keys), Transition(obs, action, reward, done, value)

    (stats, env, keys), batch = jax.lax.scan(tick, (runner.stats, runner.env, runner.keys), None, ROLLOUT)
    return runner._replace(stats=stats, env=env, keys=keys), batch


def advantages(batch, last_value):
    def back(carry, t):
        gae, next_value = carry
        alive = 1.0 - t.done
        delta = t.reward + GAMMA * next_value * alive - t.value
        gae = delta + GAMMA * LAMBDA * alive * gae
        return (gae, t.value), gae

    _, adv = jax.lax.scan(back, (jnp.zeros_like(last_value), last_value), batch, reverse=True)
    return adv, adv + batch.value


def loss_fn(params, batch, adv, returns, ent_coef):
    mean, value = network(params, batch.obs)
    mu = jax.lax.pmean(adv.mean(), "dev")
    sd = jnp.sqrt(jax.lax.pmean(jnp.square(adv - mu).mean(), "dev"))
    pg = -((adv - mu) / (sd + 1e-8) * log_prob(params, mean, batch.action)).mean()
    vf = jnp.square(value - returns).mean()
    entropy = jnp.sum(params["log_std"] + 0.5 * jnp.log(2 * jnp.pi * jnp.e))
    return pg + VF_COEF * vf - ent_coef * entropy, (pg, vf)


optimizer = optax.chain(optax.clip_by_global_norm(MAX_NORM), optax.sgd(LR, momentum=0.9))


@partial(jax.pmap, axis_name="dev", in_axes=(0, None), donate_argnums=0)
def update(runner, ent_coef):
    runner, batch = rollout(runner)
    _, last_value = network(runner.params, normalize(runner.stats, jax.vmap(env_obs)(runner.env)))
    adv, returns = advantages(batch, last_value)
    (loss, (pg, vf)), grads = jax.value_and_grad(loss_fn, has_aux=True)(runner.params, batch, adv, returns, ent_coef)
    grads = jax.lax.pmean(grads, axis_name="dev")
    updates, opt = optimizer.update(grads, runner.opt, runner.params)
    params = optax.apply_updates(runner.params, updates)
    metrics = jax.lax.pmean(jnp.stack([loss, pg, vf, batch.reward.mean()]), axis_name="dev")
    return runner._replace(params=params, opt=opt), metrics


def main(dev=8, steps=2):
    replicate = lambda tree: jax.tree.map(lambda x: jnp.broadcast_to(x, (dev, *jnp.shape(x))), tree)
    split = lambda tree: jax.tree.map(lambda x: x.reshape(dev, NUM_ENVS // dev, *x.shape[1:]), tree)
    reset_key, act_key = jax.random.split(jax.random.key(0))
    env = jax.vmap(env_reset)(jax.random.split(reset_key, NUM_ENVS))
    params = init_params(jax.random.key(1))
    runner = Runner(
        params=replicate(params), opt=replicate(optimizer.init(params)),
        stats=replicate(Stats(1e-3, jnp.zeros(OBS), jnp.zeros(OBS))),
        env=split(env), keys=split(jax.random.split(act_key, NUM_ENVS)))
    log = []
    for i in range(steps):
        runner, metrics = update(runner, ENT_COEF * (1 - i / steps))
        log.append(np.asarray(metrics[0]))
    out = {k: np.asarray(v[-1]) for k, v in runner.stats._asdict().items()}
    for name, x in jax.tree_util.tree_leaves_with_path(runner.params):
        out[jax.tree_util.keystr(name)] = np.asarray(x[-1])
    return out | {"log": np.stack(log), "pos": np.asarray(runner.env.pos).reshape(NUM_ENVS, 2)}


def reference(steps=2):
    reset_key, act_key = jax.random.split(jax.random.key(0))
    envs = [env_reset(k) for k in jax.random.split(reset_key, NUM_ENVS)]
    pos, vel = (np.stack([np.asarray(getattr(e, n)) for e in envs]) for n in ("pos", "vel"))
    clock, keys = 0, jax.random.split(act_key, NUM_ENVS)
    p, p_trace = init_params(jax.random.key(1)), None
    count, mean, m2, log = 1e-3, np.zeros(OBS), np.zeros(OBS), []
    draw = jax.jit(jax.vmap(lambda k: (*jax.random.split(k, 3), jax.random.normal(jax.random.split(k, 3)[1], (2,)))))

    def net(p, x):
        h = jnp.tanh(jnp.tanh(x @ p["l1"]["w"] + p["l1"]["b"]) @ p["l2"]["w"] + p["l2"]["b"])
        return h @ p["pi"]["w"] + p["pi"]["b"], (h @ p["v"]["w"] + p["v"]["b"]).squeeze(-1)

    @jax.jit
    @partial(jax.value_and_grad, has_aux=True)
    def objective(p, x, a, adv, ret, ent):
        mu, v = net(p, x)
        sd = jnp.exp(p["log_std"])
        lp = (-(((a - mu) / sd) ** 2) / 2 - jnp.log(sd) - jnp.log(2 * jnp.pi) / 2).sum(-1)
        pg, vf = -jnp.mean(adv * lp), jnp.mean((v - ret) ** 2)
        h = (p["log_std"] + (1 + jnp.log(2 * jnp.pi)) / 2).sum()
        return pg + VF_COEF * vf - ent * h, (pg, vf)

    for i in range(steps):
        X, A, R, D, V = [], [], [], [], []
        for _ in range(ROLLOUT):
            raw = np.concatenate([3 * pos + 1, vel], 1)
            batch_mean, delta = raw.mean(0), raw.mean(0) - mean
            m2 = m2 + ((raw - batch_mean) ** 2).sum(0) + delta ** 2 * count * NUM_ENVS / (count + NUM_ENVS)
            count, mean = count + NUM_ENVS, mean + delta * NUM_ENVS / (count + NUM_ENVS)
            x = (raw - mean) / np.sqrt(m2 / count + 1e-4)
            mu, v = net(p, x)
            keys, _, k_reset, noise = draw(keys)
            a = np.asarray(mu + jnp.exp(p["log_std"]) * noise)
            vel = 0.9 * vel + 0.1 * np.tanh(a)
            pos = pos + vel
            clock += 1
            X.append(x), A.append(a), V.append(np.asarray(v)), D.append(clock == 4)
            R.append(-(pos ** 2).sum(1) - 0.01 * (a ** 2).sum(1))
            if clock == 4:
                new, clock = jax.vmap(env_reset)(k_reset), 0
                pos, vel = np.asarray(new.pos), np.asarray(new.vel)
        raw, adv, gae = np.concatenate([3 * pos + 1, vel], 1), [], 0.0
        nxt = np.asarray(net(p, (raw - mean) / np.sqrt(m2 / count + 1e-4))[1])
        for r, d, v in zip(R[::-1], D[::-1], V[::-1]):
            gae = r + (not d) * GAMMA * (nxt + LAMBDA * gae) - v
            nxt = v
            adv.insert(0, gae)
        adv, ret = np.array(adv), np.array(adv) + np.array(V)
        unit = (adv - adv.mean()) / (adv.std() + 1e-8)
        (loss, (pg, vf)), g = objective(p, np.array(X), np.array(A), unit, ret, ENT_COEF * (1 - i / steps))
        norm = np.sqrt(sum(float((x ** 2).sum()) for x in jax.tree.leaves(g)))
        g = jax.tree.map(lambda x: x / max(1.0, norm / MAX_NORM), g)
        p_trace = g if p_trace is None else jax.tree.map(lambda t, x: 0.9 * t + x, p_trace, g)
        p = jax.tree.map(lambda w, t: w - LR * t, p, p_trace)
        log.append([loss, pg, vf, np.mean(R)])
    out = {"count": count, "mean": mean, "m2": m2, "log": np.array(log), "pos": pos}
    return out | {jax.tree_util.keystr(n): np.asarray(x) for n, x in jax.tree_util.tree_leaves_with_path(p)}


if __name__ == "__main__":
    got, want = main(), reference()
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-3, atol=1e-4, err_msg=name)
    print("ok", got["log"])
