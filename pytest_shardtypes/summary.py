"""The words of the terminal section."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

import pytest

from pytest_shardtypes.coverage import Coverage
from pytest_shardtypes.sources import shown
from shardtypes.sharding_check import NO_MESH
from shardtypes.switches import switched_off

LISTED = 20
FAILED = "failed"  # the checks that did not hold, among those that are counted
COULD_NOT_TELL = "could not tell"  # how such a verdict begins
# how that of a function that may depend on the mesh begins
NOT_COMPARED = "not compared"
NOT_TOLD = (COULD_NOT_TELL, NOT_COMPARED)
_OF_FIELD = re.compile(r"(?P<owner>[^:]+): field '(?P<name>[^']+)' (?P<rest>.+)")
_NAMED = 3  # fields of one class


class Ran(Enum):
    """How much of a run took place."""

    ALL = "all that was selected"
    #: collecting failed, or it was stopped: by -x, by Ctrl-C
    PART = "a part"
    NOTHING = "no test"


def how_much_ran(exitstatus: int, stopped: bool) -> Ran:
    """By how the run ended, and whether it was told to stop."""
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        return Ran.NOTHING
    early = (pytest.ExitCode.INTERRUPTED, pytest.ExitCode.INTERNAL_ERROR)
    return Ran.PART if stopped or exitstatus in early else Ran.ALL


def lines(
    coverage: Coverage, packages: Sequence[str], root: Path, ran: Ran = Ran.ALL
) -> Iterator[str]:
    """What a run checked in ``packages`` and what it did not, a line each. ``root`` shortens the names of files."""
    checks = ", ".join(
        f"{count} {kind}"
        for kind, count in sorted(coverage.checks.items(), reverse=True)
        if kind != FAILED
    )
    failed = coverage.checks.get(FAILED, 0)
    if failed:
        checks = f"{checks}, {failed} {FAILED}" if checks else f"{failed} {FAILED}"
    yield f"checks run: {checks or _none(coverage, packages, ran)}"
    if ran is Ran.PART:
        yield "the run ended early: what is missing here may be in tests that did not run"
    for reason, count in _joined(coverage.not_possible):
        times = "once" if count == 1 else f"{count} times"
        yield f"not possible, {times}: {reason}"
    if coverage.traced:
        right = sum(text == "passed" for text in coverage.traced.values())
        yield f"annotated functions traced: {right} of {len(coverage.traced)} hold"
        unknown = [
            (name, text)
            for name, text in sorted(coverage.traced.items())
            if text.startswith(COULD_NOT_TELL)
        ]
        yield from _listed(
            "tracing could not tell",
            [f"{name}{text.removeprefix(COULD_NOT_TELL)}" for name, text in unknown],
        )
    yield from _compared(coverage)
    for name in coverage.never_imported:
        yield f"package {name}: no test imported it, so nothing in it was checked"
    for name in coverage.too_early:
        yield f"package {name}: imported before the checks were installed (by a plugin or -p), so it was not checked"
    if coverage.declared:
        reached = len(coverage.declared) - len(coverage.unreached)
        yield f"annotated functions reached: {reached} of {len(coverage.declared)}"
    yield from _listed(
        "never called by a test",
        [
            f"{name} ({shown(coverage.declared[name], root)})"
            for name in coverage.unreached
        ],
    )
    if coverage.dimensions:
        verified = len(coverage.dimensions) - len(coverage.unverified)
        yield f"sharded dimensions verified where their axis is larger than 1: {verified} of {len(coverage.dimensions)}"
    if coverage.dimensions and not any(coverage.dimensions.values()):
        if NO_MESH in coverage.not_possible:
            yield _without_mesh(coverage)
            return
    yield from _listed("sharding never verified", list(_by_function(coverage)))


def _joined(reasons: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Reasons with their counts, in order; those of the fields of one class that are alike as one."""
    alike: dict[tuple[str, str], list[tuple[str, int]]] = {}
    for reason, count in sorted(reasons.items()):
        found = _OF_FIELD.fullmatch(reason)
        key = (reason, "") if found is None else (found["owner"], found["rest"])
        name = "" if found is None else found["name"]
        alike.setdefault(key, []).append((name, count))
    for (owner, rest), fields in alike.items():
        total = sum(count for _, count in fields)
        names = [repr(name) for name, _ in fields]
        if not rest:
            yield owner, total
        elif len(names) == 1:
            yield f"{owner}: field {names[0]} {rest}", total
        else:
            more = ", …" if len(names) > _NAMED else ""
            some = f"{', '.join(names[:_NAMED])}{more}"
            yield f"{owner}: of {len(names)} fields ({some}), each {rest}", total


def _without_mesh(coverage: Coverage) -> str:
    """Where nothing is verified since no test has a mesh, each function would be told for one reason."""
    axes = dict.fromkeys(axis for _, _, _, axis in coverage.unverified)
    sizes = ", ".join(f"{axis}=2" for axis in axes)
    return (
        "sharding never verified: no annotated function was called on a mesh; mark tests, as in "
        f"@pytest.mark.mesh({sizes})"
    )


def _by_function(coverage: Coverage) -> Iterator[str]:
    """A line for each function that tests called: which dimensions of its arrays were never verified over which axes.

    Of one that was not called that is no news.
    """
    uncalled = set(coverage.unreached)
    arrays: dict[str, dict[str, list[str]]] = {}
    for name, role, dim, axis in coverage.unverified:
        if name in uncalled:
            continue
        dims = arrays.setdefault(name, {}).setdefault(role, [])
        dims.append(f"dimension {dim} over {axis}")
    for name, roles in arrays.items():
        parts = "; ".join(f"{role}, {', '.join(dims)}" for role, dims in roles.items())
        yield f"{name}: {parts}"


def below(coverage: Coverage, least: float) -> str | None:
    """What a run is told that verified fewer of a hundred sharded dimensions than ``least``; None if it did not."""
    found = coverage.percentage
    if found >= least:
        return None
    verified = sum(coverage.dimensions.values())
    if coverage.dimensions:
        # rounded down: 79.96 is not 80
        percent = f"{math.floor(found * 10) / 10:g}%"
        which = f"{verified} of {len(coverage.dimensions)} sharded dimensions, {percent}, were verified"
    else:
        which = "no annotation with mesh axes was met"
    return f"FAIL: {which}, --shardtypes-fail-under asks for {least:g}%"


def _compared(coverage: Coverage) -> Iterator[str]:
    """Which functions that map over devices were compared with one device."""
    if coverage.proved:
        words = Counter(text.partition(":")[0] for text in coverage.proved.values())
        counts = ", ".join(f"{count} {word}" for word, count in sorted(words.items()))
        yield f"mapped functions compared with one device: {counts}"
        told = [
            (name, text)
            for name, text in sorted(coverage.proved.items())
            if text.startswith(NOT_TOLD)
        ]
        yield from _listed(
            "not compared, or without an answer",
            [f"{name}: {text}" for name, text in told],
        )
    if coverage.not_compared:
        count = len(coverage.not_compared)
        yield f"mapped functions not compared with one device: {count} (--shardtypes-prove compares them)"


def _none(coverage: Coverage, packages: Sequence[str], ran: Ran) -> str:
    """Why nothing was checked, and what to do."""
    if switched_off():
        return "none: SHARDTYPES=0 in the environment turns them off"
    if ran is Ran.NOTHING:
        return "none: no test ran"
    if ran is Ran.PART:
        return "none: the run ended before a test called an annotated function"
    names = ", ".join(packages)
    if not packages:
        return "none: no package in the root directory; name yours with --shardtypes-packages"
    if len(coverage.never_imported) == len(packages):
        return "none: no test imported what is to be checked"
    if not coverage.functions:
        return f"none: no test called an annotated function of {names}"
    return (
        f"none: no annotation of shardtypes or jaxtyping was checked in {names} (those of other libraries are "
        "checked by their own tools): annotate arrays, as in x: f32['B/d M'], or name other packages with "
        "--shardtypes-packages"
    )


def _listed(title: str, entries: list[str]) -> Iterator[str]:
    if not entries:
        return
    yield f"{title}:"
    for entry in entries[:LISTED]:
        yield f"  {entry}"
    if len(entries) > LISTED:
        yield f"  and {len(entries) - LISTED} more (all of them with --shardtypes-report)"
