"""PPO for a docking toy, in the manner of "one function that makes the whole training": each update
is one pmap over the devices' environments.
"""
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

from collections import namedtuple
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

config = dict(
    NUM_ENVS=29,  # is filled up to a multiple of the devices
    NUM_STEPS=16, UPDATES=4, EPOCHS=3, MINIBATCHES=2,
    GAMMA=0.97, LAMBDA=0.9, CLIP_EPS=0.2, TARGET_KL=0.013, ENT_COEF=0.02, VF_COEF=0.5,
    LR=2e-2, ADAM_EPS=1e-3, MAX_GRAD_NORM=0.4, HIDDEN=24, SEED=3,
)
OBS_DIM, ACTIONS, TIME_LIMIT = 4, 3, 12

Ship = namedtuple("Ship", "position speed dock time")
Learner = namedtuple("Learner", "params opt_state stats")
Transition = namedtuple("Transition", "raw x action logp value reward done score")


def reset(key):
    k1, k2 = jax.random.split(key)
    here = jax.random.uniform(k1, minval=-2.0, maxval=2.0)
    return Ship(here, jnp.zeros(()), jax.random.uniform(k2, minval=-3.0, maxval=5.0), jnp.int32(0))


def observe(ship):
    return jnp.stack([ship.position, ship.speed, ship.dock, 1.0 * ship.time])


def env_step(key, ship, action):
    thrust = 0.6 * (action - 1)
    speed = 0.95 * ship.speed + thrust
    position = ship.position + 0.5 * speed
    gap = jnp.abs(position - ship.dock)
    docked = (gap < 0.4) & (jnp.abs(speed) < 0.9)
    reward = 2.0 * docked - 0.1 * gap - 0.02 * jnp.abs(thrust)
    done = docked | (ship.time + 1 >= TIME_LIMIT)
    moved = Ship(position, speed, ship.dock, ship.time + 1)
    return jax.tree.map(partial(jnp.where, done), reset(key), moved), reward, done


def init_network(key, hidden):
    orthogonal = jax.nn.initializers.orthogonal()
    dense = lambda key, n, m, s: {"w": s * orthogonal(key, (n, m)), "b": jnp.zeros(m)}
    k = jax.random.split(key, 4)
    return {
        "actor": [dense(k[0], OBS_DIM, hidden, 1.4), dense(k[1], hidden, ACTIONS, 0.3)],
        "critic": [dense(k[2], OBS_DIM, hidden, 1.4), dense(k[3], hidden, 1, 1.0)],
    }


def mlp(layers, x):
    for layer in layers[:-1]:
        x = jnp.tanh(x @ layer["w"] + layer["b"])
    return x @ layers[-1]["w"] + layers[-1]["b"]


def network(params, x):
    return jax.nn.log_softmax(mlp(params["actor"], x)), mlp(params["critic"], x)[..., 0]


def pick(logits, action):
    return jnp.take_along_axis(logits, action[:, None], axis=1)[:, 0]


class RunningStats(NamedTuple):
    count: jax.Array
    mean: jax.Array
    m2: jax.Array

    def normalize(self, obs):
        var = jnp.where(self.count > 0, self.m2 / jnp.maximum(self.count, 1.0), 1.0)
        return jnp.clip((obs - self.mean) * jax.lax.rsqrt(var + 1e-4), -5.0, 5.0)

    def absorb(self, obs, w):
        """Chan's update with all observations of a rollout."""
        obs, w = obs.reshape(-1, OBS_DIM), w.reshape(-1, 1)
        n = jax.lax.psum(w.sum(), "dev")
        mean = jax.lax.psum((w * obs).sum(0), "dev") / n
        m2 = jax.lax.psum((w * (obs - mean) ** 2).sum(0), "dev")
        delta, count = mean - self.mean, self.count + n
        m2 = self.m2 + m2 + delta**2 * self.count * n / count
        return RunningStats(count, self.mean + delta * n / count, m2)


def total(x, w):
    return jax.lax.psum(jnp.sum(x * w), "dev")


def wmean(x, w):
    """Mean over the real environments of all devices."""
    return total(x, w) / jax.lax.psum(jnp.sum(w), "dev")


def whiten(adv, w):
    mean = wmean(adv, w)
    var = wmean((adv - mean) ** 2, w)
    return (adv - mean) / jnp.sqrt(var + 1e-6)


def make_train(cfg, devices):
    per_device = -(-cfg["NUM_ENVS"] // devices)
    adam = optax.adam(cfg["LR"], eps=cfg["ADAM_EPS"])
    optimizer = optax.chain(optax.clip_by_global_norm(cfg["MAX_GRAD_NORM"]), adam)

    def rollout(learner, ships, score, key):
        def one(carry, key):
            ships, score = carry
            k_act, k_env = jax.random.split(key)
            raw = jax.vmap(observe)(ships)
            x = learner.stats.normalize(raw)
            logits, value = network(learner.params, x)
            action = jax.random.categorical(k_act, logits)
            env_keys = jax.random.split(k_env, per_device)
            ships, reward, done = jax.vmap(env_step)(env_keys, ships, action)
            score = score + reward
            tr = Transition(raw, x, action, pick(logits, action), value, reward, done, score)
            return (ships, jnp.where(done, 0.0, score)), tr

        return jax.lax.scan(one, (ships, score), jax.random.split(key, cfg["NUM_STEPS"]))

    def advantages(traj, last_value):
        def back(carry, tr):
            gae, next_value = carry
            alive = 1.0 - tr.done
            delta = tr.reward + cfg["GAMMA"] * alive * next_value - tr.value
            gae = delta + cfg["GAMMA"] * cfg["LAMBDA"] * alive * gae
            return (gae, tr.value), gae

        start = (jnp.zeros_like(last_value), last_value)
        return jax.lax.scan(back, start, traj, reverse=True)[1]

    def loss_fn(params, batch, ent_coef):
        tr, adv, target, w = batch
        logits, value = network(params, tr.x)
        ratio = jnp.exp(pick(logits, tr.action) - tr.logp)
        bounded = jnp.clip(ratio, 1 - cfg["CLIP_EPS"], 1 + cfg["CLIP_EPS"])
        pg = -jnp.minimum(ratio * adv, bounded * adv)
        vf = 0.5 * (value - target) ** 2
        entropy = -jnp.sum(jnp.exp(logits) * logits, axis=-1)
        losses = pg + cfg["VF_COEF"] * vf - ent_coef * entropy
        return jnp.sum(w * losses) / jax.lax.psum(jnp.sum(w), "dev")

    def minibatch_step(ent_coef, going, carry, batch):
        params, opt_state = carry
        loss, grads = jax.value_and_grad(loss_fn)(params, batch, ent_coef)
        loss, grads = jax.lax.psum((loss, grads), "dev")
        updates, new_opt = optimizer.update(grads, opt_state, params)
        new = (optax.apply_updates(params, updates), new_opt)
        new = jax.tree.map(partial(jnp.where, going), new, carry)
        return new, (loss, optax.global_norm(grads))

    def learn(learner, data, ent_coef, key):
        """Epochs over the rollout until the policy has moved too far."""
        size = data[-1].size
        flat = jax.tree.map(lambda a: a.reshape((size,) + a.shape[2:]), data)

        def epoch(carry, key):
            params, opt_state, going, _ = carry
            perm = jax.random.permutation(key, size)
            shape = (cfg["MINIBATCHES"], size // cfg["MINIBATCHES"])
            parts = jax.tree.map(lambda a: a[perm].reshape(shape + a.shape[1:]), flat)
            step = partial(minibatch_step, ent_coef, going)
            (params, opt_state), (loss, norm) = jax.lax.scan(step, (params, opt_state), parts)
            tr, _, _, w = flat
            change = pick(network(params, tr.x)[0], tr.action) - tr.logp
            kl = wmean(jnp.expm1(change) - change, w)
            info = {"loss": loss.mean(), "grad_norm": norm.max(), "ran": going}
            return (params, opt_state, going & (kl < cfg["TARGET_KL"]), kl), info

        start = (learner.params, learner.opt_state, jnp.array(True), jnp.zeros(()))
        keys = jax.random.split(key, cfg["EPOCHS"])
        (params, opt_state, _, kl), info = jax.lax.scan(epoch, start, keys)
        return learner._replace(params=params, opt_state=opt_state), {**info, "kl": kl}

    @partial(jax.pmap, axis_name="dev", in_axes=(0, 0, 0, 0, None, None), donate_argnums=(0, 1, 2))
    def update(learner, ships, score, real, index, key):
        key = jax.random.fold_in(key, jax.lax.axis_index("dev"))
        k_roll, k_learn = jax.random.split(key)
        (ships, score), traj = rollout(learner, ships, score, k_roll)
        last = learner.stats.normalize(jax.vmap(observe)(ships))
        adv = advantages(traj, network(learner.params, last)[1])
        target = adv + traj.value
        w = jnp.broadcast_to(real, adv.shape)
        ent_coef = cfg["ENT_COEF"] * (1 - index / cfg["UPDATES"])
        stats = learner.stats.absorb(traj.raw, w)
        learner, info = learn(learner, (traj, whiten(adv, w), target, w), ent_coef, k_learn)
        ended = total(traj.done, w)
        score_sum = total(traj.score * traj.done, w)
        info |= {"episodes": ended, "score": score_sum / jnp.maximum(ended, 1.0)}
        info |= {"reward": wmean(traj.reward, w)}
        return learner._replace(stats=stats), ships, score, info

    def train():
        k_net, k_env, k_run = jax.random.split(jax.random.PRNGKey(cfg["SEED"]), 3)
        params = init_network(k_net, cfg["HIDDEN"])
        stats = RunningStats(jnp.zeros(()), jnp.zeros(OBS_DIM), jnp.zeros(OBS_DIM))
        learner = Learner(params, optimizer.init(params), stats)
        learner = jax.tree.map(lambda a: jnp.stack([a] * devices), learner)
        by_device = lambda a: a.reshape((devices, per_device) + a.shape[1:])
        env_keys = jax.random.split(k_env, devices * per_device)
        ships = jax.tree.map(by_device, jax.vmap(reset)(env_keys))
        real = by_device(1.0 * (np.arange(devices * per_device) < cfg["NUM_ENVS"]))
        score = jnp.zeros((devices, per_device))
        history = []
        for i in range(cfg["UPDATES"]):
            key = jax.random.fold_in(k_run, i)
            learner, ships, score, info = update(learner, ships, score, real, i, key)
            history.append(jax.tree.map(lambda a: np.asarray(a[0]), info))
        return jax.tree.map(lambda a: np.asarray(a[0]), learner), history

    return train


def main():
    learner, history = make_train(config, jax.local_device_count())()
    for h in history:
        print("%.0f episodes, score %.3f, kl %.4f" % (h["episodes"], h["score"], h["kl"]), h["ran"])
    return {"params": learner.params, "stats": learner.stats._asdict(), "history": history}


def reference():
    """One device and plain loops; only the draws are made as a device makes them for its group."""
    c, groups = config, jax.local_device_count()
    each = -(-c["NUM_ENVS"] // groups)
    k_net, k_env, k_run = jax.random.split(jax.random.PRNGKey(c["SEED"]), 3)
    params = init_network(k_net, c["HIDDEN"])
    ships = jax.vmap(reset)(jax.random.split(k_env, groups * each))
    real = np.arange(groups * each) < c["NUM_ENVS"]
    adam = optax.adam(c["LR"], eps=c["ADAM_EPS"])
    opt_state = adam.init(params)
    seen, score, history = np.zeros((0, OBS_DIM)), np.zeros(groups * each), []

    @jax.jit
    def act(params, ships, keys, mean, var):
        raw = jax.vmap(observe)(ships)
        x = jnp.clip((raw - mean) / jnp.sqrt(var + 1e-4), -5, 5)
        logits, value = network(params, x)
        k = jax.vmap(jax.random.split)(keys)
        draw = jax.vmap(jax.random.categorical)(k[:, 0], logits.reshape(groups, each, -1)).ravel()
        env_keys = jnp.concatenate([jax.random.split(one, each) for one in k[:, 1]])
        old = (raw, x, value, draw, logits[jnp.arange(len(x)), draw])
        return old, jax.vmap(env_step)(env_keys, ships, draw)

    @jax.jit
    @jax.value_and_grad
    def objective(params, x, action, old_logp, adv, target, ent):
        logits, value = network(params, x)
        ratio = jnp.exp(logits[jnp.arange(len(x)), action] - old_logp)
        pg = jnp.where(adv > 0, jnp.minimum(ratio, 1.2), jnp.maximum(ratio, 0.8)) * adv
        vf = jnp.mean(jnp.square(value - target)) / 2
        return c["VF_COEF"] * vf + jnp.mean(ent * jnp.sum(jnp.exp(logits) * logits, -1) - pg)

    for i in range(c["UPDATES"]):
        run = jax.random.fold_in(k_run, i)
        keys = jnp.stack([jax.random.split(jax.random.fold_in(run, g)) for g in range(groups)])
        step_keys = jax.vmap(lambda k: jax.random.split(k, c["NUM_STEPS"]), out_axes=1)(keys[:, 0])
        norm = (seen.mean(0), seen.var(0)) if i else (np.zeros(OBS_DIM), np.ones(OBS_DIM))
        steps, scores = [], []
        for k in step_keys:
            old, (ships, reward, done) = act(params, ships, k, *norm)
            score = score + reward
            scores += list(score[done & real])
            score = np.where(done, 0, score)
            steps.append([np.asarray(a) for a in (*old, reward, done)])
        raw, x, value, action, logp, reward, done = (np.stack(a) for a in zip(*steps))
        following = np.asarray(act(params, ships, step_keys[0], *norm)[0][2])
        adv, running = np.zeros_like(reward), 0
        for s in reversed(range(c["NUM_STEPS"])):
            go_on = c["GAMMA"] * ~done[s]
            running = reward[s] + go_on * (following + c["LAMBDA"] * running) - value[s]
            adv[s], following = running, value[s]
        target, true_adv = adv + value, adv[:, real]
        white = (adv - true_adv.mean()) / np.sqrt(true_adv.var() + 1e-6)

        def grouped(a):
            a = a.reshape(-1, groups, each, *a.shape[2:]).swapaxes(0, 1)
            return a.reshape(groups, -1, *a.shape[3:])

        data = [grouped(a) for a in (x, action, logp, white, target)]
        valid = grouped(np.broadcast_to(real, reward.shape))
        going, ran, losses, norms = True, [], [], []
        epoch_keys = [jax.random.split(k, c["EPOCHS"]) for k in keys[:, 1]]
        for e in range(c["EPOCHS"]):
            perm = [jax.random.permutation(k[e], valid.shape[1]) for k in epoch_keys]
            for part in np.split(np.stack(perm), c["MINIBATCHES"], axis=1):
                rows = np.zeros_like(valid)
                np.put_along_axis(rows, part, True, 1)
                batch = [a[rows & valid] for a in data]
                loss, grad = objective(params, *batch, c["ENT_COEF"] * (1 - i / c["UPDATES"]))
                losses.append(loss)
                norms.append(float(jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grad)))))
                if going:
                    scale = min(1, c["MAX_GRAD_NORM"] / norms[-1])
                    grad = jax.tree.map(lambda g: scale * g, grad)
                    step, opt_state = adam.update(grad, opt_state)
                    params = optax.apply_updates(params, step)
            ran.append(going)
            new = network(params, data[0][valid])[0]
            change = new[jnp.arange(len(new)), data[1][valid]] - data[2][valid]
            kl = float(jnp.mean(jnp.exp(change) - 1 - change))
            going = going and kl < c["TARGET_KL"]
        seen = np.concatenate([seen, raw[:, real].reshape(-1, OBS_DIM)])
        ran, losses, norms = (np.reshape(a, (c["EPOCHS"], -1)) for a in (ran, losses, norms))
        history.append({"loss": losses.mean(1), "grad_norm": norms.max(1), "ran": ran[:, 0],
                        "kl": kl, "reward": reward[:, real].mean(), "episodes": len(scores),
                        "score": np.mean(scores)})
    stats = {"count": len(seen), "mean": seen.mean(0), "m2": seen.var(0) * len(seen)}
    return {"params": params, "stats": stats, "history": history}


if __name__ == "__main__":
    ours, plain = main(), reference()
    jax.tree.map(partial(np.testing.assert_allclose, rtol=2e-3, atol=2e-3), ours, plain)
