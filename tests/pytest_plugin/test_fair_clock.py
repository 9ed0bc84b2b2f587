"""Limits in seconds that a busy machine does not shorten: what counts of the seconds that pass."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pytest_shardtypes.fair_clock import FairClock, counted

SECOND = 10**9


@pytest.mark.parametrize(
    ("passed", "ran", "waited", "seconds"),
    [
        (10, 0, 0, 10),  # it waits for something that does not come
        (10, 10, 0, 10),  # it computes for ever, with nothing beside it
        (11, 1, 10, 1),  # the same beside ten others
        (10, 2, 5, 5),  # one thread after another
        (10, 0, 10, 0),  # it is ready, and nothing runs it
        (10, 20, 60, 2.5),  # eight threads that are ready at once, on two processors
    ],
)
def test_what_counts(passed: float, ran: float, waited: float, seconds: float) -> None:
    assert counted(passed, ran, waited) == seconds


def task(proc: Path, session: int, thread: int, ran: int, waited: int) -> None:
    """A process of one thread, as the system shows it; its name has what separates fields in it."""
    (proc / "self").mkdir(parents=True, exist_ok=True)
    (proc / "self" / "schedstat").touch()
    folder = proc / str(thread) / "task" / str(thread)
    folder.mkdir(parents=True, exist_ok=True)
    (proc / str(thread) / "stat").write_text(
        f"{thread} (a ) S 1 (x) R 1 {session} {session} 0"
    )
    (folder / "schedstat").write_text(f"{ran * SECOND} {waited * SECOND} 7\n")


def test_only_threads_of_these_sessions_count(tmp_path: Path) -> None:
    for session, thread in ((10, 10), (10, 11), (20, 20)):
        task(tmp_path, session, thread, 5, 1000)
    ours, none = FairClock([10], tmp_path), FairClock([30], tmp_path)
    time.sleep(0.6)
    task(tmp_path, 10, 10, 5, 1000 + 500)
    task(tmp_path, 10, 12, 0, 500)  # a child that is new
    (tmp_path / "13").mkdir()  # one that ends while it is looked at
    assert ours.seconds() == 0
    assert none.seconds() >= 0.6


def test_all_seconds_count_where_the_system_does_not_tell(tmp_path: Path) -> None:
    clock = FairClock([1], tmp_path)
    time.sleep(0.6)
    assert clock.seconds() >= 0.6


def test_of_a_process_that_waits_all_seconds_count() -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        try:
            begun = time.monotonic()
            clock = FairClock([process.pid])
            time.sleep(1)
            found, passed = clock.seconds(), time.monotonic() - begun
        finally:
            process.kill()
    assert passed / 2 < found <= passed


CROWD = """
import os
for _ in range(3 * os.cpu_count()):
    if not os.fork():
        os.nice(5)
        while True:
            pass
print("begun", flush=True)
os.wait()
"""


@pytest.mark.once
def test_of_processes_that_compute_beside_others_a_part_counts() -> None:
    """Of three processes for each processor that are always ready, a third of the time at most."""
    command = [sys.executable, "-c", CROWD]
    with subprocess.Popen(
        command, start_new_session=True, stdout=subprocess.PIPE
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"begun\n"
            clock = FairClock([process.pid])
            begun = time.monotonic()
            time.sleep(2)
            found, passed = clock.seconds(), time.monotonic() - begun
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert 0 < found < passed / 2
