"""Shardings inside ``jit``, on Auto and Explicit meshes."""

from __future__ import annotations

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import _stats, f32
from tests.support import run_python


@st.typechecked
def double(x: f32["B/d M"]) -> f32["B/d M"]:
    return x * 2


def placed(mesh: Mesh, *entries: object) -> jax.Array:
    return jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P(*entries)))


@pytest.fixture(params=["auto", "explicit"])
def mesh(request: pytest.FixtureRequest, auto_mesh: Mesh, explicit_mesh: Mesh) -> Mesh:
    return auto_mesh if request.param == "auto" else explicit_mesh


def test_the_declared_sharding_passes(mesh: Mesh) -> None:
    with jax.set_mesh(mesh):
        for entries in (("d",), ("d", None), (("d",), None)):
            jax.jit(lambda x: double(x))(placed(mesh, *entries))


@pytest.mark.parametrize(
    "entries", [(), ("t",), (None, "d"), ("d", "t"), (("d", "t"),)]
)
def test_another_sharding_is_reported(mesh: Mesh, entries: tuple[object, ...]) -> None:
    with (
        jax.set_mesh(mesh),
        pytest.raises(st.ShardingError, match="double: parameter 'x': dimension"),
    ):
        jax.jit(lambda x: double(x))(placed(mesh, *entries))


def test_a_sharding_that_changes_between_calls_is_reported(mesh: Mesh) -> None:
    with jax.set_mesh(mesh):
        jitted = jax.jit(double)
        jitted(placed(mesh, "d"))
        with pytest.raises(
            st.ShardingError, match="sharded over 't', expected sharded over 'd'"
        ):
            jitted(placed(mesh, "t"))
        jitted(placed(mesh, "d"))


def test_a_constraint_inside_is_seen(mesh: Mesh) -> None:
    @st.typechecked
    def inner(x: f32["B/t M"]) -> f32["B/t M"]:
        return x

    def good(x: jax.Array) -> jax.Array:
        return inner(
            jax.sharding.reshard(x, P("t"))
            if mesh.axis_types[0].name == "Explicit"
            else jax.lax.with_sharding_constraint(x, P("t"))
        )

    with jax.set_mesh(mesh):
        jax.jit(good)(placed(mesh, "d"))
        with pytest.raises(st.ShardingError, match="inner: parameter 'x'"):
            jax.jit(lambda x: inner(x))(placed(mesh, "d"))


def test_other_devices_same_names_under_a_legacy_mesh(auto_mesh: Mesh) -> None:
    with warnings.catch_warnings():
        # newer JAX says so, and users do it all the same
        warnings.simplefilter("ignore", DeprecationWarning)
        auto_mesh.__enter__()
    try:
        jax.jit(double)(placed(auto_mesh, "d"))
        with pytest.raises(st.ShardingError):
            jax.jit(double)(placed(auto_mesh, "t"))
    finally:
        auto_mesh.__exit__(None, None, None)


def test_the_users_executable_is_not_changed(auto_mesh: Mesh) -> None:
    with jax.set_mesh(auto_mesh):
        text = jax.jit(double).lower(placed(auto_mesh, "d")).as_text()
    assert "custom_call" not in text


def test_inside_scan_grad_and_remat(mesh: Mesh) -> None:
    with jax.set_mesh(mesh):
        x = placed(mesh, "d")

        def scanned(x: jax.Array) -> jax.Array:
            return jax.lax.scan(lambda c, _: (double(c), None), x, None, length=2)[0]

        for f in (
            scanned,
            jax.grad(lambda x: double(x).sum()),
            jax.checkpoint(double),
            jax.grad(jax.checkpoint(lambda x: double(x).sum())),
        ):
            jax.jit(f)(x)


def test_results_are_judged_by_out_shardings(auto_mesh: Mesh) -> None:
    @st.typechecked
    def create(key: jax.Array) -> dict[str, f32["B/d M/t"]]:
        return {"w": jax.random.normal(key, (8, 16)), "zeros": jnp.zeros((8, 16))}

    key = jax.random.key(0)
    with jax.set_mesh(auto_mesh):
        right = NamedSharding(auto_mesh, P("d", "t"))
        for out_shardings in (right, {"w": right, "zeros": right}):
            jax.jit(create, out_shardings=out_shardings)(key)
        with pytest.raises(
            st.ShardingError,
            match="create: the result: dimension 0 is sharded over 't'",
        ):
            jax.jit(
                lambda k: create(k), out_shardings=NamedSharding(auto_mesh, P("t", "d"))
            )(key)
        # who gets it may place it
        _stats.reset()
        jax.jit(lambda k: create(k))(key)
        assert "what a function makes of no arrays" in str(_stats.snapshot())


def test_arguments_are_judged_as_they_arrive_under_out_shardings(
    auto_mesh: Mesh,
) -> None:
    with (
        jax.set_mesh(auto_mesh),
        pytest.raises(st.ShardingError, match="double: parameter 'x'"),
    ):
        jax.jit(double, out_shardings=NamedSharding(auto_mesh, P("d")))(
            placed(auto_mesh)
        )


def test_an_inner_jit_that_another_program_traced_is_checked(auto_mesh: Mesh) -> None:
    inner = jax.jit(lambda x: double(x))
    with jax.set_mesh(auto_mesh):
        jax.jit(lambda x: inner(x) + 1)(placed(auto_mesh, "d"))
        with pytest.raises(st.ShardingError, match="double: parameter 'x'"):
            jax.jit(lambda x: inner(x) + 2)(placed(auto_mesh, "t"))
        jax.jit(lambda x: inner(x) + 3)(placed(auto_mesh, "d"))


def micro_batches(x: jax.Array, parts: int) -> jax.Array:
    """``x`` in parts one after the other: the compiler splits the parts, and each of them, over half of the axis."""
    return x.reshape(parts, -1, *x.shape[1:])


@pytest.mark.parametrize("legacy", [False, True])
def test_half_of_an_axis_is_compared_by_what_the_devices_hold(legacy: bool) -> None:
    @st.typechecked
    def split(x: f32["n B/d M"]) -> f32["n B/d M"]:
        return x

    @st.typechecked
    def open_at_first(x: f32["_ B/d M"]) -> None:
        return

    @st.typechecked
    def elsewhere(x: f32["B M"]) -> None:
        return

    mesh = Mesh(np.array(jax.devices()), ("d",))
    x = jax.device_put(jnp.ones((16, 16)), NamedSharding(mesh, P("d")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        in_force = mesh if legacy else jax.set_mesh(mesh)
        in_force.__enter__()
    try:
        _stats.reset()
        with pytest.raises(
            st.ShardingError,
            match="elsewhere: parameter 'x': dimension 0 is sharded over 'd'",
        ):
            jax.jit(lambda x: (elsewhere(x), open_at_first(micro_batches(x, 2))))(x)
        assert list(_stats.snapshot()["not_possible"]) == [
            "axis names differ, and the annotation leaves a dimension open"
        ]
        with pytest.raises(
            st.ShardingError,
            match="split: parameter 'x': the devices hold other shards than",
        ):
            jax.jit(lambda x: split(micro_batches(x, 2)))(x)
        jax.jit(lambda x: split(micro_batches(x, 1)))(x)
    finally:
        in_force.__exit__(None, None, None)


CACHED = """
import sys

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st

jax.config.update("jax_compilation_cache_dir", sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)
x = jax.device_put(jnp.ones((8, 8)), NamedSharding(mesh, P("t", "d")))
reported = 0
for _ in range(30):

    @st.typechecked
    def double(x: st.f32["B/d M"]):
        return x * 2

    with jax.set_mesh(mesh):
        try:
            jax.jit(lambda x: double(x))(x)
        except st.ShardingError:
            reported += 1
    jax.clear_caches()
print(reported)
"""


def test_programs_in_the_persistent_cache_are_checked(tmp_path: Path) -> None:
    """The same program is in the cache from the second time on."""
    done = run_python("-c", CACHED, str(tmp_path))
    assert (done.returncode, done.stdout) == (0, "30\n"), done.stderr


@st.pytree_dataclass
class Weights:
    w: f32["M F/t"]


@st.typechecked
def weights(rows: f32["M"]) -> Weights:
    return Weights(rows[:, None] * jnp.ones((8, 16)))


def test_out_shardings_place_what_a_function_returns(mesh: Mesh) -> None:
    """On Explicit axes too, where the type of what it returns says something else until then. What a function around
    it makes of its result is not known."""
    with jax.set_mesh(mesh):
        shardings = st.make_shardings(Weights)
        _stats.reset()
        placed = jax.jit(weights, out_shardings=shardings)(jnp.ones(8))
        jax.jit(weights, out_shardings=shardings).lower(jnp.ones(8)).compile()
        assert st.layout(placed.w) == st.layout(f32["8 16/t"], mesh)
        if mesh.axis_types[0].name == "Explicit":
            counted = _stats.snapshot()["not_possible"]
            assert "what out_shardings make of a result" in counted
            for refused in (
                jax.jit(lambda rows: weights(rows), out_shardings=shardings),
                jax.jit(lambda rows: weights(rows)),
            ):
                with pytest.raises(st.ShardingError, match="field 'w': dimension 1"):
                    refused(jnp.ones(8))
