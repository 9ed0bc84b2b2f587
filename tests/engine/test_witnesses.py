"""JAX fails where a finding says that it does: the witness of each finding is replayed."""

from __future__ import annotations

import importlib
import runpy
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from shardtypes import install_import_hook
from tests.engine.replay import Replay, replays

CASES = Path(__file__).parents[2] / "fixtures" / "lint" / "wrong"
#: Annotations that are not kept: JAX computes on, the run-time checks refuse.
PROMISES = {"ST201", "ST202", "ST203", "ST212"}
#: What does not fail when it runs, and why.
SILENT = {
    "ST105": "a size that only the result names: no value can contradict it, so it checks nothing",
    "ST106": "an annotation that nothing enforces: that it is not refused is what the finding says",
    "ST207": "the number of elements agrees, so JAX reshapes: the elements are in the wrong order",
    "ST216": "the update is computed and dropped: the array is what it was",
}


def modules(path: Path) -> dict[str, Path]:
    """The files that a case is analysed with, by module name."""
    files = path.parent.glob("*.py") if path.parent != CASES else [path]
    return {_module(file): file for file in files}


def _module(path: Path) -> str:
    return ".".join(path.relative_to(CASES.parent).with_suffix("").parts).removesuffix(
        ".__init__"
    )


PATHS = sorted(path for path in CASES.rglob("*.py") if path.name != "__init__.py")
FOUND = [one for path in PATHS for one in replays(path, modules(path))]
PROMISED = [one for one in FOUND if one.event.code in PROMISES]
QUIET = [
    one
    for one in FOUND
    if one.event.code in SILENT and "is not a pytree" not in one.event.message
]
RAISING = [one for one in FOUND if one not in PROMISED and one not in QUIET]


def named(found: list[Replay]) -> list[str]:
    return [one.name for one in found]


@cache
def namespace(path: Path) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # typeguard warns of what ST106 reports
        if path.parent == CASES:
            return runpy.run_path(str(path))
        sys.path.insert(0, str(CASES.parent))
        try:
            return vars(importlib.import_module(_module(path)))
        finally:
            sys.path.remove(str(CASES.parent))


@pytest.mark.parametrize("one", RAISING, ids=named(RAISING))
def test_jax_fails_at_the_witness(one: Replay) -> None:
    assert one.fails(namespace(one.source.path))


@pytest.fixture(scope="module")
def checked() -> Iterator[Callable[[Path], dict[str, Any]]]:
    """The modules of the cases with their annotations checked; they are imported once more, under the hook."""
    own = [name for name in sys.modules if name.partition(".")[0] == CASES.name]
    before = {name: sys.modules.pop(name) for name in own}
    sys.path.insert(0, str(CASES.parent))

    def load(path: Path) -> dict[str, Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # typeguard warns of what ST106 reports
            return vars(importlib.import_module(_module(path)))

    with install_import_hook([CASES.name]):
        yield load
    sys.path.remove(str(CASES.parent))
    for name in [name for name in sys.modules if name.partition(".")[0] == CASES.name]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.mark.once
@pytest.mark.parametrize("one", PROMISED, ids=named(PROMISED))
def test_the_run_time_refuses_at_the_witness(
    one: Replay, checked: Callable[[Path], dict[str, Any]]
) -> None:
    assert one.fails(checked(one.source.path))


@pytest.mark.once
@pytest.mark.parametrize("one", QUIET, ids=named(QUIET))
def test_what_is_silent_when_it_runs(
    one: Replay, checked: Callable[[Path], dict[str, Any]]
) -> None:
    runs = [failed for came, failed in one.runs(checked(one.source.path)) if came]
    assert runs and not any(runs), (
        f"{one.event.code} does fail: {SILENT[one.event.code]}"
    )


def test_a_program_that_is_right_does_not_fail(tmp_path: Path) -> None:
    case = tmp_path / "case.py"
    head = "from shardtypes import f32\n\ndef product(x: f32['B M'], w: f32['F M']):\n"
    case.write_text(f"{head}    # a comment\n    return x @ w\n")
    (one,) = replays(case, {"case": case})
    assert one.fails(runpy.run_path(str(case)))
    case.write_text(f"{head}    # a comment\n    return x @ w.T\n")
    assert not one.fails(runpy.run_path(str(case)))
    case.write_text(f"{head}    raise ValueError\n    return x @ w\n")
    assert not one.fails(runpy.run_path(str(case)))


def test_every_finding_is_replayed() -> None:
    assert len(RAISING) >= 240
    assert len(PROMISED) >= 90
    assert len(RAISING) + len(PROMISED) + len(QUIET) == len(FOUND)
    assert {one.event.code for one in PROMISED} == PROMISES
    assert {one.event.code for one in QUIET} == SILENT.keys()
