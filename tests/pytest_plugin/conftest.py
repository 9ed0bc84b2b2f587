"""Every test here runs pytest in a process of its own, for it decides how JAX starts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.support import Progress, quick_xla_flags, wait_for

ROOT = Path(__file__).resolve().parents[2]

PLUGIN = "pytest_shardtypes.plugin"

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest with the plugin on this source tree, installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("XLA_FLAGS", quick_xla_flags())
    for name in ("JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)

    def run_pytest(*args: str) -> pytest.RunResult:
        folder = f"--basetemp={pytester.path / 'temporary'}"
        command = [sys.executable, "-m", "pytest", folder, "-p", PLUGIN, *args]
        out, err = pytester.path / "stdout", pytester.path / "stderr"
        begun = time.monotonic()
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = pytester.popen(command, stdout, stderr, subprocess.DEVNULL)
            wait_for(process)
        taken = time.monotonic() - begun
        lines = [path.read_text(errors="replace").splitlines() for path in (out, err)]
        for line in lines[0] + lines[1]:
            print(line)
        return pytest.RunResult(process.returncode, *lines, taken)

    return run_pytest


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
