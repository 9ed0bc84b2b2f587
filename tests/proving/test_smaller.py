"""What is too large to be run in numbers is run for smaller arguments."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import prove
from shardtypes.proving.elsewhere import Kept, Shapes, smaller
from tests.proving.cases import MESH, array

mapped = partial(jax.shard_map, mesh=MESH, check_vma=False)
LARGE = (array(4096, 8192), array(8192, 32768), array(32768, 8192))
MLP = (P("d"), P(None, "t"), P("t"))


def mlp(reduced: Callable[[Any], Any]) -> Callable[..., Any]:
    """The largest of each device's largest are nothing that is proved."""

    @partial(mapped, in_specs=MLP, out_specs=P())
    def apply(x: Any, w: Any, v: Any) -> Any:
        rows = reduced(jax.nn.gelu(x @ w) @ v)
        largest, _ = lax.top_k(rows.sum(axis=1), 2)
        return lax.top_k(lax.all_gather(largest, "d", tiled=True), 2)[0]

    return apply


def test_a_large_program_is_refuted_for_smaller_arguments() -> None:
    found = prove(mlp(lambda part: part), *LARGE)
    assert found.ok is False
    assert found.reason.endswith(
        ", for smaller arguments, f32[10, 5], f32[5, 20], f32[20, 5]"
    )
    assert found.shapes == ((10, 5), (5, 20), (20, 5))
    assert found.numbers is not None
    assert [one.shape for one in found.numbers.arguments] == [*found.shapes]

    right = prove(mlp(lambda part: lax.psum(part, "t")), *LARGE)
    assert right.ok is None and right.agrees
    assert "for smaller arguments, f32[" in right.reason


def test_sizes_that_a_program_does_not_bear_stay() -> None:
    @partial(mapped, in_specs=(P("d"), P(None, "t")), out_specs=P("d"))
    def in_rows_of_64(x: Any, w: Any) -> Any:
        rows = (x @ w).reshape(x.shape[0], -1, 64)
        return lax.cummax(rows, 0).sum(axis=1)

    found = prove(in_rows_of_64, array(8192, 262_144), array(262_144, 512))
    assert found.ok is False
    # each device has more rows than there are in anything that stays
    assert found.shapes == ((258, 129), (129, 512))


def test_indices_stay_within_what_they_are_into() -> None:
    """A number of a row is not one of a table that was cut."""

    @partial(mapped, in_specs=(P("t"), P("d")), out_specs=P())
    def largest_rows(table: Any, ids: Any) -> Any:
        first = lax.axis_index("t") * table.shape[0]
        own = (ids >= first) & (ids < first + table.shape[0])
        rows = jnp.where(own, ids - first, 0)
        found = jnp.where(own[:, None], table[rows], 0)
        sums = lax.psum(found, "t").sum(axis=1)
        largest, _ = lax.top_k(sums, 2)
        every = lax.all_gather(largest, "d", tiled=True)
        return lax.top_k(every, 2)[0]

    ids = np.arange(0, 50_000, 25).astype(np.int32)
    table = array(51_200, 16_384)
    right = prove(largest_rows, table, ids)
    assert right.ok or right.agrees
    assert right.shapes == ((51_200, 48), (40,))


SIZES = st.sampled_from([1, 2, 3, 8, 12, 16, 40, 48, 96, 128, 1000, 1024, 4096])


@given(
    st.lists(
        st.lists(SIZES, min_size=1, max_size=4).map(tuple), min_size=1, max_size=4
    ),
    st.dictionaries(SIZES, st.sampled_from([1, 2, 4])),
    st.lists(st.integers(-1, 2000), max_size=3),
    st.sets(SIZES),
    st.booleans(),
    st.integers(2, 9),
)
def test_smaller_sizes_are_equal_where_the_sizes_are(
    shapes: list[tuple[int, ...]],
    parts: dict[int, int],
    indices: list[int],
    kept: set[int],
    picks: bool,
    least: int,
) -> None:
    """They are multiples of the parts, never larger, and hold the indices; sizes that the program keeps stay."""
    own: Shapes = tuple(shapes)
    parts = {size: count for size, count in parts.items() if size % count == 0}

    def can_be(others: Shapes) -> bool:
        pairs = zip(sum(own, ()), sum(others, ()), strict=True)
        return all(size == other for size, other in pairs if size in kept)

    rule = Kept(parts, 8, picks, indices, least)
    found = smaller(own, rule, can_be)
    if found is None:
        return
    assert can_be(found) and found != own
    others: dict[int, int] = {}
    for size, other in zip(sum(own, ()), sum(found, ()), strict=True):
        assert others.setdefault(size, other) == other
    changed = {size: other for size, other in others.items() if size != other}
    assert len(set(changed.values())) == len(changed)
    for size, other in changed.items():
        assert 4 <= other < size and other % parts.get(size, 1) == 0
        assert other >= least * parts.get(size, 1)
        assert not picks or other % math.gcd(size, 8) == 0
        assert not any(other <= index < size for index in indices)


@pytest.mark.parametrize("kind", ["entries", "picks"])
def test_a_reference_says_what_devices_should_take(kind: str) -> None:
    """Without one, a device may pick a piece of its own on purpose."""

    @partial(mapped, in_specs=(P("d"), P()), out_specs=P("d"))
    def own_piece(x: Any, table: Any) -> Any:
        rows = x.shape[0]
        return x * lax.dynamic_slice_in_dim(table, lax.axis_index("d") * rows, rows)

    @partial(mapped, in_specs=(P("d"), P("d")), out_specs=P("d"))
    def first_entry(x: Any, bias: Any) -> Any:
        return x * bias[0]

    f = {"entries": first_entry, "picks": own_piece}[kind]
    x, other = array(8, 4), array(2) if kind == "entries" else array(16, 4)
    meant = {
        "entries": lambda x, bias: x * jnp.repeat(bias, 4)[:, None],
        "picks": lambda x, table: x * table[:8],
    }[kind]
    assert prove(f, x, other, reference=meant).ok is not False
    assert prove(f, x, other, reference=lambda x, other: x * 3).ok is False


def neighbours(width: int) -> Callable[..., Any]:
    """Sums over the last ``width`` positions, of which the device before may have some."""

    @partial(mapped, in_specs=(P("t"), P()), out_specs=P("t"))
    def windows(x: Any, w: Any) -> Any:
        hidden = x @ w
        ring = [(i, i + 1) for i in range(lax.axis_size("t") - 1)]
        before = lax.ppermute(hidden, "t", ring)
        every = jnp.concatenate([before, hidden])
        place = jnp.arange(len(hidden))[:, None] + len(hidden)
        other = jnp.arange(len(every))[None]
        seen = (other <= place) & (other > place - width)
        return jnp.where(seen, jnp.tanh(hidden @ every.T), 0).sum(axis=1)

    return windows


@pytest.mark.parametrize("width", [3, 10, 60])
def test_positions_that_a_program_counts_stay_within_its_shards(width: int) -> None:
    """A window that one neighbour fills must not become wider than the shards."""
    large = array(16_384, 8192), array(8192, 8192)
    right = prove(neighbours(width), *large)
    assert right.ok is not False
    assert right.agrees
    assert right.shapes[0][0] >= 4 * width


def test_what_each_device_takes_of_a_replicated_array_is_divided_evenly() -> None:
    @partial(mapped, in_specs=(P("d"), P()), out_specs=P("d"))
    def in_parts(x: Any, w: Any) -> Any:
        count = w.shape[1] // lax.axis_size("t")
        own = lax.dynamic_slice_in_dim(w, lax.axis_index("t") * count, count, 1)
        largest = lax.top_k(jnp.sin(x @ own), 2)[0]
        every = lax.all_gather(largest, "t", axis=1, tiled=True)
        return lax.top_k(every, 2)[0]

    right = prove(in_parts, array(16_384, 8192), array(8192, 30_000))
    assert right.ok is not False and right.agrees
    assert right.shapes[1][1] % 4 == 0
