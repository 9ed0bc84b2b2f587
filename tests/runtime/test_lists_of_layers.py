"""Dataclasses in lists, dicts and tuples of any number: what stands for all items of a list of arrays is no tree of a
list of dataclasses, so each item has its own."""

from __future__ import annotations

import functools
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


def layers_from(x: jax.Array, count: int) -> list[Layer]:
    return [Layer(x.T, x * at) for at in range(count)]


Rows = f32["F/t M"]


def in_list(x: Rows, count: int) -> list[Layer]:
    return layers_from(x, count)


def in_tuple(x: Rows, count: int) -> tuple[Layer, ...]:
    return tuple(layers_from(x, count))


def in_dict(x: Rows, count: int) -> dict[str, Layer]:
    return {f"layer{at}": layer for at, layer in enumerate(layers_from(x, count))}


def in_dict_of_lists(x: Rows, count: int) -> tuple[Rows, dict[str, list[Layer]]]:
    return x, {"a": layers_from(x, count), "b": []}


def optional(x: Rows, count: int) -> Layer | None:
    return layers_from(x, count)[0] if count else None


def optional_list(x: Rows, count: int) -> tuple[list[Layer] | None, Rows]:
    return layers_from(x, count) or None, x


@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize(
    "f", [in_list, in_tuple, in_dict, in_dict_of_lists, optional, optional_list]
)
def test_results_that_no_argument_is_like(auto_mesh: Mesh, f: Any, count: int) -> None:
    """What the function returns says how many there are."""
    x = jnp.arange(32.0).reshape(8, 4)
    mapped = st.typed_shard_map(f, mesh=auto_mesh)
    for run in (mapped, jax.jit(mapped, static_argnames="count")):
        found = run(x, count=count)
        wanted = f(x, count)
        assert jax.tree.structure(found) == jax.tree.structure(wanted)
        for mine, his in zip(
            jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True
        ):
            assert jnp.array_equal(mine, his)
        for layer in jax.tree.leaves(found, is_leaf=lambda x: isinstance(x, Layer)):
            if isinstance(layer, Layer):
                assert st.layout(layer.w) == st.layout(f32["4 8/t"], auto_mesh)
                assert st.layout(layer.v) == st.layout(f32["8/t 4"], auto_mesh)


def test_gradients_of_results_that_no_argument_is_like(auto_mesh: Mesh) -> None:
    def total(f: Any) -> Any:
        return lambda x: sum(jnp.sum(layer.v * layer.v) for layer in f(x, 3))

    x = jnp.arange(32.0).reshape(8, 4)
    mapped = st.typed_shard_map(in_list, mesh=auto_mesh)
    found = jax.grad(total(mapped))(x)
    assert jnp.allclose(found, jax.grad(total(in_list))(x))


def test_results_of_another_length_than_an_argument(auto_mesh: Mesh) -> None:
    def last_two(layers: list[Layer]) -> list[Layer]:
        return layers[-2:]

    layers = made().layers
    found = st.typed_shard_map(last_two, mesh=auto_mesh)(layers)
    assert jax.tree.structure(found) == jax.tree.structure(layers[-2:])


def test_results_of_another_structure_than_declared(auto_mesh: Mesh) -> None:
    def wrong(x: Rows) -> list[Layer]:
        return x  # type: ignore[return-value]  # which is the mistake

    with pytest.raises(TypeError) as found:
        st.typed_shard_map(wrong, mesh=auto_mesh)(jnp.ones((8, 4)))
    assert str(found.value).startswith("typed_shard_map(wrong): the result: list[")


@st.pytree_dataclass
class Biased:
    w: f32["M F/t"]
    b: f32["F/t"] | None = None


def test_optional_arguments(auto_mesh: Mesh) -> None:
    """Of what is None there is no spec, in an argument as in a field of one."""

    def apply(x: f32["B/d M"], layer: Biased | None, more: list[Biased]) -> Rows | None:
        assert layer is None or layer.b is None
        return None

    def sums(x: f32["B/d M"], one: Biased | None, more: list[Biased]) -> f32["B/d F/t"]:
        out = sum(x @ layer.w for layer in more)
        if one is not None:
            out += x @ one.w
        return out + sum(layer.b for layer in more if layer.b is not None)

    x, w = jnp.ones((2, 4)), jnp.ones((4, 8))
    more = [Biased(w), Biased(w, jnp.ones(8))]
    assert st.typed_shard_map(apply, mesh=auto_mesh)(x, Biased(w), more) is None
    for one, wanted in ((None, 9.0), (Biased(w), 13.0)):
        found = st.typed_shard_map(sums, mesh=auto_mesh)(x, one, more)
        assert jnp.array_equal(found, jnp.full((2, 8), wanted))


def test_functions_of_which_a_part_is_given(auto_mesh: Mesh) -> None:
    x = jnp.arange(32.0).reshape(8, 4)
    in_three = functools.partial(in_list, count=3)
    found = st.typed_shard_map(in_three, mesh=auto_mesh)(x)
    assert len(found) == 3
    assert jnp.array_equal(found[2].v, x * 2)
