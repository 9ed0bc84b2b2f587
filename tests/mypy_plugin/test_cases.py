"""The mypy plugin on the programs in fixtures/mypy: every message matches one comment, and the reverse."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from tests.mypy_plugin.cases import (
    CASES,
    Case,
    found_by_file,
    read_cases,
    run_mypy,
    with_wording,
    write_case,
)

pytestmark = pytest.mark.once  # on the other Python the example models are checked

# Syntax that the older Python does not have stands in a file of its own.
ALL = [
    case
    for path in sorted(CASES.glob("*.test"))
    if path.stem != "python312" or sys.version_info >= (3, 12)
    for case in read_cases(path)
]


@pytest.fixture(scope="module")
def found(
    tmp_path_factory: pytest.TempPathFactory, warm_cache: Path
) -> dict[str, list[tuple[int, str, str]]]:
    """mypy's messages: all cases in one run, for most of the time goes into JAX's stubs."""
    folder = tmp_path_factory.mktemp("cases")
    shutil.copytree(warm_cache, folder / ".mypy_cache")
    names = [write_case(folder, case) for case in ALL]
    return found_by_file(run_mypy(folder, *names))


def test_case_names_are_unique() -> None:
    assert len({case.name for case in ALL}) == len(ALL)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_case(case: Case, found: dict[str, list[tuple[int, str, str]]]) -> None:
    messages = sorted(found.get(f"{case.name}.py", []))
    assert messages == with_wording(case.expected, messages)


def test_a_wrong_expectation_is_noticed(
    found: dict[str, list[tuple[int, str, str]]],
) -> None:
    """The harness compares something: the messages of one case are not those of another."""
    noisy = [case for case in ALL if case.expected]
    assert len(noisy) > 5
    assert sorted(found.get(f"{noisy[0].name}.py", [])) != sorted(noisy[1].expected)


def test_cases_are_found() -> None:
    assert (Path(CASES) / "calls.test").exists()
