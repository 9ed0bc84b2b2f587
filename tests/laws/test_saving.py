"""``laws.restores``: what is loaded is what was saved, on every mesh."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from shardtypes import bf16, i32, laws, pytree_dataclass


@pytree_dataclass
class State:
    w: bf16["M/d F"]
    step: i32[""]


def state() -> State:
    return State(
        w=jnp.arange(32.0).reshape(16, 2).astype(jnp.bfloat16), step=jnp.int32(3)
    )


def save(path: Path, state: Any) -> None:
    path.write_bytes(pickle.dumps(jax.tree.map(np.asarray, state)))


def load(path: Path, like: Any) -> Any:
    saved = pickle.loads(path.read_bytes())
    return jax.tree.map(lambda a, b: jax.device_put(a, b.sharding), saved, like)


def widened(path: Path, like: Any) -> Any:
    return jax.tree.map(
        lambda a: a.astype(jnp.float32) if a.ndim else a, load(path, like)
    )


def flipped(path: Path, like: Any) -> Any:
    return jax.tree.map(lambda a: a[::-1] if a.ndim else a, load(path, like))


def gathered(path: Path, like: Any) -> Any:
    def replicated(a: Any, b: Any) -> Any:
        return jax.device_put(a, NamedSharding(b.sharding.mesh, PartitionSpec()))

    return jax.tree.map(replicated, load(path, like), like)


def only_here(path: Path, like: Any) -> Any:
    if like.w.sharding.mesh.shape["d"] != 8:
        raise ValueError("saved with d=8")
    return load(path, like)


MESHES = ["d=8", {"d": 2, "t": 4}]


def test_what_is_restored() -> None:
    assert laws.restores(save, load, state()).ok is True
    verdict = laws.restores(save, load, state(), meshes=MESHES)
    assert (
        verdict.reason
        == "load: restores what was saved from each of 2 meshes to each (4 pairs)"
    )
    assert (
        laws.restores(save, lambda path: pickle.loads(path.read_bytes()), state()).ok
        is True
    )


@pytest.mark.parametrize(
    ("loaded", "words"),
    [
        (
            widened,
            "saved on d=8 and loaded on d=8: .w has dtype float32, expected bfloat16",
        ),
        (flipped, ".w is 30.0 at [0, 0], expected 0.0 (32 of 32 numbers differ)"),
        (gathered, ".w is sharded as NamedSharding"),
        (
            only_here,
            "saved on d=8 and loaded on d=2, t=4: load raises ValueError: saved with d=8",
        ),
    ],
)
def test_what_is_not(loaded: Any, words: str) -> None:
    verdict = laws.restores(save, loaded, state(), meshes=MESHES)
    assert verdict.ok is False
    assert words in verdict.reason
    assert verdict.where is not None
    assert verdict.where.endswith(f"test_saving.py:{loaded.__code__.co_firstlineno}")


def test_another_place() -> None:
    def place(tree: Any, mesh: Mesh) -> Any:
        return jax.device_put(tree, NamedSharding(mesh, PartitionSpec()))

    assert laws.restores(save, load, state(), meshes=MESHES, place=place).ok is True


def test_what_cannot_be_told() -> None:
    assert laws.restores(save, load, state(), meshes=["d=1024"]).ok is None
    assert laws.restores(save, load, state(), meshes=["d"]).ok is None
    assert laws.restores(lambda path, state: None, load, state()).ok is None
