"""Sizes of the mesh that a program has read before it is asked, and keeps."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import prove
from tests.proving.cases import MESH, SIZES, array

AXIS = "t"
DEVICES = MESH.shape[AXIS]
ROWS_OF_EACH = 32 // DEVICES
WRITTEN = 4
x = array(32, 3)
mapped = partial(jax.shard_map, mesh=MESH, check_vma=False, out_specs=P())
sharded = partial(mapped, in_specs=P("t"))


@sharded
def of_the_module(x: Any) -> Any:
    return lax.psum(jnp.tanh(x).mean(), "t") / DEVICES


@sharded
def of_each(x: Any) -> Any:
    return lax.pmean(jnp.tanh(x).sum() / ROWS_OF_EACH, "t")


@partial(mapped, in_specs=P())
def picked(x: Any) -> Any:
    start = lax.axis_index("t") * ROWS_OF_EACH
    rows = lax.dynamic_slice_in_dim(x, start, ROWS_OF_EACH)
    return lax.psum(jnp.tanh(rows).sum(), "t")


@sharded
def round_and_round(x: Any) -> Any:
    total = jnp.zeros_like(x)
    for _ in range(DEVICES):
        total += jnp.tanh(x)
        x = lax.ppermute(x, "t", [(i, (i + 1) % DEVICES) for i in range(DEVICES)])
    return total.sum()


@dataclass(frozen=True)
class Average:
    devices: int

    def __call__(self, x: Any) -> Any:
        return lax.psum(jnp.tanh(x).mean(), "t") / self.devices


class Settings(NamedTuple):
    width: int
    ranks: int


def closing_over(ranks: int) -> Callable[[Any], Any]:
    def average(x: Any) -> Any:
        return lax.psum(jnp.tanh(x).mean(), "t") / ranks

    return average


def with_default(x: Any, scale: float = 1 / SIZES["t"]) -> Any:
    return lax.psum(jnp.tanh(x).mean(), "t") * scale


def bound(x: Any, ranks: int) -> Any:
    return lax.psum(jnp.tanh(x).mean(), "t") / ranks


KEPT: dict[str, Callable[..., Any]] = {
    "module": of_the_module,
    "rows of each": of_each,
    "rows picked": picked,
    "rounds": round_and_round,
    "object": sharded(Average(devices=MESH.shape["t"])),
}
PERHAPS: dict[str, Callable[..., Any]] = {
    "closure": sharded(closing_over(4)),
    "default": sharded(with_default),
    "partial": sharded(partial(bound, ranks=4)),
    "named tuple": sharded(
        functools.partial(
            lambda settings, x: bound(x, settings.ranks), Settings(3, ranks=4)
        )
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_was_read_from_the_mesh_is_read_again(name: str) -> None:
    found = prove(KEPT[name], x)
    assert found.ok or found.agrees
    if found.ok:
        assert any("is what would be read" in text for text in found.assumed)


@pytest.mark.parametrize("name", PERHAPS)
def test_what_may_be_made_of_the_mesh_refutes_nothing(name: str) -> None:
    found = prove(PERHAPS[name], x)
    assert found.ok is None and found.agrees
    assert "depends on the mesh, which nothing tells" in found.reason


def test_the_program_keeps_its_own_numbers() -> None:
    average = Average(MESH.shape["t"])
    settings = SimpleNamespace(ranks=4)
    for kept in (average, lambda x: bound(x, settings.ranks)):
        found = prove(sharded(kept), x)
        assert found.ok or found.agrees
    assert average.devices == settings.ranks == DEVICES == WRITTEN


def test_what_is_wrong_whatever_was_read_is_refuted() -> None:
    @sharded
    def summed(x: Any) -> Any:
        heads = x.reshape(-1, WRITTEN, 3)
        return lax.psum(jnp.tanh(heads).mean(), "t")  # mark: a sum of means

    found = prove(summed, x)
    assert found.ok is False and found.culprit is not None
    assert "mark: a sum of means" in found.culprit.place.text


@pytest.mark.parametrize("axes", [("t", "d"), ("d", "t")])
def test_flat_state_is_in_the_order_of_each_device(axes: tuple[str, str]) -> None:
    """Moments of an optimizer: each device has those of a piece of its own shard, flattened."""
    specs = (P(None, "t"), P(None, "t"), P(axes))

    def program(update: Callable[[Any], Any]) -> Callable[..., Any]:
        @partial(
            jax.shard_map,
            mesh=MESH,
            in_specs=specs,
            out_specs=specs[1:],
            check_vma=False,
        )
        def step(x: Any, w: Any, moments: Any) -> Any:
            gradient = update(jnp.tanh(w) * x).reshape(-1)
            piece = gradient.size // lax.axis_size("d")
            start = lax.axis_index("d") * piece
            moments = 0.9 * moments + lax.dynamic_slice_in_dim(gradient, start, piece)
            direction = lax.all_gather(moments, "d", tiled=True)
            return w - direction.reshape(w.shape), moments

        return step

    moments = jnp.zeros(6 * 16)
    right = prove(program(lambda g: g), array(6, 16), array(6, 16), moments)
    assert right.ok is None and right.agrees
    wrong = program(lambda g: g * lax.axis_size("t"))
    assert prove(wrong, array(6, 16), array(6, 16), moments).ok is False


def test_what_was_read_is_read_again_on_other_meshes() -> None:
    found = prove(of_the_module, x)
    assert found.ok
    verdicts = [one.ok for one in found.elsewhere]
    assert verdicts and all(verdicts)
