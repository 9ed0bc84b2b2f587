"""How to evaluate programs whose functions cannot be called from their annotations alone: the example models.

A driver is named for a module of its program. It gives the calls to make, each a function of the primes that sizes are
made of; sizes that the mesh splits are multiples of its eight devices.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

Calls = dict[str, Callable[[tuple[int, ...]], Any]]
Driver = Callable[[Mapping[str, types.ModuleType]], Calls]


def _transformer(modules: Mapping[str, types.ModuleType]) -> Calls:
    model, train = modules["transformer.model"], modules["transformer.train"]

    def step(primes: tuple[int, ...]) -> Any:
        p = primes
        config = model.Config(
            p[0], 8 * p[1], 8 * p[2], p[3], 4 * p[4], 2 * p[5], 8 * p[6]
        )
        with jax.set_mesh(train.make_mesh(2, 4)):
            state = jax.eval_shape(lambda: train.init_state(0, config))
            tokens = jax.ShapeDtypeStruct((2 * p[7], p[8]), jnp.uint32)
            batch = model.Batch(tokens=tokens, targets=tokens)
            return jax.eval_shape(
                train.train_step, state, jax.ShapeDtypeStruct((), jnp.uint32), batch
            )

    return {"train_step": step}


def _flax_logical(modules: Mapping[str, types.ModuleType]) -> Calls:
    model, train = modules["flax_logical.model"], modules["flax_logical.train"]

    def step(primes: tuple[int, ...]) -> Any:
        p = primes
        tagger = model.Tagger(4 * p[0], p[1], p[2], 4 * p[3], p[4], 4 * p[5], 2)
        mesh = train.make_mesh(2, 4)
        with jax.set_mesh(mesh):
            state = jax.eval_shape(lambda: train.init_state(tagger, 0, mesh))
            tokens = jax.ShapeDtypeStruct((2 * p[6], p[7]), jnp.int32)
            mask = jax.ShapeDtypeStruct((2 * p[6], p[7]), jnp.bool_)
            return jax.eval_shape(train.train_step, state, tokens, tokens, mask)

    return {"train_step": step}


def _pmap_classifier(modules: Mapping[str, types.ModuleType]) -> Calls:
    train = modules["pmap_classifier.train"]
    model = modules["pmap_classifier.model"]

    def arguments(primes: tuple[int, ...]) -> tuple[Any, ...]:
        p = primes
        params = jax.eval_shape(
            lambda: model.init(jax.random.key(0), 16, p[0], p[1], p[2])
        )
        images = jax.ShapeDtypeStruct((8, p[3], 8, 12), jnp.float32)
        return params, images, jax.ShapeDtypeStruct((8, p[3]), jnp.int32)

    def step(primes: tuple[int, ...]) -> Any:
        params, images, labels = arguments(primes)
        state = train.State(params=params, momentum=params)
        return jax.eval_shape(
            train.make_train_step(8),
            state,
            images,
            labels,
            jax.ShapeDtypeStruct((), jnp.float32),
        )

    def evaluate(primes: tuple[int, ...]) -> Any:
        return jax.eval_shape(train.make_evaluate(8), *arguments(primes))

    def start(primes: tuple[int, ...]) -> Any:
        return jax.eval_shape(lambda: train.init_state(0))

    return {"step": step, "evaluate": evaluate, "init_state": start}


def _equinox_jaxtyping(modules: Mapping[str, types.ModuleType]) -> Calls:
    model, train = (
        modules["equinox_jaxtyping.model"],
        modules["equinox_jaxtyping.train"],
    )

    def step(primes: tuple[int, ...]) -> Any:
        p = primes
        key = jax.random.key(0)
        encoder = jax.eval_shape(
            lambda: model.Encoder(p[0], p[1], dim=p[2], heads=p[3], width=p[4], key=key)
        )
        state = jax.eval_shape(train.OPTIMIZER.init, encoder)
        xs = jax.ShapeDtypeStruct((p[5], p[6], p[0]), jnp.float32)
        mask = jax.ShapeDtypeStruct((p[5], p[6]), jnp.bool_)
        ys = jax.ShapeDtypeStruct((p[5], p[1]), jnp.float32)
        return jax.eval_shape(train.train_step, encoder, state, xs, mask, ys)

    return {"train_step": step}


DRIVERS: dict[str, Driver] = {
    "transformer.train": _transformer,
    "flax_logical.train": _flax_logical,
    "pmap_classifier.train": _pmap_classifier,
    "equinox_jaxtyping.train": _equinox_jaxtyping,
}
