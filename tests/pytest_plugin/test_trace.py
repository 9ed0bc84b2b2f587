"""Annotated functions as test items: right ones pass, wrong ones fail with sizes, the rest is said to be unknown."""

from __future__ import annotations

import json

import pytest

from pytest_shardtypes import trace_example
from pytest_shardtypes.axes import BadMesh

from .conftest import Run

MODEL = """
    from __future__ import annotations
    from typing import TYPE_CHECKING
    import jax, jax.numpy as jnp
    from shardtypes import f32, i32, pytree_dataclass, typed_shard_map

    if TYPE_CHECKING:
        from elsewhere import Config

    @pytree_dataclass
    class Layer:
        w: f32['M F/t']

        def apply(self, x: f32['B M']) -> f32['B F']:
            return x @ self.w

        def flipped(self, x: f32['B M']) -> f32['F B']:
            return x @ self.w

    def right(x: f32['B M'], w: f32['M F']) -> f32['B F']:
        return x @ w

    def wrong(x: f32['B M'], w: f32['M F']) -> f32['B F']:
        y = jnp.tanh(x)
        return w @ y

    def wrong_result(x: f32['B M']) -> f32['B M']:
        return x[:, :3]

    def known(x: f32['B M']) -> f32['M B']:
        return x

    def choosy(x: f32['B M']) -> f32['B M']:
        if x.shape[0] != 4:
            raise ValueError('need four')
        return x

    def depends(x: f32['B']) -> f32['B']:
        return x if x.sum() > 0 else -x

    def configured(x: f32['B M'], config) -> f32['B F']:
        return jnp.zeros((x.shape[0], config['width'] + 0 * x.shape[1]))

    def reduced(x: f32['B/d M/t']) -> f32['B/d']:
        return jax.lax.psum(x.sum(1), 't')

    def awaiting(x: f32['B/d M/t']) -> f32['B/d {U:t}']:
        return x.sum(1) + jax.lax.axis_index('t')

    def awaiting_turned(x: f32['B/d M/t']) -> f32['M/t {U:t}']:
        return x.sum(1) + jax.lax.axis_index('t')

    class Net:
        def __init__(self, by): self.by = by

        def __call__(self, x: f32['B M']) -> f32['B M']:
            return x * self.by

        def turned(self, x: f32['B M']) -> f32['M B']:
            return x * self.by

        def without_example(self, x: f32['B']) -> f32['B']:
            return x * self.by

        @classmethod
        def made(cls, x: f32['B']) -> f32['B']:
            return x

    @typed_shard_map
    def mapped(x: f32['B/d M']) -> f32['B/d M']:
        return x * 2

    @typed_shard_map
    def unreduced(x: f32['B/d M/t']) -> f32['B/d']:
        return x.sum(1)

    def contracted(x: f32['B/d M/t'], w: f32['M/t F']) -> f32['B/d F/t']:
        return x @ w

    def _private(x: f32['B']) -> f32['B']: return x

    def for_checkers_only(x: Config['B']) -> int: return 1

    def no_arrays(n: int) -> int: return n
    imported = jnp.sum
"""

CONFTEST = """
    import pytest
    from pytest_shardtypes import trace_example

    trace_example("model.layers.configured", config={"width": 5}, sizes={"F": 5})
    trace_example("model.layers.configured", config={"width": 6})
    trace_example("model.layers.known", marks=pytest.mark.xfail(strict=True, reason="documented"))
    trace_example("model.layers.choosy", sizes={"B": 4})
    trace_example("model.layers.contracted", mesh="d=2,t=4", marks=[pytest.mark.slow])
    trace_example("model.layers.gone", 1)

    from model.layers import Net

    trace_example("model.layers.Net.__call__", Net(2))
    trace_example("model.layers.Net.turned", self=Net(2))
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    package = pytester.mkpydir("model")
    pytester.makepyfile(
        layers=MODEL,
        broken="import shardtypes, absent\ndef f(x: shardtypes.f32['B']): pass",
    )
    for name in ("layers.py", "broken.py"):
        (pytester.path / name).rename(package / name)
    (package / "script.py").write_text(
        "import sys\nfrom shardtypes import f32\nx: f32['B'] | None = None\nsys.exit(3)\n"
    )
    (package / "plain.py").write_text(
        "raise SystemExit('a file without annotations is not imported')\n"
    )
    pytester.makeconftest(CONFTEST)
    tests = pytester.mkdir("tests")
    (tests / "test_own.py").write_text(
        "from model.layers import right\ndef test_own(): pass\n"
    )
    pytester.makepyprojecttoml(
        """
        [tool.pytest]
        shardtypes = true
        testpaths = ["tests"]
        pythonpath = ["."]
        strict = true
        markers = ["slow: takes long"]
        """
    )
    return pytester


RIGHT = (
    "Layer.apply",
    "right",
    "choosy",
    "configured[1]",
    "configured[2]",
    "reduced",
    "mapped",
    "_private",
)
RIGHT += ("awaiting", "Net.__call__", "Net.made")
WRONG = (
    "Layer.flipped",
    "wrong",
    "wrong_result",
    "contracted",
    "awaiting_turned",
    "Net.turned",
    "unreduced",
)
UNKNOWN = ("depends", "for_checkers_only")


def test_every_function_gets_its_verdict(project: pytest.Pytester, run: Run) -> None:
    result = run("-v", "--shardtypes-report=r.json", "--junitxml=junit.xml")
    result.assert_outcomes(passed=len(RIGHT) + 1, failed=len(WRONG), xfailed=1)
    assert f"{len(UNKNOWN) + 2} could not tell" in result.stdout.lines[-1]
    for names, said in (
        (RIGHT, "PASSED"),
        (WRONG, "FAILED"),
        (UNKNOWN, "COULD NOT TELL"),
    ):
        for name in names:
            result.stdout.re_match_lines(
                [rf"model/layers.py::{name}".replace("[", r"\[") + f" {said}"]
            )
    result.stdout.fnmatch_lines(
        [
            "E   wrong: fails for B=11, F=17, M=13: dot_general requires contracting dimensions to have the same *",
            "model/layers.py:24: in wrong",
            "E   wrong_result: fails for B=11, M=13: wrong_result: the result: dimension 1 is 3, expected M = 13*",
        ]
    )
    result.stdout.fnmatch_lines(
        [
            "trace_example('model.layers.gone'): there is no such function in model",
            f"annotated functions traced: {len(RIGHT)} of {len(RIGHT + WRONG + UNKNOWN) + 2} hold",
            "tracing could not tell:",
            "  model/broken.py::import: model.broken does not import: ModuleNotFoundError: No module named 'absent'",
            "  model/layers.py::depends: what it does depends on values: *",
            "  model/layers.py::for_checkers_only: for_checkers_only: name 'Config' is not defined*",
            "  model/script.py::import: model.script does not import: SystemExit: 3",
        ]
    )
    traced = json.loads((project.path / "r.json").read_text())["traced"]
    assert traced["model/layers.py::right"] == "passed"
    assert "could not tell" in (project.path / "junit.xml").read_text()
    # Tracing is no test that reached a function.
    result.stdout.fnmatch_lines(["annotated functions reached: 0 of *"])


@pytest.mark.once
def test_modules_that_nothing_put_on_the_path_are_found(
    pytester: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``pytest`` itself, unlike ``python -m pytest``, leaves the current folder out, and meets modules before tests."""
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    code = "from shardtypes import f32\ndef first(x: f32['B M']) -> f32['B']:\n    return x[:, 0]\n"
    for name in (
        "alone.py",
        "pkg/__init__.py",
        "pkg/inner/model.py",
        "src/other/__init__.py",
    ):
        (pytester.path / name).parent.mkdir(parents=True, exist_ok=True)
        (pytester.path / name).write_text(code)
    pytester.makepyfile(test_it="import alone\ndef test_it():\n    assert alone\n")
    run("--shardtypes", "--shardtypes-devices=1", "-q").assert_outcomes(passed=5)


@pytest.mark.once
def test_selection(project: pytest.Pytester, run: Run) -> None:
    """By node id, by folder, by -k, by -m and by --deselect; a module named on the command line is checked as well."""

    def collected(*args: str) -> list[str]:
        return [line for line in run("--co", "-q", *args).outlines if "::" in line]

    (project.path / "model" / "helped.py").write_text(
        "from shardtypes import f32\n"
        "def helper(x: f32['B']):\n    y: f32['B+1'] = x\n    return y\n"
        "def calls(x: f32['B']): return helper(x)\n"
    )
    result = run(
        "model/layers.py::right",
        "model/layers.py::configured[1]",
        "model/helped.py::calls",
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["*helper: variable 'y': dimension 0 is 11, expected B+1 = 12*"]
    )
    assert collected("-m", "slow or not shardtypes_trace") == [
        "tests/test_own.py::test_own",
        "model/layers.py::contracted",
    ]
    wrong = collected(
        "model", "-k", "wrong", "--deselect", "model/layers.py::wrong_result"
    )
    assert wrong == ["model/layers.py::wrong"]
    assert collected("tests", "model", "--no-shardtypes-trace") == [
        "tests/test_own.py::test_own"
    ]


@pytest.mark.once
def test_functions_are_counted_as_tests_are(project: pytest.Pytester, run: Run) -> None:
    # those of modules that do not import, and an expected one
    total = 1 + len(RIGHT) + len(WRONG) + len(UNKNOWN) + 3
    result = run("--co", "-k", "right or own")
    result.stdout.fnmatch_lines(
        [f"collected {total} items / {total - 3} deselected / 3 selected"]
    )
    result.stdout.fnmatch_lines(
        [f"*3/{total} tests collected ({total - 3} deselected)*"]
    )
    result = run("-k", "model and right")
    result.assert_outcomes(passed=1, deselected=total - 1)
    result.stdout.fnmatch_lines(
        [f"collected {total} items / {total - 1} deselected / 1 selected"]
    )
    result.stdout.fnmatch_lines(["annotated functions traced: 1 of 1 hold"])


@pytest.mark.once
def test_ignored_folders_are_left_out(pytester: pytest.Pytester, run: Run) -> None:
    """However pytest is told of them; a package may have the name of a folder in which no tests are looked for."""
    source = "from shardtypes import f32\ndef f(x: f32['B']) -> f32['B']: return x\n"
    names = (
        "pkg/kept",
        "pkg/old/inner",
        "pkg/third/deep/inner",
        "pkg/build/inner",
        "build/inner",
        "src/lib/inner",
        "src/other/inner",
    )
    for name in names:
        path = pytester.path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    for folder in ("pkg", "build", "src/lib", "src/other"):
        (pytester.path / folder / "__init__.py").touch()
    pytester.makepyfile(test_own="def test_own(): pass")
    pytester.makeini(
        "[pytest]\nshardtypes = true\npythonpath = . src\nnorecursedirs = build"
    )
    pytester.makeconftest("collect_ignore = ['pkg/third']")
    packages = "--shardtypes-packages=pkg,build,lib,other"
    result = run("--co", "-q", packages, "--ignore=pkg/old", "--ignore-glob=*/lib")
    items = {line for line in result.outlines if "::" in line}
    assert items == {
        "test_own.py::test_own",
        "pkg/kept.py::f",
        "pkg/build/inner.py::f",
        "build/inner.py::f",
        "src/other/inner.py::f",
    }


def test_bad_examples() -> None:
    with pytest.raises(ValueError, match="takes the dotted name of a function"):
        trace_example("model layers")
    with pytest.raises(BadMesh):
        trace_example("model.f", mesh="d")


CALLED = """
import jax.numpy as jnp
from shardtypes import f32

def mlp(params, x: f32['B M']) -> f32['B F']:
    return jnp.tanh(x @ params["w"] + params["b"])

def heads(x: f32['B M'], config) -> f32['B H M//H']:
    return x.reshape(x.shape[0], config["heads"], -1)

def of_one_size(params, x: f32['B M']) -> f32['B M']:
    return x * params["scale"]

def only_refused(params, x: f32['B M']) -> f32['B M']:
    return x @ params["w"]

def with_our_names(f, mesh, x: f32['B M'], sizes, named) -> f32['B M']:
    return f(x) * len(mesh) * sizes["by"] * named

def never_called(params, x: f32['B M']) -> f32['B M']:
    return x
"""


def test_what_a_test_gives_is_an_example(pytester: pytest.Pytester, run: Run) -> None:
    """Functions that need more than their annotations are traced with the call of a test, for all sizes that it leaves
    open; where none are, or the call fails, that tells nothing."""
    pytester.makepyfile(
        called=CALLED,
        test_called="""
import jax.numpy as jnp, pytest
import called

def test_calls():
    x = jnp.ones((4, 16))
    called.mlp({"w": jnp.ones((16, 6)), "b": jnp.zeros(6)}, x)
    called.heads(x, {"heads": 4})
    called.with_our_names(jnp.sin, ["d"], x, sizes={"by": 2}, named=3)
    called.of_one_size({"scale": jnp.ones((4, 16))}, x)
    with pytest.raises(Exception):
        called.only_refused({"w": jnp.ones((16, 6))}, x)
""",
    )
    result = run("--shardtypes", "--shardtypes-packages", "called", "-v")
    result.stdout.fnmatch_lines(["*4 passed, 3 could not tell*"])
    result.stdout.fnmatch_lines_random(
        [
            "called.py::mlp PASSED*",
            "called.py::heads PASSED*",
            "called.py::with_our_names PASSED*",
            "called.py::of_one_size COULD NOT TELL*",
            "called.py::only_refused COULD NOT TELL*",
            "called.py::never_called COULD NOT TELL*",
        ]
    )


def test_examples_are_taken_of_classes_that_flatten_themselves(
    pytester: pytest.Pytester, run: Run
) -> None:
    """What flattens a tree may be checked as well, and objects that are not made yet cannot be flattened."""
    pytester.makepyfile(
        model="""
            from typing import Any
            import jax
            from shardtypes import f32


            @jax.tree_util.register_pytree_node_class
            class State:
                def __init__(self, x: f32["B"], name: str) -> None:
                    self.x, self.name = x, name

                def tree_flatten(self) -> tuple[tuple[Any], str]:
                    return (self.x,), self.name

                @classmethod
                def tree_unflatten(cls, name: str, children: tuple[Any]) -> "State":
                    made = object.__new__(cls)
                    (made.x,), made.name = children, name
                    return made


            def double(state: State, x: f32["B"]) -> f32["B"]:
                return state.x + x
        """,
        test_model="""
            import jax.numpy as jnp
            from model import State, double


            def test_double():
                double(State(jnp.ones(4), "a"), jnp.ones(4))
        """,
    )
    done = run("--shardtypes")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(
        ["checks run: 3 shape", "annotated functions reached: 2 of 2"]
    )
