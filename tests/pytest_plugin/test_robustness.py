"""What other test frameworks and rough tests do to the plugin, and what it does to them: the run goes on."""

from __future__ import annotations

import pytest

from .conftest import Run

MODEL = '''
"""
>>> import jax.numpy as jnp
>>> double(jnp.ones(2)).sum().item()
4.0
>>> double(jnp.ones((2, 2)))
Traceback (most recent call last):
...
shardtypes.errors.ShapeError: ...
"""
from __future__ import annotations
from shardtypes import f32

def double(x: f32["B"]) -> f32["B"]:
    return 2 * x

async def later(x: f32["B"]) -> f32["B"]:
    return x
'''

TESTS = """
import os, subprocess, sys
import jax, jax.numpy as jnp, pytest, shardtypes, unittest
from model import double, later
from shardtypes import ShapeError

pytest_plugins = ["pytester"]
ones, square = jnp.ones(2), jnp.ones((2, 2))

class TestUnittest(unittest.TestCase):
    def test_checked(self):
        with self.assertRaises(ShapeError):
            double(square)

    @pytest.mark.mesh(d=4)
    def test_mesh(self):
        assert dict(jax.sharding.get_mesh().shape) == {"d": 4}

    def test_sub_tests(self):
        for size in (1, 2):
            with self.subTest(size=size):
                double(jnp.ones(size))

class TestAsync(unittest.IsolatedAsyncioTestCase):
    async def test_checked(self):
        await later(ones)
        with self.assertRaises(ShapeError):
            await later(square)

def test_subtests(subtests):
    with subtests.test("right"):
        double(ones)
    with subtests.test("wrong"), pytest.raises(ShapeError):
        double(square)

def test_leaks_a_scope():
    shardtypes.Scope().__enter__()
    double(jnp.ones(7))

def test_leaks_a_mesh():
    jax.set_mesh(jax.make_mesh((8,), ("d",)))

def test_switches_checks_off():
    shardtypes.enabled(False)
    double(square)

@pytest.mark.mesh(d=2)
def test_kills_the_backend():
    from jax.extend.backend import clear_backends
    clear_backends()
    jax.config.update("jax_num_cpu_devices", 2)
    assert len(jax.devices()) == 2

def test_changes_the_environment():
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=3"
    del os.environ["JAX_PLATFORMS"]

def test_changes_the_default_device():
    jax.config.update("jax_default_device", jax.devices()[3])

def test_arrays_lie_on_the_first_device():
    assert jax.numpy.ones(3).devices() == {jax.devices()[0]}

def test_other_processes_have_the_devices():
    code = "import jax; print(len(jax.devices()))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "8\\n"

@pytest.mark.mesh(d=8)
def test_nothing_of_it_is_left(mesh):
    assert len(jax.devices()) == 8
    with pytest.raises(ShapeError):
        double(square)
    assert float(double(ones).sum()) == 4

def test_no_mesh_is_left():
    assert jax.sharding.get_mesh().empty

def test_pytest_inside_pytest(pytester):
    pytester.makepyfile("import jax\\ndef test_it(): assert len(jax.devices()) == 4")
    result = pytester.runpytest_inprocess("--shardtypes", "--shardtypes-devices=4", "--no-shardtypes-trace")
    result.assert_outcomes(passed=1)

def test_after_it():
    assert len(jax.devices()) == 8
    with pytest.raises(ShapeError):
        double(square)
"""


@pytest.mark.long
def test_everything_in_one_run(pytester: pytest.Pytester, run_anew: Run) -> None:
    """In strict mode, with strict markers, doctests, and without the cache."""
    (pytester.path / "model.py").write_text(MODEL)
    pytester.makepyfile(test_it=TESTS)
    pytester.makepyprojecttoml(
        '[tool.pytest]\nstrict = true\nshardtypes = true\npythonpath = ["."]\nfilterwarnings = ["error"]\n'
        'doctest_optionflags = ["ELLIPSIS"]'
    )
    result = run_anew(
        "-p",
        "no:cacheprovider",
        "--strict-markers",
        "--doctest-modules",
        "-p",
        "no:hypothesispytest",
    )
    outcomes = result.parseoutcomes()
    assert outcomes["passed"] >= 19 and not {"failed", "errors"} & outcomes.keys(), (
        outcomes
    )
    result.stdout.fnmatch_lines(
        [
            "undone for the tests after it: test_it.py::test_leaks_a_scope left a scope open",
            "undone for the tests after it: test_it.py::test_leaks_a_mesh left a mesh in force",
            "undone for the tests after it: test_it.py::test_switches_checks_off left the checks switched off",
            "undone for the tests after it: test_it.py::test_kills_the_backend left 2 cpu devices",
            "undone for the tests after it: test_it.py::test_changes_the_environment left another XLA_FLAGS",
            "undone for the tests after it: test_it.py::test_changes_the_environment left another JAX_PLATFORMS",
            "undone for the tests after it: test_it.py::test_changes_the_default_device left another default device",
            "annotated functions traced: 1 of 2 hold",
            "  model.py::later: *",
            "annotated functions reached: 2 of 2",
        ]
    )


@pytest.mark.once
@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "raise RuntimeError('half installed')",
            "ERROR: --shardtypes cannot start: *: RuntimeError: half installed",
        ),
        (None, "ERROR: --shardtypes needs JAX: pip install 'shardtypes[[]jax[]]'"),
    ],
)
def test_no_jax(
    pytester: pytest.Pytester, run_anew: Run, source: str | None, message: str
) -> None:
    """Broken, or missing: one line that says so."""
    if source is None:
        pytester.makepyfile(early="import sys\nsys.modules['jax'] = None")
    else:
        pytester.makepyfile(
            early="import os, sys\nsys.path.insert(0, os.path.join(os.getcwd(), 'broken'))"
        )
        (pytester.path / "broken" / "jax").mkdir(parents=True)
        (pytester.path / "broken" / "jax" / "__init__.py").write_text(source)
    result = run_anew("-p", "early", "--shardtypes")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])
    assert "Traceback" not in str(result.stderr)
