"""Every test here runs pytest in a process of its own, for it decides how JAX starts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import support
from tests.support import Progress, quick_xla_flags

ROOT = Path(__file__).resolve().parents[2]

PLUGIN = "pytest_shardtypes.plugin"

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tests of the plugin start from: nothing decides about JAX's devices before it does."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("XLA_FLAGS", quick_xla_flags())
    for name in ("JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def run(pytester: pytest.Pytester, environ: None) -> Run:
    """Run pytest with the plugin on this source tree, installed or not."""

    def run_pytest(*args: str) -> pytest.RunResult:
        begun = time.monotonic()
        options = _options(pytester, args)
        done = support.run_pytest(*options, cwd=pytester.path)
        return _result(done.returncode, done.stdout, done.stderr, begun)

    return run_pytest


@pytest.fixture
def run_anew(pytester: pytest.Pytester, environ: None) -> Run:
    """The same in a new interpreter, for tests of how the plugin, JAX and processes start."""

    def run_pytest(*args: str) -> pytest.RunResult:
        begun = time.monotonic()
        command = [sys.executable, "-m", "pytest", *_options(pytester, args)]
        done = support.run(command, pytester.path)
        return _result(done.returncode, done.stdout, done.stderr, begun)

    return run_pytest


def _options(pytester: pytest.Pytester, args: Sequence[str]) -> list[str]:
    return [f"--basetemp={pytester.path / 'temporary'}", "-p", PLUGIN, *args]


def _result(status: int, out: str, err: str, begun: float) -> pytest.RunResult:
    print(out)
    print(err)
    taken = time.monotonic() - begun
    return pytest.RunResult(status, out.splitlines(), err.splitlines(), taken)


def until(true: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    """Wait for something that must come while a process works."""
    progress = Progress(process.pid)
    while not true():
        assert process.poll() is None, (
            f"it ended with status {process.returncode} before"
        )
        assert not progress.hangs()
        time.sleep(0.1)


def until_gone(pids: Sequence[str]) -> None:
    """Wait for processes that must end by themselves; they may take what time they need, but not wait."""
    working = [Progress(int(pid)) for pid in pids]
    while any(Path("/proc", pid).exists() for pid in pids):
        assert not all(one.hangs() for one in working)
        time.sleep(0.1)
