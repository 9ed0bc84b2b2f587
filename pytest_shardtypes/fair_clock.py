"""Seconds for limits on processes, on a machine that may have much else to do."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

PROC = Path("/proc")
_NANOSECONDS = 1e9
# Looking takes milliseconds, which the processes could use.
_LOOK_SECONDS = 0.5


class FairClock:
    """Counts the seconds of some sessions of processes, without those that they spent waiting for a processor.

    A session that waits for something else and one that computes with nothing beside it are counted each second. Where
    20 processes want each processor, one that computes is counted a twentieth. Where the system does not tell (there
    is no ``schedstat`` in ``/proc``) all seconds are counted.
    """

    def __init__(self, sessions: Sequence[int], proc: Path = PROC) -> None:
        self._sessions = {str(leader) for leader in sessions}
        self._proc = proc
        self._counted = 0.0
        self._looked = time.monotonic()
        self._threads = self._look()

    def seconds(self) -> float:
        """What was counted so far."""
        now = time.monotonic()
        passed = now - self._looked
        if passed < _LOOK_SECONDS:
            return self._counted
        threads = self._look()
        ran = waited = 0
        for thread, (running, waiting) in threads.items():
            ran_before, waited_before = self._threads.get(thread, (0, 0))
            ran += running - ran_before
            waited += waiting - waited_before
        self._counted += counted(passed, ran / _NANOSECONDS, waited / _NANOSECONDS)
        self._looked, self._threads = now, threads
        return self._counted

    def _look(self) -> dict[str, tuple[int, int]]:
        """Of each thread the nanoseconds that it ran, and those that it was ready to run and did not."""
        found = {}
        for process in self._processes():
            try:
                threads = os.listdir(process / "task")
            except FileNotFoundError:  # it has ended meanwhile
                continue
            for thread in threads:
                try:
                    text = (process / "task" / thread / "schedstat").read_text()
                except (FileNotFoundError, ProcessLookupError):
                    continue
                running, waiting, _ = text.split()
                found[thread] = (int(running), int(waiting))
        return found

    def _processes(self) -> list[Path]:
        if not (self._proc / "self" / "schedstat").exists():
            return []
        found = []
        for entry in os.listdir(self._proc):
            if not entry.isdigit():
                continue
            try:
                text = (self._proc / entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            # the name, which may hold anything, is in parentheses; then come state, parent, group and session
            session = text.rpartition(")")[2].split()[3]
            if session in self._sessions:
                found.append(self._proc / entry)
        return found


def counted(passed: float, ran: float, waited: float) -> float:
    """How many of the seconds that passed count, of threads that ran and waited for a processor for so long together.

    Threads that take turns fit into the time that passed, and what they waited is left out. Those that were ready at
    the same time do not: of their time counts the part for which they had a processor.
    """
    wanted = ran + waited
    if wanted <= passed:
        return passed - waited
    return passed * ran / wanted
