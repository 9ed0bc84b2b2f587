"""Dataclasses in lists, dicts and tuples of any number: what stands for all items of a list of arrays is no tree of a
list of dataclasses, so each item has its own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import f32


@st.pytree_dataclass
class Layer:
    w: f32["M F/t"]
    v: f32["F/t M"]


@st.pytree_dataclass
class Net:
    layers: list[Layer]
    heads: dict[str, Layer]
    pair: tuple[Layer, ...]
    scales: list[f32["M"]]


def made() -> Net:
    layer = Layer(jnp.ones((4, 8)), jnp.ones((8, 4)))
    return Net([layer] * 3, {"a": layer, "b": layer}, (layer, layer), [jnp.ones(4)] * 2)


def test_specs_of_each_item() -> None:
    specs = st.make_partition_specs(Net, made())
    layer = Layer(P(None, "t"), P("t", None))
    assert specs == Net([layer] * 3, {"a": layer, "b": layer}, (layer, layer), P(None))
    assert st.make_partition_specs(list[Layer], []) == []


def test_they_are_placed(auto_mesh: Mesh) -> None:
    placed = st.shard(made(), Net, auto_mesh)
    for layer in (*placed.layers, *placed.heads.values(), *placed.pair):
        assert st.layout(layer.w) == st.layout(f32["4 8/t"], auto_mesh)
        assert st.layout(layer.v) == st.layout(f32["8/t 4"], auto_mesh)
    shardings = st.make_shardings(Net, auto_mesh, made())
    assert shardings.layers[2].v == NamedSharding(auto_mesh, P("t", None))
    same = jax.jit(lambda net: net, in_shardings=(shardings,))(placed)
    assert isinstance(same, Net)
    wrong = made()
    wrong.layers[1] = Layer(jnp.ones((4, 6)), jnp.ones((8, 4)))
    with pytest.raises(st.ShapeError, match=r"layers\[1\]\.w: dimension 1 is 6"):
        st.shard(wrong, Net, auto_mesh)


def test_they_are_mapped(auto_mesh: Mesh) -> None:
    def apply(x: f32["B/d M"], net: Net) -> f32["B/d M"]:
        for layer in net.layers:
            x = lax.psum(x @ layer.w @ layer.v, "t")
        return x

    def doubled(net: Net, by: f32[""]) -> tuple[Net, f32[""]]:
        return jax.tree.map(lambda leaf: leaf * by, net), by

    net, x = made(), jnp.ones((2, 4))
    mapped: Any = st.typed_shard_map(apply, mesh=auto_mesh)
    wanted = jnp.full((2, 4), 32.0**3)
    assert jnp.array_equal(mapped(x, net), wanted)
    grads = jax.grad(lambda net: mapped(x, net).sum())(net)
    assert jax.tree.structure(grads) == jax.tree.structure(net)
    twice, _ = st.typed_shard_map(doubled, mesh=auto_mesh)(net, jnp.float32(2))
    assert jax.tree.structure(twice) == jax.tree.structure(net)
    assert jnp.array_equal(twice.heads["b"].w, 2 * net.heads["b"].w)
