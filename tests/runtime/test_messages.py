"""The wording of each message, whole."""

from __future__ import annotations

import traceback

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import f32


@st.typechecked
def f(x: f32["B M"], y: f32["M"]) -> f32["B"]:
    return (x * y).sum(1)


def message(x: object, y: object) -> str:
    with pytest.raises(st.ShapeError) as caught:
        f(x, y)
    return str(caught.value)


def test_not_an_array() -> None:
    assert message(1.0, jnp.ones(2)) == (
        "f: parameter 'x': expected a jax.Array, f32['B M'], got float; convert it with jax.numpy.asarray"
    )
    assert message(None, jnp.ones(2)) == (
        "f: parameter 'x': expected a jax.Array, f32['B M'], got NoneType; "
        "declare f32['B M'] | None if it may be missing"
    )
    assert (
        message("x", jnp.ones(2))
        == "f: parameter 'x': expected a jax.Array, f32['B M'], got str"
    )
    assert message(np.ones((2, 2)), jnp.ones(2)) == (
        "f: parameter 'x': expected a jax.Array, f32['B M'], got numpy.ndarray; convert it with jax.numpy.asarray"
    )


def test_wrong_dtype() -> None:
    assert message(jnp.ones((2, 3), jnp.int32), jnp.ones(3)) == (
        "f: parameter 'x': dtype is i32, expected f32\n  declared f32['B M']\n  actual   i32[2, 3]\n"
        "  convert it with .astype(jax.numpy.float32), or correct the annotation"
    )


def test_wrong_rank() -> None:
    assert message(jnp.ones(2), jnp.ones(3)) == (
        "f: parameter 'x': rank is 1, expected 2\n  declared f32['B M']\n  actual   f32[2]\n"
        "  pass an array of the declared number of dimensions, or correct the annotation"
    )


def test_wrong_size() -> None:
    assert message(jnp.ones((2, 3)), jnp.ones(4)) == (
        "f: parameter 'y': dimension 0 is 4, expected M = 3\n  declared f32['M']\n  actual   f32[4]\n"
        "  M = 3, bound by f: parameter 'x', dimension 1\n"
        "  pass arrays that agree in M, or give the dimension another name"
    )


def test_a_variable_that_is_given_another_shape() -> None:
    @st.typechecked
    def turned(x: f32["B M"]) -> None:
        y: f32["M B"] = x.T
        y = y.T

    with pytest.raises(st.ShapeError) as caught:
        turned(jnp.ones((2, 3)))
    lines = str(caught.value).splitlines()
    assert lines[0] == "turned: variable 'y': dimension 0 is 2, expected M = 3"
    advice = "assign an array that agrees in M, or annotate the variable where it is given another shape"
    assert lines[-1] == f"  {advice}"


def test_a_name_that_a_caller_in_the_same_scope_bound_hints_at_it() -> None:
    @st.typechecked
    def outer(x: f32["B M"]) -> None:
        f(x[1:], x[0])

    outer(jnp.ones((2, 3)))
    with st.Scope(), pytest.raises(st.ShapeError) as caught:
        outer(jnp.ones((2, 3)))
    assert str(caught.value) == (
        "f: parameter 'x': dimension 0 is 1, expected B = 2\n  declared f32['B M']\n  actual   f32[1, 3]\n"
        "  B = 2, bound by outer: parameter 'x', dimension 0\n"
        "  M = 3, bound by outer: parameter 'x', dimension 1\n"
        "  calls in an open Scope share their names: if the callee means another size by it, "
        "decorate the callee with @typechecked(scope=True) or @scope"
    )


def test_a_name_that_the_function_around_it_bound_says_so() -> None:
    @st.typechecked
    def outer(x: f32["B M"]) -> jax.Array:
        @st.typechecked
        def inner(y: f32["M"]) -> f32["B"]:
            return y

        return inner(x[0])

    with pytest.raises(st.ShapeError) as caught:
        outer(jnp.ones((2, 3)))
    assert str(caught.value) == (
        "inner: the result: dimension 0 is 3, expected B = 2\n  declared f32['B']\n  actual   f32[3]\n"
        "  B = 2, bound by outer: parameter 'x', dimension 0\n"
        "  a function sees the names of the function around it: if it means another size by it, "
        "give the dimension another name"
    )


def test_check_size() -> None:
    with st.Scope():
        st.check_size("B", 3)
        with pytest.raises(st.ShapeError) as caught:
            st.check_size("B", 4)
    assert str(caught.value) == "check_size: B is 4, expected 3, bound by check_size"


def test_sharding(auto_mesh: Mesh) -> None:
    @st.typechecked
    def g(x: f32["B/d M"]) -> None: ...

    x = jax.device_put(jnp.ones((8, 16)), NamedSharding(auto_mesh, P("t")))
    with pytest.raises(st.ShardingError) as caught:
        g(x)
    assert str(caught.value) == (
        "g: parameter 'x': dimension 0 is sharded over 't', expected sharded over 'd'\n"
        "  declared f32['B/d M']\n  actual   f32[8/t, 16] on mesh d=2, t=4\n"
        "  B = 8, M = 16, bound here\n"
        "  place it with shardtypes.shard(x, T) or jax.device_put, or correct the annotation"
    )


def test_unbound_axis() -> None:
    @st.typechecked
    def g(x: f32["B/j"]) -> None: ...

    with pytest.raises(st.ShapeError) as caught:
        jax.vmap(g, axis_name="i")(jnp.ones((2, 3)))
    assert str(caught.value) == (
        "g: parameter 'x': mesh axis 'j' is not bound here (bound axes: 'i')\n  declared f32['B/j']\n"
        "  run it in shard_map or pmap over 'j', or put a mesh that has it in force"
    )


def test_pytest_shows_the_call_and_hides_the_checks() -> None:
    with pytest.raises(st.ShapeError) as caught:
        f(jnp.ones(2), jnp.ones(2))
    shown = caught.traceback.filter(caught)
    assert [entry.name for entry in shown] == [
        "test_pytest_shows_the_call_and_hides_the_checks"
    ]
    assert len(traceback.extract_tb(caught.tb)) > 1
