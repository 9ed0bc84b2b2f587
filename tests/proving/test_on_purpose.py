"""Right programs whose numbers are others on one device: of signs, of entries of devices, of rows that they draw."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import prove
from tests.proving.cases import MESH, SIZES

DEVICES = SIZES["t"]
KEY = jax.random.key(0)
ROWS = jnp.asarray(np.random.default_rng(3).normal(size=(24, 5)), jnp.float32)
mapped = partial(jax.shard_map, mesh=MESH, check_vma=False)


@partial(mapped, in_specs=P("t"), out_specs=P())
def triangular(x: Any) -> Any:
    _, r = jnp.linalg.qr(x)
    _, r = jnp.linalg.qr(lax.all_gather(r, "t", tiled=True))
    return r


@partial(mapped, in_specs=P("t"), out_specs=P("t"))
def orthogonal(x: Any) -> Any:
    q, r = jnp.linalg.qr(x)
    inner, _ = jnp.linalg.qr(lax.all_gather(r, "t", tiled=True))
    start = lax.axis_index("t") * r.shape[0]
    return q @ lax.dynamic_slice_in_dim(inner, start, r.shape[0])


@pytest.mark.parametrize("decompose", [triangular, orthogonal])
@pytest.mark.parametrize("x", [ROWS, jnp.ones((24, 5))])
def test_signs_of_decompositions_are_open(decompose: Any, x: Any) -> None:
    found = prove(decompose, x)
    assert found.ok is None and found.agrees
    assert "but for signs, which lax.qr (test_on_purpose.py:" in found.reason


@partial(mapped, in_specs=P("t"), out_specs=P("t"))
def orthogonal_by_itself(x: Any) -> Any:
    q, _ = jnp.linalg.qr(x)
    return q


def test_a_decomposition_of_each_device_is_refuted() -> None:
    assert prove(orthogonal_by_itself, ROWS).ok is False


@partial(mapped, in_specs=P("t"), out_specs=(P("t"), P()))
def loss_of_each(x: Any) -> Any:
    loss = jnp.tanh(x).mean()
    return loss[None], lax.pmean(loss, "t")


@partial(mapped, in_specs=P("t"), out_specs=(P("t"), P()))
def spread_of_each(x: Any) -> Any:
    loss = jnp.tanh(x).mean()
    return loss[None], lax.psum(loss, "t")


def test_a_result_may_have_an_entry_for_each_device() -> None:
    assert prove(loss_of_each, ROWS).agrees
    assert prove(spread_of_each, ROWS).ok is False


def stacked(x: Any) -> Any:
    return lax.psum(jnp.tanh(x).sum(0, keepdims=True).repeat(2, 0), "t")


def test_copies_are_no_entries() -> None:
    program = mapped(stacked, in_specs=P("t"), out_specs=P("t"))
    assert prove(program, ROWS).ok is False


@partial(mapped, in_specs=(P("t"), P("t")), out_specs=(P("t"), P()))
def counted(x: Any, total: Any) -> Any:
    return total + x.sum(0, keepdims=True), lax.psum(x.sum(0), "t")


@partial(mapped, in_specs=(P("t"), P("t")), out_specs=(P("t"), P()))
def counted_apart(x: Any, total: Any) -> Any:
    return total + x.sum(0, keepdims=True), x.sum(0)


def test_an_argument_may_have_an_entry_for_each_device() -> None:
    total = jnp.zeros((DEVICES, 5))
    assert prove(counted, ROWS, total).agrees
    assert prove(counted_apart, ROWS, total).ok is False


def chosen(key: Any, x: Any) -> Any:
    return jax.random.choice(key, x, (4,), replace=False)


def replayed(key: Any, x: Any) -> Any:
    return x[jax.random.randint(key, (4,), 0, x.shape[0])]


def negatives(key: Any, x: Any) -> Any:
    picked = x[jax.random.randint(key, (x.shape[0], 3), 0, x.shape[0])]
    return picked.mean(1) * x


@pytest.mark.parametrize("rows", [chosen, replayed, negatives])
def test_each_device_draws_of_its_own_rows(rows: Callable[..., Any]) -> None:
    @partial(mapped, in_specs=(P("t"), P()), out_specs=P())
    def loss(x: Any, key: Any) -> Any:
        key = jax.random.fold_in(key, lax.axis_index("t"))
        return lax.pmean(jnp.tanh(rows(key, x)).mean(), "t")

    found = prove(loss, ROWS, KEY)
    assert found.ok is None
    assert "random numbers of its own" in found.reason


def test_a_reduction_of_small_integers_is_not_refuted() -> None:
    @partial(mapped, in_specs=(P("t"), P()), out_specs=P())
    def reduced(x: Any, w: Any) -> Any:
        grad = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        scale = lax.pmax(jnp.abs(grad).max(), "t") / 127
        small = jnp.round(grad / scale).astype(jnp.int8)
        return lax.psum(small.astype(jnp.int32), "t") * scale / DEVICES

    found = prove(reduced, ROWS, jnp.ones((5, 3)))
    assert found.ok is None
    assert "each device rounds a part of its own" in found.reason


def test_numbers_that_are_rounded_later_excuse_nothing() -> None:
    @partial(mapped, in_specs=(P("t"), P()), out_specs=P())
    def levels(x: Any, w: Any) -> Any:
        return jnp.round(jnp.tanh(x @ w).sum(0) * 8)

    assert prove(levels, ROWS, jnp.ones((5, 3))).ok is False


def zeros_for_devices(x: Any) -> Any:
    return jnp.zeros(lax.axis_size("t"))


def total(x: Any) -> Any:
    return lax.psum(x.sum(0, keepdims=True), "t")


@pytest.mark.parametrize(
    ("made", "specs", "is_proved"),
    [(total, P(), True), (total, P("t"), False), (zeros_for_devices, P(), False)],
)
def test_what_is_longer_on_more_devices_is_not_proved(
    made: Callable[[Any], Any], specs: Any, is_proved: bool
) -> None:
    """Its entries along that dimension are all the same, whatever its length."""
    found = prove(mapped(made, in_specs=P("t"), out_specs=specs), ROWS)
    assert bool(found.ok) is is_proved


def test_beside_as_many_devices_shards_are_held_against_their_likes() -> None:
    """Counts of each device's own rows tell nothing beside one device, nor beside one along the axis of rows."""

    @partial(mapped, in_specs=(P("d"), P("t")), out_specs=P("t"))
    def admitted(x: Any, w: Any) -> Any:
        chosen = (x > 0).astype(jnp.int32)
        is_kept = jnp.cumsum(chosen, 0) <= 3
        total = lax.psum(jnp.where(is_kept, x, 0.0).sum(), "d")
        return w * total

    found = prove(admitted, ROWS, jnp.arange(8.0))
    assert found.ok is None
    assert "each device counts its own rows" in found.reason


def stages(x: Any, w: Any) -> Any:
    """One stage after another, each on its device."""
    for number in range(DEVICES):
        is_here = lax.axis_index("t") == number
        x = lax.psum(jnp.where(is_here, jnp.tanh(x @ w[0]), 0), "t")
    return x


def in_a_loop(x: Any, w: Any) -> Any:
    return lax.scan(lambda x, w: (stages(x, w), None), x, w)[0]


def in_two_loops(x: Any, w: Any) -> Any:
    return lax.scan(lambda x, w: (in_a_loop(x, w), None), x, w)[0]


@pytest.mark.parametrize(
    ("f", "loops"), [(stages, 0), (in_a_loop, 1), (in_two_loops, 2)]
)
def test_each_device_has_a_stage_of_its_own_in_loops_too(f: Any, loops: int) -> None:
    spec = P(*[None] * loops, "t")
    shape = (*(2,) * loops, DEVICES, 5, 5)
    w = jnp.asarray(np.random.default_rng(0).normal(size=shape), jnp.float32)
    found = prove(mapped(f, in_specs=(P(), spec), out_specs=P()), ROWS, w)
    assert found.ok is None, found.reason
    assert "each device takes the one entry that it has" in found.reason
