"""The lines of rules for gradients."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import prove
from shardtypes.proving.backward_lines import own_lines
from tests.proving.cases import MESH, MLP, V, W, X


@jax.custom_vjp
def reduced(x: Any) -> Any:
    return lax.psum(x, "t")


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def reduced_over(x: Any, axis: str) -> Any:
    return lax.psum(x, axis)


def _summed_again(_: Any, cotangent: Any) -> Any:
    return (lax.psum(cotangent, "t"),)  # mark: summed again


reduced.defvjp(lambda x: (lax.psum(x, "t"), None), _summed_again)
reduced_over.defvjp(
    lambda x, axis: (lax.psum(x, axis), None), lambda axis, *rest: _summed_again(*rest)
)


@pytest.mark.parametrize("collective", [reduced, lambda x: reduced_over(x, "t")])
def test_the_line_of_a_rule_is_blamed(collective: Any) -> None:
    @partial(
        jax.shard_map,
        mesh=MESH,
        in_specs=MLP,
        out_specs=(P("d"), P(None, "t"), P("t")),
        check_vma=False,
    )
    def gradients(x: Any, w: Any, v: Any) -> Any:
        x, w, v = jax.grad(
            lambda x, w, v: jnp.sum(collective(jnp.tanh(x @ w) @ v)), argnums=(0, 1, 2)
        )(x, w, v)
        return lax.psum(x, "t"), lax.psum(w, "d"), lax.psum(v, "d")

    found = prove(gradients, X, W, V)
    assert found.ok is False and found.culprit is not None
    assert "mark: summed again" in found.culprit.place.text


def _lines() -> list[int]:
    from shardtypes.user_lines import frame_of

    closed = jax.make_jaxpr(jax.grad(lambda x: _outside(x).sum()))(jnp.ones(3))
    return [frame_of(eqn.source_info.traceback).start_line for eqn in closed.jaxpr.eqns]


@jax.custom_vjp
def _outside(x: Any) -> Any:
    return x * 2


def _rule(_: Any, cotangent: Any) -> Any:
    return (jnp.sinh(cotangent),)


_outside.defvjp(lambda x: (x * 2, None), _rule)


def test_nothing_stays_behind() -> None:
    line = _rule.__code__.co_firstlineno + 1
    assert line not in _lines()
    with own_lines():
        assert line in _lines()
    assert line not in _lines()
