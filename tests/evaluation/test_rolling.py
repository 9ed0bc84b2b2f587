"""``jnp.roll`` by a number that each device has for itself, against JAX."""

from __future__ import annotations

import pytest

from tests.evaluation.running import AS_NUMBERS, assert_computes, in_jax

ROLLED = """
import jax
import jax.numpy as jnp
import numpy as np

def main():
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:4]), ("d",))

    def rolled(x):
        index = jax.lax.axis_index("d")
        return {expression}

    x = jnp.arange(24.0).reshape(8, 3)
    return jax.shard_map(rolled, mesh=mesh, in_specs=jax.P("d"), out_specs=jax.P("d"))(x)
"""
EXPRESSIONS = [
    "jnp.roll(x, index, axis=0)",
    "jnp.roll(x, -2 * index, axis=1)",
    "jnp.roll(x, index + 5)",
    "jnp.roll(x, (index, 1), axis=(0, 1))",
]


@pytest.fixture(scope="module")
def truths(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[object]]:
    """What JAX computes on four devices."""
    programs = {one: ROLLED.format(expression=one) for one in EXPRESSIONS}
    found: dict[str, list[object]] = in_jax(
        tmp_path_factory.mktemp("rolled"), programs, AS_NUMBERS
    )
    return found


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_each_device_rolls_by_its_own(
    expression: str, truths: dict[str, list[object]]
) -> None:
    assert_computes(ROLLED.format(expression=expression), truths[expression])
