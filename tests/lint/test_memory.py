"""What a run over a large project holds: the forms of its files, and nothing that was needed only to make them."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from dataclasses import fields

import pytest

from shardlint import ir
from shardlint.lower import lower
from shardlint.walking import walk
from shardlint.workers import _collecting_cycles

pytestmark = pytest.mark.once

TEXT = b"""\
def attend(query, key, *, scale=1.0, mode='heads'):
    for head in [query, key]:
        scores = query.softmax(head, axis=-1, mode='heads') * scale
    return scores
"""

LOWERING = """\
import ctypes
import resource
from pathlib import Path

from shardlint.workers import each, lower_one


def resident():
    if not Path("/proc/self/statm").exists():
        return 0
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


text = Path("shardlint/engine/calls.py").read_bytes()
tasks = [(text, f"m{i}", f"m{i}.py", False) for i in range(32)]
kept = list(each(lower_one, tasks, 1, len(text) * 32))
before = resident()
getattr(ctypes.CDLL(None), "malloc_trim", int)(0)
print(before, resident())
"""


def test_names_and_numbers_are_the_same_objects_in_all_files() -> None:
    first, second = (lower(TEXT, name, f"{name}.py", False).module for name in "ab")
    kinds = frozenset({ir.Name, ir.Attr, ir.Arg, ir.Const, ir.Param, ir.Sequence})
    pairs = list(zip(walk(first.body, kinds), walk(second.body, kinds), strict=True))
    assert len(pairs) > 12
    for one, other in pairs:
        for field in fields(one):
            mine, its = getattr(one, field.name), getattr(other, field.name)
            if isinstance(mine, (int, str)):
                assert mine is its, (one, field.name)


def test_memory_of_syntax_trees_is_given_back() -> None:
    """Half of it and more stayed with the process, between what is kept of the files."""
    run = subprocess.run(
        [sys.executable, "-c", LOWERING], capture_output=True, text=True, check=True
    )
    before, trimmed = map(int, run.stdout.split())
    assert before <= 1.1 * trimmed


def test_cycles_that_programs_leave_are_collected() -> None:
    """Their arrays would stay until the end of the run: collections are off while files are read."""

    class Held:
        itself: object = None

    gc.disable()
    try:
        with _collecting_cycles():
            held = Held()
            held.itself = held
            kept = weakref.ref(held)
            del held
            others = [[one] for one in range(100_000)]
            assert kept() is None
        assert not gc.isenabled()
        assert gc.get_freeze_count() == 0
    finally:
        gc.enable()
    assert len(others) == 100_000
