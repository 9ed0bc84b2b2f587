"""Counters of the checks that ran, kept only while recording is on.

The pytest plugin turns recording on and prints the counters; otherwise a check pays one attribute test for them.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from shardtypes.sites import Site

# Says True when it needs to see no more calls of the function.
Watcher: TypeAlias = Callable[[str, Any, tuple[Any, ...], dict[str, Any]], bool]


@dataclass
class _Counters:
    checks: Counter[str] = field(default_factory=Counter)
    not_possible: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)
    declared: dict[str, str] = field(default_factory=dict)
    dimensions: dict[tuple[str, str, int, str], bool] = field(default_factory=dict)
    layouts: dict[tuple[str, str, str, str], None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    missed: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    failures: Counter[tuple[str, str, str]] = field(default_factory=Counter)


class Count(itertools.count):  # type: ignore[type-arg]  # it has none when it runs
    """Begins anew where it is pickled, as with a class that is defined in a function."""

    def __reduce__(self) -> tuple[type[Count], tuple[()]]:
        return Count, ()


class Tally:
    """What the checker of a function counts, merged into the counters when somebody asks for them.

    A step of ``itertools.count`` is one step for all threads, and takes no lock. There is a counter for each number of
    shardings that were compared in a call: of its arguments, and of its result.
    """

    def __init__(self, function: str, arrays: int, results: int) -> None:
        self._function = function
        self._arrays = arrays, results
        self.calls = tuple(Count() for _ in range(arrays + 1))
        self.results = tuple(Count() for _ in range(results + 1))
        self._seen = [0] * (arrays + results + 2)

    def merge(self, counters: _Counters | None) -> None:
        """Add what was counted since the last time; with None forget it."""
        calls = [self._taken(at, each) for at, each in enumerate(self.calls)]
        first = len(calls)
        results = [
            self._taken(first + at, each) for at, each in enumerate(self.results)
        ]
        if counters is None:
            return
        arrays, arrays_of_result = self._arrays
        shapes = sum(calls) * arrays + sum(results) * arrays_of_result
        numbered = (*enumerate(calls), *enumerate(results))
        compared = sum(number * count for number, count in numbered)
        counters.functions.update({self._function: sum(calls)} if any(calls) else {})
        counters.checks.update({"shape": shapes} if shapes else {})
        counters.checks.update({"sharding": compared} if compared else {})

    def _taken(self, at: int, counter: Count) -> int:
        now: int = next(counter)
        before, self._seen[at] = self._seen[at], now + 1
        return now - before


class _Thread(threading.local):
    """What one thread does."""

    # Whether it makes a check once more, of which everything was counted before.
    repeats = False
    # Whether those who watch are being shown a call.
    shows = False


recording = False
_thread = _Thread()
# Another object each time that what is to be recorded, or where, changes.
epoch = object()
# Who sees every call of a checked function, besides counting.
_watchers: list[Watcher] = []
_lock = threading.Lock()
_tallies: dict[tuple[str, int, int], Tally] = {}
_counters = _Counters()
# Reasons are kept even without recording: a check that was skipped must be findable afterwards.
_reasons: Counter[str] = Counter()
# Reasons of which it is not known yet whether they are any.
_open: list[tuple[str, Callable[[], bool]]] = []


def record(on: bool = True) -> None:
    """Start (or stop) counting."""
    global recording
    recording = on
    _begin_epoch()


def _begin_epoch() -> None:
    global epoch
    epoch = object()


def tally(function: str, arrays: int, results: int) -> Tally:
    """The tally of all functions of this name with so many arrays in their arguments, and in their results."""
    key = function, arrays, results
    with _lock:
        if key not in _tallies:
            _tallies[key] = Tally(function, arrays, results)
        return _tallies[key]


def _merge(counters: _Counters | None) -> None:
    for each in _tallies.values():
        each.merge(counters)


def count(kind: str, amount: int = 1) -> None:
    """Count a check that was made: ``shape`` or ``sharding`` that fits, or one that ``failed``."""
    if _counts():
        with _lock:
            _counters.checks[kind] += amount


def count_not_possible(reason: str, site: Site | None = None) -> None:
    """Count a sharding check that could not be made, under its reason, and of which value it would have been."""
    if _thread.repeats:
        return
    _reasons[reason] += 1
    if recording:
        with _lock:
            _counters.not_possible[reason] += 1
            if site is not None:
                _counters.missed[site.qualified, site.role, reason] += 1


def count_failure(site: Site | None, message: str) -> None:
    """Count a check that failed, with what was wrong."""
    count("failed")
    if site is not None and _counts():
        with _lock:
            _counters.failures[site.qualified, site.role, message] += 1


def count_unless(reason: str, settled: Callable[[], bool]) -> None:
    """Count under a reason, unless ``settled`` says that it is none by the time that somebody looks."""
    if _thread.repeats:
        return
    _open.append((reason, settled))


def _count_open() -> None:
    waiting = [*_open]
    _open.clear()
    for reason, settled in waiting:
        if not settled():
            count_not_possible(reason)


def declare_function(name: str, place: str) -> None:
    """Note an annotated function that exists, so that a report can say which were never called."""
    _counters.declared[name] = place


def is_declared(name: str) -> bool:
    """Whether a function of that name was noted."""
    return name in _counters.declared


@contextmanager
def uncounted() -> Iterator[None]:
    """Count nothing in the block."""
    before = recording
    record(False)
    try:
        yield
    finally:
        record(before)


@contextmanager
def repeated() -> Iterator[None]:
    """Count nothing of this thread's checks in the block, reasons included: they are made once more."""
    before, _thread.repeats = _thread.repeats, True
    try:
        yield
    finally:
        _thread.repeats = before


def _counts() -> bool:
    return recording and not _thread.repeats


def count_function(name: str) -> None:
    """Count one call of a checked function, whatever comes of it."""
    if _counts():
        with _lock:
            _counters.functions[name] += 1


def watch(watcher: Watcher) -> None:
    """Have a watcher see every call of a checked function while recording is on: its name with the module, the
    function, and the arguments."""
    _watchers.append(watcher)
    _begin_epoch()


def unwatch(watcher: Watcher) -> None:
    """Have it see none any longer."""
    _watchers.remove(watcher)
    _begin_epoch()


def is_watched() -> bool:
    """Whether somebody watches calls."""
    return bool(_watchers)


def see_call(
    name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> bool:
    """Show a call of a checked function to those who watch. True when they need to see no more of it.

    What they do with it may call functions that are checked as well, such as those that flatten a tree: these calls are
    not the program's."""
    if _thread.shows:
        return False
    _thread.shows = True
    try:
        seen_enough = [watcher(name, function, args, kwargs) for watcher in _watchers]
    finally:
        _thread.shows = False
    return all(seen_enough)


def cover_dimension(
    function: str, role: str, dim: int, axis: str, verified: bool
) -> None:
    """Note that a dimension declared sharded over ``axis`` was compared; ``verified`` if that axis is larger than 1."""
    if _counts():
        with _lock:
            key = (function, role, dim, axis)
            _counters.dimensions[key] = _counters.dimensions.get(key, False) or verified


def cover_layout(function: str, role: str, declared: str, mesh: str) -> None:
    """Note the mesh (``d=2, t=4``) on which an array was found to be sharded as declared."""
    if _counts():
        with _lock:
            _counters.layouts[function, role, declared, mesh] = None


def spend(function: str, seconds: float) -> None:
    """Note the time that a checking compile took; all other checks take microseconds."""
    if _counts():
        with _lock:
            _counters.seconds[function] = _counters.seconds.get(function, 0.0) + seconds


def snapshot() -> dict[str, Any]:
    """Everything counted since the last ``reset``: ``checks``, ``not_possible``, ``functions`` (calls by name),
    ``declared`` (place by name of each annotated function), ``dimensions`` (list of
    ``(function, role, dim, axis, verified)``), ``layouts`` (list of ``(function, role, declared, mesh)``),
    ``seconds`` (spent in checking compiles, by function), ``missed`` and ``failures`` (how often a check of
    ``(function, role)`` could not be made, or failed, and why)."""
    _count_open()
    with _lock:
        _merge(_counters)
        return {
            "checks": dict(_counters.checks),
            "not_possible": dict(_counters.not_possible if recording else _reasons),
            "functions": dict(_counters.functions),
            "declared": dict(_counters.declared),
            "dimensions": [
                (*key, verified) for key, verified in _counters.dimensions.items()
            ],
            "layouts": list(_counters.layouts),
            "seconds": dict(_counters.seconds),
            "missed": dict(_counters.missed),
            "failures": dict(_counters.failures),
        }


def exchange(counters: _Counters | None = None) -> _Counters:
    """Put other counters in place, fresh ones by default, and return those that were: for a run inside another."""
    global _counters
    _count_open()
    with _lock:
        _merge(_counters)
        before = _counters
        _counters = (
            counters
            if counters is not None
            else _Counters(declared=dict(before.declared))
        )
    _begin_epoch()
    return before


def reset() -> None:
    """Forget the counts; the list of declared functions stays."""
    _open.clear()
    _begin_epoch()
    with _lock:
        _merge(None)
        _counters.checks.clear()
        _counters.not_possible.clear()
        _counters.functions.clear()
        _counters.dimensions.clear()
        _counters.layouts.clear()
        _counters.seconds.clear()
        _counters.missed.clear()
        _counters.failures.clear()
        _reasons.clear()
