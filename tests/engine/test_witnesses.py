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


@cache
def found(path: Path) -> tuple[Replay, ...]:
    """Every finding of a case. Not while tests are collected: each worker of a run would look for all of them."""
    return tuple(replays(path, modules(path)))


def is_promised(one: Replay) -> bool:
    return one.event.code in PROMISES


def is_quiet(one: Replay) -> bool:
    return one.event.code in SILENT and "is not a pytree" not in one.event.message


def raising(path: Path) -> list[Replay]:
    return [one for one in found(path) if not is_promised(one) and not is_quiet(one)]


def promised(path: Path) -> list[Replay]:
    return [one for one in found(path) if is_promised(one)]


def quiet(path: Path) -> list[Replay]:
    return [one for one in found(path) if is_quiet(one)]


KINDS = (raising, promised, quiet)


def each_case(test: Callable[..., None]) -> Callable[..., None]:
    names = [path.relative_to(CASES).as_posix() for path in PATHS]
    return pytest.mark.parametrize("path", PATHS, ids=names)(test)


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


@each_case
def test_jax_fails_at_the_witness(path: Path) -> None:
    witnesses = raising(path)
    right = [one.name for one in witnesses if not one.fails(namespace(path))]
    assert right == []


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
@each_case
def test_the_run_time_refuses_at_the_witness(
    path: Path, checked: Callable[[Path], dict[str, Any]]
) -> None:
    witnesses = promised(path)
    right = [one.name for one in witnesses if not one.fails(checked(path))]
    assert right == []


@pytest.mark.once
@each_case
def test_what_is_silent_when_it_runs(
    path: Path, checked: Callable[[Path], dict[str, Any]]
) -> None:
    for one in quiet(path):
        runs = [failed for came, failed in one.runs(checked(path)) if came]
        assert runs and not any(runs), f"{one.name} does fail: {SILENT[one.event.code]}"


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


@pytest.mark.once
def test_every_finding_is_replayed() -> None:
    kinds = {kind: [one for path in PATHS for one in kind(path)] for kind in KINDS}
    assert len(kinds[raising]) >= 240
    assert len(kinds[promised]) >= 90
    assert sum(map(len, kinds.values())) == sum(len(found(path)) for path in PATHS)
    assert {one.event.code for one in kinds[promised]} == PROMISES
    assert {one.event.code for one in kinds[quiet]} == SILENT.keys()
