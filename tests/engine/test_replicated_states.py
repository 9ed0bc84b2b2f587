"""States of optimizers that `jit` replicates beside sharded parameters."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import optax
import pytest

from shardlint.engine import optimizers
from tests.engine.test_rules import codes

HEAD = """
import functools
from typing import Any, NamedTuple
import jax
import jax.numpy as jnp
import optax
from jax.sharding import NamedSharding, PartitionSpec as P
from shardtypes import f32

mesh = jax.make_mesh((8,), ("data",))
sharded = NamedSharding(mesh, P(None, "data"))
replicated = NamedSharding(mesh, P())
tx = optax.{maker}

def loss(params, x):
    return jnp.sum(x @ params["w"])
"""

INIT = """
def init():
    params = {{"w": jnp.zeros((64, 128)), "v": jnp.zeros((32, 16))}}
    return params, tx.init(params)

params, state = jax.jit(init, out_shardings=({params}, {state}))()
"""
NAMED = """
def init():
    params = {{"w": jnp.zeros((64, 128)), "v": jnp.zeros((32, 16))}}
    return {{"params": params, "state": tx.init(params)}}

@functools.partial(jax.jit, out_shardings={{"params": {params}, "state": {state}}})
def made():
    return init()

made()
"""
OBJECT = """
class Held(NamedTuple):
    params: Any
    state: Any

def init():
    params = {{"w": jnp.zeros((64, 128)), "v": jnp.zeros((32, 16))}}
    return Held(params, tx.init(params))

held = jax.jit(init, out_shardings=Held({params}, {state}))()
"""
STEP = """
@functools.partial(jax.jit, out_shardings=({params}, {state}))
def step(w: f32["64 128"], state, x: f32["8 64"]):
    params = {{"w": w}}
    grads = jax.grad(loss)(params, x)
    updates, state = tx.update(grads, state, params)
    return optax.apply_updates(params, updates), state
"""
ALONE = """
def start():
    return {{"w": jnp.zeros((64, 128)), "v": jnp.zeros((32, 16))}}

params = jax.jit(start, out_shardings={params})()
state = jax.jit(tx.init, out_shardings={state})(params)
"""
PLACED = """
class Trainer:
    def __init__(self, tx):
        self.start = jax.jit(tx.init, out_shardings={state})

    def state(self):
        params = jax.device_put({{"w": jnp.zeros((64, 128)), "v": jnp.zeros((32, 16))}}, {params})
        return params, self.start(params)

Trainer(tx).state()
"""
PROGRAMS = {
    "alone": ALONE,
    "placed": PLACED,
    "init": INIT,
    "named": NAMED,
    "object": OBJECT,
    "step": STEP,
}


def reported(
    program: str,
    maker: str = "adamw(1e-3)",
    params: str = "sharded",
    state: str = "replicated",
) -> list[str]:
    text = HEAD.format(maker=maker) + PROGRAMS[program].format(
        params=params, state=state
    )
    return codes(text)


@pytest.mark.parametrize(
    "maker",
    [
        "adamw(1e-3)",
        "sgd(0.1, momentum=0.9)",
        "chain(optax.clip(1.0), optax.lion(0.1))",
    ],
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_moments_on_every_device_are_reported(program: str, maker: str) -> None:
    assert reported(program, maker) == ["ST317"]


@pytest.mark.parametrize(
    "given",
    [
        {"maker": "sgd(0.1)"},
        {"maker": "sgd(0.1, momentum=None)"},
        {"maker": "adafactor(0.1)"},
        {"state": "sharded"},
        {"state": "None"},
        {"params": "replicated"},
        {"params": "replicated", "state": "sharded"},
    ],
    ids=str,
)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_may_be_meant_is_not(program: str, given: dict[str, str]) -> None:
    assert reported(program, **given) == []


def test_a_state_of_other_parameters_is_not_compared() -> None:
    text = (
        HEAD.format(maker="adamw(1e-3)")
        + """
def init():
    params = {"w": jnp.zeros((64, 128))}
    return params, tx.init({"bias": jnp.zeros((7,))})

params, state = jax.jit(init, out_shardings=(sharded, replicated))()
"""
    )
    assert codes(text) == []


@pytest.mark.filterwarnings("ignore:.*is deprecated:DeprecationWarning")
@pytest.mark.parametrize("name", sorted(optimizers._WITH_MOMENTS))
def test_moments_have_the_shapes_of_the_parameters(name: str) -> None:
    maker = getattr(optax, name.rpartition(".")[2])
    wanted = inspect.signature(maker).parameters.values()
    options = {one.name: 0.1 for one in wanted if one.default is one.empty}
    shapes = [
        leaf.shape
        for leaf in jax.tree.leaves(maker(**options).init({"w": jnp.zeros((4, 6))}))
    ]
    assert (4, 6) in shapes


def test_jax_replicates_what_the_finding_speaks_of() -> None:
    mesh = jax.make_mesh((1,), ("data",))
    replicated = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
    sharded = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "data"))

    def init() -> Any:
        params = {"w": jnp.zeros((64, 128))}
        return params, optax.adamw(1e-3).init(params)

    params, state = jax.jit(init, out_shardings=(sharded, replicated))()
    assert params["w"].sharding.spec == jax.sharding.PartitionSpec(None, "data")
    assert {leaf.sharding.spec for leaf in jax.tree.leaves(state)} == {
        jax.sharding.PartitionSpec()
    }
