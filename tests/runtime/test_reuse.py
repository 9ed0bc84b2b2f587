"""JAX uses its traces again, where nothing of ours runs: what is checked must not depend on who traced first."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import shardtypes as st
from shardtypes import _stats, f32

Function = Callable[[jax.Array], Any]


def scan(f: Function) -> Function:
    def body(x: jax.Array, _: None) -> tuple[jax.Array, None]:
        return f(x), None

    return lambda x: jax.lax.scan(body, x, None, length=2)[0]


def cond(f: Function) -> Function:
    def other(x: jax.Array) -> jax.Array:
        return x * 2.0

    return lambda x: jax.lax.cond(x.sum() > 0, f, other, x)


INSIDE: dict[str, Callable[[Function], Function]] = {
    "scan": scan,
    "cond": cond,
    "remat": jax.checkpoint,
    "jit": lambda f: jax.jit(lambda x: f(x)),
    "inline jit": lambda f: jax.jit(lambda x: f(x), inline=True),
    "scan of jit": lambda f: scan(jax.jit(lambda x: f(x))),
}


def grad(g: Function) -> Function:
    return jax.grad(lambda x: g(x).sum())


def without_checks(g: Function) -> Function:
    def run(x: jax.Array) -> Any:
        with st.enabled(False):
            return jax.jit(lambda x: g(x))(x)

    return run


CALLS: dict[str, Callable[[Function], Function]] = {
    "by itself": lambda g: g,
    "jit": lambda g: jax.jit(lambda x: g(x)),
    "vmap": lambda g: lambda x: jax.vmap(g)(x[None])[0],
    "jit of vmap": lambda g: jax.jit(lambda x: jax.vmap(g, in_axes=1)(x[:, None])[0]),
    "grad": grad,
    "ahead of time": lambda g: lambda x: jax.jit(lambda x: g(x)).lower(x).compile()(x),
}
FIRST: dict[str, Callable[[Function], Function]] = {
    **CALLS,
    "jit of grad": lambda g: jax.jit(grad(g)),
    "vmap of jit": lambda g: lambda x: jax.vmap(jax.jit(lambda x: g(x)))(x[None])[0],
    "eval_shape": lambda g: lambda x: jax.eval_shape(g, x),
    "make_jaxpr": lambda g: lambda x: jax.make_jaxpr(g)(x),
    "without checks": without_checks,
}


@pytest.fixture
def meshed(auto_mesh: Mesh) -> Iterator[Mesh]:
    _stats.reset()
    with jax.set_mesh(auto_mesh):
        yield auto_mesh


def placed(mesh: Mesh, axis: str) -> jax.Array:
    return jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P(axis)))


def checked() -> Function:
    @st.typechecked
    def f(x: f32["B/d M"]) -> Any:
        return x * 2.0

    return f


@pytest.mark.parametrize("inside", INSIDE)
def test_who_traced_first_does_not_matter(inside: str, meshed: Mesh) -> None:
    """All pairs with ``ORACLE_CASES`` in the environment, else a share that differs from one to the next."""
    right, wrong = placed(meshed, "d"), placed(meshed, "t")
    missed = []
    salt = list(INSIDE).index(inside)
    pairs = list(itertools.product(FIRST, CALLS))
    for first, second in pairs if "ORACLE_CASES" in os.environ else pairs[salt::17]:
        g = INSIDE[inside](checked())
        FIRST[first](g)(right)
        _stats.reset()
        CALLS[second](g)(right)
        try:
            CALLS[second](g)(wrong)
            missed.append(f"{second} after {first}")
        except st.ShardingError as error:
            assert (
                "f: parameter 'x': dimension 0 is sharded over 't', expected sharded over 'd'"
                in str(error)
            )
        assert _stats.snapshot()["not_possible"] == {}
    assert not missed


@pytest.mark.once
def test_a_wrong_call_is_wrong_each_time(meshed: Mesh) -> None:
    for inside in ("scan", "remat"):
        g = INSIDE[inside](checked())
        for _ in range(3):
            with pytest.raises(st.ShardingError):
                g(placed(meshed, "t"))


@pytest.mark.once
def test_another_mesh_is_another_check(meshed: Mesh) -> None:
    g = scan(checked())
    other = Mesh(meshed.devices.reshape(4, 2), ("d", "t"))
    for call in ("by itself", "jit"):
        run = CALLS[call](g)
        run(placed(meshed, "d"))
        with jax.set_mesh(other):
            run(placed(other, "d"))
            with pytest.raises(st.ShardingError, match="on mesh d=4, t=2"):
                run(placed(other, "t"))


@pytest.mark.once
def test_later_calls_cost_no_other_trace(meshed: Mesh) -> None:
    """Also where ``grad`` and ``vmap`` make other programs of one."""
    traced = []

    def f(x: f32["B/d M"]) -> Any:
        traced.append(x)
        return x * 2.0

    for inside in INSIDE.values():
        g = inside(st.typechecked(f))
        for call in ("by itself", "vmap", "grad"):
            run = CALLS[call](g)
            run(placed(meshed, "d"))
            before = len(traced)
            run(placed(meshed, "d"))
            assert len(traced) == before


@pytest.mark.once
def test_what_is_traced_or_compiled_without_checks_is_counted(meshed: Mesh) -> None:
    f = checked()
    run = jax.jit(lambda x: f(x))
    with st.enabled(False):
        run(placed(meshed, "t"))
    assert (
        "traced while checks were off: JAX may run it again later"
        in _stats.snapshot()["not_possible"]
    )
    g = jax.jit(lambda x: f(x))
    g(placed(meshed, "d"))
    _stats.reset()
    with st.enabled(False):
        g(placed(meshed, "t"))
    assert _stats.snapshot()["not_possible"] == {"compiled while checks were off": 1}
    traced = g.trace(placed(meshed, "t"))
    _stats.reset()
    traced.lower().compile()
    assert _stats.snapshot()["not_possible"] == {
        "traced and compiled ahead of time, in two steps": 1
    }
