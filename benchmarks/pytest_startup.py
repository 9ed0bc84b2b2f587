"""What the installed plugin costs a test run that does not ask for it: the time to load it, and what it imports.

Usage: ``python -m benchmarks.pytest_startup [ROUNDS]``. Each round starts pytest twice in fresh processes on an empty
test, with and without the plugin, in changing order; the median of the differences is the cost. The time that its
import and its hooks take inside one process is measured as well, for it is below the noise of the first. All times are
the processor's (``benchmarks/timing.py``). Ends with status 1 where the second exceeds 5 ms.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import added, commands_in_turns, processor_seconds

ROOT = Path(__file__).resolve().parents[1]
_ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
}
ALLOWED_MS = 5
HEAVY = ("jax", "numpy", "libcst", "typeguard")

INSIDE = """
import functools, sys, time
import pytest
before = set(sys.modules)
start = time.thread_time()
import pytest_shardtypes.plugin as plugin
spent = time.thread_time() - start
added = sorted(set(sys.modules) - before)

def timed(hook):
    @functools.wraps(hook)
    def run(*args, **kwargs):
        global spent
        start = time.thread_time()
        try:
            return hook(*args, **kwargs)
        finally:
            spent += time.thread_time() - start
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
        cases = {
            "without": lambda: _run(folder, False),
            "with": lambda: _run(folder, True),
        }
        whole = commands_in_turns(cases, rounds)
        inside, imported = [], set()
        for _ in range(rounds):
            seconds, *names = _python(folder, "-c", INSIDE).splitlines()[-1].split()
            inside.append(float(seconds))
            imported |= set(names)
    off, on = (statistics.median(each) * 1e3 for each in whole.values())
    more = added(whole["with"], whole["without"]) * 1e3
    print(
        f"a whole run       without {off:.1f} ms, with {on:.1f} ms, difference {more:+.1f} ms ({rounds} rounds)"
    )
    print(f"loading and hooks {statistics.median(inside) * 1e3:.2f} ms")
    print(
        f"modules it adds   {', '.join(sorted(name for name in imported if 'shardtypes' in name))}"
    )
    heavy = sorted(name for name in imported if name.partition(".")[0] in HEAVY)
    if heavy:
        raise SystemExit(f"imports {', '.join(heavy)}")
    if statistics.median(inside) * 1e3 > ALLOWED_MS:
        raise SystemExit(f"loading and hooks exceed {ALLOWED_MS} ms")


def _run(folder: str, with_plugin: bool) -> float:
    plugin = ["-p", "pytest_shardtypes.plugin"] if with_plugin else []
    arguments = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        *plugin,
        "test_empty.py",
    ]
    return processor_seconds([sys.executable, *arguments], Path(folder), _ENVIRONMENT)


def _python(folder: str, *args: str) -> str:
    return subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env=_ENVIRONMENT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout


if __name__ == "__main__":
    main()
