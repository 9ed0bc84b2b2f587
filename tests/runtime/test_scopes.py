"""Scopes across tasks, generators and failed checks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import pytest

import shardtypes as st
from shardtypes import f32


@st.typechecked
def same(x: f32["B"], y: f32["B"]) -> f32["B"]:
    return x + y


def test_tasks_have_tables_of_their_own() -> None:
    @st.typechecked
    async def slow(x: f32["B"]) -> f32["B"]:
        await asyncio.sleep(0)
        return x

    async def main() -> None:
        await asyncio.gather(*(slow(jnp.ones(n)) for n in range(1, 6)))

    asyncio.run(main())


def test_generators_do_not_keep_their_callers_table() -> None:
    def numbers() -> Iterator[jax.Array]:
        for n in range(1, 4):
            with st.Scope():
                yield same(jnp.ones(n), jnp.ones(n))

    for a, b in zip(numbers(), numbers(), strict=True):
        assert a.shape == b.shape
    abandoned = numbers()
    next(abandoned)
    del abandoned
    same(jnp.ones(9), jnp.ones(9))


def test_a_failed_check_binds_nothing() -> None:
    with st.Scope() as scope:
        with pytest.raises(st.ShapeError):
            same(jnp.ones(2), jnp.ones(3))
        assert scope.sizes == {}
        with pytest.raises(st.ShapeError):
            st.check("f32", "A B A", jnp.ones((1, 2, 3)))
        assert scope.sizes == {}
        same(jnp.ones(5), jnp.ones(5))
        assert scope.sizes == {"B": 5}
