"""What the compiler put in, in every form in which XLA writes down who talks with whom."""

from __future__ import annotations

import pytest

from shardtypes.protobuf import BadMessage, Message

from .conftest import Run


def test_messages() -> None:
    message = Message.parse(
        b"\x08\x96\x01\x12\x02hi\x1a\x03\x01\x02\x03\x22\x02\x08\x05"
    )
    assert (message.number(1), message.text(2), message.numbers(3)) == (
        150,
        "hi",
        [1, 2, 3],
    )
    assert [part.number(1) for part in message.messages(4)] == [5]
    assert (message.number(9), message.text(9), message.message(9)) == (0, "", None)


@pytest.mark.parametrize("data", [b"\x12\x05hi", b"\x08\xff", b"\x0b"])
def test_no_message(data: bytes) -> None:
    with pytest.raises(BadMessage):
        Message.parse(data)


def test_every_kind(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(
        """
        import jax, jax.numpy as jnp, pytest
        from jax.sharding import NamedSharding as N, PartitionSpec as P

        LAX = {
            ('all_reduce', ('t',)): lambda x: jax.lax.psum(x, 't'),
            ('all_reduce', ('d', 't')): lambda x: jax.lax.psum(x, ('d', 't')),
            ('all_gather', ('d',)): lambda x: jax.lax.all_gather(x, 'd'),
            ('reduce_scatter', ('t',)): lambda x: jax.lax.psum_scatter(x, 't', tiled=True),
            ('all_to_all', ('t',)): lambda x: jax.lax.all_to_all(x, 't', 0, 1, tiled=True),
            ('ppermute', ('t',)): lambda x: jax.lax.ppermute(x, 't', [(i, (i + 1) % 4) for i in range(4)]),
        }

        @pytest.mark.mesh(d=2, t=4)
        def test_manual(collectives):
            for wanted, f in LAX.items():
                g = jax.shard_map(f, in_specs=P('d', 't'), out_specs=P(('d', 't')), check_vma=False)
                (entry,) = collectives(lambda x: g(x).sum(0), jnp.ones((32, 32)))[:1]
                assert (entry.kind, entry.axes) == wanted, entry
                assert entry.bytes > 0 and 'test_every_kind' in entry.source

        @pytest.mark.mesh(d=2, t=4)
        def test_inserted_by_the_partitioner(mesh, collectives, assert_collectives):
            x = jax.device_put(jnp.ones((16, 16)), N(mesh, P('d', 't')))
            w = jax.device_put(jnp.ones((16, 32)), N(mesh, P('t', None)))
            assert {(e.kind, e.axes) for e in collectives(lambda x, w: x @ w, x, w)} == {('all_reduce', ('t',))}
            gather = jax.jit(lambda x: x * 2, out_shardings=N(mesh, P()))
            assert {a for e in collectives(gather, x) for a in e.axes} == {'d', 't'}
            assert_collectives(lambda x: x + 1, x, total=0)
            with pytest.raises(TypeError, match="not 'gather'"):
                assert_collectives(lambda x: x + 1, x, gather=0)

        @pytest.mark.mesh(d=1, t=1)
        def test_one_device(collectives):
            g = jax.shard_map(LAX['all_reduce', ('t',)], in_specs=P('d', 't'), out_specs=P('d'), check_vma=False)
            assert collectives(g, jnp.ones((4, 4))) == ()
        """
    )
    run("--shardtypes").assert_outcomes(passed=3)


@pytest.mark.once
def test_golden_files(pytester: pytest.Pytester, run: Run) -> None:
    """Missing, written, the same, changed; one file for each mesh."""
    pytester.makeini("[pytest]\nshardtypes = true")
    source = """
        import jax, jax.numpy as jnp, pytest
        from jax.sharding import PartitionSpec as P

        @pytest.mark.meshes("d=2,t=4", "d=1,t=1")
        def test_golden(assert_collectives):
            f = jax.shard_map(lambda x: jax.lax.psum(x, 't'), in_specs=P('d', 't'), out_specs=P('d'), check_vma=False)
            assert_collectives(f, jnp.ones((8, 8)), golden="summed")

        def test_bad_name(assert_collectives):
            with pytest.raises(ValueError, match="is to be a file's name"):
                assert_collectives(lambda x: x, 1.0, golden="../x")
            with pytest.raises(TypeError, match="needs counts"):
                assert_collectives(lambda x: x, 1.0)
    """
    file = pytester.makepyfile(source)
    run("--shardtypes-update").assert_outcomes(passed=3)
    assert (
        pytester.path / "golden/summed[d=2,t=4].txt"
    ).read_text() == "1 x all_reduce over t, 32 bytes\n"
    assert (
        pytester.path / "golden/summed[d=1,t=1].txt"
    ).read_text() == "no collectives\n"

    (pytester.path / "golden/summed[d=1,t=1].txt").unlink()
    text = file.read_text()
    same = text[text.index("@pytest") : text.index("def test_bad_name")].replace(
        "test_golden", "test_same"
    )
    file.write_text(text.replace("psum(x, 't')", "psum(x, ('d', 't'))") + "\n" + same)
    changed = run()
    changed.assert_outcomes(passed=2, failed=3)
    changed.stdout.fnmatch_lines(
        [
            "the collectives are no longer those of golden/summed[[]d=2,t=4].txt:",
            "- 1 x all_reduce over t, 32 bytes",
            "+ 1 x all_reduce over d,t, 32 bytes",
            "if that is right, run once with --shardtypes-update",
            "there is no golden file golden/summed[[]d=1,t=1].txt; the function has",
            "  no collectives",
            "if that is right, run once with --shardtypes-update",
        ]
    )
