"""Every test here runs pytest in a process of its own, for it decides how JAX starts."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import quick_xla_flags

# A machine may be busy with other things too: only what hangs is ended by this, all else by what it does.
HANGING_SECONDS = 1500.0

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest with the plugin on this source tree, installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("XLA_FLAGS", quick_xla_flags())
    for name in ("JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)

    def run_pytest(*args: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess(
            "-p", "pytest_shardtypes.plugin", *args, timeout=HANGING_SECONDS
        )

    return run_pytest


def until(
    true: Callable[[], bool], process: subprocess.Popen[bytes] | None = None
) -> None:
    """Wait for something that must come, as long as the process runs that is to bring it."""
    end = time.monotonic() + HANGING_SECONDS
    while not true():
        assert process is None or process.poll() is None, (
            f"it ended with status {process.returncode} before"
        )
        assert time.monotonic() < end
        time.sleep(0.1)
