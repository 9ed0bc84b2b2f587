"""Why a run never verified a dimension's sharding, as far as it knows, and what to do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_shardtypes.coverage import Coverage, Dimension, Event
from shardtypes.sharding_check import NO_MESH, TRACED_WITHOUT_MESH

_WITHOUT_MESH = (NO_MESH, TRACED_WITHOUT_MESH)


def reasons(coverage: Coverage, dimension: Dimension) -> tuple[str, ...]:
    """All that is known of why a dimension was never verified, the most telling first."""
    name = dimension[0]
    calls = coverage.functions.get(name, 0)
    if not calls:
        return ("no test calls the function",)
    found = tuple(_known(coverage, dimension))
    if found:
        return found
    return (f"called {_times(calls)}, and no array came there to compare",)


def _known(coverage: Coverage, dimension: Dimension) -> Iterator[str]:
    name, role, _, axis = dimension
    mesh = f"@pytest.mark.mesh({axis}=2)"
    for message, count in _of(coverage.failures, name, role):
        yield f"a check failed, {_times(count)}: {message}"
    if dimension in coverage.compared:
        yield f"compared only on meshes where {axis} has size 1: test it on one where it is larger, as by {mesh}"
    missed = dict(_of(coverage.missed, name, role))
    without_mesh = sum(missed.pop(reason, 0) for reason in _WITHOUT_MESH)
    if without_mesh:
        yield f"met without a mesh in force, {_times(without_mesh)}: mark the test, as by {mesh}"
    for reason, count in missed.items():
        yield f"not possible, {_times(count)}: {reason}"


def _of(events: Mapping[Event, int], name: str, role: str) -> list[tuple[str, int]]:
    """What happened to an array of a function, or to a part of it, the most frequent first."""
    counts: dict[str, int] = {}
    for (function, where, text), count in events.items():
        is_part = where.startswith((f"{role}, ", f"{role} "))
        if function == name and (where == role or is_part):
            counts[text] = counts.get(text, 0) + count
    return sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
