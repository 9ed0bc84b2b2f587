"""Checks inside vmap, pmap and shard_map, nested in each other."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import f32


@st.typechecked
def example(x: f32["M"], y: f32["M"]) -> f32["M"]:
    return x + y


def test_vmap_checks_one_example() -> None:
    x = jnp.ones((4, 3))
    assert jax.vmap(example)(x, x).shape == (4, 3)
    assert jax.vmap(example, in_axes=(0, 1))(x, x.T).shape == (4, 3)
    assert jax.vmap(jax.vmap(example))(
        jnp.ones((2, 4, 3)), jnp.ones((2, 4, 3))
    ).shape == (2, 4, 3)
    with pytest.raises(st.ShapeError, match="expected M = 3"):
        jax.vmap(example)(x, jnp.ones((4, 5)))
    with pytest.raises(st.ShapeError, match="rank is 2, expected 1"):
        jax.vmap(example, in_axes=(0, None))(x, x)


def test_vmap_in_jit_with_a_sharded_batch(auto_mesh: Mesh, explicit_mesh: Mesh) -> None:
    for mesh in (auto_mesh, explicit_mesh):
        with jax.set_mesh(mesh):
            x = jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P("d")))
            assert jax.jit(jax.vmap(example))(x, x).shape == (8, 16)
            with pytest.raises(st.ShapeError, match="example: parameter 'y'"):
                jax.jit(jax.vmap(example))(x, x[:, :3])
            if mesh is explicit_mesh:
                # there JAX takes the axis from the types, older releases refuse to be told
                continue
            assert jax.jit(jax.vmap(example, spmd_axis_name="d"))(x, x).shape == (8, 16)
            with pytest.raises(st.ShapeError, match="example: parameter 'y'"):
                jax.jit(jax.vmap(example, spmd_axis_name="d"))(x, x[:, :3])


def test_vmap_with_an_axis_name_is_no_mesh_axis() -> None:
    @st.typechecked
    def centred(x: f32["M"]) -> f32["M"]:
        return x - jax.lax.pmean(x, "batch")

    assert jax.vmap(centred, axis_name="batch")(jnp.ones((4, 3))).shape == (4, 3)


@pytest.mark.filterwarnings("ignore:The function jit.* includes a pmap:UserWarning")
@pytest.mark.parametrize("jitted", [False, True])
def test_pmap(jitted: bool) -> None:
    # A function of its own: JAX 0.8 and 0.9 keep what a failed trace left behind and fail on it.
    @st.typechecked
    def scale(w: f32["M"], x: f32["B M"]) -> f32["B M"]:
        return w * x

    def wrap(f: object) -> object:
        return jax.jit(f) if jitted else f  # type: ignore[arg-type]

    x = jnp.ones((8, 2, 3))
    assert wrap(jax.pmap(scale, in_axes=(None, 0)))(jnp.ones(3), x).shape == (8, 2, 3)  # type: ignore[operator]
    assert wrap(jax.pmap(scale, in_axes=(None, 1)))(
        jnp.ones(3), jnp.ones((2, 8, 3))
    ).shape == (8, 2, 3)  # type: ignore[operator]
    with pytest.raises(st.ShapeError, match=r"scale: parameter 'x': dimension 1"):
        wrap(jax.pmap(scale, in_axes=(None, 0)))(jnp.ones(4), x)  # type: ignore[operator]


def test_pmap_with_a_named_axis() -> None:
    @st.typechecked
    def mean(x: f32["B/i M"]) -> f32["M"]:
        return jax.lax.pmean(x.mean(0), "i")

    @st.typechecked
    def wrong(x: f32["B/j M"]) -> f32["M"]:
        return x.mean(0)

    x = jnp.ones((8, 2, 3))
    assert jax.pmap(mean, axis_name="i")(x).shape == (8, 3)
    assert jax.pmap(jax.jit(mean), axis_name="i")(x).shape == (8, 3)
    with pytest.raises(st.ShardTypeError, match="'j'"):
        jax.pmap(wrong, axis_name="i")(x)


def test_shard_map_under_vmap_and_vmap_in_shard_map(auto_mesh: Mesh) -> None:
    @st.typechecked
    def local(x: f32["B/d M"]) -> f32["B/d M"]:
        return x * 2

    with jax.set_mesh(auto_mesh):
        mapped = jax.shard_map(local, in_specs=P("d"), out_specs=P("d"))
        assert jax.jit(mapped)(jnp.ones((8, 3))).shape == (8, 3)
        assert jax.vmap(mapped)(jnp.ones((2, 8, 3))).shape == (2, 8, 3)
        inside = jax.shard_map(
            lambda x: jax.vmap(example)(x, x), in_specs=P("d"), out_specs=P("d")
        )
        assert jax.jit(inside)(jnp.ones((8, 3))).shape == (8, 3)


def test_shard_map_reports_what_is_not_split(auto_mesh: Mesh) -> None:
    @st.typechecked
    def local(x: f32["B/d M"]) -> f32["B/d M"]:
        return x * 2

    with (
        jax.set_mesh(auto_mesh),
        pytest.raises(st.ShardingError, match="dimension 0 is not sharded, expected"),
    ):
        jax.jit(jax.shard_map(local, in_specs=P(), out_specs=P("d")))(jnp.ones((8, 3)))


def test_a_partly_manual_shard_map(explicit_mesh: Mesh, auto_mesh: Mesh) -> None:
    @st.typechecked
    def local(x: f32["B/d M"]) -> f32["B/d M"]:
        return x * 2

    @st.typechecked
    def both(x: f32["B/d M/t"]) -> f32["B/d M/t"]:
        return x * 2

    for mesh in (auto_mesh, explicit_mesh):
        with jax.set_mesh(mesh):
            part = partial(
                jax.shard_map, in_specs=P("d"), out_specs=P("d"), axis_names={"d"}
            )
            x = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("d")))
            assert jax.jit(part(local))(x).shape == (8, 4)
            y = jax.device_put(jnp.ones((8, 4)), NamedSharding(mesh, P("d", "t")))
            assert jax.jit(part(both))(y).shape == (8, 4)


class Scaled:
    scale: float

    def __init__(self, scale: float, offset: jax.Array) -> None:
        self.scale = scale
        self.offset = offset

    def centred(self, x: f32["B/d M"]) -> f32["B/d M"]:
        return self.scale * (x - jax.lax.pmean(x.mean(0), "d")) + self.offset

    mapped = st.typed_shard_map(centred)

    @st.typed_shard_map
    def step(self, x: f32["B/d M"], power: int = 1) -> f32["B/d M"]:
        return self.scale * (x - jax.lax.pmean(x.mean(0), "d")) ** power + self.offset

    @classmethod
    @st.typed_shard_map
    def mean(cls, x: f32["B/d M"]) -> f32["M"]:
        return jax.lax.pmean(x.mean(0), "d")

    @staticmethod
    @st.typed_shard_map
    def doubled(x: f32["B/d M"]) -> f32["B/d M"]:
        return 2 * x


def test_a_method_is_mapped_as_the_bound_function(auto_mesh: Mesh) -> None:
    """``self`` is closed over: as in JAX's ``shard_map`` of the bound function, under ``jit`` and ``grad`` too."""
    model = Scaled(3.0, jnp.arange(4.0))
    x = jnp.arange(32.0).reshape(8, 4)
    with jax.set_mesh(auto_mesh):
        specs = P("d", None)
        want = jax.shard_map(model.centred, in_specs=specs, out_specs=specs)
        for call in (
            model.mapped,
            model.step,
            partial(Scaled.step, model),
            jax.jit(model.step),
            st.typed_shard_map(model.centred),
        ):
            assert (call(x) == want(x)).all()
        assert (model.step(x=x, power=2) != want(x)).any()
        slope = jax.grad(lambda x: (model.step(x) ** 2).sum())(x)
        assert (slope == jax.grad(lambda x: (want(x) ** 2).sum())(x)).all()
        assert (Scaled.mean(x) == x.mean(0)).all()
        assert (Scaled.doubled(x) == 2 * x).all()


@st.pytree_dataclass
class Layer:
    up: f32["M F/t"]

    @st.typed_shard_map
    def __call__(self, x: f32["B/d M"]) -> f32["B/d M"]:
        return jax.lax.psum(x @ self.up @ self.up.T, "t")


class Holder:
    up: f32["M F/t"]

    @st.typed_shard_map
    def step(self, x: f32["B/d M"]) -> f32["B/d M"]:
        return x


def test_a_method_of_a_dataclass_has_the_shards_of_its_fields(auto_mesh: Mesh) -> None:
    up, x = jnp.arange(32.0).reshape(4, 8), jnp.ones((8, 4))
    with jax.set_mesh(auto_mesh):
        assert jnp.allclose(Layer(up)(x), x @ up @ up.T)


def test_a_method_of_what_only_says_that_it_is_sharded(auto_mesh: Mesh) -> None:
    message = (
        r"typed_shard_map\(Holder.step\): self.up is annotated as sharded, f32\['M F/t'\], but Holder is closed over, "
        "whole on each device; make it a pytree_dataclass, or give the array to the method as a parameter"
    )
    with jax.set_mesh(auto_mesh), pytest.raises(TypeError, match=message):
        Holder().step(jnp.ones((8, 4)))


def test_a_function_whose_first_parameter_says_nothing(auto_mesh: Mesh) -> None:
    @st.typed_shard_map
    def step(self, x: f32["B/d M"]) -> f32["B/d M"]:  # type: ignore[no-untyped-def]  # no method
        return x

    with jax.set_mesh(auto_mesh), pytest.raises(TypeError, match="'self' has no"):
        step(1, jnp.ones((8, 4)))
