"""The compiler's answers lie in pytest's cache: the next run asks nothing, and reports the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pytest_plugin.conftest import Run
from tests.support import quick_xla_flags

TESTS = """
import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from small import double


@pytest.mark.mesh(d=2, t=4)
@pytest.mark.parametrize("axis", ["d", "t"])
def test_double(axis, mesh):
    x = jax.device_put(jnp.ones((8, 16)), NamedSharding(mesh, P(axis)))
    jax.jit(double)(x)
"""
SMALL = """
from shardtypes import f32


def double(x: f32["B/d M"]) -> f32["B/d M"]:
    return x * 2
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one module, which uses no cache of JAX's."""
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    pytester.makepyfile(small=SMALL, test_small=TESTS)
    return pytester.path


def said(result: pytest.RunResult) -> list[str]:
    """What a run says of the checks: its lines without times."""
    begin = next(i for i, line in enumerate(result.outlines) if " FAILURES " in line)
    lines = [line for line in result.outlines[begin:] if " in " not in line]
    return [line for line in lines if not line.startswith("=")]


def test_the_next_run_asks_nothing_and_reports_the_same(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = f"{quick_xla_flags()} --xla_dump_to={project / 'dumped'}"
    monkeypatch.setenv("XLA_FLAGS", flags)
    asked = []
    reports = []
    for _ in range(2):
        result = run("--shardtypes", "--no-shardtypes-trace")
        result.assert_outcomes(passed=1, failed=1)
        result.stdout.fnmatch_lines(["*is sharded over 't', expected sharded over 'd'"])
        reports.append(said(result))
        dumped = list((project / "dumped").glob("*before_optimizations.txt"))
        asked.append(sum("InspectSharding" in path.read_text() for path in dumped))
        for path in dumped:
            path.unlink()
        entries = list((project / ".pytest_cache/d/shardtypes").iterdir())
        assert len(entries) == 2
    assert asked == [2, 0]
    assert reports[0] == reports[1]


def test_nothing_is_kept_without_a_cache(project: Path, run: Run) -> None:
    result = run("--shardtypes", "--no-shardtypes-trace", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
    assert not (project / ".pytest_cache").exists()


def test_the_cache_of_jax_comes_first(
    project: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(project / "jax"))
    run("--shardtypes", "--no-shardtypes-trace").assert_outcomes(passed=1, failed=1)
    assert len(list((project / "jax/shardtypes").iterdir())) == 2
    assert list((project / ".pytest_cache/d/shardtypes").iterdir()) == []


def test_a_file_in_the_place_of_the_folder_is_no_error(project: Path, run: Run) -> None:
    (project / ".pytest_cache/d").mkdir(parents=True)
    (project / ".pytest_cache/d/shardtypes").write_text("")
    result = run("--shardtypes", "--no-shardtypes-trace")
    result.assert_outcomes(passed=1, failed=1)
