"""Every test here runs pytest in a process of its own, for it decides how JAX starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run pytest with the plugin on this source tree, installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES", "JAX_PLATFORMS", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)

    def run_pytest(*args: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-p", "pytest_shardtypes.plugin", *args, timeout=120)

    return run_pytest
