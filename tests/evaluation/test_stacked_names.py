"""The names of variables that ``nn.scan`` and ``nn.vmap`` stack: flax's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.evaluation.running import NUMBERS, evaluated, in_jax

PROGRAM = """
import jax
import jax.numpy as jnp
import flax.linen as nn

NAMES = [None, "layers", "copies", "embed", "mlp", "batch"]


def named(*names):
    return nn.with_partitioning(nn.initializers.ones, names)


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        w = self.param("w", named("embed", "mlp"), (4, 4))
        b = self.param("b", nn.initializers.zeros, (4,))
        return x @ w + b, None


class Layer(nn.Module):
    @nn.compact
    def __call__(self, x):
        w = self.param("w", named("embed", None), (4, 4))
        return nn.with_partitioning(nn.initializers.ones, ("batch",)) and x @ w


class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        {stack}
        return x @ self.param("head", named("embed", "mlp"), (4, 2))


def main():
    model = Model()
    shapes = jax.eval_shape(model.init, jax.random.key(0), jnp.ones((3, 4)))
    specs = nn.get_partition_spec(shapes)
    return jax.tree.map(
        lambda spec: jnp.array([9, *(NAMES.index(name) for name in spec)]),
        specs,
        is_leaf=lambda one: isinstance(one, jax.sharding.PartitionSpec),
    )
"""

STACKS = {
    "scan": """stack = nn.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=2,
                        metadata_params={nn.PARTITION_NAME: "layers"})
        x, _ = stack(name="stack")(x, None)""",
    "scan of remat": """stack = nn.scan(nn.remat(Block), variable_axes={"params": 0}, split_rngs={"params": True},
                        length=2, metadata_params={nn.PARTITION_NAME: "layers"})
        x, _ = stack(name="stack")(x, None)""",
    "scan without a name": """stack = nn.scan(Block, variable_axes={"params": 0}, split_rngs={"params": True}, length=2,
                        metadata_params={nn.PARTITION_NAME: None})
        x, _ = stack(name="stack")(x, None)""",
    "vmap": """stack = nn.vmap(Layer, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=None,
                        axis_size=2, metadata_params={nn.PARTITION_NAME: "copies"})
        x = stack(name="stack")(x).sum(0)""",
    "shared": """stack = nn.vmap(Layer, variable_axes={"params": None}, split_rngs={"params": False}, in_axes=0)
        x = stack(name="stack")(x)""",
}
PROGRAMS = {name: PROGRAM.replace("{stack}", stack) for name, stack in STACKS.items()}


def test_names_are_those_of_flax(tmp_path: Path) -> None:
    theirs = in_jax(tmp_path, PROGRAMS, NUMBERS)
    for name, text in PROGRAMS.items():
        mine = [np.asarray(leaf).tolist() for leaf in evaluated(text)]
        assert mine == theirs[name], name
