"""glow-ish density model of 8-pixel patches: bits/dim, cold samples, annealed importance weights

  bijectors are tuples of functions for ONE patch, vmapped where a batch comes in
  patches / samples / chains  -> mesh axis "data"
  hidden units of couplings   -> mesh axis "hidden"
"""
from functools import partial, reduce
from typing import Any, Callable, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

hp = dict(dim=8, hidden=24, depth=2, batch=32, steps=7, lr=1e-2, clip=4.0, decay=0.7, noises=4,
          cold=0.7, samples=16, chains=32, rungs=8, tilt=3.0, stride=0.5, levels=256)
D = hp["dim"]


class Bijector(NamedTuple):
    init: Callable  # rng -> params
    layout: Any  # specs of the params
    adapt: Callable  # params, batch -> params that suit the data
    forward: Callable  # params, x -> z, log |dz/dx|
    inverse: Callable  # params, z -> x


f32 = partial(np.asarray, dtype=np.float32)


def actnorm():
    def adapt(params, batch):
        mean = lax.pmean(batch.mean(0), "data")
        var = lax.pmean(jnp.mean((batch - mean) ** 2, 0), "data")
        return {"scale": -0.5 * jnp.log(var + 1e-6), "bias": -mean}

    def forward(p, x):
        return (x + p["bias"]) * jnp.exp(p["scale"]), p["scale"].sum()

    def inverse(p, z):
        return z * jnp.exp(-p["scale"]) - p["bias"]

    blank = lambda rng: {"scale": f32(np.zeros(D)), "bias": f32(np.zeros(D))}
    return Bijector(blank, {"scale": P(), "bias": P()}, adapt, forward, inverse)


def mixing():
    def forward(w, x):
        return w @ x, jnp.linalg.slogdet(w)[1]

    rotation = lambda rng: f32(np.linalg.qr(rng.normal(size=(D, D)))[0])
    return Bijector(rotation, P(), lambda p, _: p, forward, jnp.linalg.solve)


def coupling():
    half, h = D // 2, hp["hidden"]
    wide = P(None, "hidden")
    layout = {"w1": wide, "b1": P("hidden"), "w2": wide, "b2": P(), "gain": P()}

    def init(rng):
        return {"w1": f32(rng.normal(size=(half, h)) / 2), "b1": f32(rng.normal(size=h) / 2),
                "w2": f32(rng.normal(size=(D, h)) / h), "b2": f32(rng.normal(size=D) / 9),
                "gain": f32(np.ones(half))}

    def net(p, a):
        units = jnp.tanh(a @ p["w1"] + p["b1"])
        out = lax.psum(p["w2"] @ units, "hidden") + p["b2"]
        shift, raw = out.reshape(2, half)
        return shift, p["gain"] * jnp.tanh(raw)

    def forward(p, x):
        a, b = jnp.split(x, 2)
        shift, log_scale = net(p, a)
        return jnp.concatenate([a, b * jnp.exp(log_scale) + shift]), log_scale.sum()

    def inverse(p, z):
        a, b = jnp.split(z, 2)
        shift, log_scale = net(p, a)
        return jnp.concatenate([a, (b - shift) * jnp.exp(-log_scale)])

    return Bijector(init, layout, lambda p, _: p, forward, inverse)


def serial(*parts):
    def adapt(params, batch):
        out = []
        for part, p in zip(parts, params):
            out.append(part.adapt(p, batch))
            batch, _ = jax.vmap(part.forward, in_axes=(None, 0))(out[-1], batch)
        return out

    def forward(params, x):
        total = 0.0
        for part, p in zip(parts, params):
            x, logdet = part.forward(p, x)
            total = total + logdet
        return x, total

    def inverse(params, z):
        return reduce(lambda y, pair: pair[0].inverse(pair[1], y), [*zip(parts, params)][::-1], z)

    init = lambda rng: [part.init(rng) for part in parts]
    return Bijector(init, [part.layout for part in parts], adapt, forward, inverse)


FLOW = serial(*[part() for _ in range(hp["depth"]) for part in (actnorm, mixing, coupling)])


def patches(seed, n=hp["batch"]):
    rng = np.random.default_rng(seed)
    t, phase, pitch = np.arange(D), rng.uniform(0, 6, (n, 1)), rng.choice([0.3, 0.9], (n, 1))
    light = 120 + 70 * np.sin(phase + pitch * t) + rng.normal(size=(n, D)) * 9
    return np.clip(light, 0, 255).astype(np.uint8)


def log_normal(z):
    return -0.5 * jnp.sum(z**2 + np.log(2 * np.pi), -1)


def keys_for(key, n):
    """a key for each of the n rows held here, the same whatever the mesh"""
    rows = lax.axis_index("data") * n + jnp.arange(n)
    return jax.vmap(partial(jax.random.fold_in, key))(rows)


def dequantise(key, patch):
    return (patch.astype(jnp.float32) + jax.random.uniform(key, patch.shape)) / hp["levels"] - 0.5


def bits(params, key, patch):
    z, logdet = FLOW.forward(params, dequantise(key, patch))
    return jnp.log2(hp["levels"]) - (log_normal(z) + logdet) / (D * jnp.log(2.0))


def loss(params, batch, key):
    own = jax.vmap(bits, in_axes=(None, 0, 0))(params, keys_for(key, len(batch)), batch)
    return lax.psum(own.sum(), "data") / (len(batch) * lax.axis_size("data"))


def first_fit(params, batch, key):
    return FLOW.adapt(params, jax.vmap(dequantise)(keys_for(key, len(batch)), batch))


def weighted_bits(params, batch, key):
    """plain bits/dim of each patch, and those by the mean likelihood over several noises"""

    def one(key, patch):
        keys = jax.random.split(key, hp["noises"])
        each = -jax.vmap(bits, in_axes=(None, 0, None))(params, keys, patch) * D * jnp.log(2.0)
        tight = jax.nn.logsumexp(each) - jnp.log(hp["noises"])
        return -jnp.stack([each[0], tight]) / (D * jnp.log(2.0))

    both = jax.vmap(one)(keys_for(key, len(batch)), batch)
    return both, lax.pmean(both.mean(0), "data")


def cold_samples(params, key):
    n = hp["samples"] // lax.axis_size("data")
    z = hp["cold"] * jax.vmap(lambda k: jax.random.normal(k, (D,)))(keys_for(key, n))
    x = jax.vmap(partial(FLOW.inverse, params))(z)
    spread = lax.pmean((x**2).mean(0), "data") - lax.pmean(x.mean(0), "data") ** 2
    return jnp.clip((x + 0.5) * hp["levels"], 0, hp["levels"] - 1), jnp.sqrt(spread)


def roughness(params, z):
    x = FLOW.inverse(params, z)
    return hp["tilt"] * jnp.sum(jnp.diff(x) ** 2), x


def anneal(params, key):
    """log of E[exp(-roughness)] under the flow, with what comes along"""
    n = hp["chains"] // lax.axis_size("data")
    energies = jax.vmap(partial(roughness, params))
    keys, betas = keys_for(key, n), jnp.linspace(0.0, 1.0, hp["rungs"] + 1)

    def rung(carry, step):
        z, energy, logw, stride = carry
        before, beta, t = step
        logw = logw - (beta - before) * energy
        pairs = jax.vmap(lambda k: jax.random.split(jax.random.fold_in(k, t)))(keys)
        noise, uniform = pairs[:, 0], pairs[:, 1]
        new = z + stride * jax.vmap(lambda k: jax.random.normal(k, (D,)))(noise)
        there, _ = energies(new)
        gain = log_normal(new) - log_normal(z) - beta * (there - energy)
        yes = jnp.log(jax.vmap(jax.random.uniform)(uniform)) < gain
        rate = lax.pmean(jnp.mean(yes), "data")
        z, energy = jnp.where(yes[:, None], new, z), jnp.where(yes, there, energy)
        return (z, energy, logw, stride * jnp.exp(rate - 0.5)), rate

    z = jax.vmap(lambda k: jax.random.normal(k, (D,)))(keys)
    start = (z, energies(z)[0], jnp.zeros(n), jnp.float32(hp["stride"]))
    steps = (betas[:-1], betas[1:], jnp.arange(hp["rungs"]))
    (z, _, logw, stride), rates = lax.scan(rung, start, steps)
    top = lax.pmax(logw.max(), "data")
    w = jnp.exp(logw - top)
    total = lax.psum(w.sum(), "data")
    mean = lax.psum(w @ energies(z)[1], "data") / total
    return {"log_z": top + jnp.log(total / hp["chains"]), "stride": stride, "rates": rates,
            "ess": total**2 / lax.psum(jnp.sum(w**2), "data"), "tilted": mean}


def main():
    devices = np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(2, devices.size)), ("data", "hidden"))
    layout = FLOW.layout
    optimizer = optax.chain(optax.clip_by_global_norm(hp["clip"]), optax.adam(hp["lr"]))
    local = partial(jax.shard_map, mesh=mesh, check_vma=False)
    with_batch = (layout, P("data"), P())
    place = jax.tree.map(partial(NamedSharding, mesh), layout)
    params = jax.device_put(FLOW.init(np.random.default_rng(4)), place)
    fit = jax.jit(local(first_fit, in_specs=with_batch, out_specs=layout))
    params = fit(params, patches(0), jax.random.key(0))
    objective = local(loss, in_specs=with_batch, out_specs=P())

    @partial(jax.jit, donate_argnums=(0, 1, 2))
    def step(params, average, moments, batch, key):
        value, grads = jax.value_and_grad(objective)(params, batch, key)
        updates, moments = optimizer.update(grads, moments)
        params = optax.apply_updates(params, updates)
        average = optax.incremental_update(params, average, 1 - hp["decay"])
        return params, average, moments, jnp.stack([value, optax.global_norm(grads)])

    average, moments, log = jax.tree.map(jnp.copy, params), optimizer.init(params), []
    for i in range(hp["steps"]):
        params, average, moments, said = step(
            params, average, moments, patches(i), jax.random.key(i))
        log.append(said)

    judge = local(weighted_bits, in_specs=with_batch, out_specs=(P("data"), P()))
    draw = local(cold_samples, in_specs=(layout, P()), out_specs=(P("data"), P()))
    walk = local(anneal, in_specs=(layout, P()), out_specs=P())
    said = {"log": jnp.stack(log), "w1": average[2]["w1"], "scale": average[3]["scale"]}
    said["each"], said["mean"] = jax.jit(judge)(average, patches(99), jax.random.key(91))
    said["cold"], said["spread"] = jax.jit(draw)(average, jax.random.key(92))
    said |= jax.jit(walk)(average, jax.random.key(93))
    return jax.tree.map(np.asarray, said)


def reference():
    ln2 = np.log(2.0)

    def rows(key, n):
        return [jax.random.fold_in(key, i) for i in range(n)]

    def noised(keys, x):
        return jnp.stack([(r + jax.random.uniform(k, (D,))) / 256 - 0.5 for k, r in zip(keys, x)])

    def net(p, a):
        out = jnp.tanh(a @ p["w1"] + p["b1"]) @ p["w2"].T + p["b2"]
        return out[:, : D // 2], p["gain"] * jnp.tanh(out[:, D // 2 :])

    def nats(params, x, fitted=None):
        logdet = 0.0
        for i in range(hp["depth"]):
            norm, w, p = params[3 * i : 3 * i + 3]
            if fitted is not None:
                norm = {"scale": -jnp.log(x.var(0) + 1e-6) / 2, "bias": -x.mean(0)}
                fitted += [norm, w, p]
            x = (x + norm["bias"]) * jnp.exp(norm["scale"]) @ w.T
            shift, s = net(p, x[:, : D // 2])
            x = jnp.hstack([x[:, : D // 2], x[:, D // 2 :] * jnp.exp(s) + shift])
            logdet += norm["scale"].sum() + jnp.log(jnp.abs(jnp.linalg.det(w))) + s.sum(1)
        return (x**2).sum(1) / 2 + D * np.log(2 * np.pi) / 2 - logdet

    @jax.jit
    def back(params, z):
        for i in range(hp["depth"])[::-1]:
            norm, w, p = params[3 * i : 3 * i + 3]
            shift, s = net(p, z[:, : D // 2])
            z = jnp.hstack([z[:, : D // 2], (z[:, D // 2 :] - shift) / jnp.exp(s)])
            z = z @ jnp.linalg.inv(w).T / jnp.exp(norm["scale"]) - norm["bias"]
        return z

    params, adam = [], optax.adam(hp["lr"])
    raw, keys = FLOW.init(np.random.default_rng(4)), rows(jax.random.key(0), hp["batch"])
    nats(raw, noised(keys, patches(0)), params)
    grad = jax.jit(jax.value_and_grad(lambda p, x: nats(p, x).mean() / D / ln2 + 8))
    average, moments, log, rest = params, adam.init(params), [], 1 - hp["decay"]
    for i in range(hp["steps"]):
        value, g = grad(params, noised(rows(jax.random.key(i), hp["batch"]), patches(i)))
        log.append([value, np.sqrt(sum((v**2).sum() for v in jax.tree.leaves(g)))])
        g = jax.tree.map(lambda v: v * min(1.0, hp["clip"] / log[-1][1]), g)
        updates, moments = adam.update(g, moments)
        params = optax.apply_updates(params, updates)
        average = jax.tree.map(lambda a, p: hp["decay"] * a + rest * p, average, params)

    keys = [jax.random.split(k, hp["noises"]) for k in rows(jax.random.key(91), hp["batch"])]
    test, nats = patches(99), jax.jit(nats)
    table = np.stack([nats(average, noised(k, test)) for k in zip(*keys)])
    each = np.stack([table[0], -np.log(np.exp(-table).mean(0))], 1) / D / ln2 + 8

    normals = lambda keys: np.stack([jax.random.normal(k, (D,)) for k in keys])
    x = np.asarray(back(average, hp["cold"] * normals(rows(jax.random.key(92), hp["samples"]))))
    cold = np.clip((x + 0.5) * 256, 0, 255)
    said = dict(log=np.array(log), each=each, mean=each.mean(0), cold=cold, spread=x.std(0))
    keys, stride, rates = rows(jax.random.key(93), hp["chains"]), hp["stride"], []
    z, logw, grid = normals(keys), 0.0, np.linspace(0, 1, hp["rungs"] + 1)
    cost = lambda z: hp["tilt"] * np.square(np.diff(back(average, z), axis=1)).sum(1)
    for t, beta in enumerate(grid[1:]):
        logw = logw - cost(z) / hp["rungs"]
        pairs = [jax.random.split(jax.random.fold_in(k, t)) for k in keys]
        new = z + stride * normals([k for k, _ in pairs])
        gain = (z**2 - new**2).sum(1) / 2 - beta * (cost(new) - cost(z))
        yes = np.log([float(jax.random.uniform(k)) for _, k in pairs]) < gain
        z, rates = np.where(yes[:, None], new, z), [*rates, yes.mean()]
        stride = stride * np.exp(yes.mean() - 0.5)
    w = np.exp(logw)
    said |= dict(log_z=np.log(w.mean()), ess=w.sum() ** 2 / (w**2).sum(), stride=stride)
    said |= dict(rates=np.array(rates), tilted=w @ back(average, z) / w.sum())
    said |= dict(w1=average[2]["w1"], scale=average[3]["scale"])
    return jax.tree.map(np.asarray, said)


if __name__ == "__main__":
    got, want = main(), reference()
    for name in want:
        np.testing.assert_allclose(got[name], want[name], rtol=1e-3, atol=1e-3, err_msg=name)
    print("flow_patches ok | bits/dim", got["mean"], "| log z", got["log_z"], "ess", got["ess"])
