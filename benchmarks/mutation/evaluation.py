"""What JAX says about programs and their mutants: jobs for worker processes, with limits of time."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.mutation.cases import Case
from benchmarks.translate import translate


@dataclass(frozen=True)
class Truth:
    """``wrong``, ``right`` (as far as two assignments show), or ``none``: it cannot be told. ``why`` says what failed,
    ``lines`` where: module and line of every frame of the traceback that is the program's."""

    verdict: str
    why: str = ""
    lines: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Baseline:
    """The calls that succeed on the original, with the functions that each runs; those that fail, with the reason."""

    runs: Mapping[str, Sequence[str]]
    failed: Mapping[str, str]


class Process:
    """A process that answers jobs, JSON lines both; it is ended when it dies or takes too long."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    @property
    def running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """A fresh process."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines = queue.Queue()
        threading.Thread(
            target=_read, args=(self._process, self._lines), daemon=True
        ).start()

    def ask(self, job: Mapping[str, Any], seconds: float) -> Any:
        """The answer; None if the process died or took too long."""
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except (queue.Empty, OSError):
            line = ""
        if not line:
            self.close()
            return None
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            with self._process as process:  # closes the pipes, too
                process.kill()
            self._process = None


class Worker:
    """Evaluates one program and its mutants in a process, which is replaced when it ends."""

    def __init__(self, original: Case, way: str, seconds: float) -> None:
        self._first = {"way": way, "sources": sources_of(original, way)}
        self._way = way
        self._seconds = seconds
        self._process = Process("benchmarks.mutation.worker")
        answer = self._start(True)
        failed = {original.program.name: "no answer"}
        self.baseline = (
            Baseline({}, failed)
            if answer is None
            else Baseline(answer["runs"], answer["failed"])
        )

    def judge(self, case: Case, first: Baseline) -> Truth:
        """A mutant, judged by those of the calls that run what was changed."""
        if not self._process.running and self._start(False) is None:
            return Truth("none", "no answer")
        job = {"calls": calls_of(case, first), "sources": sources_of(case, self._way)}
        answer = self._process.ask(job, self._seconds)
        if answer is None:
            return Truth("none", "no answer")
        verdict, why, lines = answer
        return Truth(verdict, why, tuple((module, line) for module, line in lines))

    def close(self) -> None:
        """End the process."""
        self._process.close()

    def _start(self, baseline: bool) -> Any:
        self._process.start()
        return self._process.ask(
            {**self._first, "baseline": baseline}, 5 * self._seconds
        )


def calls_of(case: Case, first: Baseline) -> list[str]:
    """The calls that run what was changed. A class, or the module itself: every call may run it."""
    if case.mutant is None:
        return list(first.runs)
    function = case.mutant.function
    return [
        name for name, entered in first.runs.items() if function in entered
    ] or list(first.runs)


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


def sources_of(case: Case, way: str) -> dict[str, str]:
    if way == "bare":
        return {m: translate(s, "runtime").text for m, s in case.sources.items()}
    return {m: s.decode() for m, s in case.sources.items()}


def truths(
    cases: Sequence[Case], way: str, seconds: float
) -> tuple[Baseline, dict[int, Truth]]:
    """The original's calls, and the truth about every mutant of one program; ``cases[0]`` is the original."""
    worker = Worker(cases[0], way, seconds)
    try:
        return worker.baseline, {
            c.number: worker.judge(c, worker.baseline) for c in cases[1:]
        }
    finally:
        worker.close()


def run_time(
    cases: Sequence[Case], first: Baseline, seconds: float
) -> tuple[dict[str, str], dict[int, Truth]]:
    """What jaxtyping and beartype say when the same calls run: of the original, and of every mutant."""
    worker = Worker(cases[0], "bare", seconds)
    try:
        theirs = worker.baseline
        alarms = {
            name: why for name, why in theirs.failed.items() if name in first.runs
        }
        able = Baseline({n: e for n, e in first.runs.items() if n in theirs.runs}, {})
        return alarms, {c.number: worker.judge(c, able) for c in cases[1:]}
    finally:
        worker.close()
