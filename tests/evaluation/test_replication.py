"""``flax.jax_utils`` and ``flax.training.common_utils`` in guarded code, against flax on eight devices."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from flax import jax_utils
from flax.training import common_utils

from shardlint.evaluation import guards, meshes, modules
from shardlint.evaluation.comparison import numbers_of
from shardlint.evaluation.outside import known
from shardtypes.semantics.lowerings.convert import asarray
from shardtypes.semantics.primitive import evaluation
from shardtypes.semantics.trees import map_leaves

assert modules  # what it imports registers what is known here

pytestmark = pytest.mark.once  # what flax computes does not change with JAX

ROWS = np.arange(48, dtype=np.float32).reshape(16, 3)
TREE = {"w": ROWS, "b": (np.float32(2.0), ROWS[0])}
COPIES = {name: np.stack([ROWS] * 8) for name in "ab"}
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "flax.jax_utils.replicate": (jax_utils.replicate, (TREE,)),
    "flax.jax_utils.unreplicate": (jax_utils.unreplicate, (COPIES,)),
    "flax.training.common_utils.shard": (common_utils.shard, ({"x": ROWS},)),
    "flax.training.common_utils.stack_forest": (
        common_utils.stack_forest,
        ([TREE, TREE],),
    ),
}


def evaluated(name: str, args: Any) -> Any:
    with (
        evaluation(),
        meshes.on_machine(meshes.Machine(8)),
        guards.running(guards.Run(10_000)),
    ):
        found = known(name)(*map_leaves(asarray, args))
        return map_leaves(numbers_of, found)


@pytest.mark.parametrize("name", CASES)
def test_flax_gives_the_same(name: str) -> None:
    theirs, args = CASES[name]
    jax.tree.map(np.testing.assert_array_equal, evaluated(name, args), theirs(*args))


def test_metrics_are_those_of_the_first_device() -> None:
    metrics = [{"loss": jax_utils.replicate(np.float32(step))} for step in range(3)]
    name = "flax.training.common_utils.get_metrics"
    found = evaluated(name, (jax.tree.map(np.asarray, metrics),))
    wanted = common_utils.get_metrics(metrics)
    np.testing.assert_array_equal(found["loss"], wanted["loss"])


def test_each_device_has_a_key() -> None:
    key = known("jax.random.key")
    name = "flax.training.common_utils.shard_prng_key"
    with (
        evaluation(),
        meshes.on_machine(meshes.Machine(8)),
        guards.running(guards.Run(10_000)),
    ):
        assert known(name)(key(0)).dims[0] == 8


def test_copies_and_parts_as_jax_placed_them() -> None:
    """JAX up to 0.9 had these two; flax's ``replicate`` gives what the first gave."""
    devices = list(range(8))
    copies = evaluated("jax.device_put_replicated", (TREE, devices))
    jax.tree.map(np.testing.assert_array_equal, copies, jax_utils.replicate(TREE))
    parts = [{"x": ROWS + device} for device in devices]
    found = evaluated("jax.device_put_sharded", (parts, devices))
    np.testing.assert_array_equal(found["x"], np.stack([one["x"] for one in parts]))
