"""What all tests share. Tests that need several devices start a process of their own: nothing here starts JAX."""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from tests.support import quick_xla_flags

# No accelerator is needed, and looking for one takes seconds.
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# What is compiled here runs once: XLA takes longer to optimize it than the device to run it.
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
os.environ.setdefault("XLA_FLAGS", quick_xla_flags())
# Many processes compile the same small programs: what one has compiled the others read.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="jax-cache-")
    atexit.register(
        shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True
    )
# JAX does not write the entries of its cache atomically, so workers that run side by side do not share one.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = os.path.join(
        os.environ["JAX_COMPILATION_CACHE_DIR"], os.environ["PYTEST_XDIST_WORKER"]
    )
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# The machines that run this are shared and slow: time limits per example only make tests flicker.
settings.register_profile("default", max_examples=30, deadline=None)
settings.register_profile("deep", max_examples=1000, deadline=None)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--cases",
        type=int,
        metavar="N",
        help="of a test with more cases than N run N, from the first to the last",
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Tests of the whole project first: those take longest, and at the end one worker would work on them alone."""
    folder = Path(__file__).parent
    items.sort(key=lambda item: item.path.parent != folder)
    most = config.getoption("--cases")
    if most is not None:
        left_out = _surplus(items, most)
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def _surplus(items: Sequence[pytest.Item], most: int) -> list[pytest.Item]:
    """What is left out of tests with more cases than ``most``; those that stay are as far apart as can be."""
    by_test: dict[str, list[pytest.Item]] = {}
    for item in items:
        by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    found: list[pytest.Item] = []
    for cases in by_test.values():
        last = len(cases) - 1
        kept = {at * last // max(most - 1, 1) for at in range(most)}
        if len(cases) > most:
            found += [case for at, case in enumerate(cases) if at not in kept]
    return found


_FILES_TOGETHER = 10
_files = itertools.count(1)


@pytest.fixture(scope="module", autouse=True)
def _compiled_programs_are_forgotten() -> Iterator[None]:
    """JAX keeps each program that it has compiled: gigabytes in each worker by the end. Forgetting them after every
    file would have the common ones compiled again and again."""
    yield
    if next(_files) % _FILES_TOGETHER == 0 and "jax" in sys.modules:
        sys.modules["jax"].clear_caches()
