"""The benchmark beside spmd_types: its programs, what is recorded of them, and what the linter says of them."""

from __future__ import annotations

import ast

import pytest

from benchmarks.spmd_types.__main__ import Outcome, digest, findings, recorded, report
from benchmarks.spmd_types.cases import Case, cases

pytestmark = pytest.mark.once

CASES = cases()
RIGHT = [case for case in CASES if not case.mistake]


def test_the_outcomes_are_of_the_texts_as_they_are() -> None:
    assert {name: one.digest for name, one in recorded().items()} == {
        case.name: digest(case) for case in CASES
    }


def test_right_programs_are_right_and_pass_the_peer() -> None:
    assert {
        (recorded()[case.name].truth, recorded()[case.name].peer) for case in RIGHT
    } == {("right", "")}


def test_there_are_many_mistakes_and_all_but_those_of_style_are_wrong_on_eight_devices() -> (
    None
):
    made = {case.name for case in CASES if case.mistake}
    style = {case.name for case in CASES if case.kind.startswith("no error")}
    assert len(made) >= 40
    assert {name for name in made if recorded()[name].truth == "right"} == style
    assert [name for name in sorted(style) if not recorded()[name].peer] == []


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_both_texts_are_valid_python(case: Case) -> None:
    ast.parse(case.jax)
    ast.parse(case.torch)


def test_the_linter_finds_the_mistakes_of_a_program_and_nothing_in_the_right_one() -> (
    None
):
    chosen = cases(["conversions"])
    found = findings(chosen)
    assert [case.mistake for case in chosen if not found[case.name]] == [""]


def test_a_finding_in_a_right_program_is_an_alarm(
    capsys: pytest.CaptureFixture[str],
) -> None:
    right = Case("mlp", "", "", "", "")
    wrong = Case("mlp", "no_sum", "no sum", "", "")
    known = {
        right.name: Outcome("right", "", ""),
        wrong.name: Outcome("wrong", "SpmdTypeError", ""),
    }
    assert report([right, wrong], known, {right.name: [], wrong.name: []}) == 0
    assert "only spmd_types: mlp__no_sum" in capsys.readouterr().out
    assert (
        report([right, wrong], known, {right.name: ["1: ST301"], wrong.name: []}) == 1
    )
    assert "alarm of shardlint: mlp__right: 1: ST301" in capsys.readouterr().out
