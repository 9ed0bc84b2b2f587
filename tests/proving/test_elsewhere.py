"""What a proof says of other meshes and sizes, and a program beside itself on fewer devices."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec as P

from shardtypes import prove
from shardtypes.proving.elsewhere import larger, other_meshes
from shardtypes.proving.fewer_devices import fewer, in_groups
from shardtypes.proving.numbers import Numbers, Values
from tests.proving.cases import MESH, RIGHT, SIZES, array

mapped = partial(jax.shard_map, mesh=MESH, check_vma=False)
HEADS = (P(), P(), P(None, "t"), P("t"))


def test_a_proof_speaks_of_one_mesh_and_of_others_when_they_were_tried() -> None:
    case = RIGHT["mlp"]
    found = prove(case.made(MESH), *case.args)
    assert found.sizes == SIZES and found.shapes == ((8, 16), (16, 32), (32, 16))
    meshes = [{"d": 4, "t": 4}, {"d": 2, "t": 8}, {"d": 2, "t": 2}, {"d": 4, "t": 2}]
    *others, grown = found.elsewhere
    assert [dict(one.sizes) for one in others] == meshes
    assert all(one.ok and one.shapes == found.shapes for one in others)
    assert grown.ok and dict(grown.sizes) == {"d": 3, "t": 3}
    assert grown.shapes == ((72, 144), (144, 288), (288, 144))
    assert found.elsewhere is found.elsewhere


def test_the_size_of_a_mesh_that_is_written_down_is_found_elsewhere() -> None:
    @partial(mapped, in_specs=P("t"), out_specs=P())
    def average(x: Any) -> Any:
        n = lax.axis_size("t")
        return lax.psum(jnp.mean(x), "t") / (1 if n == 1 else 4)

    found = prove(average, array(32))
    assert found.ok
    said = {tuple(one.sizes.values()): one.ok for one in found.elsewhere}
    assert said == {
        (4, 4): True,
        (2, 8): False,
        (2, 2): False,
        (4, 2): False,
        (3, 3): False,
    }


def test_meshes_and_sizes_that_a_program_does_not_bear_are_left_out() -> None:
    @partial(mapped, in_specs=P("t"), out_specs=P())
    def in_fours(x: Any) -> Any:
        return lax.psum(x.reshape(-1, 4).sum(0), "t")

    found = prove(in_fours, array(16))
    assert found.ok
    assert [dict(one.sizes) for one in found.elsewhere] == [
        {"d": 4, "t": 4},
        {"d": 2, "t": 2},
        {"d": 4, "t": 2},
        {"d": 3, "t": 3},
    ]

    x = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    assert (
        prove(
            jax.pmap(lambda x: x - lax.pmean(jnp.mean(x), "i"), axis_name="i"), x
        ).elsewhere
        == ()
    )


def test_which_meshes_and_sizes() -> None:
    assert other_meshes({"d": 1}) == [{"d": 2}]
    assert other_meshes({"d": 2, "t": 2}) == [{"d": 4, "t": 2}, {"d": 2, "t": 4}]
    assert other_meshes({"t": 3}) == [{"t": 6}]
    shapes = ((4, 8), (8,), (1,))
    assert larger(shapes, 3, lambda found: True) == ((12, 24), (24,), (1,))
    assert larger(shapes, 3, lambda found: found[0][1] == 8) == ((12, 8), (8,), (1,))
    assert larger(shapes, 3, lambda found: False) is None
    assert larger(((), (1,)), 3, lambda found: True) is None


def _shared_heads(reduced: Any, group: Any = lambda rank, n: rank * 2 // n) -> Any:
    """Four heads of queries share two of keys, on more devices than these are."""

    @partial(mapped, in_specs=HEADS, out_specs=P())
    def attention(x: Any, keys: Any, queries: Any, out: Any) -> Any:
        head = group(lax.axis_index("t"), lax.axis_size("t"))
        own = lax.dynamic_index_in_dim(keys, head, axis=0, keepdims=False)
        scores = jnp.tanh(
            (x @ queries).reshape(x.shape[0], -1, own.shape[1]) * (x @ own)[:, None]
        )
        return reduced(scores.reshape(x.shape[0], -1) @ out)

    return attention


_ATTENTION = array(8, 16), array(2, 16, 3), array(16, 12), array(12, 16)


def test_pieces_that_devices_pick_are_compared_with_those_of_fewer_devices() -> None:
    """On one device there is the first piece alone; on two there are both."""
    found = prove(_shared_heads(lambda part: lax.psum(part, "t")), *_ATTENTION)
    assert found.ok is None and found.agrees
    assert "agree with those of d=1, t=2" in found.reason

    added = _shared_heads(
        lambda part: lax.psum(part + 1.0, "t")  # mark: added too often
    )
    found = prove(added, *_ATTENTION)
    assert found.ok is False and found.culprit is not None
    assert found.culprit.what == (
        "`+` is applied to a partial sum over 't' and what is replicated: call lax.psum(…, 't') first"
    )
    assert "mark: added too often" in found.culprit.place.text
    assert "on devices" in found.reason and "on d=1, t=2" in found.reason


def test_pieces_of_fewer_devices_that_are_others_tell_nothing() -> None:
    found = prove(
        _shared_heads(lambda part: lax.psum(part, "t"), lambda rank, n: rank % 2),
        *_ATTENTION,
    )
    assert found.ok is None and found.agrees is False
    assert "picks a piece of its own" in found.reason


def test_groups_of_devices_are_further_draws() -> None:
    held = np.arange(2 * 4 * 3).reshape(2, 4, 3)  # d, t, draws
    found = in_groups(
        Numbers([Values(held, ("d", "t"))], {0: Values(held[:, 0], ("d",))}), "t", 2
    )
    (values,) = found.results
    assert values.axes == ("d", "t") and values.array.shape == (2, 2, 6)
    np.testing.assert_array_equal(values.array[:, :, :3], held[:, :2])
    np.testing.assert_array_equal(values.array[:, :, 3:], held[:, 2:])
    np.testing.assert_array_equal(
        found.inside[0].array, np.concatenate([held[:, 0]] * 2, axis=1)
    )
    assert [fewer(size) for size in (1, 2, 3, 4, 6, 9)] == [1, 1, 1, 2, 3, 3]


def experts(meet: Any, out_specs: Any) -> Any:
    """As many experts as there are devices along ``t``: each device has one."""

    @partial(mapped, in_specs=(P("t"), P()), out_specs=out_specs)
    def mixture(weights: Any, x: Any) -> Any:
        return meet(jnp.tanh(x @ weights[0]))

    return mixture


_EXPERTS = array(SIZES["t"], 6, 5), array(3, 6)


def test_the_one_entry_that_each_device_has_is_not_the_first_of_them_all() -> None:
    mixture = experts(lambda part: lax.psum(part, "t"), P())
    found = prove(mixture, *_EXPERTS)
    assert found.ok is None
    assert "each device takes the one entry that it has" in found.reason

    def meaning(weights: Any, x: Any) -> Any:
        return jnp.tanh(x @ weights).sum(0)

    assert prove(mixture, *_EXPERTS, reference=meaning).agrees
    forgotten = experts(lambda part: part, P())
    assert prove(forgotten, *_EXPERTS, reference=meaning).ok is False


def test_what_is_made_of_the_one_entry_is_returned_as_it_is() -> None:
    found = prove(experts(lambda part: part, P()), *_EXPERTS)
    assert found.ok is False and found.culprit is not None
    assert "differs along 't' but is returned as replicated" in found.culprit.what
    assert prove(experts(lambda part: part, P("t")), *_EXPERTS).ok is None


def test_one_row_of_many_is_no_entry_that_a_device_has_alone() -> None:
    @partial(mapped, in_specs=P("t"), out_specs=P())
    def first(x: Any) -> Any:
        return lax.psum(x[0], "t")

    assert prove(first, array(16, 3)).ok is False


def graph(nodes: Any, senders: Any, receivers: Any) -> Any:
    """Each device has a part of a graph, whose nodes and edges are numbered from zero in each part."""
    message = jnp.tanh(nodes[senders])
    return jax.ops.segment_sum(message, receivers, num_segments=nodes.shape[0])


def test_indices_into_a_shard_are_not_those_of_the_whole() -> None:
    mesh = partial(mapped, in_specs=P("t"), out_specs=P("t"))
    nodes = array(20, 3)
    edges = jnp.arange(28) * 3 % 5
    found = prove(mesh(graph), nodes, edges, edges[::-1])
    assert found.ok is None
    assert "indices into what it holds itself" in found.reason

    @partial(mapped, in_specs=P("t"), out_specs=P())
    def looked_up(nodes: Any, senders: Any) -> Any:
        return lax.psum(jnp.tanh(nodes[senders]).sum(), "t")

    rows_of_all = jnp.arange(28) * 3 % 20
    assert prove(looked_up, nodes, rows_of_all).ok is False
    assert prove(looked_up, nodes, edges).ok is None


def test_what_is_mapped_in_each_round_of_a_loop_is_followed() -> None:
    mixture = experts(lambda part: lax.psum(part, "t"), P())

    def layers(weights: Any, x: Any) -> Any:
        def layer(x: Any, weights: Any) -> Any:
            return mixture(weights, x), None

        return lax.scan(layer, x, weights)[0]

    found = prove(layers, array(3, SIZES["t"], 5, 5), array(3, 5))
    assert found.ok is None
    assert "each device takes the one entry that it has" in found.reason
