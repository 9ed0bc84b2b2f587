"""The ways in which the fixture ``variant`` runs a function, and the fixture ``assert_max_traces``."""

from __future__ import annotations

import pytest

from .conftest import Run

VARIANTS = """
    import jax, jax.numpy as jnp, numpy as np, pytest

    WAYS = []

    def scaled(tree, by, how="up"):
        # the linter and the run see the same function, whatever runs it
        x = tree["x"]
        WAYS.append((type(x).__name__, np.shape(x), how))
        return {"y": x * by if how == "up" else x / by, "n": x.sum()}

    def test_every_way(variant):
        f = variant(scaled, static_argnames=("how",))
        found = f({"x": jnp.arange(6.0).reshape(2, 3)}, 2.0, how="down")
        np.testing.assert_allclose(found["y"], np.arange(6.0).reshape(2, 3) / 2)
        assert found["y"].shape == (2, 3) and found["n"].shape == () and float(found["n"]) == 15

    @pytest.mark.variants("jit", "shard_map")
    @pytest.mark.mesh(d=2, t=4)
    def test_two_ways_on_a_mesh(variant):
        def place(x):
            return x + (jax.lax.axis_size("t") if str(variant) == "shard_map" else 4)

        assert variant(place)(jnp.zeros(3)).tolist() == [4, 4, 4]

    @pytest.mark.variants("vmap")
    def test_keys(variant):
        key = jax.random.key(3)
        assert jnp.array_equal(variant(jax.random.uniform)(key), jax.random.uniform(key))

    def test_all_were_run():
        assert len(WAYS) == 4 and all(shape == (2, 3) for _, shape, _ in WAYS)
        assert [how for _, _, how in WAYS] == ["down"] * 4
        assert sum("Tracer" in kind for kind, _, _ in WAYS) == 3
"""


def test_each_way_gives_the_functions_result(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(VARIANTS)
    result = run("--shardtypes", "-v", "--strict-markers")
    result.assert_outcomes(passed=8)
    for name in ("eager", "jit", "vmap", "shard_map"):
        assert any(f"test_every_way[{name}] PASSED" in line for line in result.outlines)
    named = [line for line in result.outlines if "test_two_ways" in line]
    assert [line.split("[")[1].split("]")[0] for line in named] == ["jit", "shard_map"]


def test_copies_that_differ_fail(pytester: pytest.Pytester, run: Run) -> None:
    """What a function takes from the device that it runs on is no function of its arguments."""
    pytester.makepyfile(
        """
        import jax, jax.numpy as jnp, pytest

        @pytest.mark.variants("shard_map")
        @pytest.mark.mesh(d=4)
        def test_place(variant):
            def place(x):
                return x + jax.lax.axis_index("d")
            variant(place)(jnp.zeros(3))
        """
    )
    result = run("--shardtypes")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*place under shard_map: copy 1 of it gives another result than copy 0, of the same arguments"
        ]
    )


@pytest.mark.once
@pytest.mark.parametrize(
    ("test", "message"),
    [
        (
            "@pytest.mark.variants('pmap')\ndef test_it(variant): pass",
            "there is no variant 'pmap'; there are eager, jit, vmap, shard_map",
        ),
        (
            "@pytest.mark.variants('jit')\ndef test_it(): pass",
            "a test with the marker variants takes the fixture variant",
        ),
    ],
)
def test_bad_markers(
    pytester: pytest.Pytester, run: Run, test: str, message: str
) -> None:
    pytester.makepyfile(f"import pytest\n{test}")
    result = run("--shardtypes")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines([f"*test_it: {message}"])


TRACES = """
    from functools import partial
    import jax, jax.numpy as jnp, pytest

    def double(x, n=1, name=""):
        return x * 2

    def test_one_trace_for_two_calls(assert_max_traces):
        f = jax.jit(assert_max_traces(double, 1))
        f(jnp.ones(3)), f(jnp.zeros(3))

    def test_another_shape(assert_max_traces):
        f = jax.jit(assert_max_traces(double, 1))
        f(jnp.ones(3)), f(jnp.ones(4))

    def test_eager_calls_are_no_traces(assert_max_traces):
        f = assert_max_traces(double, 0)
        assert f(jnp.ones(3)).shape == (3,) and f(1) == 2
        jax.jit(f)(jnp.ones(3))

    def test_compiled(assert_max_traces):
        f = assert_max_traces(jax.jit(double, static_argnames=("name",)), 2)
        f(jnp.ones(3), name="a"), f(jnp.ones(3), name="b"), f(jnp.ones(3), name="b")
        f(jnp.ones(3, "int32"), name="b")

    def test_donated(assert_max_traces):
        f = assert_max_traces(jax.jit(double, donate_argnums=0), 1)
        f(jnp.ones(3)), f(jnp.ones(3))

    def test_made_anew(assert_max_traces):
        f = assert_max_traces(double, 1)
        for _ in range(2):
            jax.jit(lambda x: f(x))(jnp.ones(3))

    def test_no_number(assert_max_traces):
        with pytest.raises(ValueError, match="0 times or more, not -1"):
            assert_max_traces(double, -1)
"""


def test_a_trace_too_many_says_what_differs(
    pytester: pytest.Pytester, run: Run
) -> None:
    pytester.makepyfile(TRACES)
    result = run("--shardtypes", "-v", "-p", "no:randomly")
    result.assert_outcomes(passed=3, failed=4)
    for test in ("one_trace_for_two_calls", "donated", "no_number"):
        assert any(f"test_{test} PASSED" in line for line in result.outlines)
    result.stdout.fnmatch_lines(
        [
            "double was traced 2 times, at most 1 is allowed",
            "  x: f32[[]3], then f32[[]4]",
            "double was traced once, at most 0 is allowed",
            "double was compiled 3 times, at most 2 is allowed",
            "  x: f32[[]3]*, then i32[[]3]*",
            "double was traced 2 times, at most 1 is allowed",
            "  with arguments of the same types as the time before",
        ]
    )
