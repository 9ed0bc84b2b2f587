"""``equinox`` in guarded code, against equinox: what programs with its modules compute, number by number."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.evaluation.running import AS_NUMBERS, assert_computes, in_jax, main_of

pytestmark = pytest.mark.once  # what equinox computes does not change with JAX

HEAD = """
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import PartitionSpec as P

X = jnp.sin(jnp.arange(8 * 6, dtype=jnp.float32)).reshape(8, 6)
IMAGE = jnp.cos(jnp.arange(4 * 8 * 6, dtype=jnp.float32)).reshape(4, 8, 6)
KEY = jax.random.key(0)


class Net(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.LayerNorm
    last: eqx.nn.Linear
    scale: float
    width: int = eqx.field(static=True)

    def __init__(self, width, key):
        keys = jax.random.split(key)
        self.first = eqx.nn.Linear(6, width, key=keys[0])
        self.norm = eqx.nn.LayerNorm(width)
        self.last = eqx.nn.Linear(width, "scalar", key=keys[1])
        self.scale = 0.5
        self.width = width

    def __call__(self, x):
        return self.last(jax.nn.gelu(self.norm(self.first(x)))) * self.scale


def loss(model, x):
    return jnp.mean(jax.vmap(model)(x) ** 2)

"""
LAYERS = {
    "Linear": "jax.vmap(eqx.nn.Linear(6, 5, key=KEY))(X)",
    "Linear without a bias": "eqx.nn.Linear(6, 5, use_bias=False, key=KEY)(X[0])",
    "MLP": "jax.vmap(eqx.nn.MLP(6, 3, 5, 2, key=KEY))(X)",
    "MLP with functions": (
        "eqx.nn.MLP(6, 'scalar', 5, 1, jax.nn.tanh, jax.nn.sigmoid, use_final_bias=False, key=KEY)(X[0])"
    ),
    "Embedding": "jax.vmap(eqx.nn.Embedding(7, 5, key=KEY))(jnp.arange(4))",
    "Conv1d": "eqx.nn.Conv1d(8, 5, 3, padding='SAME', key=KEY)(X)",
    "Conv2d": "eqx.nn.Conv2d(4, 6, (3, 2), stride=2, padding=1, groups=2, key=KEY)(IMAGE)",
    "LayerNorm": "jax.vmap(eqx.nn.LayerNorm(6))(X)",
    "RMSNorm": "eqx.nn.RMSNorm((8, 6), use_bias=False)(X)",
    "GroupNorm": "eqx.nn.GroupNorm(2, 4)(IMAGE)",
    "Dropout": "eqx.nn.Dropout(0.3)(X, key=KEY), eqx.nn.Dropout(0.3, inference=True)(X)",
    "Sequential": (
        "eqx.nn.Sequential([eqx.nn.Linear(6, 5, key=KEY), eqx.nn.Lambda(jax.nn.relu), eqx.nn.Dropout(0.5)])"
        "(X[0], key=KEY)"
    ),
    "pools": "eqx.nn.MaxPool2d(2, 2)(IMAGE), eqx.nn.AvgPool2d((3, 2), padding=1)(IMAGE)",
    "attention": (
        "eqx.nn.MultiheadAttention(2, 6, use_query_bias=True, key=KEY)(X, X, X, jnp.tril(jnp.ones((8, 8), bool)))"
    ),
}
PROGRAMS = {
    "a training step": """
        model = Net(4, KEY)
        tx = optax.sgd(0.1, 0.9)
        state = tx.init(eqx.filter(model, eqx.is_inexact_array))

        @eqx.filter_jit
        def step(model, state, x):
            value, grads = eqx.filter_value_and_grad(loss)(model, x)
            updates, state = tx.update(grads, state)
            return eqx.apply_updates(model, updates), state, value

        values = []
        for _ in range(3):
            model, state, value = step(model, state, X)
            values.append(value)
        return values, eqx.filter(model, eqx.is_array), loss(model, X)
        """,
    "parts put together": """
        params, static = eqx.partition(Net(4, KEY), eqx.is_inexact_array)
        doubled = jax.tree.map(lambda p: p * 2, params)
        model = eqx.combine(doubled, static)
        grads = jax.grad(lambda p: loss(eqx.combine(p, static), X))(params)
        return jax.vmap(model)(X), grads, [one is None for one in (static.first.weight, params.scale)]
        """,
    "parts that a model of booleans chooses": """
        model = Net(4, KEY)
        biases = eqx.tree_at(lambda m: m.last.bias, jax.tree.map(lambda _: False, model), True)
        chosen, others = eqx.partition(model, biases)
        none = [one is None for one in (chosen.first.weight, chosen.last.bias, others.last.bias)]
        return jax.tree.leaves(chosen), jax.tree.leaves(others), none
        """,
    "parts replaced": """
        model = Net(4, KEY)
        once = eqx.tree_at(lambda m: m.first.weight, model, replace_fn=lambda w: w * 0)
        twice = eqx.tree_at(lambda m: (m.first.bias, m.norm), once, (jnp.ones(4), model.norm))
        return jax.vmap(twice)(X), model.first.weight
        """,
    "in use": """
        model = eqx.nn.Sequential([eqx.nn.Dropout(0.5), eqx.nn.Linear(6, 2, key=KEY)])
        return eqx.nn.inference_mode(model)(X[0])
        """,
    "shard_map of a model": """
        mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
        params, static = eqx.partition(Net(4, KEY), eqx.is_inexact_array)

        def local(params, x):
            grads = eqx.filter_grad(loss)(eqx.combine(params, static), x)
            return lax.pmean(eqx.filter(grads, eqx.is_inexact_array), "d")

        return jax.shard_map(local, mesh=mesh, in_specs=(P(), P("d")), out_specs=P())(params, X)
        """,
}
LAYER = """
def main():
    return {}
"""
TEXTS = {name: HEAD + LAYER.format(text) for name, text in LAYERS.items()}
TEXTS.update({name: HEAD + main_of(body) for name, body in PROGRAMS.items()})


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[object]]:
    """The leaves of what each program gives with equinox itself."""
    folder: Path = tmp_path_factory.mktemp("equinox")
    found: Mapping[str, list[object]] = in_jax(folder, TEXTS, AS_NUMBERS)
    return found


@pytest.mark.long
@pytest.mark.parametrize("name", TEXTS)
def test_it_computes_what_equinox_does(
    name: str, expected: Mapping[str, list[object]]
) -> None:
    assert_computes(TEXTS[name], expected[name])
