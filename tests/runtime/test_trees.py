"""``pytree_dataclass`` in every form, and the specs of trees."""

from __future__ import annotations

import dataclasses
import sys
from typing import Annotated, Any, Final, Generic, NamedTuple, NewType, TypeVar

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import Array, f32, layout, make_partition_specs, pytree_dataclass

T = TypeVar("T")


@pytree_dataclass(frozen=True, kw_only=True)
class Frozen:
    w: f32["M/d F"]
    name: str = dataclasses.field(default="f", metadata={"static": True})


@pytree_dataclass
class Base:
    a: f32["M"]


@pytree_dataclass
class Derived(Base):
    b: f32["M"]


@pytree_dataclass
class Pair(Generic[T]):
    first: T
    second: T


class Named(NamedTuple):
    x: f32["B/d"]
    y: f32["B/t"] | None


@pytree_dataclass
class Loose:
    w: jax.Array


def test_frozen_with_static_fields() -> None:
    value = Frozen(w=jnp.ones((2, 3)), name="g")
    assert (
        jax.tree.leaves(value)[0].shape == (2, 3) and len(jax.tree.leaves(value)) == 1
    )
    assert jax.jit(lambda v: jax.tree.map(lambda x: x * 2, v))(value).name == "g"
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.name = "h"  # type: ignore[misc]
    with pytest.raises(TypeError):
        Frozen(jnp.ones((2, 3)))  # type: ignore[misc,call-arg]
    paths = [
        jax.tree_util.keystr(path)
        for path, _ in jax.tree_util.tree_leaves_with_path(value)
    ]
    assert paths == [".w"]


def test_inheritance_and_transformations() -> None:
    @st.typechecked
    def total(v: Derived) -> f32[""]:
        return (v.a * v.b).sum()

    value = Derived(a=jnp.ones(3), b=jnp.full(3, 2.0))
    assert total(value) == 6
    gradient = jax.grad(total)(value)
    assert isinstance(gradient, Derived) and gradient.a.tolist() == [2, 2, 2]
    carried, _ = jax.lax.scan(
        lambda c, _: (jax.tree.map(lambda x: x + 1, c), total(c)), value, None, length=2
    )
    assert carried.a.tolist() == [3, 3, 3]
    with pytest.raises(st.ShapeError, match="field 'b'"):
        total(Derived(a=jnp.ones(3), b=jnp.ones(4)))


def test_generic_fields_are_checked() -> None:
    @st.typechecked
    def f(p: Pair[f32["B"]]) -> f32["B"]:
        return p.first + p.second

    f(Pair(jnp.ones(2), jnp.ones(2)))
    with pytest.raises(st.ShapeError, match="field 'second'"):
        f(Pair(jnp.ones(2), jnp.ones(3)))


def test_partition_specs_of_containers() -> None:
    d = P("d")
    assert st.make_partition_specs(Named) == Named(d, P("t"))
    assert st.make_partition_specs(tuple[f32["B/d"], f32[""]]) == (d, P())
    assert st.make_partition_specs(dict[str, f32["B/d"]]) == d
    assert st.make_partition_specs(list[f32["B/d"]]) == d
    assert st.make_partition_specs(f32["B/d"] | None) == d
    assert st.make_partition_specs(Frozen).w == P("d", None)
    assert st.make_partition_specs(Pair[f32["B/d"]]) == Pair(d, d)


def test_a_leaf_without_annotation_is_named() -> None:
    with pytest.raises(TypeError) as caught:
        st.make_partition_specs(Loose)
    assert str(caught.value) == (
        ".w: jax.Array has no array type; annotate it as f32['…'] or as a pytree_dataclass, "
        "or mark the field static with dataclasses.field(metadata={'static': True})"
    )
    with pytest.raises(TypeError, match="sharded differently"):
        st.make_partition_specs(f32["B/d"] | f32["B/t"])


def test_is_fully_sharded(auto_mesh: Mesh) -> None:
    with jax.set_mesh(auto_mesh):
        assert st.is_fully_sharded(P("d", "t")) and st.is_fully_sharded(P(("t", "d")))
        assert st.is_fully_sharded(f32["M/t/d"]) and st.is_fully_sharded(
            st.ShapeSpec.parse("M/t F/d")
        )
        assert not st.is_fully_sharded(P("d")) and not st.is_fully_sharded(f32["M/t"])
    with pytest.raises(ValueError, match="needs a mesh in force"):
        st.is_fully_sharded(P("d"))


def test_a_mismatch_names_the_field_and_where_the_size_was_bound() -> None:
    @st.pytree_dataclass
    class Inner:
        w: f32["M F"]
        xs: list[f32["M"]]

    @st.pytree_dataclass
    class Outer:
        a: Inner
        b: f32["F"]

    Outer.__annotations__["a"] = Inner

    @st.typechecked
    def f(p: Outer) -> None: ...

    with pytest.raises(st.ShapeError) as caught:
        f(Outer(a=Inner(w=jnp.ones((2, 3)), xs=[]), b=jnp.ones(4)))
    assert str(caught.value) == (
        "f: parameter 'p', field 'b': dimension 0 is 4, expected F = 3\n  declared f32['F']\n  actual   f32[4]\n"
        "  F = 3, bound by f: parameter 'p', field 'a.w', dimension 1\n"
        "  pass arrays that agree in F, or give the dimension another name"
    )
    with pytest.raises(
        st.ShapeError,
        match=r"item 1 of f: parameter 'p', field 'a\.xs': dimension 0 is 5",
    ):
        f(
            Outer(
                a=Inner(w=jnp.ones((2, 3)), xs=[jnp.ones(2), jnp.ones(5)]),
                b=jnp.ones(3),
            )
        )


def test_fields_of_a_result_are_judged_by_out_shardings(auto_mesh: Mesh) -> None:
    @st.pytree_dataclass
    class Made:
        w: f32["B/d M"]

    @st.typechecked
    def make(key: jax.Array) -> Made:
        return Made(w=jax.random.normal(key, (8, 16)))

    make.__wrapped__.__annotations__["return"] = Made
    with jax.set_mesh(auto_mesh):
        made = jax.jit(
            make, out_shardings=jax.sharding.NamedSharding(auto_mesh, P("d"))
        )(jax.random.key(0))
    assert str(st.layout(made.w)) == "8/d 16"


NewName = NewType("NewName", f32["B/d M"])
NAMES: list[Any] = [
    NewName,
    Annotated[jax.Array, f32["B/d M"]],
    Annotated[f32["B/d M"], "a note"],
    Final[f32["B/d M"]],
]
if sys.version_info >= (3, 12):
    aliases: dict[str, Any] = {"f32": f32}
    exec("type X = f32['B/d M']\ntype Of[S] = S\nY = Of[f32['B/d M']]", aliases)
    NAMES += [aliases["X"], aliases["Y"]]


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_names_for_a_type_mean_it_wherever_types_are_taken_apart(
    auto_mesh: Mesh, name: Any
) -> None:
    spec = P("d", None)
    assert str(layout(name)) == "B/d M"
    assert make_partition_specs({"a": name, "b": [name]}) == {"a": spec, "b": [spec]}
    assert make_partition_specs(dict[str, name]) == spec
    assert st.logical_to_mesh_axes(name, [("B", "d")]) == spec
    assert st.logical_to_mesh({"a": name}, [("B", "d")]) == {"a": spec}
    stacked = Array["layers", name]
    assert make_partition_specs(stacked) == P(None, "d", None)
    fields: dict[str, Any] = {"__annotations__": {"w": name}, "__module__": __name__}
    made: Any = pytree_dataclass(type("Made", (), fields))
    assert make_partition_specs(made) == made(spec)
    assert make_partition_specs(Array["layers", made]).w == P(None, "d", None)
    with jax.set_mesh(auto_mesh):
        placed = st.shard({"w": jnp.ones((4, 3))}, {"w": name})
    assert layout(placed["w"]).spec == spec


def test_a_type_that_holds_itself_has_no_one_structure() -> None:
    if sys.version_info >= (3, 12):
        names: dict[str, Any] = {"f32": f32}
        exec("type Nest = f32['B'] | list[Nest]", names)
        for take in (make_partition_specs, lambda nest: Array["layers", nest]):
            with pytest.raises(TypeError, match="Nest holds itself"):
                take(names["Nest"])
