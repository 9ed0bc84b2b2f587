"""A small project under ``pytest --shardtypes``: its packages are checked, and the fixtures say what is wrong."""

from __future__ import annotations

import json
import re

import pytest

from .conftest import Run

MODEL = """
    from __future__ import annotations
    import jax
    from jax.sharding import PartitionSpec as P
    from shardtypes import f32, pytree_dataclass

    @pytree_dataclass
    class Layer:
        w: f32['M F/t']

    def mlp(x: f32['B/d M'], w: f32['M F/t']) -> f32['B/d F/t']:
        return x @ w

    def never(x: f32['B/d M']) -> f32['B/d M']:
        return x

    def mapped(f):
        return jax.shard_map(f, in_specs=(P('d', 't'), P('t')), out_specs=P('d'), check_vma=False)

    def summed(x: f32['B/d M/t'], w: f32['M/t F']) -> f32['B/d F']:
        return mapped(lambda x, w: jax.lax.psum(x @ w, 't'))(x, w)

    def forgotten(x: f32['B/d M/t'], w: f32['M/t F']) -> f32['B/d F']:
        return mapped(lambda x, w: x @ w)(x, w)

    def doubled(x: f32['B/d M/t'], w: f32['M/t F']) -> f32['B/d F']:
        return mapped(lambda x, w: jax.lax.psum(jax.lax.psum(x @ w, 't'), 't'))(x, w)
"""

HEAD = """
    import jax.numpy as jnp, numpy as np, pytest
    from model import layers
    from shardtypes import f32

    pytestmark = pytest.mark.mesh(d=2, t=4)
    X = np.arange(4 * 8, dtype='float32').reshape(4, 8) / 10
    W = np.arange(8 * 16, dtype='float32').reshape(8, 16) / 10
"""

RIGHT = """
    def test_mlp(shard, assert_sharding, layout):
        x, w = shard(jnp.asarray(X), f32['B/d M']), shard(jnp.asarray(W), f32['M F/t'])
        y = layers.mlp(x, w)
        assert_sharding(y, 'B/d F/t')
        assert_sharding({'a': [y, x]}, {'a': [f32['B/d F/t'], b'B/d M']})
        assert str(layout(y)) == '4/d 16/t'

    def test_layer(shard, assert_sharding):
        layer = shard(layers.Layer(jnp.asarray(W)), layers.Layer)
        assert_sharding(layer, layers.Layer)
        assert_sharding([layer], list[layers.Layer])

    def test_invariant(mesh_invariant):
        mesh_invariant(layers.summed, X, W)
        mesh_invariant(lambda x, w: {'y': x @ w}, X, W)

    def test_collectives(shard, collectives, assert_collectives):
        x, w = shard(jnp.asarray(X), f32['B/d M/t']), shard(jnp.asarray(W), f32['M/t F'])
        (only,) = collectives(layers.summed, x, w)
        assert (only.kind, only.axes, only.bytes) == ('all_reduce', ('t',), 2 * 16 * 4)
        assert only.source.endswith('layers.py:20')
        assert_collectives(layers.summed, x, w, psum=1, all_gather=0, total=1)
"""

WRONG = """
    def test_layout(shard, assert_sharding):
        assert_sharding(shard(jnp.asarray(X), f32['B/d M']), 'B M/t')

    def test_tree(shard, assert_sharding):
        assert_sharding({'a': shard(jnp.asarray(X), f32['B/d M'])}, {'a': f32['B/d M'], 'b': 'B'})

    def test_one_size_throughout(shard, assert_sharding):
        assert_sharding([jnp.ones(2), jnp.ones(3)], ['B', 'B'])

    def test_call(shard):
        layers.mlp(shard(jnp.asarray(X), f32['B/d M']), shard(jnp.asarray(W), f32['M/t F']))

    def test_forgotten(mesh_invariant):
        mesh_invariant(layers.forgotten, X, W)

    def test_doubled(mesh_invariant):
        mesh_invariant(layers.doubled, X, W)

    def test_collectives(shard, assert_collectives):
        x, w = shard(jnp.asarray(X), f32['B/d M/t']), shard(jnp.asarray(W), f32['M/t F'])
        assert_collectives(layers.summed, x, w, all_gather=1)
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A root directory with a package ``model`` and a folder of tests beside it."""
    package = pytester.mkpydir("model")
    pytester.makepyfile(layers=MODEL)
    (pytester.path / "layers.py").rename(package / "layers.py")
    pytester.makepyprojecttoml(
        "[tool.pytest]\nshardtypes = true\nshardtypes_trace = false\n"
        'pythonpath = ["."]\nshardtypes_report = "out/r.json"'
    )
    return pytester


def test_correct_project(project: pytest.Pytester, run: Run) -> None:
    project.makepyfile(test_right=HEAD + RIGHT)
    result = run()
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(
        [
            "shardtypes: 8 CPU devices; checks model",
            "checks run: * sharding*, * shape",
            "annotated functions reached: 2 of 5",
            "never called by a test:",
            "  model.layers.never (*layers.py:*)",
            "sharded dimensions verified where their axis is larger than 1: 8 of 18",
            "report: *r.json",
        ]
    )
    report = json.loads((project.path / "out/r.json").read_text())
    assert "model.layers.never" in report["unreached"]
    assert report["functions"]["model.layers.mlp"] == 1
    assert report["checks"]["sharding"] > 0
    assert 0 < report["checking"]["model.layers.mlp"] < 60
    assert ["model.layers.mlp", "the result", "f32['B/d F/t']", "d=2, t=4"] in report[
        "layouts"
    ]
    (compiled,) = report["collectives"].values()
    assert compiled[0].startswith("all_reduce over t, 128 bytes, from ")
    assert {test.rpartition("::")[2] for test in report["seconds"]} >= {
        "test_mlp",
        "test_layer",
    }


def test_every_mistake_is_named(project: pytest.Pytester, run: Run) -> None:
    project.makepyfile(test_wrong=HEAD + WRONG)
    result = run("--shardtypes-report=out/r.html")
    result.assert_outcomes(failed=7)
    result.stdout.fnmatch_lines(
        [
            "E * value: dimension 0 is sharded over 'd', expected not sharded",
            "E * value: expected the keys*'a'*'b'*, got the keys*'a'*",
            "E * value[[]1[]]: *",
            "E * mlp: parameter 'w': dimension 0 is sharded over 't', expected not sharded",
            "mesh axis 't' changes the answer: on t=4, result is off by * of its largest value",
            "  *: result 1 of shard_map is a partial sum over 't' but is returned as replicated: call lax.psum(…, 't')",
            "mesh axis 't' changes the answer: on t=4, result is 4 times what one device gives",
            "  *: lax.psum over 't' is applied to what is the same on all devices already: *",
            "all_gather: expected 1, the compiler inserted 0",
            "  all_reduce over t, 128 bytes, from *layers.py:*",
        ]
    )
    page = (project.path / "out/r.html").read_text()
    assert "model.layers.never" in page
    # What a test compiled is in the report whether or not it was right.
    assert "<td>all_reduce over t, 128 bytes, from " in page


def test_a_failed_check_shows_the_users_lines_only(
    project: pytest.Pytester, run: Run
) -> None:
    """A call whose check fails was a call; the way through the checks is no part of the traceback."""
    code = "\n    def made(w: f32['M F']) -> Layer:\n        return Layer(w)\n"
    project.makepyfile(**{"model/made": MODEL + code})
    project.makepyfile(
        test_made=HEAD
        + "\n    def test_made():\n        from model.made import made\n        made(jnp.asarray(X))\n"
    )
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "E * made: the result, field 'w': dimension 1 is not sharded*",
            "annotated functions reached: 1 of *",
        ]
    )
    result.stdout.no_fnmatch_line("  model.made.made (*")
    assert [line for line in result.outlines if re.match(r"\S+\.py:\d+: ", line)] == [
        "test_made.py:11: ShardingError"
    ]


@pytest.mark.long
def test_workers_give_one_summary(project: pytest.Pytester, run: Run) -> None:
    """Counts of all workers are added up, and a function that one of them reached is reached."""
    devices = "\n    def test_devices():\n        import jax\n        assert len(jax.devices()) == 8\n"
    more = RIGHT.replace("def test_", "def test_more_")
    project.makepyfile(
        test_right=HEAD + RIGHT + devices, test_more=HEAD + more + devices
    )
    result = run("-n2", "--dist=loadfile", "--shardtypes-trace")
    result.assert_outcomes(passed=10 + 4, failed=1)
    result.stdout.fnmatch_lines(["FAILED model/layers.py::forgotten - *"])
    result.stdout.fnmatch_lines(["annotated functions traced: 4 of 5 hold"])
    result.stdout.fnmatch_lines(["annotated functions reached: 2 of 5"])
    assert str(result.stdout).count("= shardtypes =") == 1
    assert (
        json.loads((project.path / "out/r.json").read_text())["functions"][
            "model.layers.mlp"
        ]
        == 2
    )


@pytest.mark.once
def test_asserts_in_tests_inside_the_package_are_still_explained(
    project: pytest.Pytester, run: Run
) -> None:
    """The import hook leaves test modules to pytest's own rewriting."""
    tests = project.path / "model" / "tests"
    tests.mkdir()
    (tests / "__init__.py").write_text("")
    (tests / "test_inside.py").write_text(
        "def test_it():\n    left = [1]\n    assert left == [2]\n"
    )
    result = run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E  *assert [[]1[]] == [[]2[]]"])


@pytest.mark.once
def test_annotations_without_arrays(project: pytest.Pytester, run: Run) -> None:
    """They are left alone, unless typeguard is asked to check them; arrays inside others are checked always."""
    (project.path / "model" / "loose.py").write_text(
        "from __future__ import annotations\nfrom shardtypes import f32\n"
        "def scale(x: f32['B'], by: int = None) -> f32['B']:\n    return x * (by or 1)\n"
        "def both(pair: tuple[f32['B'], int]) -> None: pass\n"
        "class Meta(type):\n    def __instancecheck__(cls, x): raise TypeError('cannot say')\n"
        "class Odd(metaclass=Meta): pass\n"
        "def odd(x: Odd) -> None: pass\n"
    )
    project.makepyfile(
        """
        import jax.numpy as jnp, pytest
        from model.loose import both, odd, scale

        def test_typeguard_fails(): odd(1)

        def test_other(): scale(jnp.ones(2), by=1.5)

        def test_array(): both((jnp.ones((2, 2)), 1))
        """
    )
    run().assert_outcomes(passed=2, failed=1)
    result = run("--shardtypes-all-annotations")
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(
        ["typeguard checks these because of --shardtypes-all-annotations *"]
    )
    result.stdout.fnmatch_lines(
        ["not possible, once: typeguard cannot check odd: parameter 'x': cannot say"]
    )


@pytest.mark.once
def test_checks_off(
    project: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SHARDTYPES=0 nothing is checked, nothing traced, and the run says so."""
    monkeypatch.setenv("SHARDTYPES", "0")
    project.makepyfile(
        "import jax.numpy as jnp\nfrom model import layers\ndef test_it(): layers.never(jnp.ones(3))"
    )
    result = run("--shardtypes-trace")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "shardtypes: 8 CPU devices; checks nothing: SHARDTYPES=0 in the environment turns all checks off",
            "checks run: none: SHARDTYPES=0 in the environment turns them off",
        ]
    )


@pytest.mark.parametrize(
    ("percent", "status", "line"),
    [
        ("44.4", pytest.ExitCode.OK, None),
        (
            "44.5",
            pytest.ExitCode.TESTS_FAILED,
            "FAIL: 8 of 18 sharded dimensions, 44.4%, were verified, --shardtypes-fail-under asks for 44.5%",
        ),
    ],
)
def test_a_share_to_be_verified(
    project: pytest.Pytester,
    run: Run,
    percent: str,
    status: pytest.ExitCode,
    line: str | None,
) -> None:
    """Of the dimensions with mesh axes; the tests pass either way."""
    project.makepyfile(test_right=HEAD + RIGHT)
    result = run(f"--shardtypes-fail-under={percent}")
    result.assert_outcomes(passed=4)
    assert result.ret == status
    told = [text for text in result.outlines if text.startswith("FAIL")]
    assert told == ([] if line is None else [line])


def test_a_share_of_nothing_is_none(pytester: pytest.Pytester, run: Run) -> None:
    """A run that met no annotation with axes did not verify them."""
    pytester.makepyfile("def test_it(): pass")
    result = run("--shardtypes", "--shardtypes-fail-under=1")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "FAIL: no annotation with mesh axes was met, --shardtypes-fail-under asks for 1%"
        ]
    )
    assert run("--shardtypes", "--shardtypes-fail-under=0").ret == pytest.ExitCode.OK
