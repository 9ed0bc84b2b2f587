"""How the benchmarks time things on a machine that others use as well.

What is compared runs in turns, as often each, and the time is that of the processor, of one thread where it is one:
waiting for others does not count. Of several rounds the median is taken, and a share is the median of the shares in
each round, whose two sides ran side by side. A minimum would flatter what has the shorter rounds.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

Rounds = dict[str, list[float]]
"""The seconds that each case took in each round."""


@dataclass(frozen=True)
class Repeated:
    """A case that runs itself so many times, between what it sets up and takes down."""

    run: Callable[[int], Any]

    def __call__(self) -> Any:
        return self.run(1)


def in_turns(
    cases: Mapping[str, Callable[[], Any]], rounds: int, calls: int = 1
) -> Rounds:
    """The thread's seconds a call, by case and round. Every second round runs the cases in the reverse order."""
    found: Rounds = {name: [] for name in cases}
    order = list(cases.items())
    for _, case in order:
        case()
    for _ in range(rounds):
        for name, case in order:
            start = time.thread_time()
            if isinstance(case, Repeated):
                case.run(calls)
            else:
                for _ in range(calls):
                    case()
            found[name].append((time.thread_time() - start) / calls)
        order.reverse()
    return found


def commands_in_turns(
    cases: Mapping[str, Callable[[], T]], rounds: int
) -> dict[str, list[T]]:
    """The same for cases that measure themselves, such as seconds of the processes that each starts."""
    found: dict[str, list[T]] = {name: [] for name in cases}
    order = list(cases.items())
    for _ in range(rounds):
        for name, case in order:
            found[name].append(case())
        order.reverse()
    return found


def share(
    one: Sequence[float], other: Sequence[float], base: Sequence[float] | None = None
) -> float:
    """The median over the rounds of ``one / other``, of what both add to ``base`` where that is given."""
    start = base if base is not None else [0.0] * len(one)
    return statistics.median(
        (a - c) / (b - c) for a, b, c in zip(one, other, start, strict=True)
    )


def added(one: Sequence[float], base: Sequence[float]) -> float:
    """The median over the rounds of what one case takes more than another."""
    return statistics.median(a - b for a, b in zip(one, base, strict=True))


def processor_seconds(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> float:
    """What a command and its children take of the processor; its output is thrown away."""
    return command_seconds(command, folder, environment)[0]


def command_seconds(
    command: Sequence[str], folder: Path, environment: Mapping[str, str] | None = None
) -> tuple[float, float]:
    """What a command and its children take of the processor, and how long one waits for it: processes that work side by
    side are told by both. Its output is thrown away."""
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
        env=environment,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.perf_counter() - start
