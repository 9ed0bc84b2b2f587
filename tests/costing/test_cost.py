"""``shardtypes.cost`` on programs whose cost can be told by hand; no devices."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType, NamedSharding, reshard
from jax.sharding import PartitionSpec as P

import shardtypes
from shardtypes import f32, typed_shard_map
from shardtypes.costing import Cost
from shardtypes.proving.program import dims_of

EXPLICIT = AbstractMesh((2, 4), ("d", "t"), axis_types=(AxisType.Explicit,) * 2)
AUTO = AbstractMesh((2, 4), ("d", "t"), axis_types=(AxisType.Auto,) * 2)


def array(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def typed(spec: P, *shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(
        shape, jnp.float32, sharding=NamedSharding(EXPLICIT, spec)
    )


def sent(found: Cost) -> list[tuple[str, tuple[str, ...], int, int]]:
    return [(one.collective, one.axes, one.bytes, one.count) for one in found.moved]


def mapped(local: Any, ins: Any, out: Any) -> Any:
    return jax.shard_map(local, in_specs=ins, out_specs=out, check_vma=False)


@typed_shard_map
def row_parallel(x: f32["B/d F/t"], w: f32["F/t M"], bias: f32["M"]) -> f32["B/d M"]:
    return lax.psum(x @ w, "t") + bias


def test_held_and_sent_by_hand() -> None:
    arrays = array(16, 32), array(32, 64), array(64)
    found = shardtypes.cost(row_parallel, *arrays, mesh="d=2,t=4")
    assert [(one.name, one.array, one.bytes) for one in found.arguments] == [
        ("x", "f32[16/d, 32/t]", 256),
        ("w", "f32[32/t, 64]", 2048),
        ("bias", "f32[64]", 256),
    ]
    assert [one.name for one in found.whole()] == ["bias"]
    assert found.whole(above=256) == []
    assert [one.bytes for one in found.results] == [2048]
    # a psum of 8 x 64 floats over four devices
    assert sent(found) == [("psum", ("t",), 2 * 3 * 2048 // 4, 1)]
    assert found.moved[0].place.text == 'return lax.psum(x @ w, "t") + bias'
    assert found.by_line == {found.moved[0].source: 3072}
    assert found.by_axes == {("t",): 3072}
    assert (found.bytes_held, found.bytes_moved) == (4608, 3072)
    assert found.uncounted == ()


def test_in_words() -> None:
    arrays = array(16, 32), array(32, 64), array(64)
    found = shardtypes.cost(row_parallel, *arrays, mesh="d=2,t=4")
    line = found.moved[0].place.line
    assert str(found) == "\n".join(
        [
            "row_parallel on d=2, t=4: each device holds 4,608 bytes and sends 3,072",
            "  arguments: 2,560 bytes",
            "    x     f32[16/d, 32/t]  256 bytes",
            "    w     f32[32/t, 64]    2,048 bytes",
            "    bias  f32[64]          256 bytes, whole on every device",
            "  results: 2,048 bytes",
            "    result  f32[16/d, 64]  2,048 bytes",
            "  sent: 3,072 bytes",
            f"    test_cost.py:{line}  psum over 't'  3,072 bytes",
        ]
    )


@pytest.mark.parametrize(
    ("local", "ins", "out", "wanted"),
    [
        (
            lambda x: lax.all_gather(x, "d", tiled=True),
            P("d"),
            P(),
            ("all_gather", ("d",), 1024),
        ),
        (
            lambda x: lax.psum_scatter(x, "t", tiled=True),
            P(),
            P("t"),
            ("reduce_scatter", ("t",), 1536),
        ),
        (
            lambda x: lax.all_to_all(x, "t", 1, 0, tiled=True),
            P("t"),
            P(None, "t"),
            ("all_to_all", ("t",), 384),
        ),
        (
            lambda x: lax.ppermute(x, "t", [(0, 1), (1, 2)]),
            P("t"),
            P("t"),
            ("ppermute", ("t",), 512),
        ),
        (
            lambda x: lax.psum(x, ("d", "t")),
            P(("d", "t")),
            P(),
            ("psum", ("d", "t"), 448),
        ),
        (lambda x: lax.pmax(x, "t"), P("t"), P(), ("pmax", ("t",), 768)),
        (
            lambda x: lax.psum(x, "t", axis_index_groups=[[0, 1], [2, 3]]),
            P("t"),
            P("t"),
            ("psum", ("t",), 512),
        ),
    ],
)
def test_each_collective(local: Any, ins: Any, out: Any, wanted: Any) -> None:
    found = shardtypes.cost(mapped(local, ins, out), array(16, 32), mesh="d=2,t=4")
    assert [one[:3] for one in sent(found)] == [wanted]


def test_axes_of_one_device_cost_nothing() -> None:
    arrays = array(16, 32), array(32, 64), array(64)
    found = shardtypes.cost(row_parallel, *arrays, mesh="d=1,t=1")
    assert (found.moved, found.whole()) == ((), [])
    assert found.bytes_held == 4 * (16 * 32 + 32 * 64 + 64 + 16 * 64)


def test_a_scan_counts_each_round_and_a_while_loop_one() -> None:
    def step(x: Any) -> Any:
        return lax.psum(x, "t") / 4

    def scanned(x: Any) -> Any:
        return lax.scan(lambda x, _: (step(x), None), x, length=5)[0]

    def repeated(x: Any) -> Any:
        return lax.while_loop(lambda x: jnp.sum(x) > 1, step, x)

    once = 2 * 3 * 2048 // 4
    found = shardtypes.cost(
        mapped(scanned, P(), P()), array(16, 32), mesh={"d": 2, "t": 4}
    )
    assert sent(found) == [("psum", ("t",), 5 * once, 5)]
    assert "(5 times)" in str(found)
    found = shardtypes.cost(
        mapped(repeated, P(), P()), array(16, 32), mesh={"d": 2, "t": 4}
    )
    assert sent(found) == [("psum", ("t",), once, 1)]
    assert found.moved[0].at_least
    assert str(found).endswith("3,072 bytes a round")


def test_of_branches_the_dearest_counts() -> None:
    def local(x: Any) -> Any:
        return lax.cond(
            x[0, 0] > 0,
            lambda x: lax.psum(x, "t"),
            lambda x: lax.ppermute(x, "t", [(0, 1)]),
            x,
        )

    found = shardtypes.cost(mapped(local, P(), P()), array(16, 32), mesh="d=2,t=4")
    assert sent(found) == [("psum", ("t",), 3072, 1)]


def test_between_two_regions_the_compiler_sends() -> None:
    """What leaves one in shards and enters the other whole is gathered."""

    def both(x: Any) -> Any:
        rows = mapped(jnp.tanh, P("d"), P("d"))(x)
        return mapped(jnp.sin, P(), P())(2 * rows)

    found = shardtypes.cost(both, array(16, 32), mesh="d=2,t=4")
    assert sent(found) == [("all_gather", ("d",), 1024, 1)]
    assert (found.moved[0].by, found.uncounted) == ("shard", ())


def test_rows_of_vmap_are_on_one_device() -> None:
    def local(x: Any) -> Any:
        def row(x: Any) -> Any:
            return lax.psum(x - lax.pmean(x, "rows"), "t")

        return jax.vmap(row, axis_name="rows")(x)

    found = shardtypes.cost(mapped(local, P(), P()), array(16, 32), mesh="d=2,t=4")
    assert sent(found) == [("psum", ("t",), 3072, 1)]
    assert dict(found.sizes) == {"d": 2, "t": 4}


def test_pmap() -> None:
    found = shardtypes.cost(
        jax.pmap(lambda x: lax.psum(x, "i"), axis_name="i"), array(8, 32)
    )
    assert sent(found) == [("psum", ("i",), 2 * 7 * 128 // 8, 1)]
    assert [one.bytes for one in found.arguments] == [128]


def test_explicit_axes() -> None:
    def layer(x: Any, w: Any, b: Any) -> Any:
        y = jnp.dot(x, w, out_sharding=P("d", None))
        return jnp.sum(jnp.tanh(y + b)), reshard(y, P(None, "d"))

    found = shardtypes.cost(
        layer,
        typed(P("d", "t"), 16, 32),
        typed(P("t"), 32, 64),
        typed(P(), 64),
        mesh=EXPLICIT,
    )
    assert [(one.collective, one.by, one.bytes) for one in found.moved] == [
        ("psum", "dot_general", 3072),
        ("psum", "reduce_sum", 4),
        ("all_to_all", "reshard", 1024),
    ]
    assert [one.array for one in found.results] == ["f32[]", "f32[16, 64/d]"]
    assert [one.name for one in found.whole(above=4)] == ["b"]
    assert found.uncounted == ()


def test_partial_sums_that_types_keep_are_added_where_they_are_asked_for() -> None:
    def f(x: Any, w: Any) -> Any:
        parts = jnp.dot(x, w, out_sharding=P("d", None, unreduced={"t"}))
        return reshard(parts, P("d", "t"))

    arrays = typed(P("d", "t"), 16, 32), typed(P("t"), 32, 64)
    found = shardtypes.cost(f, *arrays, mesh=EXPLICIT)
    assert sent(found) == [("reduce_scatter", ("t",), 1536, 1)]


def test_specs_of_partial_sums_have_dimensions_like_others() -> None:
    """JAX does not let such a spec be iterated over."""
    spec = P("d", None, unreduced={"t"})
    assert dims_of(spec, array(16, 8, 4)) == (("d",), (), ())
    assert dims_of(P(("d", "t")), array(16, 8)) == (("d", "t"), ())


def test_what_types_do_not_tell_is_listed() -> None:
    def f(table: Any, rows: Any) -> Any:
        return jnp.sort(table, axis=1)[:8], table.at[rows].get(
            out_sharding=P("d", None)
        )

    rows = jax.ShapeDtypeStruct(
        (16,), jnp.int32, sharding=NamedSharding(EXPLICIT, P("d"))
    )
    found = shardtypes.cost(f, typed(P("t"), 16, 32), rows, mesh=EXPLICIT)
    assert all(place.line == found.uncounted[0][0].line for place, _ in found.uncounted)
    assert [why for _, why in found.uncounted] == [
        "slice: what it sends on explicit axes does not follow from its types",
        "broadcast_in_dim: partitioned by the compiler",
        "gather: partitioned by the compiler",
    ]
    assert "  not counted\n    test_cost.py:" in str(found)


def test_what_the_compiler_partitions_is_listed() -> None:
    sharded = NamedSharding(AUTO, P("d"))
    f = jax.jit(lambda x, w: x @ w, in_shardings=(sharded, None))
    found = shardtypes.cost(f, array(16, 32), array(32, 32), mesh="d=2,t=4")
    x, w = found.arguments
    assert (x.array, x.bytes, x.placed) == ("f32[16/d, 32]", 1024, True)
    assert (w.bytes, w.placed) == (4096, False)
    assert [why for _, why in found.uncounted] == [
        "dot_general: partitioned by the compiler"
    ]
    assert "if the compiler does not shard it" in str(found)


def test_trees_have_paths_and_what_is_no_array_is_taken_as_it_is() -> None:
    def f(params: Any, x: Any, *, name: str) -> Any:
        assert name == "layer"
        return {"y": mapped(lambda w, x: x @ w, (P(), P("d")), P("d"))(params["w"], x)}

    found = shardtypes.cost(
        f, {"w": array(32, 8)}, x=array(16, 32), name="layer", mesh="d=2,t=4"
    )
    assert [one.name for one in found.arguments] == ["params['w']", "x"]
    assert [one.name for one in found.results] == ["result['y']"]


def test_as_plain_data() -> None:
    found = shardtypes.cost(
        row_parallel, array(16, 32), array(32, 64), array(64), mesh="d=2,t=4"
    ).to_dict()
    assert found["mesh"] == {"d": 2, "t": 4}
    assert found["bytes_moved"] == 3072
    (row,) = found["moved"]
    assert (row["collective"], row["axes"], row["by"]) == ("psum", ["t"], "psum")


def test_what_is_no_function_or_mesh() -> None:
    with pytest.raises(TypeError, match="cost takes a function and its example arg"):
        shardtypes.cost(3)  # type: ignore[arg-type]  # the mistake
    with pytest.raises(ValueError, match="is not an axis; write axes like"):
        shardtypes.cost(row_parallel, array(4, 4), mesh="d")
