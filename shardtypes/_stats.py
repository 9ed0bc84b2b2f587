"""Counters of the checks that ran, kept only while recording is on.

The pytest plugin turns recording on and prints the counters; otherwise a check pays one attribute test for them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Watcher: TypeAlias = Callable[[str, Any, tuple[Any, ...], dict[str, Any]], None]


@dataclass
class _Counters:
    checks: Counter[str] = field(default_factory=Counter)
    not_possible: Counter[str] = field(default_factory=Counter)
    functions: Counter[str] = field(default_factory=Counter)
    declared: dict[str, str] = field(default_factory=dict)
    dimensions: dict[tuple[str, str, int, str], bool] = field(default_factory=dict)
    layouts: dict[tuple[str, str, str, str], None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


recording = False
# Who sees every call of a checked function, besides counting.
_watchers: list[Watcher] = []
_lock = threading.Lock()
_counters = _Counters()
# Reasons are kept even without recording: a check that was skipped must be findable afterwards.
_reasons: Counter[str] = Counter()
# Reasons of which it is not known yet whether they are any.
_open: list[tuple[str, Callable[[], bool]]] = []


def record(on: bool = True) -> None:
    """Start (or stop) counting."""
    global recording
    recording = on


def count(kind: str, amount: int = 1) -> None:
    """Count a check that was made: ``shape`` or ``sharding``."""
    if recording:
        with _lock:
            _counters.checks[kind] += amount


def count_not_possible(reason: str) -> None:
    """Count a sharding check that could not be made, under its reason."""
    _reasons[reason] += 1
    if recording:
        with _lock:
            _counters.not_possible[reason] += 1


def count_unless(reason: str, settled: Callable[[], bool]) -> None:
    """Count under a reason, unless ``settled`` says that it is none by the time that somebody looks."""
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


@contextmanager
def uncounted() -> Iterator[None]:
    """Count nothing in the block."""
    before = recording
    record(False)
    try:
        yield
    finally:
        record(before)


def count_function(name: str) -> None:
    """Count one call of a checked function, whatever comes of it."""
    if recording:
        with _lock:
            _counters.functions[name] += 1


def watch(watcher: Watcher) -> None:
    """Have a watcher see every call of a checked function while recording is on: its name with the module, the
    function, and the arguments."""
    _watchers.append(watcher)


def unwatch(watcher: Watcher) -> None:
    """Have it see none any longer."""
    _watchers.remove(watcher)


def see_call(
    name: str, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """Show a call of a checked function to those who watch."""
    for watcher in _watchers:
        watcher(name, function, args, kwargs)


def cover_dimension(
    function: str, role: str, dim: int, axis: str, verified: bool
) -> None:
    """Note that a dimension declared sharded over ``axis`` was compared; ``verified`` if that axis is larger than 1."""
    if recording:
        with _lock:
            key = (function, role, dim, axis)
            _counters.dimensions[key] = _counters.dimensions.get(key, False) or verified


def cover_layout(function: str, role: str, declared: str, mesh: str) -> None:
    """Note the mesh (``d=2, t=4``) on which an array was found to be sharded as declared."""
    if recording:
        with _lock:
            _counters.layouts[function, role, declared, mesh] = None


def spend(function: str, seconds: float) -> None:
    """Note the time that a checking compile took; all other checks take microseconds."""
    if recording:
        with _lock:
            _counters.seconds[function] = _counters.seconds.get(function, 0.0) + seconds


def snapshot() -> dict[str, Any]:
    """Everything counted since the last ``reset``: ``checks``, ``not_possible``, ``functions`` (calls by name),
    ``declared`` (place by name of each annotated function), ``dimensions`` (list of
    ``(function, role, dim, axis, verified)``), ``layouts`` (list of ``(function, role, declared, mesh)``),
    ``seconds`` (spent in checking compiles, by function)."""
    _count_open()
    with _lock:
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
        }


def exchange(counters: _Counters | None = None) -> _Counters:
    """Put other counters in place, fresh ones by default, and return those that were: for a run inside another."""
    global _counters
    _count_open()
    with _lock:
        before = _counters
        _counters = (
            counters
            if counters is not None
            else _Counters(declared=dict(before.declared))
        )
    return before


def reset() -> None:
    """Forget the counts; the list of declared functions stays."""
    _open.clear()
    with _lock:
        _counters.checks.clear()
        _counters.not_possible.clear()
        _counters.functions.clear()
        _counters.dimensions.clear()
        _counters.layouts.clear()
        _counters.seconds.clear()
        _reasons.clear()
