"""``pytree_dataclass(own_sizes=True)``: each value names its sizes by itself, in every check of the package."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P
from typeguard import TypeCheckError

import shardtypes as st
from shardtypes import Array, f32, switches, trace


@st.pytree_dataclass(own_sizes=True)
class Matrix:
    data: f32["rows cols"]
    scale: f32["rows"]
    name: str = dataclasses.field(default="m", metadata={"static": True})

    @st.typechecked
    def transposed(self) -> Matrix:
        return Matrix(self.data.T, jnp.ones(self.data.shape[1]))

    @st.typechecked
    def diagonal(self) -> f32["rows"]:
        return jnp.diagonal(self.data)[: self.data.shape[0]]


@st.pytree_dataclass
class Named(Matrix):
    bias: f32["cols"] = None  # type: ignore[assignment]  # fields without defaults come first


@st.pytree_dataclass(own_sizes=False)
class Shared:
    data: f32["rows cols"]


def matrix(rows: int, cols: int) -> Matrix:
    return Matrix(jnp.ones((rows, cols)), jnp.ones(rows))


@st.typechecked
def product(a: Matrix, b: Matrix) -> Matrix:
    return Matrix(a.data @ b.data, a.scale)


@st.typechecked
def of_layers(scales: f32["layers"], many: Array["layers", Matrix]) -> f32["layers"]:
    return scales * jnp.sum(many.data, (1, 2))


@st.typechecked
def both(a: Shared, b: Shared) -> Shared:
    return a


def test_values_of_several_sizes_are_taken_and_given() -> None:
    assert product(matrix(2, 3), matrix(3, 4)).data.shape == (2, 4)
    assert matrix(2, 3).transposed().data.shape == (3, 2)
    assert product(matrix(2, 3), matrix(2, 3).transposed()).data.shape == (2, 2)


@pytest.mark.parametrize("cls", [Matrix, Named])
def test_the_sizes_of_one_value_agree(cls: Callable[..., Matrix]) -> None:
    wrong = cls(jnp.ones((2, 3)), jnp.ones(5))
    with pytest.raises(TypeCheckError, match="dimension 0 is 5, expected rows = 2"):
        product(wrong, matrix(3, 4))


def test_values_of_a_subclass_name_their_own_sizes_too() -> None:
    named = Named(jnp.ones((3, 4)), jnp.ones(3), "n", jnp.ones(4))
    assert product(matrix(2, 3), named).data.shape == (2, 4)
    wrong = Named(jnp.ones((3, 4)), jnp.ones(3), "n", jnp.ones(5))
    with pytest.raises(TypeCheckError, match="expected cols = 4"):
        product(matrix(2, 3), wrong)


def test_without_it_two_values_have_the_same_sizes() -> None:
    with pytest.raises(TypeCheckError, match="dimension 1 is 4, expected cols = 3"):
        both(Shared(jnp.ones((2, 3))), Shared(jnp.ones((2, 4))))


@pytest.mark.parametrize("calls_before_generated", [0, 100])
def test_in_a_method_the_sizes_of_its_object_are_those_of_the_call(
    calls_before_generated: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(switches, "calls_before_generated", calls_before_generated)
    assert matrix(2, 2).diagonal().shape == (2,)
    with pytest.raises(TypeCheckError, match="expected rows = 3"):
        matrix(3, 2).diagonal()


def test_the_names_in_front_of_a_stack_are_those_of_the_call() -> None:
    many = jax.tree.map(lambda *parts: jnp.stack(parts), matrix(2, 3), matrix(2, 3))
    assert of_layers(jnp.ones(2), many).shape == (2,)
    with pytest.raises(TypeCheckError, match="dimension 0 is 2, expected layers = 3"):
        of_layers(jnp.ones(3), many)


def test_lists_hold_values_of_several_sizes() -> None:
    @st.typechecked
    def chained(parts: list[Matrix]) -> Matrix:
        first, *rest = parts
        for part in rest:
            first = product(first, part)
        return first

    assert chained([matrix(2, 3), matrix(3, 4), matrix(4, 5)]).data.shape == (2, 5)


def test_they_are_placed_and_mapped_as_others_are() -> None:
    @st.pytree_dataclass(own_sizes=True)
    class Weights:
        w: f32["m n/x"]

    @st.typed_shard_map
    def sums(a: Weights, b: Weights) -> tuple[f32["m"], f32["m"]]:
        return tuple(jax.lax.psum(jnp.sum(one.w, 1), "x") for one in (a, b))  # type: ignore[return-value]  # two

    assert st.make_partition_specs(Weights) == Weights(P(None, "x"))  # type: ignore[arg-type]  # specs in its fields
    with jax.set_mesh(jax.make_mesh((2,), ("x",), (AxisType.Auto,))):
        placed = st.shard(Weights(jnp.ones((4, 8))), Weights)
        a, b = jax.jit(sums)(placed, placed)
    assert a.shape == b.shape == (4,)


@pytest.mark.parametrize(
    ("function", "holds"),
    [
        (lambda a: product(a, a.transposed()), True),
        (lambda a: product(a, a), False),
    ],
)
def test_trace_takes_them(function: Callable[[Matrix], Matrix], holds: Any) -> None:
    @st.typechecked
    def called(a: Matrix) -> Matrix:
        return function(a)

    verdict = trace(called)
    assert verdict.ok is holds, verdict


def test_trace_takes_apart_what_two_values_name_alike() -> None:
    """``cols`` of the first is ``rows`` of the second: with one size for each name it would fail."""
    verdict = trace(product)
    assert verdict.ok is None
    assert "holds only where a.cols = b.rows" in verdict.reason


def test_types_may_stand_in_an_object() -> None:
    specs = st.make_partition_specs({"one": Matrix(f32["a/x b"], f32["a"])})  # type: ignore[arg-type]  # types in its fields
    assert specs == {"one": Matrix(P("x", None), P(None))}  # type: ignore[arg-type]  # specs in its fields
