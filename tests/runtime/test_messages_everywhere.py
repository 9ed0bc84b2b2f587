"""The same message whatever transformation the function runs in, and the pmap calls that users write."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import f32

X = np.ones((8, 12), np.float32)


@st.typechecked
def size(x: f32["B M"], y: f32["M"]) -> jax.Array:
    return x + y


@st.typechecked
def rank(x: f32["B M"]) -> jax.Array:
    return x


@st.typechecked
def variadic(x: f32["*xs M"], y: f32["*xs M"]) -> jax.Array:
    return x


@st.typechecked
def dtype(x: st.i32["B M"]) -> jax.Array:
    return x


@st.typechecked
def expression(x: f32["B M"], y: f32["2*M"]) -> jax.Array:
    return x


@st.typechecked
def result(x: f32["B M"]) -> f32["M B"]:
    return x


@st.typechecked
def constant(x: f32["8 16"]) -> jax.Array:
    return x


SHAPES: dict[str, tuple[Any, tuple[Any, ...], str, str]] = {
    "size": (
        size,
        (X, X[0, :5]),
        "parameter 'y': dimension 0 is 5, expected M = 12",
        "f32[5]",
    ),
    "rank": (rank, (X[0],), "parameter 'x': rank is 1, expected 2", "f32[12]"),
    "variadic": (
        variadic,
        (X, X[:3]),
        "parameter 'y': dimension 0 is 3, expected 8 (in *xs)",
        "f32[3, 12]",
    ),
    "dtype": (dtype, (X,), "parameter 'x': dtype is f32, expected i32", "f32[8, 12]"),
    "expression": (
        expression,
        (X, X[0]),
        "parameter 'y': dimension 0 is 12, expected 2*M = 24",
        "f32[12]",
    ),
    "result": (
        result,
        (X,),
        "the result: dimension 0 is 8, expected M = 12",
        "f32[8, 12]",
    ),
    "constant": (
        constant,
        (X,),
        "parameter 'x': dimension 1 is 12, expected 16",
        "f32[8, 12]",
    ),
}


def stacked(values: Any) -> Any:
    return jax.tree.map(lambda v: jnp.broadcast_to(v, (8, *v.shape)), values)


def in_shard_map(f: Any, values: Any) -> Any:
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("d", "t"))
    return jax.jit(jax.shard_map(f, mesh=mesh, in_specs=P(), out_specs=P()))(*values)


def in_custom_vjp(f: Any) -> Any:
    """``f`` where JAX takes the derivative that it is given."""

    @jax.custom_vjp
    def g(*values: Any) -> Any:
        return f(*values)

    g.defvjp(
        lambda *values: (f(*values), values),
        lambda values, ct: tuple(jnp.zeros_like(v) for v in values),
    )
    return lambda *values: jax.grad(lambda *v: g(*v).sum())(*values)


TRANSFORMATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "eager": lambda f, v: f(*v),
    "jit": lambda f, v: jax.jit(f)(*v),
    "shard_map": in_shard_map,
    "pmap": lambda f, v: jax.pmap(lambda *v: f(*v))(*stacked(v)),
    "vmap": lambda f, v: jax.vmap(f)(*stacked(v)),
    "scan": lambda f, v: jax.lax.scan(lambda c, v: (c, f(*v)), 0, stacked(v)),
    "while": lambda f, v: jax.lax.while_loop(
        lambda c: False, lambda c: (f(*c), *c[1:]), v
    ),
    "cond": lambda f, v: jax.lax.cond(True, f, f, *v),
    "grad": lambda f, v: jax.grad(lambda *v: f(*v).sum())(*v),
    "remat": lambda f, v: jax.checkpoint(f)(*v),
    "custom_vjp": lambda f, v: in_custom_vjp(f)(*v),
    "nested jit": lambda f, v: jax.jit(lambda *v: jax.jit(f)(*v))(*v),
    "fori": lambda f, v: jax.lax.fori_loop(0, 2, lambda _, c: (f(*c), *c[1:]), v),
}


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
@pytest.mark.parametrize("case", SHAPES)
def test_shapes_and_dtypes(case: str, transformation: str) -> None:
    f, values, message, actual = SHAPES[case]
    with pytest.raises(st.ShapeError) as caught:
        TRANSFORMATIONS[transformation](f, jax.tree.map(jnp.asarray, values))
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{case}: {message}"
    assert lines[1].startswith("  declared ") and lines[2].startswith(
        f"  actual   {actual}"
    )
    if case in ("size", "expression", "result"):
        where = f"{case}: parameter 'x', dimension 1"
        assert f"  M = 12, bound by {where}" in lines[3:]
    advice = {
        "rank": "number of dimensions",
        "dtype": ".astype(jax.numpy.int32)",
        "constant": "the declared size",
    }
    assert advice.get(case, "pass arrays that agree in ") in lines[-1]


@st.typechecked
def sharded(x: f32["B/d M"]) -> jax.Array:
    return x * 2


@st.typechecked
def pending(x: f32["B M {U:t}"]) -> jax.Array:
    return x * 2


@st.typechecked
def indivisible(x: f32["N/t M"]) -> jax.Array:
    return x * 2


WRONG = {
    "sharded": (
        sharded,
        (8, 12),
        ("t",),
        "dimension 0 is sharded over 't', expected sharded over 'd'",
    ),
    "pending": (
        pending,
        (8, 12),
        (),
        "expected a partial sum over 't', got a value that is already reduced",
    ),
    "indivisible": (
        indivisible,
        (6, 12),
        (),
        "dimension 0 is not sharded, expected sharded over 't'; the array is fully replicated (6 is not divisible by "
        "4, the number of devices along 't': JAX drops such a constraint)",
    ),
}
PLACED: dict[str, Callable[[Any, Any], Any]] = {
    "eager": lambda f, x: f(x),
    "jit": lambda f, x: jax.jit(lambda x: f(x))(x),
    "grad": lambda f, x: jax.grad(lambda x: f(x).sum())(x),
    "vmap in jit": lambda f, x: jax.jit(jax.vmap(lambda x: f(x), in_axes=2))(
        x[:, :, None]
    ),
    "scan in jit": lambda f, x: jax.jit(
        lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]
    )(x),
    "remat in jit": lambda f, x: jax.jit(jax.checkpoint(lambda x: f(x)))(x),
    "custom_vjp in jit": lambda f, x: jax.jit(lambda x: in_custom_vjp(f)(x))(x),
    "while in jit": lambda f, x: jax.jit(
        lambda x: jax.lax.while_loop(lambda x: x.sum() < 9, lambda x: f(x), x)
    )(x),
    "scan": lambda f, x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0],
    "cond": lambda f, x: jax.lax.cond(x.sum() > 0, lambda x: f(x), lambda x: x * 2, x),
    "remat": lambda f, x: jax.checkpoint(lambda x: f(x))(x),
}


@pytest.mark.parametrize("transformation", PLACED)
@pytest.mark.parametrize("case", WRONG)
def test_shardings(auto_mesh: Mesh, case: str, transformation: str) -> None:
    f, shape, entries, message = WRONG[case]
    with jax.set_mesh(auto_mesh):
        x = jax.device_put(jnp.ones(shape), NamedSharding(auto_mesh, P(*entries)))
        with pytest.raises(st.ShardingError) as caught:
            PLACED[transformation](f, x)
    text = str(caught.value)
    assert text.startswith(f"{case}: parameter 'x': {message}\n  declared f32['")
    axes = [
        "/".join(str(part) for part in (n, *entries[i : i + 1]))
        for i, n in enumerate(shape)
    ]
    assert f"  actual   f32[{', '.join(axes)}] on mesh d=2, t=4\n" in text
    assert ", bound here\n" in text
    assert (
        text.splitlines()[-1]
        .strip()
        .startswith(("place it with", "correct the annotation"))
    )


def test_in_shard_map(auto_mesh: Mesh) -> None:
    with pytest.raises(st.ShardingError) as caught:
        in_shard_map(sharded, (jnp.asarray(X),))
    assert str(caught.value) == (
        "sharded: parameter 'x': dimension 0 is not sharded, expected sharded over 'd'; the array is fully replicated\n"
        "  declared f32['B/d M']\n  actual   f32[8, 12] on mesh d=2, t=4\n"
        "  B = 16, M = 12, bound here\n"
        "  correct the in_specs of the shard_map, or the annotation"
    )
    with pytest.raises(st.ShardingError) as caught:
        in_shard_map(lambda x: sharded(x * 2), (jnp.asarray(X),))
    assert str(caught.value) == (
        "sharded: parameter 'x': dimension 0 is not sharded, expected sharded over 'd'\n"
        "  declared f32['B/d M']\n  actual   f32[8, 12] (local shape) on mesh d=2, t=4\n"
        "  B = 16, M = 12, bound here\n"
        "  shard the argument with in_specs, or declare it unsharded"
    )


def test_pmap_of_trees_with_none_and_other_dimensions() -> None:
    @st.typechecked
    def f(tree: dict[str, f32["M"]], x: f32["B M"], n: int) -> f32["B M"]:
        return x * tree["a"] + tree["b"] * n

    tree = {"a": jnp.ones((3, 8)), "b": jnp.ones(3)}
    in_axes = ({"a": 1, "b": None}, 1, None)
    mapped = jax.pmap(f, in_axes=in_axes, out_axes=1, static_broadcasted_argnums=2)
    assert mapped(tree, jnp.ones((2, 8, 3)), 4).shape == (2, 8, 3)
    with pytest.raises(
        st.ShapeError, match="f: parameter 'x': dimension 1 is 5, expected M = 3"
    ):
        jax.pmap(lambda t, x: f(t, x, 4), in_axes=in_axes[:2])(
            tree, jnp.ones((2, 8, 5))
        )


def test_pmap_with_donation_axis_size_and_static_arguments() -> None:
    @functools.partial(jax.pmap, axis_name="i", donate_argnums=0, axis_size=8)
    @st.typechecked
    def step(x: f32["B M"]) -> f32["B M"]:
        return x + jax.lax.psum(1.0, "i")

    assert step(jnp.ones((8, 2, 3)))[0, 0, 0] == 9


def test_nested_pmap_and_negative_dimensions_are_as_for_the_bare_function() -> None:
    """Where JAX itself refuses, it refuses in the same way; where it does not, the checks pass."""

    def bare(x: jax.Array) -> jax.Array:
        return x * 2

    checked = st.typechecked(bare)
    checked.__wrapped__.__annotations__ = {"x": f32["B"], "return": f32["B"]}

    def outcome(f: Any, x: jax.Array) -> Any:
        try:
            return f(x).shape
        except Exception as error:  # noqa: BLE001 - which error JAX raises is what is compared
            return type(error)

    x = jnp.ones((2, 3, 4))
    for wrap in (
        lambda f: jax.pmap(jax.pmap(f)),
        lambda f: jax.vmap(jax.pmap(f, in_axes=-1)),
        lambda f: jax.pmap(jax.vmap(f)),
        lambda f: jax.vmap(jax.pmap(f)),
        lambda f: jax.pmap(jax.vmap(f, in_axes=-1, out_axes=-1)),
    ):
        assert outcome(wrap(lambda x: checked(x)), x) == outcome(
            wrap(lambda x: bare(x)), x
        )


def test_a_mesh_that_has_no_such_devices(auto_mesh: Mesh) -> None:
    with pytest.raises(
        ValueError, match=r"the mesh d=64 is abstract.*needs 64 devices"
    ):
        st.shard(jnp.ones(64), f32["B/d"], mesh=AbstractMesh((64,), ("d",)))
    with pytest.raises(ValueError, match="the mesh has no axis 'x'"):
        st.shard(jnp.ones(64), f32["B/x"], mesh=auto_mesh)
    with pytest.raises(ValueError, match="needs a mesh in force"):
        st.shard(jnp.ones(64), f32["B/d"])
