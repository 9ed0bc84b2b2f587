"""Parameters of users' functions may be called as those of the functions that take them."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import shardtypes as st
from pytest_shardtypes import collectives
from shardtypes import f32
from shardtypes.proving import prove_call
from shardtypes.tracing import trace_call


def scaled(f: Any, x: f32["B M"], *, named: float = 1.0) -> f32["B M"]:
    return f(x) * named


def summed(f: jax.Array, mesh: jax.Array, reference: jax.Array) -> jax.Array:
    return f + jax.lax.psum(mesh.sum() + reference.sum(), "d")


def test_a_function_called_f() -> None:
    x = jnp.ones((4, 8))
    assert st.trace(scaled, f=jnp.sin).ok is True
    assert st.trace(scaled, f=lambda x: x[:2]).ok is False
    assert [row.name for row in st.explain(scaled, f=jnp.sin, x=x).arguments] == ["x"]
    assert collectives.collectives(scaled, f=jnp.sin, x=x) == ()


def test_arguments_with_names_of_options(auto_mesh: Mesh) -> None:
    mapped = jax.shard_map(summed, mesh=auto_mesh, in_specs=P("d"), out_specs=P("d"))

    def right(f: jax.Array, mesh: jax.Array, reference: jax.Array) -> jax.Array:
        return mapped(f, mesh, reference).sum()

    names = {"f": jnp.ones(4), "mesh": jnp.ones(4), "reference": jnp.ones(4)}
    found = prove_call(right, (), names, {"d": 2, "t": 4})
    assert found.ok, str(found)
    told = st.explain(right, **names)
    assert [row.name for row in told.arguments] == ["f", "mesh", "reference"]
    assert told.unfollowed == "" and "psum" in str(told.intermediates)

    def other(x: f32["B M"], sizes: Any, mesh: Any) -> f32["B M"]:
        return x * len(mesh) * sizes["by"]

    given = {"sizes": {"by": 2}, "mesh": ["d"]}
    assert trace_call(other, (), given).ok is True
