"""Tests in two processes that compute together: all outcomes, in one run, and nothing is left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .conftest import ROOT, Run

TESTS = """
import os, pathlib, signal, time
import jax, jax.numpy as jnp, numpy as np, pytest
from jax.sharding import PartitionSpec as P
from model import twice
from shardtypes import f32

together = pytest.mark.processes(timeout=20)
X = np.arange(16, dtype='float32').reshape(2, 8)

def test_alone():
    assert jax.process_count() == 1

@together
@pytest.mark.mesh(d=2, t=4)
def test_sum(shard):
    assert (jax.process_count(), len(jax.local_devices()), len(jax.devices())) == (2, 4, 8)
    x = shard(X, f32['B/d M/t'])
    assert not x.is_fully_addressable
    assert float(jax.jit(lambda x: x.sum())(twice(x))) == 240

@together
@pytest.mark.mesh(d=2)
def test_small_mesh_has_devices_of_both(mesh):
    assert {device.process_index for device in mesh.devices.flat} == {0, 1}

@together
def test_skipped():
    pytest.skip("not here")

@together
def test_one_fails():
    print("said by", jax.process_index())
    assert jax.process_index() == 0

@together
@pytest.mark.mesh(d=8)
def test_one_dies(mesh):
    if jax.process_index() == 1:
        print("last words", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    ones = jax.jit(lambda: jnp.ones(8), out_shardings=jax.NamedSharding(mesh, P('d')))()
    print(float(jax.jit(lambda x: x.sum())(ones)))
"""


def test_outcomes(pytester: pytest.Pytester, run: Run) -> None:
    pytester.makepyfile(test_it=TESTS)
    (pytester.path / "model.py").write_text(
        "from __future__ import annotations\nfrom shardtypes import f32\n"
        "def twice(x: f32['B/d M/t']) -> f32['B/d M/t']:\n    return x * 2\n"
    )
    pytester.makeini(
        "[pytest]\nshardtypes = true\nshardtypes_processes = 2\npythonpath = .\naddopts = --strict-markers"
    )
    result = run("--no-shardtypes-trace")
    result.assert_outcomes(passed=3, failed=2, skipped=1)
    result.stdout.fnmatch_lines(
        [
            "process 1 of 2: *",
            "E       assert 1 == 0",
            "*- process 0: Captured stdout call -*",
            "said by 0",
            "*- process 1: Captured stdout call -*",
            "said by 1",
            "process 0 of 2: did not finish: it *",
            "process 1 of 2: did not finish: it is gone, with exit status -9",
            "*last words*",
            "annotated functions reached: 1 of 1",
            "sharded dimensions verified where their axis is larger than 1: 4 of 4",
        ]
    )


@pytest.mark.once
def test_nobody_is_left_when_the_first_process_is_killed(pytester: pytest.Pytester, tmp_path: Path) -> None:
    pytester.makepyfile(
        f"""
        import os, pathlib, pytest, time

        @pytest.mark.processes
        def test_waits():
            pathlib.Path({str(tmp_path)!r}, str(os.getpid())).touch()
            time.sleep(300)
        """
    )
    command = [sys.executable, "-m", "pytest", "-p", "pytest_shardtypes.plugin", "--shardtypes"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    for name in ("XLA_FLAGS", "JAX_PLATFORMS", "PYTEST_ADDOPTS"):
        environ.pop(name, None)
    with subprocess.Popen(
        [*command, "--shardtypes-processes=2"], env=environ, cwd=pytester.path, stdout=subprocess.DEVNULL
    ) as parent:
        _until(lambda: len(list(tmp_path.iterdir())) == 2)
        parent.send_signal(signal.SIGKILL)
    _until(lambda: not any(Path("/proc", entry.name).exists() for entry in tmp_path.iterdir()))


def _until(true: object) -> None:
    assert callable(true)
    end = time.monotonic() + 120
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)
