"""A shape's sharding as JAX writes it, and back: PartitionSpecs, mapped functions, placed arrays, logical names."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding

import shardtypes
from shardtypes import ShapeSpec, f32
from shardtypes.lang import parse
from shardtypes.layouts import axes_of_spec
from tests.lang.strategies import cases

AXES = {"d": 2, "t": 2, "e": 2}


@st.composite
def sharded_texts(draw: Any, sums: bool = False) -> str:
    """Shapes of named and numbered dimensions, each axis at one place, in any order; also as a partial sum."""
    rank = draw(st.integers(0, 4))
    places: list[list[str]] = [[] for _ in range(rank + 2)]
    for axis in draw(st.permutations(list(AXES))):
        places[draw(st.integers(0, rank + 1))].append(axis)
    dims = [
        "/".join(
            [draw(st.sampled_from([f"n{at}", "8", "2*m", "_", "(m+1)//1"])), *axes]
        )
        for at, axes in enumerate(places[:rank])
    ]
    pending = places[rank]
    return " ".join([*dims, f"{{U:{','.join(pending)}}}"] if sums and pending else dims)


def axes_of(text: str) -> list[tuple[str, ...]]:
    return [dim.axes for dim in parse(text).dims]


def entries(spec: Any, rank: int) -> list[tuple[str, ...]]:
    return list(axes_of_spec(spec, rank) or ())


@cache
def made_mesh() -> Mesh:
    kinds = (AxisType.Auto,) * len(AXES)
    return jax.make_mesh(tuple(AXES.values()), tuple(AXES), axis_types=kinds)


@cases
@given(sharded_texts(sums=True))
def test_partition_specs(text: str) -> None:
    abstract = AbstractMesh(
        tuple(AXES.values()), tuple(AXES), axis_types=(AxisType.Explicit,) * len(AXES)
    )
    spec = ShapeSpec.parse(text).partition_spec()
    rank = len(axes_of(text))
    assert entries(spec, rank) == axes_of(text)
    assert shardtypes.make_partition_specs(f32[text]) == spec
    assert shardtypes.make_partition_specs({"a": [f32[text]]}) == {"a": [spec]}
    sharding = shardtypes.make_shardings(f32[text], abstract)
    assert sharding == NamedSharding(abstract, spec)
    lies = shardtypes.layout(sharding, shape=(8,) * rank)
    assert axes_of(str(lies)) == axes_of(text)
    assert set(parse(str(lies)).pending) == set(parse(text).pending)
    assert ShapeSpec.parse(str(lies)).partition_spec() == spec


@cases
@given(sharded_texts())
def test_arrays_that_are_placed(text: str) -> None:
    mesh = made_mesh()
    declared = f32[
        " ".join(f"_{''.join(f'/{a}' for a in axes)}" for axes in axes_of(text))
    ]
    x = shardtypes.shard(jnp.ones((8,) * len(axes_of(text))), declared, mesh)
    lies = shardtypes.layout(x)
    assert axes_of(str(lies)) == axes_of(text)
    with jax.set_mesh(mesh):
        assert isinstance(x, f32[str(lies)])


@cases
@given(sharded_texts())
def test_functions_that_are_mapped(text: str) -> None:
    mesh = made_mesh()

    def same(x: Any) -> Any:
        return x

    declared = f32[
        " ".join(f"_{''.join(f'/{a}' for a in axes)}" for axes in axes_of(text))
    ]
    same.__annotations__ = {"x": declared, "return": declared}
    mapped: Callable[..., Any] = shardtypes.typed_shard_map(same, mesh=mesh)
    shape = jax.ShapeDtypeStruct((8,) * len(axes_of(text)), jnp.float32)
    (equation,) = [
        each
        for each in jax.make_jaxpr(mapped)(shape).jaxpr.eqns
        if "shard_map" in each.primitive.name
    ]
    for role in ("in_specs", "out_specs"):
        (spec,) = equation.params[role]
        assert entries(spec, len(axes_of(text))) == axes_of(text)


@cases
@given(sharded_texts())
def test_logical_names(text: str) -> None:
    """Names that rules map to what the text says mean what it says."""
    dims = axes_of(text)
    names = [f"name{at}" for at in range(len(dims))]
    rules = [(name, axes or None) for name, axes in zip(names, dims, strict=True)]
    plain = f32[" ".join(names)]
    with shardtypes.axis_rules(rules):
        spec = shardtypes.make_partition_specs(plain)
        assert entries(shardtypes.logical_to_mesh_axes(names), len(dims)) == dims
    assert entries(spec, len(dims)) == dims
