"""``shardtypes.trace`` for functions as they are found in a project, outside the program that calls them.

A failure is what certainly is one: an annotation that does not hold, or an operation that JAX refuses for its shapes.
What a function refuses by itself, or needs from its callers (values, a mesh, a surrounding ``shard_map``), is
*could not tell*.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pytest_shardtypes.examples import Example
from pytest_shardtypes.meshes import abstract_mesh
from pytest_shardtypes.recorded_calls import RecordedCalls
from shardtypes import _stats
from shardtypes.certainty import why_uncertain
from shardtypes.trace_calls import RUNS_LATER
from shardtypes.tracing import Verdict, trace_call


@dataclass(frozen=True)
class Outcome:
    """``ok`` is True, False or None for *could not tell*; ``text`` says why, and where it was not True what to do."""

    ok: bool | None
    text: str
    error: Exception | None = None


def judge(
    name: str, f: Callable[..., Any], example: Example, calls: RecordedCalls
) -> Outcome:
    """Trace ``f`` with the example, or if there is none and it needs one, with what a test gave it. Nothing that is met
    counts as reached by a test."""
    inner = inspect.unwrap(f)
    if (
        inspect.iscoroutinefunction(inner)
        or inspect.isgeneratorfunction(inner)
        or inspect.isasyncgenfunction(inner)
    ):
        return Outcome(None, RUNS_LATER)
    with _stats.uncounted():
        verdict = _verdict(f, example)
        if verdict.ok is None and example == Example():
            as_called = calls.verdict(name, f)
            verdict = verdict if as_called is None else as_called
    if verdict.ok is True:
        return Outcome(True, verdict.reason)
    why = why_uncertain(verdict.error) if verdict.error is not None else None
    if why is not None:
        return Outcome(None, why)
    if verdict.ok is None:
        fixed = "sizes={…}" if verdict.sizes else "…"
        return Outcome(
            None, f"{verdict.reason}; in conftest.py: trace_example({name!r}, {fixed})"
        )
    return Outcome(False, verdict.reason, verdict.error)


def _verdict(f: Callable[..., Any], example: Example) -> Verdict:
    mesh = None
    if example.mesh is not None:
        mesh = abstract_mesh(axis_types=example.mesh.kind, **dict(example.mesh.axes))
    return trace_call(f, example.positional, example.named, mesh, example.sizes)
