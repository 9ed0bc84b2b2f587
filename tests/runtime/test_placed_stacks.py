"""Stacks that ``vmap`` and ``scan`` make, and values of subclasses, are placed and mapped as their types declare."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import Array, f32


@st.pytree_dataclass
class Inner:
    w: f32["m n/t"]


@st.pytree_dataclass
class Block:
    scale: f32["m"]
    inner: Inner
    name: str = dataclasses.field(default="block", metadata={"static": True})


@st.pytree_dataclass
class Gated(Block):
    gate: f32["m/t"] = None  # type: ignore[assignment]  # fields without defaults come first


@st.pytree_dataclass
class Model:
    blocks: Array["layers", Block]
    last: Block


def block(scale: Any) -> Block:
    return Block(jnp.ones(4) * scale, Inner(jnp.ones((4, 8)) * scale))


def gated(scale: Any) -> Gated:
    return Gated(jnp.ones(4), Inner(jnp.ones((4, 8))), "gated", jnp.ones(4) * scale)


MADE = {
    "by vmap": jax.vmap(block)(jnp.ones(3)),
    "by scan": lax.scan(lambda carry, s: (carry, block(s)), 0, jnp.ones(3))[1],
    "by tree.map": jax.tree.map(lambda *parts: jnp.stack(parts), *[block(1.0)] * 3),
    "by the stacked class": Array["layers", Block](
        jnp.ones((3, 4)), Array["layers", Inner](jnp.ones((3, 4, 8)))
    ),
}
made = pytest.mark.parametrize("way", MADE)


@made
def test_they_are_placed(auto_mesh: Mesh, way: str) -> None:
    model = Model(MADE[way], block(2.0))
    stacked = NamedSharding(auto_mesh, P(None, None, "t"))
    with jax.set_mesh(auto_mesh):
        for placed in (
            st.shard(model, Model),
            jax.device_put(model, st.make_shardings(Model)),
            jax.device_put(model, st.make_shardings(Model, example=model)),
            jax.jit(lambda: model, out_shardings=st.make_shardings(Model))(),
        ):
            assert jax.tree.structure(placed) == jax.tree.structure(model)
            assert placed.blocks.inner.w.sharding.is_equivalent_to(stacked, 3)
    assert st.make_partition_specs(Model).blocks == Block(
        P(None, None), Inner(P(None, None, "t"))
    )


@made
def test_they_are_mapped(auto_mesh: Mesh, way: str) -> None:
    @st.typed_shard_map(mesh=auto_mesh)
    def scaled(model: Model, by: f32[""]) -> tuple[Model, Array["layers", Block]]:
        changed = jax.tree.map(lambda leaf: leaf * by, model)
        return changed, lax.scan(lambda c, one: (c, one), 0, changed.blocks)[1]

    model = Model(MADE[way], block(2.0))
    whole, blocks = scaled(model, jnp.float32(3))
    assert jax.tree.structure(whole) == jax.tree.structure(model)
    assert jax.tree.structure(blocks) == jax.tree.structure(model.blocks)
    assert jnp.array_equal(blocks.inner.w, 3 * model.blocks.inner.w)


def test_values_of_a_subclass_are_placed_with_its_own_fields(auto_mesh: Mesh) -> None:
    one, many = gated(1.0), jax.vmap(gated)(jnp.ones(3))
    placed = st.shard(Model(many, one), Model, auto_mesh)
    assert type(placed.last) is Gated and type(placed.blocks) is Gated
    assert st.layout(placed.last.gate) == st.layout(f32["4/t"], auto_mesh)  # type: ignore[attr-defined]  # of the subclass
    assert st.layout(placed.blocks.gate) == st.layout(f32["3 4/t"], auto_mesh)

    @st.typechecked
    def f(model: Model) -> None: ...

    with jax.set_mesh(auto_mesh):
        f(placed)
        placed.blocks.gate = jnp.ones((3, 5))
        with pytest.raises(st.ShapeError, match=r"field 'blocks.gate': dimension 1"):
            f(placed)


def test_the_ranks_of_arrays_tell_which_member_of_a_union_is_meant(
    auto_mesh: Mesh,
) -> None:
    either = Block | Array["layers/d", Block]
    one, many = block(1.0), jax.vmap(block)(jnp.ones(2))
    assert st.layout(st.shard(one, either, auto_mesh).scale) == st.layout(
        f32["4"], auto_mesh
    )
    assert st.layout(st.shard(many, either, auto_mesh).scale) == st.layout(
        f32["2/d 4"], auto_mesh
    )
    arrays = f32["n/d"] | f32["n m/t"]
    assert st.layout(st.shard(jnp.ones((3, 4)), arrays, auto_mesh)) == st.layout(
        f32["3 4/t"], auto_mesh
    )


def test_what_cannot_be_stacked_says_what_to_do() -> None:
    class Step(NamedTuple):
        reward: f32[""]

    assert Array["n", dict[str, f32["m"]]] == dict[str, f32["n m"]]
    assert Array["n", Mapping[int, Block]] == Mapping[int, Array["n", Block]]
    with pytest.raises(TypeError, match="make Step a pytree_dataclass, or write"):
        Array["n", Step]
