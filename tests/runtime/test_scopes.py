"""Scopes across tasks, generators and failed checks."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import pytest
import typeguard

import shardtypes as st
from shardtypes import f32
from shardtypes.scopes import open_tables


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


def test_what_generators_yield_are_sent_and_return() -> None:
    @st.typechecked
    def running(x: f32["B"]) -> Generator[f32["B"], f32["B"], f32[""]]:
        total = x
        for _ in range(2):
            sent = yield total
            total = total + (0 if sent is None else sent)
        return total if x.shape[0] == 4 else total.sum()

    generator = running(jnp.ones(2))
    assert next(generator).shape == (2,)
    assert generator.send(jnp.ones(2)).shape == (2,)
    with pytest.raises(StopIteration) as stopped:
        next(generator)
    assert stopped.value.value == 4
    generator = running(jnp.ones(2))
    next(generator)
    with pytest.raises(
        st.ShapeError, match="running: the value sent: dimension 0 is 3, expected B = 2"
    ):
        generator.send(jnp.ones(3))
    with pytest.raises(
        st.ShapeError, match="running: the result: rank is 1, expected 0"
    ):
        list(running(jnp.ones(4)))
    with pytest.raises(st.ShapeError, match="running: parameter 'x'"):
        running(jnp.ones((2, 2)))


def test_yields_are_of_any_size_that_the_arguments_leave_open() -> None:
    @st.typechecked
    def batches(x: f32["N M"]) -> Iterator[f32["B M"]]:
        for at in range(0, x.shape[0], 2):
            yield x[at : at + 2]

    @st.typechecked
    def wrong(x: f32["N M"]) -> Iterator[f32["B M"]]:
        yield x[:, 1:]

    assert [b.shape[0] for b in batches(jnp.ones((5, 3)))] == [2, 2, 1]
    pairs = zip(batches(jnp.ones((2, 3))), batches(jnp.ones((2, 4))), strict=True)
    assert [(a.shape, b.shape) for a, b in pairs] == [((2, 3), (2, 4))]
    with pytest.raises(
        st.ShapeError,
        match="wrong: the yielded value: dimension 1 is 2, expected M = 3",
    ):
        list(wrong(jnp.ones((5, 3))))
    assert not list(open_tables())


def test_generators_hear_what_is_thrown_and_are_closed() -> None:
    heard: list[str] = []

    @st.typechecked
    def listening(x: f32["B"]) -> Iterator[f32["B"]]:
        try:
            yield x
        except KeyError:
            heard.append("KeyError")
            yield x
        finally:
            heard.append("closed")

    generator: Any = listening(jnp.ones(2))
    next(generator)
    generator.throw(KeyError())
    generator.close()
    assert heard == ["KeyError", "closed"]

    @contextlib.contextmanager
    @st.typechecked
    def opened(x: f32["B"]) -> Iterator[f32["B"]]:
        yield x

    with opened(jnp.ones(2)):
        same(jnp.ones(3), jnp.ones(3))


def test_asynchronous_generators() -> None:
    @st.typechecked
    async def stream(x: f32["N M"], drop: int = 0) -> AsyncIterator[f32["M"]]:
        for row in x:
            await asyncio.sleep(0)
            yield row[drop:]

    async def collect(drop: int) -> list[jax.Array]:
        return [row async for row in stream(jnp.ones((2, 3)), drop)]

    assert len(asyncio.run(collect(0))) == 2
    with pytest.raises(
        st.ShapeError,
        match="stream: the yielded value: dimension 0 is 2, expected M = 3",
    ):
        asyncio.run(collect(1))


def test_tasks_started_inside_a_checked_coroutine() -> None:
    @st.typechecked
    async def inner(x: f32["C"], y: f32["C"]) -> f32["C"]:
        await asyncio.sleep(0)
        return same(x, y)

    @st.typechecked
    async def outer(x: f32["B"]) -> f32["B"]:
        await asyncio.gather(*(inner(jnp.ones(n), jnp.ones(n)) for n in (1, 2, 3)))
        await asyncio.to_thread(same, jnp.ones(5), jnp.ones(5))
        return x

    @st.typechecked
    async def calling(x: f32["B"]) -> None:
        same(x[1:], x[1:])

    async def in_scope() -> None:
        with st.Scope():
            await outer(jnp.ones(7))  # tasks and threads have scopes of their own
            await calling(jnp.ones(7))

    asyncio.run(outer(jnp.ones(7)))
    asyncio.run(calling(jnp.ones(7)))
    with pytest.raises(
        st.ShapeError, match="same: parameter 'x': dimension 0 is 6, expected B = 7"
    ):
        asyncio.run(in_scope())


def test_recursion_has_a_table_a_call_but_in_a_scope() -> None:
    @st.typechecked
    def own(x: f32["B"]) -> f32[""]:
        return x.sum() if x.shape[0] == 1 else own(x[1:])

    @st.typechecked(scope=True)
    def opening(x: f32["B"]) -> f32[""]:
        return x.sum() if x.shape[0] == 1 else opening(x[1:])

    assert own(jnp.ones(3)) == opening(jnp.ones(3)) == 1
    with (
        st.Scope(),
        pytest.raises(
            st.ShapeError,
            match=r"(?s)bound by .*own: parameter 'x'.*if the callee means another size",
        ),
    ):
        own(jnp.ones(3))
    with st.Scope():
        assert opening(jnp.ones(3)) == 1


def test_a_scope_is_reentrant_and_a_kept_exception_keeps_no_sizes() -> None:
    @st.typechecked
    def fails(x: f32["B"]) -> None:
        raise RuntimeError

    scope = st.Scope()
    with scope:
        st.check(f32, "B", jnp.ones(2))
        with scope:
            st.check(f32, "B", jnp.ones(3))
            assert scope.sizes == {"B": 3}
        assert scope.sizes == {"B": 2}
        with pytest.raises(RuntimeError) as kept:
            fails(jnp.ones(2))
    assert kept.value is not None and not list(open_tables())
    with pytest.raises(RuntimeError):
        fails(jnp.ones(3))


def test_the_decorator_gives_each_call_a_table() -> None:
    @st.scope
    def free(x: jax.Array) -> None:
        st.check(f32, "B", x)

    @st.typechecked
    def outer(x: f32["B"]) -> None:
        free(x[1:])

    outer(jnp.ones(3))

    @st.scope
    def rows(x: jax.Array) -> Iterator[jax.Array]:
        for row in x:
            st.check(f32, "B", row)
            yield row

    for _ in rows(jnp.ones((2, 3))):
        same(jnp.ones(1), jnp.ones(1))
    assert inspect.isgenerator(rows(jnp.ones((1, 1))))


def test_properties() -> None:
    class Pair:
        @st.typechecked
        @property
        def wrong(self) -> f32["A A"]:
            return jnp.ones((2, 3))

    with pytest.raises(st.ShapeError, match=r"Pair\.wrong: the result"):
        _ = Pair().wrong


@typeguard.typechecked
def _pair(x: f32["B"], y: f32["B"]) -> f32["B"]:
    return x


@typeguard.typechecked
def _again(x: f32["B"]) -> f32["1"]:
    return x if x.shape[0] == 1 else _again(x[1:])


def test_under_typeguards_decorator_too_a_failed_call_binds_nothing() -> None:
    with st.Scope() as scope:
        with pytest.raises(st.ShapeError, match="expected B = 2"):
            _pair(jnp.ones(2), jnp.ones(3))
        assert scope.sizes == {}
    _again(jnp.ones(3))
    with (
        st.Scope(),
        pytest.raises(st.ShapeError, match="if the callee means another size"),
    ):
        _again(jnp.ones(3))


def test_a_failed_coroutine_binds_nothing() -> None:
    @st.typechecked
    async def pair(x: f32["B"], y: f32["B"]) -> f32["B"]:
        return x

    async def main() -> None:
        with st.Scope() as scope:
            with pytest.raises(st.ShapeError, match="expected B = 2"):
                await pair(jnp.ones(2), jnp.ones(3))
            assert scope.sizes == {}

    asyncio.run(main())
