"""What ``--shardtypes`` costs over thousands of tests: time per test, and memory that is not given back.

Usage: ``python -m benchmarks.pytest_memory [TESTS]``. The tests call annotated functions of a package with sizes that
change, eagerly, under ``jit``, inside ``shard_map`` and on meshes; every tenth of them defines an annotated function of
its own. They run in one process without the plugin, then with it; the resident memory is read after each tenth of the
tests, and the processor's time that these took. What JAX itself keeps for each new shape is in both columns.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

MODEL = """
from __future__ import annotations
import jax
from jax.sharding import PartitionSpec as P
from shardtypes import f32

def mlp(x: f32['B/d M'], w: f32['M F']) -> f32['B/d F']:
    return jax.nn.relu(x @ w)

@jax.jit
def compiled(x: f32['B M']) -> f32['B M']:
    return x * 2

def mapped(x: f32['B/d M']) -> f32['B/d M']:
    def body(x: f32['B/d M']) -> f32['B/d M']:
        return x + 1
    return jax.shard_map(body, in_specs=P('d'), out_specs=P('d'))(x)

def make(n):
    def inner(x: f32['B M']) -> f32['B M']:
        return x + n
    return inner
"""

TESTS = """
import jax, numpy as np, pytest
from model import compiled, make, mapped, mlp

W = np.ones((4, 3), 'float32')

@pytest.fixture
def mesh_in_force():
    with jax.set_mesh(jax.make_mesh((2,), ('d',), axis_types=(jax.sharding.AxisType.Auto,))) as mesh:
        yield jax.sharding.get_mesh()

@pytest.mark.parametrize('n', range({count}))
def test_eager(n):
    x = np.ones((1, 2), 'float32')
    if n % 10 == 0:
        make(n)(jax.numpy.asarray(x))
    assert compiled(jax.numpy.ones((1 + n % 5, 2), 'float32')).shape[0] == 1 + n % 5

@pytest.mark.parametrize('n', range({count}))
def test_on_mesh(n, mesh_in_force):
    sharding = jax.NamedSharding(mesh_in_force, jax.P('d'))
    x = jax.device_put(np.ones((2 + 2 * (n % 5), 4), 'float32'), sharding)
    w = jax.device_put(W, jax.NamedSharding(mesh_in_force, jax.P()))
    assert mlp(x, w).shape[1] == 3
    if n % 10 == 0:
        mapped(x)
"""

CONFTEST = """
import json, os, resource, time

seen = []

def resident():
    with open('/proc/self/statm') as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

def pytest_collection_modifyitems(items):
    # Both kinds in turn, so that the memory after each part is comparable.
    items.sort(key=lambda item: item.callspec.params['n'])

def pytest_runtest_logfinish(nodeid):
    seen.append(time.process_time())
    if len(seen) % {step} == 0:
        with open(os.environ['MEASURED'], 'a') as file:
            file.write(json.dumps([len(seen), resident(), seen[-1] - seen[-{step}]]) + '\\n')
"""


def main() -> None:
    """Print memory and time per tenth of the tests, and the growth per thousand tests over the second half."""
    tests = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    step = max(tests // 10, 2)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model").mkdir()
        (Path(folder) / "model" / "__init__.py").write_text(MODEL)
        Path(folder, "test_many.py").write_text(TESTS.format(count=tests // 2))
        Path(folder, "conftest.py").write_text(CONFTEST.format(step=step))
        Path(folder, "pytest.ini").write_text("[pytest]\npythonpath = .\n")
        without = _run(folder, [])
        with_plugin = _run(
            folder,
            ["-p", "pytest_shardtypes.plugin", "--shardtypes", "--no-shardtypes-trace"],
        )
    print(f"{'tests':>8} {'without':>20} {'with':>20}")
    for (count, memory, seconds), (_, memory_with, seconds_with) in zip(
        without, with_plugin, strict=True
    ):
        cells = (
            f"{m:8.1f} MB {1e3 * s / step:5.2f} ms"
            for m, s in ((memory, seconds), (memory_with, seconds_with))
        )
        print(f"{count:>8} {'   '.join(cells)}")
    for name, rows in (("without", without), ("with", with_plugin)):
        half = rows[len(rows) // 2]
        growth = (rows[-1][1] - half[1]) / (rows[-1][0] - half[0]) * 1000
        print(f"{name:>8}: {growth:+.2f} MB per thousand tests over the second half")


def _run(folder: str, plugin: list[str]) -> list[tuple[int, float, float]]:
    measured = Path(folder, f"measured{time.monotonic_ns()}")
    environ = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "MEASURED": str(measured),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": "8",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin]
    done = subprocess.run(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stdout)
    return [tuple(json.loads(line)) for line in measured.read_text().splitlines()]


if __name__ == "__main__":
    main()
