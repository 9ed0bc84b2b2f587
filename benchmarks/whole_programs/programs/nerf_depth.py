"""Fit a small radiance field to photographs, with long rays cut into pieces.

Rays are spread over the mesh axis "rays" and the samples of every ray over "depth", in
order from near to far, so that what a ray carries through the network fits one device.
A piece of a ray needs from the others how much light is left when it begins, where the
next piece starts, and their weights for the distortion loss.
"""

from collections import namedtuple
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, PartitionSpec as P

Piece = namedtuple("Piece", "t length number")
State = namedtuple("State", "field m v step error")
pytree = lambda cls: jax.tree_util.register_dataclass(dataclass(frozen=True)(cls))


@dataclass(frozen=True)
class Config:
    @dataclass(frozen=True)
    class Scene:
        cameras: int = 6
        rays: int = 48
        near: float = 1.0
        far: float = 5.0
        background: float = 0.9

    scene: Scene = Scene()
    samples: int = 32
    octaves: int = 3
    hidden: int = 24
    steps: int = 14
    lr: float = 1e-2
    betas: tuple = (0.9, 0.95)
    clip: float = 0.05
    distortion: float = 0.1
    even_exposure: float = 0.1
    decay: float = 0.8
    hardness: float = 4.0
    pieces: int = 4


@pytree
class Rays:
    origin: jax.Array
    direction: jax.Array
    colour: jax.Array
    camera: jax.Array
    valid: jax.Array

    def at(self, t):
        return self.origin[:, None] + t[..., None] * self.direction[:, None]


@pytree
class Field:
    @pytree
    class Dense:
        w: jax.Array
        b: jax.Array

        def __call__(self, x):
            return x @ self.w + self.b

    trunk: list
    density: Dense
    colour: Dense
    exposure: jax.Array

    @classmethod
    def init(cls, cfg, key):
        keys = iter(jax.random.split(key, 4))

        def dense(inputs, outputs):
            w = jax.random.normal(next(keys), (inputs, outputs)) / np.sqrt(inputs)
            return cls.Dense(w, jnp.zeros(outputs))

        h, wide = cfg.hidden, 3 + 6 * cfg.octaves
        trunk, exposure = [dense(wide, h), dense(h, h)], jnp.full((cfg.scene.cameras, 3), 0.1)
        return cls(trunk, dense(h, 1), dense(h + 3, 3), exposure)

    def __call__(self, x, view, window):
        angle = np.pi * x[..., None] * 2.0 ** jnp.arange(window.size)
        waves = jnp.stack([jnp.sin(angle), jnp.cos(angle)], axis=-1) * window[:, None]
        h = jnp.concatenate([x, waves.reshape(*x.shape[:-1], -1)], axis=-1)
        for dense in self.trunk:
            h = jax.nn.silu(dense(h))
        view = jnp.broadcast_to(view[:, None], x.shape)
        rgb = jax.nn.sigmoid(self.colour(jnp.concatenate([h, view], axis=-1)))
        return jax.nn.softplus(self.density(h)[..., 0] - 2.0), rgb


@dataclass(frozen=True)
class Renderer:
    cfg: Config

    def jitter(self, key, rays, number):
        draw = lambda r, s: jax.random.uniform(jax.random.fold_in(jax.random.fold_in(key, r), s))
        ray = lax.axis_index("rays") * rays.camera.size + jnp.arange(rays.camera.size)
        return jax.vmap(jax.vmap(draw, (None, 0)), (0, None))(ray, number)

    def cut(self, rays, key=None):
        scene, pieces = self.cfg.scene, lax.axis_size("depth")
        here = self.cfg.samples // pieces
        number = lax.axis_index("depth") * here + jnp.arange(here)
        offset = 0.5 if key is None else self.jitter(key, rays, number)
        t = jnp.broadcast_to(number + offset, (rays.camera.size, here)) / self.cfg.samples
        t = scene.near + (scene.far - scene.near) * t
        following = lax.ppermute(t[:, :1], "depth", [(i + 1, i) for i in range(pieces - 1)])
        following = jnp.where(lax.axis_index("depth") == pieces - 1, scene.far, following)
        return Piece(t, jnp.diff(t, axis=1, append=following), number)

    def box(self, rays):
        ends = rays.at(jnp.array([[self.cfg.scene.near, self.cfg.scene.far]]))
        return lax.pmin(ends.min((0, 1)), "rays"), lax.pmax(ends.max((0, 1)), "rays")

    def weights(self, sigma, length):
        thickness = sigma * length
        pieces = lax.all_gather(thickness.sum(1), "depth")
        nearer = jnp.arange(pieces.shape[0]) < lax.axis_index("depth")
        before = jnp.einsum("p,pr->r", nearer, pieces)
        through = before[:, None] + jnp.cumsum(thickness, axis=1) - thickness
        return jnp.exp(-through) * -jnp.expm1(-thickness)

    def __call__(self, model, rays, window, key=None):
        piece, (low, high) = self.cut(rays, key), self.box(rays)
        x = 2.0 * (rays.at(piece.t) - low) / (high - low) - 1.0
        sigma, rgb = model(x, rays.direction, window)
        weight = self.weights(sigma, piece.length)
        opacity = lax.psum(weight.sum(1), "depth")
        colour = lax.psum(jnp.einsum("rs,rsc->rc", weight, rgb), "depth")
        colour = colour + self.cfg.scene.background * (1.0 - opacity)[:, None]
        return colour * jnp.exp(model.exposure[rays.camera]), opacity, weight, piece


def distortion_share(cfg, weight, piece):
    span = cfg.scene.far - cfg.scene.near
    every = partial(lax.all_gather, axis_name="depth", axis=1, tiled=True)
    apart = jnp.abs(piece.t[:, :, None] - every(piece.t)[:, None, :]) / span
    pairs = jnp.einsum("rs,rst,rt->r", weight, apart, every(weight))
    return pairs + (weight**2 * piece.length).sum(1) / (3.0 * span)


def attention(cfg, error, valid):
    score = jnp.where(valid, cfg.hardness * error, -jnp.inf)
    top = lax.pmax(lax.stop_gradient(score.max()), "rays")
    mass = jnp.exp(score - top)
    return mass / lax.psum(mass.sum(), "rays")


def window_at(cfg, step):
    progress = cfg.octaves * step / (0.7 * cfg.steps) - jnp.arange(cfg.octaves)
    return 0.5 - 0.5 * jnp.cos(np.pi * jnp.clip(progress, 0.0, 1.0))


def train_step(cfg, state, rays, key):
    key = jax.random.fold_in(key, state.step)

    def share_of(model):
        colour, _, weight, piece = Renderer(cfg)(model, rays, window_at(cfg, state.step), key)
        error = ((colour - rays.colour) ** 2).sum(-1)
        running = cfg.decay * state.error + (1 - cfg.decay) * lax.stop_gradient(error)
        running = jnp.where(rays.valid, running, state.error)
        fit = (attention(cfg, running, rays.valid) * error).sum()
        count = lax.psum(rays.valid.sum(), "rays")
        spread = (distortion_share(cfg, weight, piece) * rays.valid).sum() / count
        uneven = (model.exposure.mean(0) ** 2).sum() / lax.axis_size("rays")
        once = (fit + cfg.even_exposure * uneven) / lax.axis_size("depth")
        return once + cfg.distortion * spread, running

    (share, running), grads = jax.value_and_grad(share_of, has_aux=True)(state.field)
    loss, grads = lax.psum((share, grads), ("rays", "depth"))
    norm = jnp.linalg.norm(ravel_pytree(grads)[0])
    grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, cfg.clip / norm), grads)
    return adam(cfg, state, grads)._replace(error=running), {"loss": loss, "norm": norm}


def adam(cfg, state, grads):
    t, (b1, b2) = state.step + 1, cfg.betas
    m = jax.tree.map(lambda m, g: b1 * m + (1 - b1) * g, state.m, grads)
    v = jax.tree.map(lambda v, g: b2 * v + (1 - b2) * g**2, state.v, grads)
    rate = cfg.lr * jnp.sqrt(1 - b2**t) / (1 - b1**t)
    new = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-5), state.field, m, v)
    return state._replace(field=new, m=m, v=v, step=t)


def inspect(cfg, model, rays):
    colour, opacity, weight, piece = Renderer(cfg)(model, rays, jnp.ones(cfg.octaves))
    square = ((colour - rays.colour) ** 2).mean(-1) * rays.valid
    camera = jax.nn.one_hot(rays.camera, cfg.scene.cameras) * rays.valid[:, None]
    camera_mse = lax.psum(square @ camera, "rays") / lax.psum(camera.sum(0), "rays")
    peak = lax.pmax(weight.max(1), "depth")
    first = jnp.where(weight == peak[:, None], piece.number, cfg.samples)
    depth = lax.psum((weight * piece.t).sum(1), "depth") / opacity
    by_ray = {"depth": depth, "peak_at": lax.pmin(first.min(1), "depth"), "opacity": opacity}
    return {"camera_mse": camera_mse}, by_ray


def photograph(cfg, seed=0):
    rng, scene = np.random.default_rng(seed), cfg.scene
    camera = np.arange(scene.rays) * scene.cameras // scene.rays
    angle = camera * 2 * np.pi / scene.cameras
    origin = 3.0 * np.stack([np.cos(angle), np.sin(angle), 0.1 * camera], axis=-1)
    direction = rng.normal(size=(scene.rays, 3)) * 0.7 - origin
    direction /= np.linalg.norm(direction, axis=-1, keepdims=True)
    t = np.linspace(scene.near, scene.far, 400)
    points = origin[:, None] + t[:, None] * direction[:, None]
    centre = np.array([[0.6, 0.0, 0.2], [-0.5, 0.5, 0.0]])
    ball = 8.0 * np.exp(-8.0 * ((points[:, :, None] - centre) ** 2).sum(-1)) * (t[1] - t[0])
    left, paint = np.exp(-np.cumsum(ball.sum(-1), axis=1)), [[0.9, 0.2, 0.1], [0.1, 0.8, 0.3]]
    colour = np.einsum("rs,rsb,bc->rc", left, ball, paint) + scene.background * left[:, -1:]
    colour = colour * np.exp(0.15 * rng.normal(size=(scene.cameras, 3)))[camera]
    valid = rng.random(scene.rays) > np.linspace(0.0, 0.6, scene.rays)
    colour[~valid] = 4.0  # saturated
    return Rays(*np.float32([origin, direction, colour]), np.int32(camera), valid)


def start(cfg, key):
    model = Field.init(cfg, key)
    m, v = (jax.tree.map(jnp.zeros_like, model) for _ in "mv")
    return State(model, m, v, jnp.int32(0), jnp.full(cfg.scene.rays, 0.3))


def main():
    cfg, devices = Config(), np.array(jax.devices())
    mesh = Mesh(devices.reshape(-1, min(cfg.pieces, devices.size)), ("rays", "depth"))
    mapped = partial(jax.shard_map, mesh=mesh, check_vma=False)
    whole, by_ray = P(), P("rays")
    states = State(whole, whole, whole, whole, by_ray)
    step = partial(train_step, cfg)
    step = mapped(step, in_specs=(states, by_ray, whole), out_specs=(states, whole))
    look = mapped(partial(inspect, cfg), in_specs=(whole, by_ray), out_specs=(whole, by_ray))

    @partial(jax.jit, donate_argnums=0)
    def fit(state, rays, key):
        state, curves = lax.scan(lambda s, _: step(s, rays, key), state, length=cfg.steps)
        seen, along = look(state.field, rays)
        return state, curves | seen | along

    state, out = fit(start(cfg, jax.random.key(5)), photograph(cfg), jax.random.key(6))
    out |= {"error": state.error, "field": ravel_pytree(state.field)[0]}
    return {name: np.asarray(value) for name, value in out.items()}


def reference():
    cfg, key = Config(), jax.random.key(6)
    scene, rays, state = cfg.scene, photograph(cfg), start(cfg, jax.random.key(5))
    reach = np.stack([rays.origin + t * rays.direction for t in (scene.near, scene.far)])
    low, high = reach.min((0, 1)), reach.max((0, 1))

    def render(model, window, u):
        t = scene.near + (scene.far - scene.near) * (jnp.arange(cfg.samples) + u) / cfg.samples
        length = jnp.concatenate([t[:, 1:], jnp.full((scene.rays, 1), scene.far)], axis=1) - t
        points = rays.origin[:, None] + t[..., None] * rays.direction[:, None]
        x = 2 * (points - low) / (high - low) - 1
        phases = [(w, np.pi * 2**k * x[..., i]) for i in range(3) for k, w in enumerate(window)]
        waves = [w * wave(phase) for w, phase in phases for wave in (jnp.sin, jnp.cos)]
        h = jnp.concatenate([x, jnp.stack(waves, axis=-1)], axis=-1)
        for layer in model.trunk:
            h = jax.nn.silu(h @ layer.w + layer.b)
        sigma = jax.nn.softplus(h @ model.density.w[:, 0] + model.density.b - 2.0)
        view = jnp.repeat(rays.direction[:, None], cfg.samples, axis=1)
        rgb = jax.nn.sigmoid(jnp.concatenate([h, view], -1) @ model.colour.w + model.colour.b)
        stays = jnp.exp(-sigma * length)
        weight = jnp.cumprod(stays, axis=1) * (1 / stays - 1)
        opacity = weight.sum(1)
        colour = (weight[..., None] * rgb).sum(1) + scene.background * (1 - opacity[:, None])
        return colour * jnp.exp(model.exposure)[rays.camera], opacity, weight, t, length

    @partial(jax.value_and_grad, has_aux=True)
    def loss_of(model, step, running, u):
        colour, _, weight, t, length = render(model, window_at(cfg, step), u)
        error = ((colour - rays.colour) ** 2).sum(-1)
        fresh = cfg.decay * running + (1 - cfg.decay) * lax.stop_gradient(error)
        running = jnp.where(rays.valid, fresh, running)
        mass = jnp.exp(cfg.hardness * running) * rays.valid
        pairs = jnp.abs(t[:, :, None] - t[:, None]) * weight[:, :, None] * weight[:, None]
        spread = pairs.sum((1, 2)) + (weight**2 * length).sum(1) / 3
        spread = jnp.average(spread, weights=rays.valid) / (scene.far - scene.near)
        loss = jnp.average(error, weights=mass) + cfg.distortion * spread
        return loss + cfg.even_exposure * jnp.sum(model.exposure.mean(0) ** 2), running

    fold = jax.vmap(jax.random.fold_in, (None, 0))

    @jax.jit
    def update(state):
        ray_keys = fold(jax.random.fold_in(key, state.step), np.arange(scene.rays))
        sample_keys = jax.vmap(fold, (0, None))(ray_keys, np.arange(cfg.samples))
        u = jax.vmap(jax.vmap(jax.random.uniform))(sample_keys)
        (loss, running), grads = loss_of(state.field, state.step, state.error, u)
        norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(grads)))
        grads = jax.tree.map(lambda g: g * jnp.minimum(1.0, cfg.clip / norm), grads)
        return adam(cfg, state, grads)._replace(error=running), loss, norm

    curve = []
    for _ in range(cfg.steps):
        state, *numbers = update(state)
        curve.append(numbers)
    final = render(state.field, np.ones(cfg.octaves), np.full((scene.rays, 1), 0.5))
    colour, opacity, weight, t, _ = map(np.asarray, final)
    square = ((colour - rays.colour) ** 2).mean(-1)
    out = dict(zip(("loss", "norm"), np.array(curve).T)) | {"opacity": opacity}
    totals = [np.bincount(rays.camera, rays.valid * x) for x in (square, 1)]
    out |= {"camera_mse": totals[0] / totals[1]}
    out |= {"depth": (weight * t).sum(1) / opacity, "peak_at": weight.argmax(1)}
    return out | {"error": state.error, "field": ravel_pytree(state.field)[0]}


if __name__ == "__main__":
    got, wanted = main(), reference()
    for name, value in wanted.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-3, atol=1e-4, err_msg=name)
    print("nerf_depth: agrees; loss", got["loss"][[0, -1]])
