"""Every transformation on every kind of mesh, with the device map as the oracle.

A value is placed in one way and declared in another: an error exactly where the devices would hold other parts of it.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import _stats, f32

SHAPE = (8, 16)

# Every way in which d and t can lie on two dimensions.
DIMS = [
    dims
    for dims in itertools.product(
        [(), ("d",), ("t",), ("d", "t"), ("t", "d")], repeat=2
    )
    if len(set(dims[0] + dims[1])) == len(dims[0] + dims[1])
]

MESHES = {
    "auto": (AxisType.Auto, AxisType.Auto),
    "explicit": (AxisType.Explicit, AxisType.Explicit),
    "mixed": (AxisType.Explicit, AxisType.Auto),
}

Function = Callable[[jax.Array], jax.Array]


def spec(dims: Any) -> P:
    return P(*(axes or None for axes in dims))


def declared(dims: Any) -> Function:
    """A checked function whose parameter is declared so."""

    def f(x: Any) -> Any:
        return x * 2.0

    f.__annotations__ = {
        "x": f32[
            " ".join("/".join((n, *axes)) for n, axes in zip("BM", dims, strict=True))
        ]
    }
    return st.typechecked(f)


def in_scan(f: Function) -> Function:
    return lambda x: jax.lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0]


def over_scan(f: Function) -> Function:
    return lambda x: jax.lax.scan(lambda c, x: (c, f(x)), 0.0, x)[1]


def in_while(f: Function) -> Function:
    return lambda x: jax.lax.while_loop(
        lambda c: c[1] < 2, lambda c: (f(c[0]), c[1] + 1), (x, 0)
    )[0]


def in_cond(f: Function) -> Function:
    return lambda x: jax.lax.cond(x.sum() > 0, f, lambda x: x * 2.0, x)


def in_custom_vjp(f: Function) -> Function:
    @jax.custom_vjp
    def g(x: jax.Array) -> jax.Array:
        return f(x)

    g.defvjp(lambda x: (f(x), None), lambda _, ct: (ct,))
    return jax.grad(lambda x: g(x).sum())


UNDER_JIT: dict[str, Callable[[Function], Function]] = {
    "jit": lambda f: f,
    "nested jit": lambda f: jax.jit(lambda x: f(x) + 1),
    "scan": in_scan,
    "scanned over": over_scan,
    "while": in_while,
    "cond": in_cond,
    "remat": jax.checkpoint,
    "grad": lambda f: jax.grad(lambda x: f(x).sum()),
    "grad of remat": lambda f: jax.grad(jax.checkpoint(lambda x: f(x).sum())),
    "jvp": lambda f: lambda x: jax.jvp(f, (x,), (x,))[1],
    "custom_vjp": in_custom_vjp,
    "vmap": jax.vmap,
    "vmap of vmap": lambda f: jax.vmap(jax.vmap(f, in_axes=2), in_axes=1),
    "vmap of grad": lambda f: jax.vmap(jax.grad(lambda x: f(x).sum())),
    "scan of grad": lambda f: in_scan(jax.grad(lambda x: f(x).sum())),
    "vmap of scan": lambda f: jax.vmap(in_scan(f)),
    "vmap of cond": lambda f: jax.vmap(in_cond(f), in_axes=2),
    "vmap of vmap of jit": lambda f: jax.vmap(
        jax.vmap(jax.jit(lambda x: f(x)), in_axes=2), in_axes=1
    ),
}

EAGERLY: dict[str, Callable[[Function], Function]] = {
    "call": lambda f: f,
    "grad": lambda f: jax.grad(lambda x: f(x).sum()),
    "vmap": jax.vmap,
    "vmap of vmap": lambda f: jax.vmap(jax.vmap(f, in_axes=2), in_axes=1),
    "vmap of grad": lambda f: jax.vmap(jax.grad(lambda x: f(x).sum())),
    "custom_vjp": in_custom_vjp,
    "scan": in_scan,
    "scanned over": over_scan,
    "while": in_while,
    "fori": lambda f: lambda x: jax.lax.fori_loop(0, 2, lambda _, x: f(x), x),
    "cond": in_cond,
    "switch": lambda f: lambda x: jax.lax.switch(1, [lambda x: x * 2.0, f], x),
    "remat": jax.checkpoint,
    "grad of scan": lambda f: jax.grad(lambda x: in_scan(f)(x).sum()),
    "scan of scan": lambda f: in_scan(in_scan(f)),
    "scan of jit": lambda f: in_scan(jax.jit(lambda x: f(x))),
    "remat of scan": lambda f: jax.checkpoint(in_scan(f)),
    "gradient of remat": lambda f: jax.grad(jax.checkpoint(lambda x: f(x).sum())),
    "grad of jit": lambda f: jax.grad(jax.jit(lambda x: f(x).sum())),
    "vmap of scan": lambda f: jax.vmap(in_scan(f)),
    "vmap of cond": lambda f: jax.vmap(in_cond(f), in_axes=2),
    "vmap of vmap of jit": lambda f: jax.vmap(
        jax.vmap(jax.jit(lambda x: f(x)), in_axes=2), in_axes=1
    ),
}


# Where a value has a dimension of size 1 more, for the transformation to take away.
MAPPED = {
    "scanned over": (0,),
    "vmap": (0,),
    "vmap of vmap": (1, 3),
    "vmap of grad": (0,),
    "vmap of scan": (0,),
    "vmap of cond": (2,),
    "vmap of vmap of jit": (1, 3),
}


# What only Auto axes make hard: under Explicit ones the types say all. Of a mapped condition JAX itself refuses those.
UNDER_AUTO = {
    "grad of jit",
    "gradient of remat",
    "remat of scan",
    "scan of jit",
    "vmap of cond",
    "vmap of scan",
    "vmap of vmap of jit",
}


def kinds(table: dict[str, Any]) -> list[tuple[str, str]]:
    """Every transformation with the kinds of mesh on which it is tried."""
    return [
        (name, kind)
        for name in table
        for kind in MESHES
        if kind == "auto" or name not in UNDER_AUTO
    ]


def placed(dims: Any, mapped: tuple[int, ...], mesh: Mesh) -> jax.Array:
    shape, entries = list(SHAPE), list(dims)
    for at in mapped:
        shape.insert(at, 1)
        entries.insert(at, ())
    return jax.device_put(jnp.ones(shape), NamedSharding(mesh, spec(entries)))


def mesh_of(kind: str) -> Mesh:
    return jax.make_mesh((2, 4), ("d", "t"), axis_types=MESHES[kind])


def same(a: Any, b: Any, mesh: Mesh) -> bool:
    """Whether every device holds the same part under both."""
    maps = [
        NamedSharding(mesh, spec(dims)).devices_indices_map(SHAPE) for dims in (a, b)
    ]
    return maps[0] == maps[1]


def pairs(kind: str, salt: int) -> list[tuple[Any, Any]]:
    """Placements with the right declaration, and with another one. All of them with ``ORACLE_CASES`` in the
    environment, else a share that differs from one transformation to the next."""
    # JAX itself drops t there
    placements = [dims for dims in DIMS if kind != "mixed" or ("t", "d") not in dims]
    count = len(placements)
    chosen = range(count) if "ORACLE_CASES" in os.environ else range(salt % 4, count, 4)
    found = []
    for i in chosen:
        found += [
            (placements[i], placements[i]),
            (placements[i], placements[(i * 5 + 1 + salt) % count]),
        ]
    return found


def verify(
    run: Callable[[Function, jax.Array], Any],
    mesh: Mesh,
    mapped: tuple[int, ...],
    cases: list[tuple[Any, Any]],
) -> None:
    wrong: list[str] = []
    for actual, wanted in cases:
        x = placed(actual, mapped, mesh)
        message = ""
        try:
            run(declared(wanted), x)
        except st.ShardingError as error:
            message = str(error)
        if bool(message) == same(actual, wanted, mesh):
            wrong.append(f"{actual} declared {wanted}: {message or 'no error'}")
        elif message:
            assert "declared f32['" in message and "parameter 'x'" in message
    assert not wrong, "\n".join(wrong)


@pytest.mark.once
@pytest.mark.parametrize(("name", "kind"), kinds(UNDER_JIT))
def test_under_jit(name: str, kind: str) -> None:
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        run = UNDER_JIT[name]
        verify(
            lambda f, x: jax.jit(run(f))(x),
            mesh,
            MAPPED.get(name, ()),
            pairs(kind, list(UNDER_JIT).index(name)),
        )


@pytest.mark.parametrize(("name", "kind"), kinds(EAGERLY))
def test_eagerly(name: str, kind: str) -> None:
    mesh = mesh_of(kind)
    with jax.set_mesh(mesh):
        run = EAGERLY[name]
        verify(
            lambda f, x: run(f)(x),
            mesh,
            MAPPED.get(name, ()),
            pairs(kind, list(EAGERLY).index(name)),
        )


def axes_in(dims: Any) -> set[str]:
    return {axis for axes in dims for axis in axes}


@pytest.mark.once
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("wrap", ["jit", "grad", "eager", "unchecked"])
def test_arguments_of_shard_map(kind: str, wrap: str) -> None:
    """``in_specs`` say all of an argument, so that an error is due exactly where the devices hold other parts."""
    mesh = mesh_of(kind)

    def run(f: Function, x: jax.Array) -> Any:
        entries = x.sharding.spec
        mapped = jax.shard_map(
            f, in_specs=entries, out_specs=entries, check_vma=wrap != "unchecked"
        )
        if wrap == "grad":
            return jax.jit(jax.grad(lambda x: mapped(x).sum()))(x)
        return mapped(x) if wrap == "eager" else jax.jit(mapped)(x)

    with jax.set_mesh(mesh):
        verify(run, mesh, (), pairs(kind, 3))


@pytest.mark.once
@pytest.mark.parametrize("kind", ["auto", "explicit"])
@pytest.mark.parametrize("wrap", ["computed", "nested", "in scan", "vmap of computed"])
def test_inside_shard_map(kind: str, wrap: str) -> None:
    """What varies is known per axis, not per dimension: an error exactly where a declared axis does not split the
    value at all. The sizes that the annotation implies are checked in any case."""
    mesh = mesh_of(kind)
    run: Callable[[Function], Function] = {
        "computed": lambda f: lambda x: f(x + 1),
        "nested": lambda f: lambda x: jax.jit(lambda x: f(x))(x),
        "in scan": in_scan,
        "vmap of computed": lambda f: lambda x: jax.vmap(f)(x[None])[0],
    }[wrap]
    wrong = []
    with jax.set_mesh(mesh):
        for actual, wanted in pairs(kind, 3):
            mapped = jax.shard_map(
                run(declared(wanted)), in_specs=spec(actual), out_specs=spec(actual)
            )
            message = ""
            try:
                jax.jit(mapped)(placed(actual, (), mesh))
            except st.ShardingError as error:
                message = str(error)
            if bool(message) != bool(axes_in(wanted) - axes_in(actual)):
                wrong.append(f"{actual} declared {wanted}: {message or 'no error'}")
    assert not wrong, "\n".join(wrong)


def test_arguments_of_nested_shard_maps_and_under_vmap(auto_mesh: Mesh) -> None:
    """What an outer one splits is the major part of what an inner one splits again."""

    def run(outer: P, inner: P, wanted: Any) -> None:
        f = declared(wanted)

        def body(x: jax.Array) -> jax.Array:
            return jax.shard_map(f, in_specs=inner, out_specs=inner, axis_names={"t"})(
                x
            )

        jax.jit(jax.shard_map(body, in_specs=outer, out_specs=outer, axis_names={"d"}))(
            jnp.ones(SHAPE)
        )

    with jax.set_mesh(auto_mesh):
        run(P("d"), P("t"), (("d", "t"), ()))
        run(P("d"), P(None, "t"), (("d",), ("t",)))
        with pytest.raises(
            st.ShardingError,
            match=r"dimension 0 is sharded over 'd' and 't', expected sharded over 't' and 'd'\n",
        ):
            run(P("d"), P("t"), (("t", "d"), ()))
        with pytest.raises(
            st.ShardingError,
            match="dimension 0 is sharded over 'd', expected not sharded",
        ):
            run(P("d"), P(None, "t"), ((), ("d", "t")))
        mapped = jax.shard_map(
            jax.vmap(declared((("t",), ()))),
            in_specs=P("d", "t"),
            out_specs=P("d", "t"),
        )
        assert jax.jit(mapped)(jnp.ones((4, *SHAPE))).shape == (4, *SHAPE)
        mapped = jax.shard_map(
            jax.vmap(declared(((), ("t",)))),
            in_specs=P("d", "t"),
            out_specs=P("d", "t"),
        )
        with pytest.raises(
            st.ShardingError,
            match="dimension 0 is sharded over 't', expected not sharded",
        ):
            jax.jit(mapped)(jnp.ones((4, *SHAPE)))


def test_nested_and_partly_manual_shard_maps(auto_mesh: Mesh) -> None:
    inner = declared((("d",), ("t",)))
    outer_only = declared((("d",), ()))

    def body(x: jax.Array) -> jax.Array:
        outer_only(x)
        return jax.shard_map(
            inner, in_specs=P(None, "t"), out_specs=P(None, "t"), axis_names={"t"}
        )(x)

    def unsplit(x: jax.Array) -> jax.Array:
        return jax.shard_map(
            inner, in_specs=P(), out_specs=P(None, "t"), axis_names={"t"}
        )(x)

    with jax.set_mesh(auto_mesh):
        x = placed((("d",), ()), (), auto_mesh)
        for f in (body, unsplit):
            mapped = jax.jit(
                jax.shard_map(f, in_specs=P("d"), out_specs=P("d"), axis_names={"d"})
            )
            if f is body:
                assert mapped(x).shape == SHAPE
            else:
                with pytest.raises(
                    st.ShardingError,
                    match="dimension 1 is not sharded, expected sharded over 't'",
                ):
                    mapped(x)


def test_a_loop_that_jax_has_traced_before_is_checked_where_its_arguments_lie_otherwise(
    auto_mesh: Mesh,
) -> None:
    f = declared((("d",), ()))

    def body(x: jax.Array, _: None) -> tuple[jax.Array, None]:
        return f(x), None

    def run(x: jax.Array) -> None:
        jax.lax.scan(body, x, None, length=2)

    with jax.set_mesh(auto_mesh):
        right, wrong = (placed(((axis,), ()), (), auto_mesh) for axis in "dt")
        run(right)
        run(right)
        with pytest.raises(
            st.ShardingError, match="sharded over 't', expected sharded over 'd'"
        ):
            run(wrong)
        run(right)
        seen = jax.make_jaxpr(run)(right)
    assert "inspect_sharding" not in str(seen)


def test_what_cannot_be_compared_is_counted(auto_mesh: Mesh) -> None:
    def reasons(run: Callable[[], Any]) -> set[str]:
        _stats.reset()
        run()
        return set(_stats.snapshot()["not_possible"])

    f = declared((("d",), ()))
    with jax.set_mesh(auto_mesh):
        x = placed((("t",), ()), (), auto_mesh)
        unknown = {"inside a trace on Auto mesh axes, without a checking compile"}
        assert reasons(lambda: jax.eval_shape(f, x)) == unknown
        untracked = "inside shard_map or pmap with check_vma=False: JAX does not track varying axes"
        tracked = {
            "inside shard_map or pmap: a value may vary over an axis that its annotation lacks",
            "inside shard_map or pmap: which dimension of a computed value is sharded, beyond what its sizes tell",
        }
        for options, wanted in (({"check_vma": False}, {untracked}), ({}, tracked)):
            mapped = jax.shard_map(
                lambda x: f(x + 1),
                in_specs=P(("d", "t")),
                out_specs=P(("d", "t")),
                **options,
            )
            assert (
                reasons(lambda mapped=mapped: jax.jit(lambda x: mapped(x))(x)) == wanted
            )
        assert reasons(lambda: f(placed((("d",), ()), (), auto_mesh))) == set()
    assert reasons(lambda: f(jnp.ones(SHAPE))) == {
        "no mesh in force, and the value is on one device"
    }
