"""What the installed plugin costs a test run that does not ask for it: the time to load it, and what it imports.

Usage: ``python benchmarks/pytest_startup.py [ROUNDS]``. Each round starts pytest twice in fresh processes on an empty
test, with and without the plugin, in changing order; the difference of the medians is the cost. The time
that its import and its hooks take inside one process is measured as well, for it is below the noise of the first. All
times are the processor's, for a machine may be busy with other things. Ends with status 1 where the
second exceeds 5 ms.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALLOWED_MS = 5
HEAVY = ("jax", "numpy", "libcst", "typeguard")

INSIDE = """
import functools, sys, time
import pytest
before = set(sys.modules)
start = time.process_time()
import pytest_shardtypes.plugin as plugin
spent = time.process_time() - start
added = sorted(set(sys.modules) - before)

def timed(hook):
    @functools.wraps(hook)
    def run(*args, **kwargs):
        global spent
        start = time.process_time()
        try:
            return hook(*args, **kwargs)
        finally:
            spent += time.process_time() - start
    return run

for name in ("pytest_addoption", "pytest_load_initial_conftests", "pytest_configure"):
    setattr(plugin, name, timed(getattr(plugin, name)))
status = pytest.main(["-q", "-p", "no:cacheprovider", "-p", "pytest_shardtypes.plugin", "test_empty.py"])
assert status == 0
heavy = {"jax", "numpy", "libcst", "typeguard"} & set(sys.modules)
print()
print(spent, *added, *heavy)
"""


def main() -> None:
    """Print the medians, and fail where a heavy module was imported."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_empty.py").write_text("def test_empty():\n    pass\n")
        Path(folder, "pytest.ini").write_text("[pytest]\n")
        whole: dict[bool, list[float]] = {True: [], False: []}
        for number in range(rounds):
            for with_plugin in (True, False) if number % 2 else (False, True):
                whole[with_plugin].append(_run(folder, with_plugin))
        inside, imported = [], set()
        for _ in range(rounds):
            seconds, *names = _python(folder, "-c", INSIDE).splitlines()[-1].split()
            inside.append(float(seconds))
            imported |= set(names)
    off, on = (statistics.median(whole[with_plugin]) * 1e3 for with_plugin in (False, True))
    print(f"a whole run       without {off:.1f} ms, with {on:.1f} ms, difference {on - off:+.1f} ms ({rounds} rounds)")
    print(f"loading and hooks {statistics.median(inside) * 1e3:.2f} ms")
    print(f"modules it adds   {', '.join(sorted(name for name in imported if 'shardtypes' in name))}")
    heavy = sorted(name for name in imported if name.partition(".")[0] in HEAVY)
    if heavy:
        raise SystemExit(f"imports {', '.join(heavy)}")
    if statistics.median(inside) * 1e3 > ALLOWED_MS:
        raise SystemExit(f"loading and hooks exceed {ALLOWED_MS} ms")


def _run(folder: str, with_plugin: bool) -> float:
    start = _processor()
    plugin = ["-p", "pytest_shardtypes.plugin"] if with_plugin else []
    _python(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *plugin, "test_empty.py")
    return _processor() - start


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _python(folder: str, *args: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, *args], cwd=folder, env=environ, stdout=subprocess.PIPE, text=True, check=True
    ).stdout


if __name__ == "__main__":
    main()
