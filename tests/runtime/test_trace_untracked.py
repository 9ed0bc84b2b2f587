"""What leaves ``shard_map`` as replicated with ``check_vma=False``: JAX does not compare it, ``trace`` does."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import f32, trace

mesh = jax.make_mesh((2, 4), ("d", "t"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
MISSING = "what leaves shard_map as replicated was not compared"


def mapped(body: Callable[..., Any], tracks: bool) -> Any:
    """The same body, declared to return what is whole on all devices."""
    return jax.shard_map(
        body, mesh=mesh, in_specs=P("d"), out_specs=P(), check_vma=tracks
    )


def summed(x: f32["B/d M"]) -> f32["M"]:
    return lax.psum(x.sum(0), "d")


def gathered(x: f32["B/d M"]) -> f32["B M"]:
    return lax.all_gather(x, "d", axis=0, tiled=True)


def summed_in_a_loop(x: f32["B/d M"]) -> f32["M"]:
    zero = jnp.zeros(x.shape[1])
    step = lambda c, _: (c + lax.psum(x.sum(0), "d"), None)  # noqa: E731 - of one loop
    return lax.scan(step, zero, None, length=3)[0]


def alike(x: f32["B/d M"]) -> f32["M"]:
    first = lax.axis_index("d") == 0
    whole = lax.psum(x.sum(0), "d")
    return jnp.where(first, whole, whole)


@pytest.mark.parametrize("body", [summed, gathered, summed_in_a_loop, alike])
def test_right_ones_hold_and_nothing_is_left_open(body: Any) -> None:
    verdict = trace(mapped(body, tracks=False))
    assert verdict.ok is True and MISSING not in verdict.reason


def part(x: f32["B/d M"]) -> f32["M"]:
    return x.sum(0)


def part_of_a_loop(x: f32["B/d M"]) -> f32["M"]:
    zero = jnp.zeros(x.shape[1]) + 0 * x.sum(0)
    step = lambda c, _: (c + x.sum(0), None)  # noqa: E731 - of one loop
    return lax.scan(step, zero, None, length=3)[0]


def part_in_jit(x: f32["B/d M"]) -> f32["M"]:
    return jax.jit(lambda x: x.sum(0) * 2)(x)


def over_another_axis(x: f32["B/d M"]) -> f32["M"]:
    return lax.psum(x.sum(0), "t") / 4


WRONG = [part, part_of_a_loop, part_in_jit, over_another_axis]


@pytest.mark.parametrize("tracks", [False, True])
@pytest.mark.parametrize("body", WRONG)
def test_wrong_ones_fail_whether_jax_tracks_or_not(body: Any, tracks: bool) -> None:
    verdict = trace(mapped(body, tracks))
    assert verdict.ok is False
    if not tracks:
        assert "returned as replicated" in verdict.reason
        assert verdict.sizes


@pytest.mark.parametrize("body", WRONG)
@pytest.mark.parametrize("around", [jax.jit, jax.checkpoint, lambda f: partial(f)])
def test_inside_of_an_annotated_function(body: Any, around: Any) -> None:
    def f(x: f32["B/d M"]) -> f32["M"]:
        return around(mapped(body, tracks=False))(x)

    assert trace(f).ok is False


def test_what_cannot_be_compared_is_said() -> None:
    def opaque(x: f32["B/d M"]) -> f32["M"]:
        kind = jax.ShapeDtypeStruct((x.shape[1],), jnp.float32)
        return jax.pure_callback(lambda y: y, kind, x.sum(0))

    verdict = trace(mapped(opaque, tracks=False))
    assert verdict.ok is True and not verdict.proved
    assert verdict.reason.endswith(
        f"{MISSING}: with check_vma=False JAX does not track what varies"
    )


def test_a_function_that_its_caller_maps_may_return_a_part() -> None:
    def helper(x: f32["B/d M"]) -> f32["M{U:d}"]:
        lax.axis_index("d")
        return x.sum(0)

    verdict = trace(helper)
    assert verdict.ok is True, verdict.reason
    assert MISSING not in verdict.reason
