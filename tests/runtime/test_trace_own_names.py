"""``trace`` of functions that take named tuples and typed dicts: what these call a size is their own."""

from __future__ import annotations

from typing import Any, NamedTuple, NotRequired, TypedDict

import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec as P

from shardtypes import f32, make_partition_specs, trace, typechecked


class Layer(NamedTuple):
    w: f32["B C"]
    v: f32["B C"]


class Stack(NamedTuple):
    first: Layer
    second: Layer


def named_alike(x: f32["A B"], layer: Layer) -> f32["A C"]:
    return x @ layer.w


def named_otherwise(x: f32["A B C"], layer: Layer) -> f32["A B _"]:
    return x @ layer.w


def of_two_widths(x: f32["A B"], layers: Stack) -> f32["A _"]:
    return x @ layers.first.w @ layers.second.w


class Gates(TypedDict):
    w: f32["B C"]
    bias: NotRequired[f32["C"]]


def of_a_dict(x: f32["A B"], gates: Gates) -> f32["A _"]:
    return x @ gates["w"] + gates["bias"]


def of_a_dict_named_otherwise(x: f32["A C"], gates: Gates) -> f32["A _"]:
    return x @ gates["w"]


def of_a_dict_turned(x: f32["A B"], gates: Gates) -> f32["A B"]:
    return x.T


def in_any_tuple(x: f32["A C"], layers: tuple[Layer, ...]) -> f32["A _"]:
    return x @ layers[0].w


def in_a_tuple(x: f32["A C"], layers: tuple[Layer, f32["D"]]) -> f32["A _"]:
    return x @ layers[0].w


def in_a_list(x: f32["A C"], layers: list[Layer]) -> f32["A _"]:
    return x @ layers[0].w


def needs_a_square(x: f32["A B"], layer: Layer) -> f32["A _"]:
    return x @ layer.w @ layer.v


def turned(x: f32["A B"], layer: Layer) -> f32["A B"]:
    return x.T


WIDE = Layer(jnp.ones((4, 5)), jnp.ones((4, 5)))
HIGH = Layer(jnp.ones((5, 6)), jnp.ones((5, 6)))
X = jnp.ones((2, 3, 4))
RIGHT = [
    (named_otherwise, (X, WIDE), "C = layer.B"),
    (of_two_widths, (X[0], Stack(WIDE, HIGH)), "B = layers_first.B and layers_first.C = layers_second.B"),
    (in_a_tuple, (X[0], (WIDE, X[0, 0])), "C = layers.B"),
    (of_a_dict_named_otherwise, (X[0], {"w": WIDE.w, "bias": WIDE.w[0]}), "C = gates.B"),
    (in_any_tuple, (X[0], (WIDE,)), ""),
    (in_a_list, (X[0], [WIDE]), ""),
]  # fmt: skip


@pytest.mark.parametrize(("function", "given", "where"), RIGHT)
def test_what_holds_where_names_are_their_own_is_no_failure(
    function: Any, given: tuple[Any, ...], where: str
) -> None:
    typechecked(function)(*given)
    verdict = trace(function)
    assert verdict.ok is None
    if where:
        said = f"holds only where {where}, which its annotations do not say"
        assert said in verdict.reason
    else:
        assert "give an example" in verdict.reason


@pytest.mark.parametrize("function", [named_alike, of_a_dict])
def test_names_that_are_alike_need_nothing(function: Any) -> None:
    verdict = trace(function)
    assert verdict.ok is True
    assert verdict.proved


@pytest.mark.parametrize("function", [needs_a_square, turned, of_a_dict_turned])
def test_what_no_names_make_right_fails(function: Any) -> None:
    verdict = trace(function)
    assert verdict.ok is False
    assert set(verdict.sizes or ()) == {"A", "B", "C"}


def test_specs_of_a_typed_dict() -> None:
    specs = make_partition_specs(Sharded)
    assert specs == {"w": P("d", None), "layers": {"b": P("t")}}


class Biases(TypedDict):
    b: f32["C/t"]


class Sharded(TypedDict):
    w: f32["B/d C"]
    layers: Biases
