"""Federated training of a gesture classifier on phones that report sparse updates.

In every round a random part of the clients takes a few proximal SGD steps on its own
recordings and sends the largest entries of its clipped update, with a share of the
privacy noise; what was not sent stays on the phone and is added next time.  The server
moves by Yogi along the weighted mean.  Clients are spread over the devices, several on
each; the server's vector and moments are the same everywhere and change outside of the
mapped functions, as does the calibration of the finished model.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec as P

AXIS = "clients"

HP = dict(
    clients=16, capacity=24, features=12, hidden=10, classes=5,
    rounds=7, join_rate=0.7, batch=8, local_steps=5, local_lr=0.15, local_momentum=0.6, prox=0.05,
    keep=0.15, noise=0.02, clip=1.0, clip_quantile=0.6, clip_lr=0.4,
    server_lr=0.08, b1=0.8, b2=0.95, tau=0.03, calibration_steps=12, calibration_lr=0.7,
)  # fmt: skip


class Phones(NamedTuple):
    """Recordings by client; entries from ``n`` on are what the buffer held before."""

    x: jax.Array
    y: jax.Array
    n: jax.Array

    def live(self):
        return jnp.arange(self.y.shape[-1]) < self.n[..., None]


Survey = NamedTuple("Survey", [(n, jax.Array) for n in ("mean", "scale", "log_prior")])
Report = NamedTuple("Report", [(n, jax.Array) for n in ("delta", "agreement", "within", "loss")])


class Server(NamedTuple):
    w: jax.Array
    m: jax.Array
    v: jax.Array
    clip: jax.Array


def simulate(hp, seed):
    """Phones differ in the gestures of their owners, in their sensors and in how much they hold."""
    rng = np.random.default_rng(seed)
    c, n, f, k = hp["clients"], hp["capacity"], hp["features"], hp["classes"]
    prototype = np.random.default_rng(7).normal(size=(k, f))
    taste = rng.dirichlet(np.full(k, 0.8), c)
    y = np.stack([rng.choice(k, n, p=p) for p in taste])
    x = prototype[y] + 0.9 * rng.normal(size=(c, n, f)) + 0.6 * rng.normal(size=(c, 1, f))
    held = np.linspace(4, n, c).round().astype(np.int32)
    x = x * np.linspace(0.5, 6.0, f) + np.linspace(-3.0, 4.0, f)
    return Phones(x.astype(np.float32), y.astype(np.int32), held)


def start(hp, key):
    """The initial weights as one vector, and the function that takes a vector apart."""
    up, down = jax.random.split(key)
    f, h, k = hp["features"], hp["hidden"], hp["classes"]
    up = (jax.random.normal(up, (f, h)) / np.sqrt(f), jnp.zeros(h))
    down = (jax.random.normal(down, (h, k)) / np.sqrt(h), jnp.zeros(k))
    return ravel_pytree({"up": up, "down": down})


def logits_of(layers, survey, x):
    (w1, b1), (w2, b2) = layers["up"], layers["down"]
    return jnp.tanh((x - survey.mean) * survey.scale @ w1 + b1) @ w2 + b2


def cross_entropy(logits, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], axis=-1)[..., 0]


def take_survey(hp, phones):
    live = phones.live().astype(jnp.float32)
    total = lax.psum(live.sum(), AXIS)
    mean = lax.psum(jnp.einsum("cn,cnf->f", live, phones.x), AXIS) / total
    var = lax.psum(jnp.einsum("cn,cnf->f", live, (phones.x - mean) ** 2), AXIS) / total
    gestures = jax.nn.one_hot(phones.y, hp["classes"])
    prior = lax.psum(jnp.einsum("cn,cnk->k", live, gestures), AXIS) / total
    return Survey(mean, lax.rsqrt(var + 1e-5), jnp.log(prior))


def local_sgd(hp, unravel, survey, w, phone, key):
    def loss_of(v, x, y):
        return cross_entropy(logits_of(unravel(v), survey, x) + survey.log_prior, y).mean()

    def step(carry, xs):
        v, velocity = carry
        key, rate = xs
        picked = jax.random.randint(key, (hp["batch"],), 0, phone.n)
        loss, grad = jax.value_and_grad(loss_of)(v, phone.x[picked], phone.y[picked])
        velocity = hp["local_momentum"] * velocity + grad + hp["prox"] * (v - w)
        return (v - rate * velocity, velocity), loss

    steps = hp["local_steps"]
    rates = hp["local_lr"] * jnp.linspace(1.0, 0.4, steps)
    (v, _), losses = lax.scan(step, (w, jnp.zeros_like(w)), (jax.random.split(key, steps), rates))
    return v - w, losses.mean()


def largest(hp, vector):
    kept = int(hp["keep"] * vector.size)
    _, where = lax.top_k(jnp.abs(vector), kept)
    return jnp.zeros_like(vector).at[where].set(vector[where])


def client_turn(hp, unravel, survey, server, residual, phone, key):
    delta, loss = local_sgd(hp, unravel, survey, server.w, phone, key)
    norm = jnp.linalg.norm(delta)
    wanted = residual + delta * jnp.minimum(1.0, server.clip / norm)
    sent = largest(hp, wanted)
    return sent, wanted - sent, norm, loss


def round_on_device(hp, unravel, survey, server, residual, phones, key):
    here = phones.n.shape[0]
    ids = lax.axis_index(AXIS) * here + jnp.arange(here)
    keys = jax.vmap(lambda i: jax.random.split(jax.random.fold_in(key, i), 3))(ids)
    joined = jax.vmap(lambda k: jax.random.bernoulli(k, hp["join_rate"]))(keys[:, 0])
    joined = joined.astype(jnp.float32)
    count = lax.psum(joined.sum(), AXIS)

    turn = functools.partial(client_turn, hp, unravel, survey, server)
    sent, kept_back, norm, loss = jax.vmap(turn)(residual, phones, keys[:, 1])
    share = hp["noise"] * server.clip / jnp.sqrt(count)
    noise = share * jax.vmap(lambda k: jax.random.normal(k, server.w.shape))(keys[:, 2])

    weight = joined * jnp.sqrt(phones.n)
    weight = weight / lax.psum(weight.sum(), AXIS)
    delta = lax.psum(jnp.einsum("c,cd->d", weight, sent + noise), AXIS)
    votes = lax.psum(joined @ jnp.sign(sent), AXIS)
    voters = lax.psum(joined @ jnp.abs(jnp.sign(sent)), AXIS)
    within = lax.psum(joined @ (norm <= server.clip).astype(jnp.float32), AXIS) / count
    residual = jnp.where(joined[:, None] > 0, kept_back, residual)
    loss = lax.psum(weight @ loss, AXIS)
    return residual, Report(delta, jnp.abs(votes) / jnp.maximum(voters, 1.0), within, loss)


def yogi(hp, server, report):
    """Coordinates on whose direction the clients disagree move less."""
    d = report.delta * report.agreement
    m = hp["b1"] * server.m + (1 - hp["b1"]) * d
    v = server.v - (1 - hp["b2"]) * jnp.sign(server.v - d**2) * d**2
    w = server.w + hp["server_lr"] * m / (jnp.sqrt(v) + hp["tau"])
    clip = server.clip * jnp.exp(-hp["clip_lr"] * (report.within - hp["clip_quantile"]))
    return Server(w, m, v, clip)


def federate(hp, mapped, server, unravel, phones, key):
    survey = mapped(functools.partial(take_survey, hp), in_specs=P(AXIS), out_specs=P())(phones)
    one_round = mapped(
        functools.partial(round_on_device, hp, unravel),
        in_specs=(P(), P(), P(AXIS), P(AXIS), P()),
        out_specs=(P(AXIS), P()),
    )

    def body(carry, key):
        server, residual = carry
        residual, report = one_round(survey, server, residual, phones, key)
        new = yogi(hp, server, report)
        curve = {"loss": report.loss, "clip": new.clip, "agreement": report.agreement.mean()}
        return (new, residual), curve

    residual = jnp.zeros((hp["clients"], server.w.size))
    carry, curves = lax.scan(body, (server, residual), jax.random.split(key, hp["rounds"]))
    return survey, *carry, curves


def calibrate(hp, mapped, logits, phones):
    def held_out_loss(knobs, logits, phones):
        live = phones.live()
        loss = cross_entropy(logits * jnp.exp(knobs["log_gain"]) + knobs["bias"], phones.y)
        total = lax.psum(jnp.sum(loss * live), AXIS)
        return total / lax.psum(live.sum(), AXIS)

    loss_of = mapped(held_out_loss, in_specs=(P(), P(AXIS), P(AXIS)), out_specs=P())

    def descend(knobs, _):
        loss, grads = jax.value_and_grad(loss_of)(knobs, logits, phones)
        return jax.tree.map(lambda k, g: k - hp["calibration_lr"] * g, knobs, grads), loss

    knobs = {"log_gain": jnp.zeros(()), "bias": jnp.zeros(hp["classes"])}
    return lax.scan(descend, knobs, None, length=hp["calibration_steps"])


def scores(hp, logits, phones):
    """Of the fleet: overall, worst, lower quintile, recall by gesture; and accuracy by phone."""
    live = phones.live()
    hit = (logits.argmax(-1) == phones.y) & live
    by_phone = hit.sum(-1) / phones.n
    truth = jax.nn.one_hot(phones.y, hp["classes"]) * live[..., None]
    recall = lax.psum(jnp.einsum("cn,cnk->k", hit, truth), AXIS) / lax.psum(truth.sum((0, 1)), AXIS)
    fleet = {
        "accuracy": lax.psum(hit.sum(), AXIS) / lax.psum(phones.n.sum(), AXIS),
        "worst": lax.pmin(by_phone.min(), AXIS),
        "lower_quintile": jnp.quantile(lax.all_gather(by_phone, AXIS, tiled=True), 0.2),
        "recall": recall,
    }
    return fleet, by_phone


def main():
    hp = HP
    mesh = Mesh(np.array(jax.devices()), (AXIS,))
    mapped = functools.partial(jax.shard_map, mesh=mesh, check_vma=False)
    w, unravel = start(hp, jax.random.key(0))
    server = Server(w, jnp.zeros_like(w), jnp.full_like(w, 1e-4), jnp.float32(hp["clip"]))
    phones, held_out = simulate(hp, 1), simulate(hp, 2)

    @jax.jit
    def run(server, phones, held_out, key):
        survey, server, residual, curves = federate(hp, mapped, server, unravel, phones, key)
        logits = logits_of(unravel(server.w), survey, held_out.x)
        knobs, calibration = calibrate(hp, mapped, logits, held_out)
        logits = logits * jnp.exp(knobs["log_gain"]) + knobs["bias"]
        score = functools.partial(scores, hp)
        score = mapped(score, in_specs=P(AXIS), out_specs=(P(), P(AXIS)))
        fleet, by_phone = score(logits, held_out)
        out = {"residual": jnp.linalg.norm(residual, axis=-1), "w": server.w}
        out |= {"calibration": calibration, "by_phone": by_phone}
        return out | curves | knobs | fleet

    return jax.tree.map(np.asarray, run(server, phones, held_out, jax.random.key(42)))


def reference():
    """Client after client, on one device."""
    hp = HP
    w, unravel = start(hp, jax.random.key(0))
    phones, held_out = simulate(hp, 1), simulate(hp, 2)
    pooled = np.concatenate([x[:n] for x, n in zip(phones.x, phones.n)]).astype(np.float64)
    labels = np.concatenate([y[:n] for y, n in zip(phones.y, phones.n)])
    mean, std = jnp.float32(pooled.mean(0)), jnp.float32(np.sqrt(pooled.var(0) + 1e-5))
    log_prior = jnp.float32(np.log(np.bincount(labels) / labels.size))

    def model(w, x):
        layers = unravel(w)
        hidden = jnp.tanh((x - mean) / std @ layers["up"][0] + layers["up"][1])
        return hidden @ layers["down"][0] + layers["down"][1]

    @jax.jit
    @jax.value_and_grad
    def local_loss(v, x, y):
        logp = jax.nn.log_softmax(model(v, x) + log_prior)
        return -(logp * jax.nn.one_hot(y, hp["classes"])).sum(-1).mean()

    m, v, clip = np.zeros(w.size), np.full(w.size, 1e-4), hp["clip"]
    residual = np.zeros((hp["clients"], w.size))
    curves = []
    for key in jax.random.split(jax.random.key(42), hp["rounds"]):
        sent, weight, norms, losses, noise = [], [], [], [], []
        for i in range(hp["clients"]):
            join_key, sgd_key, noise_key = jax.random.split(jax.random.fold_in(key, i), 3)
            if not jax.random.bernoulli(join_key, hp["join_rate"]):
                continue
            u, velocity, seen = w, jnp.zeros_like(w), []
            for s, k in enumerate(jax.random.split(sgd_key, hp["local_steps"])):
                picked = jax.random.randint(k, (hp["batch"],), 0, phones.n[i])
                loss, grad = local_loss(u, phones.x[i][picked], phones.y[i][picked])
                velocity = hp["local_momentum"] * velocity + grad + hp["prox"] * (u - w)
                u = u - hp["local_lr"] * (1 - 0.6 * s / (hp["local_steps"] - 1)) * velocity
                seen.append(float(loss))
            delta = np.asarray(u - w, np.float64)
            norms.append(np.linalg.norm(delta))
            wanted = residual[i] + delta * min(1.0, clip / norms[-1])
            kept = np.argsort(-abs(wanted))[: int(hp["keep"] * w.size)]
            sent.append(np.where(np.isin(np.arange(w.size), kept), wanted, 0.0))
            residual[i] = wanted - sent[-1]
            noise.append(np.asarray(jax.random.normal(noise_key, w.shape)))
            weight.append(np.sqrt(phones.n[i]))
            losses.append(np.mean(seen))
        sent, noise = np.stack(sent), np.stack(noise) * hp["noise"] * clip / np.sqrt(len(sent))
        agreement = abs(np.sign(sent).sum(0)) / np.maximum((sent != 0).sum(0), 1)
        d = np.average(sent + noise, axis=0, weights=weight) * agreement
        m = hp["b1"] * m + (1 - hp["b1"]) * d
        v = v - (1 - hp["b2"]) * np.sign(v - d**2) * d**2
        w = jnp.float32(w + hp["server_lr"] * m / (np.sqrt(v) + hp["tau"]))
        within = np.mean(np.array(norms) <= clip)
        clip = clip * np.exp(-hp["clip_lr"] * (within - hp["clip_quantile"]))
        curves.append((np.average(losses, weights=weight), clip, agreement.mean()))

    rows, cols = np.nonzero(np.arange(hp["capacity"]) < held_out.n[:, None])
    raw, truth = model(w, held_out.x[rows, cols]), held_out.y[rows, cols]

    @jax.value_and_grad
    def held_out_loss(knobs):
        logp = jax.nn.log_softmax(raw * jnp.exp(knobs[0]) + knobs[1:])
        return -logp[np.arange(truth.size), truth].mean()

    knobs, calibration = jnp.zeros(1 + hp["classes"]), []
    for _ in range(hp["calibration_steps"]):
        loss, grad = held_out_loss(knobs)
        knobs = knobs - hp["calibration_lr"] * grad
        calibration.append(loss)
    hit = np.asarray((raw * jnp.exp(knobs[0]) + knobs[1:]).argmax(-1)) == truth
    by_phone = np.array([hit[rows == i].mean() for i in range(hp["clients"])])
    out = dict(zip(("loss", "clip", "agreement"), np.array(curves).T))
    out |= {"residual": np.linalg.norm(residual, axis=1), "w": np.asarray(w), "log_gain": knobs[0]}
    out |= {"bias": knobs[1:], "calibration": np.array(calibration), "by_phone": by_phone}
    out |= {"accuracy": hit.mean(), "worst": by_phone.min()}
    out |= {"recall": np.array([hit[truth == k].mean() for k in range(hp["classes"])])}
    return out | {"lower_quintile": np.quantile(by_phone, 0.2)}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    print("agrees: loss", got["loss"].round(3), "accuracy", float(got["accuracy"]))
