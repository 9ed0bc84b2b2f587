"""Queues of which each device fills a part, and loops that end when they are done: one device has another order, and
needs another number of rounds."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import prove
from tests.proving.cases import MESH, array

mapped = partial(jax.shard_map, mesh=MESH, check_vma=False)


class Queue(NamedTuple):
    keys: Any
    at: Any


def ring(queue: Queue, keys: Any) -> Queue:
    after = (queue.at + len(keys)) % len(queue.keys)
    return Queue(lax.dynamic_update_slice(queue.keys, keys, (queue.at, 0)), after)


def rolled(queue: Queue, keys: Any) -> Queue:
    return Queue(jnp.concatenate([keys, queue.keys[: -len(keys)]]), queue.at)


def course(push: Any, loss: Any) -> Any:
    parts = Queue(P("d"), P())

    @partial(mapped, in_specs=(P(), parts, P(None, "d")), out_specs=(P(), parts))
    def course(w: Any, queue: Queue, batches: Any) -> Any:
        def step(queue: Queue, x: Any) -> Any:
            keys = jnp.tanh(x @ w)
            score = lax.all_gather(keys, "d", tiled=True) @ queue.keys.T
            return push(queue, keys), loss(jnp.exp(score).sum())

        queue, losses = lax.scan(step, queue, batches)
        return losses, queue

    return course


EMPTY = Queue(jnp.zeros((24, 6)), jnp.int32(0))
GIVEN = (array(5, 6), EMPTY, array(3, 8, 5))


@pytest.mark.parametrize("push", [ring, rolled])
def test_the_order_of_a_queue_means_nothing(push: Any) -> None:
    found = prove(course(push, lambda total: lax.psum(total, "d")), *GIVEN)
    assert found.agrees, found
    assert "the order of rows in a queue" in found.reason


@pytest.mark.parametrize("push", [ring, rolled])
def test_what_is_made_of_its_rows_does(push: Any) -> None:
    found = prove(course(push, lambda total: lax.pmean(total, "d")), *GIVEN)
    assert found.ok is False
    assert found.numbers is not None and found.numbers.path == "result[0]"


def test_rows_without_a_place_have_an_order() -> None:
    @partial(mapped, in_specs=P("d"), out_specs=P("d"))
    def turned(state: dict[str, Any]) -> dict[str, Any]:
        n = lax.axis_size("d")
        sent = lax.ppermute(state["x"], "d", [(i, (i + 1) % n) for i in range(n)])
        return {"x": sent}

    assert prove(turned, {"x": array(8, 3)}).ok is False


class Walkers(NamedTuple):
    x: Any
    number: Any


def walk(kick: Any, numbered: bool = True) -> Any:
    """Walkers that go to the next device or stay, in places that are free: there are three for each."""

    @partial(mapped, in_specs=P("d"), out_specs=P("d"))
    def walk(x: Any) -> Walkers:
        n, d, count = lax.axis_size("d"), lax.axis_index("d"), len(x)
        x = x + kick(x)
        goes = jnp.sin(x[:, 0]) > 0
        number = d * count + jnp.arange(count)
        sent = Walkers(x, jnp.where(goes, number, -1))
        kept = Walkers(x, jnp.where(goes, -1, number))
        ring = [(i, (i + 1) % n) for i in range(n)]
        sent = jax.tree.map(lambda a: lax.ppermute(a, "d", ring), sent)
        none = Walkers(jnp.ones_like(x), jnp.full(count, -1))
        places = jax.tree.map(lambda *parts: jnp.concatenate(parts), kept, sent, none)
        first = jnp.argsort(places.number < 0, stable=True)
        ordered: Walkers = jax.tree.map(lambda a: a[first], places)
        return ordered if numbered else ordered._replace(number=ordered.number * 0)

    return walk


def test_places_of_members_mean_nothing() -> None:
    found = prove(walk(lambda x: 0.1 * x), array(8, 2))
    assert found.agrees, found
    assert "the places of members that a number tells apart" in found.reason


def test_what_members_are_does() -> None:
    found = prove(walk(lambda x: 0.1 * x + x.mean()), array(8, 2))
    assert found.ok is False
    assert found.numbers is not None and found.numbers.path == "result.x"


def test_members_without_numbers_have_places() -> None:
    assert prove(walk(lambda x: 0.1 * x, numbered=False), array(8, 2)).ok is False


def solver(dot: Any) -> Any:
    """Conjugate gradients with the diagonal block of each device as a preconditioner."""

    @partial(mapped, in_specs=(P("d"), P("d")), out_specs=(P("d"), P()))
    def solve(half: Any, b: Any) -> Any:
        rows = len(b)
        first = lax.axis_index("d") * rows
        a = half @ lax.all_gather(half, "d", tiled=True).T
        a += 4 * jnp.eye(rows, a.shape[1], k=first)  # positive definite
        block = lax.dynamic_slice_in_dim(a, first, rows, axis=1)
        inverse = jnp.linalg.inv(block)

        def unfinished(state: Any) -> Any:
            _, r, _, count = state
            return (count < 60) & (dot(r, r) > 1e-20)

        def body(state: Any) -> Any:
            x, r, p, count = state
            ap = a @ lax.all_gather(p, "d", tiled=True)
            before = dot(r, inverse @ r)
            alpha = before / dot(p, ap)
            r = r - alpha * ap
            z = inverse @ r
            return x + alpha * p, r, z + dot(r, z) / before * p, count + 1

        x, _, _, count = lax.while_loop(
            unfinished, body, (jnp.zeros_like(b), b, inverse @ b, 0)
        )
        return x, count

    return solve


def test_the_rounds_of_a_loop_mean_nothing() -> None:
    given = array(16, 3), array(16)
    right = solver(lambda a, b: lax.psum(a @ b, "d"))
    found = prove(right, *given)
    assert found.agrees, found
    assert "the rounds that a loop makes" in found.reason
    assert prove(solver(lambda a, b: a @ b), *given).ok is False
