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
from benchmarks.mutation.translate import translate


@dataclass(frozen=True)
class Truth:
    """``wrong``, ``right`` (as far as two assignments show), or ``none``: it cannot be told. ``why`` says what failed,
    ``lines`` where: module and line of every frame of the traceback that is the program's."""

    verdict: str
    why: str = ""
    lines: tuple[tuple[str, int], ...] = ()


class Worker:
    """A process that evaluates; it is replaced when it dies or takes too long."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()

    def ask(self, job: Mapping[str, Any]) -> Any:
        """The answer, or None."""
        if self._process is None:
            self._start()
        process = self._process
        assert process is not None and process.stdin is not None
        try:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            line = self._lines.get(timeout=self._seconds)
        except (queue.Empty, OSError):
            line = ""
        if not line:
            self.close()
            return None
        return json.loads(line)

    def _start(self) -> None:
        command = [sys.executable, "-m", "benchmarks.mutation.worker"]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._lines = queue.Queue()
        threading.Thread(target=_read, args=(self._process, self._lines), daemon=True).start()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _read(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put("")


@dataclass(frozen=True)
class Baseline:
    """The calls that succeed on the original, with the functions that each runs; those that fail, with the reason."""

    runs: Mapping[str, Sequence[str]]
    failed: Mapping[str, str]


def _sources(case: Case, translated: bool) -> dict[str, str]:
    if translated:
        return {m: translate(s, "runtime").text for m, s in case.sources.items()}
    return {m: s.decode() for m, s in case.sources.items()}


def baseline(case: Case, worker: Worker, *, translated: bool = False) -> Baseline:
    """The original, evaluated."""
    job = {"kind": "baseline", "check": not translated}
    answer = worker.ask({**job, "sources": _sources(case, translated)})
    if answer is None:
        return Baseline({}, {case.program.name: "no answer"})
    return Baseline(answer["runs"], answer["failed"])


def judge(case: Case, worker: Worker, first: Baseline, *, translated: bool = False) -> Truth:
    """A mutant, judged by those calls that run what was changed."""
    assert case.mutant is not None
    function = case.mutant.function
    calls = [name for name, entered in first.runs.items() if function in entered]
    if not calls:
        # A class, or a function that instruments itself away: every call may run it.
        calls = list(first.runs)
    job = {"kind": "mutant", "check": not translated, "calls": calls}
    answer = worker.ask({**job, "sources": _sources(case, translated)})
    if answer is None:
        return Truth("none", "no answer")
    verdict, why, lines = answer
    return Truth(verdict, why, tuple((module, line) for module, line in lines))


def truths(cases: Sequence[Case], seconds: float) -> tuple[Baseline, dict[int, Truth]]:
    """The original's calls, and the truth about every mutant of one program; ``cases[0]`` is the original."""
    worker = Worker(seconds)
    try:
        first = baseline(cases[0], worker)
        return first, {c.number: judge(c, worker, first) for c in cases[1:]}
    finally:
        worker.close()


def run_time(cases: Sequence[Case], first: Baseline, seconds: float) -> tuple[dict[str, str], dict[int, Truth]]:
    """What jaxtyping and beartype say when the same calls run: of the original, and of every mutant."""
    worker = Worker(seconds)
    try:
        theirs = baseline(cases[0], worker, translated=True)
        alarms = {name: why for name, why in theirs.failed.items() if name in first.runs}
        able = Baseline({n: e for n, e in first.runs.items() if n in theirs.runs}, {})
        return alarms, {c.number: judge(c, worker, able, translated=True) for c in cases[1:]}
    finally:
        worker.close()
