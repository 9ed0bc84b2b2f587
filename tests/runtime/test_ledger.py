"""A sample of the ledger: each wrong value raises an alarm or is counted with a reason, each right one passes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.runtime.ledger import judge, random_case

CASES = 40


@pytest.mark.once
@pytest.mark.long
def test_random_cases_are_judged_right(tmp_path: Path) -> None:
    rng = random.Random(0)
    cases = [random_case(rng) for _ in range(CASES)]
    found = {str(case): judge(case, tmp_path) for case in cases}
    ran = [one for one in found.values() if one.fault is not None]
    assert len(ran) > CASES / 2
    assert {case: one.fault for case, one in found.items() if one.fault} == {}
    assert any(one.alarm for one in ran)
    assert any(not one.alarm for one in ran)
