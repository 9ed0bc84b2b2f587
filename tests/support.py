"""Helpers that several test folders use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_python(
    *args: str,
    cwd: Path = ROOT,
    env: dict[str, str] | None = None,
    timeout: float = 1500,  # a machine may be busy with other things too
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter with ``args``, on this source tree; the caller judges the exit status."""
    merged = {**os.environ, **(env or {})}
    merged["PYTHONPATH"] = os.pathsep.join(p for p in (str(ROOT), merged.get("PYTHONPATH", "")) if p)
    return subprocess.run(
        [sys.executable, *args], cwd=cwd, env=merged, capture_output=True, text=True, timeout=timeout, check=False
    )


def force_devices(count: int = 8) -> None:
    """That many devices on the CPU; to be called before anything in this process starts JAX's backend."""
    flag = "--xla_force_host_platform_device_count"
    if flag not in os.environ.get("XLA_FLAGS", ""):
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}={count}".strip()
