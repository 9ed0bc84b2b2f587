"""Rows that devices take together and numbers that they draw for them, where one device would take and draw others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from shardtypes import prove
from shardtypes.proving.evaluation import Held
from shardtypes.proving.row_order import Order
from tests.proving.cases import MESH, array

PARTS = 3
KEY = jax.random.key(0)
x = array(24, 5)
w = array(5, 6)
mapped = partial(jax.shard_map, mesh=MESH, check_vma=False)


def reshaped(x: Any) -> Iterator[Any]:
    yield from x.reshape(PARTS, -1, x.shape[1])


def cut_to_the_end(x: Any) -> Iterator[Any]:
    rows = x.shape[0] // PARTS
    for number in range(PARTS):
        yield x[number * rows : (number + 1) * rows]


def cut_by_length(x: Any) -> Iterator[Any]:
    rows = x.shape[0] // PARTS
    for number in range(PARTS):
        yield lax.dynamic_slice_in_dim(x, number * rows, rows)


def split(x: Any) -> Iterator[Any]:
    yield from jnp.split(x, PARTS)


CUTS = {cut.__name__: cut for cut in (reshaped, cut_to_the_end, cut_by_length, split)}


def centred(
    cut: Callable[[Any], Any], mean: Callable[[Any], Any]
) -> Callable[..., Any]:
    """Each micro-batch is normalised with statistics of its rows on all devices."""

    @partial(mapped, in_specs=(P(), P("d")), out_specs=P())
    def loss(w: Any, x: Any) -> Any:
        total = jnp.zeros(())
        for part in cut(x):
            hidden = jnp.tanh(part @ w)
            total += ((hidden - mean(hidden.mean(0))) ** 4).mean()
        return lax.pmean(total / PARTS, "d")

    return loss


@pytest.mark.parametrize("name", CUTS)
def test_devices_cut_their_own_rows_into_micro_batches(name: str) -> None:
    right = prove(centred(CUTS[name], lambda mean: lax.pmean(mean, "d")), w, x)
    assert right.ok is None and right.agrees
    assert "if it takes the same rows together as the devices do" in right.reason


@pytest.mark.parametrize("name", CUTS)
def test_statistics_of_each_device_are_refuted_where_they_are_taken(name: str) -> None:
    wrong = prove(centred(CUTS[name], lambda mean: mean), w, x)
    assert wrong.ok is False and wrong.culprit is not None
    assert "per-device mean along 'd'" in wrong.culprit.what


def test_rows_that_are_put_together_again_are_in_their_order() -> None:
    def rows(mean: Callable[[Any], Any]) -> Callable[..., Any]:
        @partial(mapped, in_specs=P("d"), out_specs=P("d"))
        def normalised(x: Any) -> Any:
            parts = x.reshape(PARTS, -1, x.shape[1])
            found = parts - mean(parts.mean(1, keepdims=True))
            return jnp.tanh(found).reshape(x.shape)

        return normalised

    right = prove(rows(lambda mean: lax.pmean(mean, "d")), x)
    assert right.agrees and "the same rows together" in right.reason
    assert prove(rows(lambda mean: mean), x).ok is False


def accumulated(reduce: Callable[[Any], Any], *, in_a_loop: bool) -> Callable[..., Any]:
    """Gradients of micro-batches, each with a mask of its own on each device."""

    def loss(w: Any, x: Any, key: Any) -> Any:
        hidden = jnp.tanh(x @ w)
        keep = jax.random.bernoulli(key, 0.8, hidden.shape)
        return jnp.sum(jnp.where(keep, hidden, 0.0) ** 2)

    @partial(mapped, in_specs=(P(), P("d"), P()), out_specs=P())
    def step(w: Any, x: Any, key: Any) -> Any:
        key = jax.random.fold_in(key, lax.axis_index("d"))
        parts = x.reshape(PARTS, -1, x.shape[1])
        keys = jax.random.split(key, PARTS)

        def body(total: Any, one: Any) -> tuple[Any, None]:
            return total + jax.grad(loss)(w, *one), None

        total = jnp.zeros_like(w)
        if in_a_loop:
            total, _ = lax.scan(body, total, (parts, keys))
        else:
            for number in range(PARTS):
                total, _ = body(total, (parts[number], keys[number]))
        return w - 0.1 * reduce(total)

    return step


@pytest.mark.parametrize("in_a_loop", [False, True])
def test_devices_draw_for_the_rows_that_they_take_together(in_a_loop: bool) -> None:
    right = accumulated(lambda one: lax.psum(one, "d"), in_a_loop=in_a_loop)
    assert prove(right, w, x, KEY).agrees
    wrong = prove(accumulated(lambda one: one, in_a_loop=in_a_loop), w, x, KEY)
    assert wrong.ok is False and wrong.culprit is not None
    assert "`-` is applied to a partial sum over 'd'" in wrong.culprit.what


def test_each_device_goes_through_its_own_rows_in_an_order_that_it_draws() -> None:
    def epoch(mean: Callable[[Any], Any]) -> Callable[..., Any]:
        @partial(mapped, in_specs=(P(), P("d"), P()), out_specs=P())
        def step(w: Any, x: Any, key: Any) -> Any:
            key = jax.random.fold_in(key, lax.axis_index("d"))
            order = jax.random.permutation(key, x.shape[0]).reshape(PARTS, -1)

            def body(w: Any, rows: Any) -> tuple[Any, None]:
                grad = jax.grad(lambda w: (jnp.tanh(x[rows] @ w) ** 2).mean())(w)
                return w - 0.5 * mean(grad), None

            w, _ = lax.scan(body, w, order)
            return w

        return step

    right = prove(epoch(lambda grad: lax.pmean(grad, "d")), w, x, KEY)
    assert right.agrees and "if random numbers are all alike" in right.reason
    assert prove(epoch(lambda grad: grad), w, x, KEY).ok is False


def test_devices_that_draw_the_same_in_a_loop_are_refuted() -> None:
    @partial(mapped, in_specs=(P("d"), P()), out_specs=P())
    def step(x: Any, key: Any) -> Any:
        def body(total: Any, number: Any) -> tuple[Any, None]:
            noise = jax.random.normal(jax.random.fold_in(key, number), x.shape)
            return total + lax.psum(jnp.tanh(x + noise).sum(), "d"), None

        total, _ = lax.scan(body, jnp.zeros(()), jnp.arange(2))
        return total

    found = prove(step, x, KEY)
    assert found.ok is False and found.culprit is not None
    assert found.culprit.place.line == line_of("normal(")


def line_of(text: str) -> int:
    """The first line of this file with that text."""
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def mean_of_four(x: Any) -> Any:
    return lax.psum(jnp.tanh(x).mean(), "t") / 4


def quarters(x: Any) -> Any:
    return lax.psum(jnp.tanh(x).mean() * 0.25, "t")


def halves(x: Any) -> Any:
    return lax.psum(jnp.tanh(x).mean() * 0.5, "t")


@pytest.mark.parametrize(
    ("mean", "number"), [(mean_of_four, "4"), (quarters, "0.25"), (halves, None)]
)
def test_a_number_that_is_written_may_be_the_number_of_devices(
    mean: Callable[[Any], Any], number: str | None
) -> None:
    found = prove(mapped(mean, in_specs=P("t"), out_specs=P()), x)
    if number is None:
        assert found.ok is False
        return
    assert found.ok is None and found.agrees
    assert f"if {number} (test_micro_batches.py:" in found.reason
    assert "depends on the number of devices" in found.reason


def test_a_number_in_single_precision_may_be_one_by_the_number_of_devices() -> None:
    mesh = AbstractMesh((3,), ("t",), axis_types=(AxisType.Auto,))

    def thirds(x: Any) -> Any:
        return lax.psum(jnp.tanh(x).mean() * np.float32(1 / 3), "t")

    program = jax.shard_map(
        thirds, mesh=mesh, in_specs=P("t"), out_specs=P(), check_vma=False
    )
    found = prove(program, x, mesh=mesh)
    assert found.ok is None and found.agrees
    assert "if 0.333333 (test_micro_batches.py:" in found.reason


def test_a_factor_that_explains_nothing_excuses_nothing() -> None:
    def mean(x: Any) -> Any:
        return (jnp.tanh(x) / 4).sum()

    found = prove(mapped(mean, in_specs=P("t"), out_specs=P()), x)
    assert found.ok is False


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 1))
def test_one_device_has_the_rows_of_the_devices_part_by_part(
    devices: int, groups: int, rows: int, dim: int
) -> None:
    """Held against what the devices make of their shards."""
    whole = np.arange(devices * groups * rows)
    shards = whole.reshape(devices, groups, rows)
    parts = np.concatenate(list(shards), axis=1)
    before = (1,) * dim

    def ordered(order: Order, array: Any) -> Any:
        found = order.of(Held(array.reshape(*before, *array.shape))).array
        return found.reshape(array.shape)

    split = Order(dim, 2, (devices, groups, rows))
    cut = Order(dim, 1, (devices, groups, rows))
    merged = Order(dim, 1, (groups, devices, rows))
    assert np.array_equal(ordered(split, whole.reshape(groups, -1)), parts)
    assert np.array_equal(ordered(cut, whole), parts.reshape(-1))
    assert np.array_equal(ordered(merged, parts.reshape(-1)), whole)
