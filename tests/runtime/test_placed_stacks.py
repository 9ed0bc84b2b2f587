"""Stacks that ``vmap`` and ``scan`` make, and values of subclasses, are placed and mapped as their types declare."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping
from typing import Any, NamedTuple, NotRequired, TypedDict

import equinox as eqx
import flax.struct
import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from typeguard import TypeCheckError

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


class Pair(NamedTuple):
    x: f32["m"]
    y: f32[""]
    note: str = ""


@flax.struct.dataclass
class Flax:
    x: f32["m"]
    y: f32[""]


class Equinox(eqx.Module):
    x: f32["m"]
    y: f32[""]


class Typed(TypedDict):
    x: f32["m"]
    y: f32[""]


@pytest.mark.parametrize("kind", [Pair, Flax, Equinox, Typed])
def test_stacks_of_classes_that_name_their_own_sizes(kind: Any) -> None:
    stacked = Array["n", kind]
    assert stacked is Array["n", kind]
    assert Array["s", stacked].__annotations__["y"] in (
        f32["s n"],
        NotRequired[f32["s n"]],
    )

    @st.typechecked
    def f(value: stacked, count: f32["n"], other: f32["m"]) -> None: ...

    def of(x: tuple[int, ...], y: tuple[int, ...]) -> Any:
        return stacked(x=jnp.ones(x), y=jnp.ones(y))

    # its own m is not that of the call
    f(of((5, 3), (5,)), jnp.ones(5), jnp.ones(2))
    assert kind is Typed or type(of((5, 3), (5,))) is kind
    for wrong in (of((3,), ()), of((5, 3), (4,)), of((5, 5, 3), (5,))):
        with pytest.raises(TypeCheckError):
            f(wrong, jnp.ones(5), jnp.ones(2))
    if kind is not Typed:
        with pytest.raises(st.ShapeError, match="expected n = 5"):
            f(of((5, 3), (5,)), jnp.ones(4), jnp.ones(2))
        assert pickle.loads(pickle.dumps(stacked)) is stacked
        assert isinstance(of((5, 3), (5,)), stacked) and not isinstance(3, stacked)


def test_stacks_of_named_tuples_are_placed_and_mapped(auto_mesh: Mesh) -> None:
    class Step(NamedTuple):
        reward: f32["env/d"]
        state: Inner

    steps = jax.vmap(lambda s: Step(jnp.ones(4) * s, Inner(jnp.ones((4, 8)) * s)))(
        jnp.ones(3)
    )
    placed = st.shard(steps, Array["steps", Step], auto_mesh)
    assert type(placed) is Step and type(placed.state) is Inner
    assert st.layout(placed.reward) == st.layout(f32["3 4/d"], auto_mesh)
    assert st.layout(placed.state.w) == st.layout(f32["3 4 8/t"], auto_mesh)

    @st.typed_shard_map(mesh=auto_mesh)
    def doubled(steps: Array["steps", Step]) -> Array["steps", Step]:
        return jax.tree.map(lambda x: x * 2, steps)

    assert jnp.array_equal(doubled(placed).reward, 2 * steps.reward)


def test_what_cannot_be_stacked_says_so() -> None:
    class Plain(NamedTuple):
        name: str

    assert Array["n", dict[str, f32["m"]]] == dict[str, f32["n m"]]
    assert Array["n", Mapping[int, Block]] == Mapping[int, Array["n", Block]]
    for kind in (Plain, int):
        with pytest.raises(
            TypeError, match=r"needs .*fields of array types, got <class"
        ):
            Array["n", kind]


def test_trees_of_specs_are_no_objects_of_the_program(auto_mesh: Mesh) -> None:
    @st.typechecked
    @st.pytree_dataclass
    class Checked:
        w: f32["m n/t"]

    st._stats.reset()
    with jax.set_mesh(auto_mesh):
        st.make_shardings(Array["layers", Checked])
        placed = st.shard(
            Array["layers", Checked](jnp.ones((3, 4, 8))), Array["layers", Checked]
        )
    assert type(placed) is Checked
    assert "does not fit" not in str(st._stats.snapshot()["not_possible"])
