"""What ``shardtypes.prove`` is asked of the programs of this benchmark: functions, arguments and meshes."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.mutation import numbers


@dataclass(frozen=True)
class Question:
    """A function and its arguments, and the mesh that has to be in force."""

    f: Callable[..., Any]
    arguments: list[Any]
    mesh: Any


def questions(modules: Mapping[str, types.ModuleType]) -> dict[str, Question]:
    """By the names that ``numbers.runs`` has for the same calls."""
    for module, driver in _DRIVERS.items():
        if module in modules:
            return driver(modules)
    found = {}
    mesh = numbers.make_mesh(2, 4)
    for name, function in numbers.own_functions(modules):
        try:
            found[name] = Question(function, numbers.arguments_of(function), mesh)
        except (KeyError, AssertionError):
            continue  # a helper without annotations
    return found


def _transformer(modules: Mapping[str, types.ModuleType]) -> dict[str, Question]:
    model, train = modules["transformer.model"], modules["transformer.train"]
    tokens = np.random.default_rng(0).integers(0, 32, (4, 9)).astype(np.uint32)
    batch = model.Batch(
        tokens=jnp.asarray(tokens[:, :-1]), targets=jnp.asarray(tokens[:, 1:])
    )
    with jax.set_mesh(numbers.make_mesh(1, 1)):
        state = train.init_state(0, model.Config())
    return {
        "train_step": Question(
            train.train_step,
            [jax.tree.map(np.asarray, state), np.uint32(1), batch],
            numbers.make_mesh(2, 4),
        )
    }


def _flax_logical(modules: Mapping[str, types.ModuleType]) -> dict[str, Question]:
    model, train = modules["flax_logical.model"], modules["flax_logical.train"]
    draw = np.random.default_rng(0)
    tokens, labels = (
        jnp.asarray(draw.integers(0, n, (4, 8)), jnp.int32) for n in (32, 5)
    )
    mesh = numbers.make_mesh(2, 4)
    with jax.set_mesh(mesh):
        state = train.init_state(model.Tagger(), 0, mesh)
    return {
        "train_step": Question(
            train.train_step, [state, tokens, labels, jnp.ones((4, 8), jnp.bool_)], mesh
        )
    }


def _pmap_classifier(modules: Mapping[str, types.ModuleType]) -> dict[str, Question]:
    train = modules["pmap_classifier.train"]
    draw = np.random.default_rng(0)
    images = train.split(draw.normal(size=(16, 8, 12)).astype(np.float32), 8)
    labels = train.split(draw.integers(0, 6, 16).astype(np.int32), 8)
    state = train.init_state(0)
    return {
        "step": Question(
            train.make_train_step(8), [state, images, labels, np.float32(0.1)], None
        ),
        "evaluate": Question(
            train.make_evaluate(8), [state.params, images, labels], None
        ),
    }


_DRIVERS: dict[str, Callable[[Mapping[str, types.ModuleType]], dict[str, Question]]] = {
    "transformer.train": _transformer,
    "flax_logical.train": _flax_logical,
    "pmap_classifier.train": _pmap_classifier,
}
