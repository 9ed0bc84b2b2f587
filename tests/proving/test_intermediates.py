"""How the arrays of a program move over the mesh, a line at a time: proved, seen in numbers, or not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import prove
from shardtypes.proving import follow
from tests.proving.cases import MESH, RIGHT, WRONG, array

X, W, V = array(8, 16), array(16, 32), array(32, 16)


def _mapped(
    body: Callable[..., Any], in_specs: Any, out_specs: Any
) -> Callable[..., Any]:
    return jax.shard_map(
        body, mesh=MESH, in_specs=in_specs, out_specs=out_specs, check_vma=False
    )


def _mlp(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
    hidden = jax.nn.gelu(x @ w)
    parts = hidden @ v
    total = lax.psum(parts, "t")
    return total + x


_SPECS = (P("d"), P(None, "t"), P("t"))


def test_each_line_has_what_it_computes() -> None:
    found = prove(_mapped(_mlp, _SPECS, P("d")), X, W, V).intermediates
    assert [(each.array, each.text) for each in found] == [
        ("f32[8/d, 16]", "argument 1 of shard_map"),
        ("f32[16, 32/t]", "argument 2 of shard_map"),
        ("f32[32/t, 16]", "argument 3 of shard_map"),
        ("f32[8/d, 32/t]", "hidden = jax.nn.gelu(x @ w)"),
        ("f32[8/d, 16 {U:t}]", "parts = hidden @ v"),
        ("f32[8/d, 16]", 'total = lax.psum(parts, "t")'),
        ("f32[8/d, 16]", "return total + x"),
    ]
    assert all(each.proved and not each.remark for each in found)
    for line, each in zip(str(found).splitlines(), found, strict=True):
        assert line.endswith(each.text) and each.array in line
    assert str(found[4]).endswith(
        ": f32[8/d, 16 {U:t}]: sharded over 'd' along dimension 0 and a partial sum over 't'"
    )


def test_what_no_device_computes_is_said() -> None:
    def wrong(x: jax.Array, w: jax.Array, v: jax.Array) -> jax.Array:
        parts = jax.nn.gelu(x @ w) @ v
        added = parts + x
        return lax.psum(added, "t")

    *_, parts, added, _ = prove(_mapped(wrong, _SPECS, P("d")), X, W, V).intermediates
    assert parts.array == "f32[8/d, 16 {U:t}]"
    assert (added.array, added.compared) == ("f32[4, 16]", True)
    assert (
        added.remark
        == "not what one device computes, nor a shard or a partial result of it"
    )


def test_factors_and_other_parts_are_remarks() -> None:
    def f(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        mean = jnp.mean(x)
        largest = jnp.max(x)
        return lax.pmean(mean, "t"), lax.pmax(largest, "t")

    _, mean, largest, *_ = follow(_mapped(f, P("t"), (P(), P())), (X,), {}, None)
    assert (mean.array, mean.remark) == ("f32[{U:t}]", "a per-device mean along 't'")
    assert (largest.array, largest.remark) == (
        "f32[]",
        "a per-device maximum along 't'",
    )


def test_what_is_seen_in_numbers_alone_says_so() -> None:
    def turned(x: jax.Array) -> jax.Array:
        # A way around the ring that no rule follows, and that ends where it began.
        n = lax.axis_size("t")
        for _ in range(4):
            x = lax.ppermute(x, "t", [(i, (i + 1) % n) for i in range(n)])
        return x * 2

    f = _mapped(turned, P("t"), P("t"))
    *_, last = prove(f, X).intermediates
    assert last.array == "f32[8/t, 16]"
    if not last.proved:
        assert last.remark == "sharded over 't' along dimension 0, seen in numbers"
        *_, unseen = follow(f, (X,), {}, None)
        assert (unseen.array, unseen.remark) == (
            "f32[2, 16]",
            "not compared with one device",
        )


def test_a_loop_is_told_once() -> None:
    found = prove(RIGHT["layers"].made(MESH), *RIGHT["layers"].args).intermediates
    lines = [each.place.line for each in found if each.place.file]
    assert len(lines) == len(set(lines)) and len(lines) >= 2


def test_where_nothing_is_mapped_there_is_nothing() -> None:
    assert follow(jnp.tanh, (X,), {}, "d=2") == ()
    assert str(prove(jnp.tanh, X, mesh="d=2").intermediates) == ""


@pytest.mark.parametrize("name", [*RIGHT, *WRONG])
def test_shapes_are_those_of_the_devices(name: str) -> None:
    """Of every program: the sizes of an array, divided by its axes, are the local ones."""
    case = {**RIGHT, **WRONG}[name]
    found = prove(case.made(MESH), *case.args).intermediates
    assert found
    for each in found:
        sizes = (
            each.array.partition("[")[2]
            .rstrip("]")
            .partition("{")[0]
            .replace(",", " ")
            .split()
        )
        local = []
        for text in sizes:
            size, *axes = text.split("/")
            count = 1
            for axis in axes:
                count *= each.sizes[axis]
            local.append(int(size) // count)
        assert tuple(local) == each.shape, str(each)


def test_pictures_of_how_arrays_move() -> None:
    """The parts of each array are drawn; of what is no part of what one device computes, one box that says so."""
    found = prove(_mapped(_mlp, _SPECS, P("d")), X, W, V).intermediates
    pictures = [each.drawing for each in found]
    parts = [[cut.parts for cut in one.cuts] for one in pictures]
    sharded = [one.relation.sharding(0) for one in found if one.relation is not None]
    assert len(sharded) == len(found)
    assert [
        4 if axes == ("t",) else 2 if axes == ("d",) else 1 for axes in sharded
    ] == [one[0] for one in parts]
    page = found._repr_html_()
    assert page.count("<svg") == len(found)
    assert page.count("<rect") == sum(first * second for first, second in parts)
    assert "a partial sum over &#x27;t&#x27;" in page
