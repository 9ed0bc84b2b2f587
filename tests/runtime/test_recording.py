"""What the counters say of a run."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh

import shardtypes as st
from shardtypes import _stats, f32


@pytest.fixture
def recorded() -> Iterator[None]:
    before = _stats.recording
    _stats.reset()
    _stats.record()
    yield
    _stats.record(before)
    _stats.reset()


@st.typechecked
def f(x: f32["B/d M"]) -> f32["B/d M"]:
    return x


@pytest.mark.usefixtures("recorded")
def test_functions_and_dimensions_are_named_with_their_module(auto_mesh: Mesh) -> None:
    with jax.set_mesh(auto_mesh):
        f(st.shard(jnp.ones((4, 4)), f32["B/d M"]))
    counted = _stats.snapshot()
    assert counted["functions"] == {f"{__name__}.f": 1}
    assert {
        (name, role, dim, axis) for name, role, dim, axis, _ in counted["dimensions"]
    } == {
        (f"{__name__}.f", "parameter 'x'", 0, "d"),
        (f"{__name__}.f", "the result", 0, "d"),
    }
    sizes = ", ".join(f"{name}={size}" for name, size in auto_mesh.shape.items())
    assert (f"{__name__}.f", "the result", "f32['B/d M']", sizes) in counted["layouts"]
    assert all(verified for *_, verified in counted["dimensions"])


@pytest.mark.usefixtures("recorded")
def test_the_time_of_checking_compiles_is_kept(auto_mesh: Mesh) -> None:
    def step(x: jax.Array) -> jax.Array:
        return f(x)

    with jax.set_mesh(auto_mesh):
        jax.jit(step)(st.shard(jnp.ones((4, 4)), f32["B/d M"]))
    assert _stats.snapshot()["seconds"][f"{__name__}.step"] > 0
