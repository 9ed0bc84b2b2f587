"""What `make test` runs of what `make test-all` does: of each test a few cases, from the first to the last."""

from __future__ import annotations

import pytest

from shardlint.rules import all_rules
from tests.support import ROOT, run_pytest

pytestmark = pytest.mark.once

FILE = "tests/engine/test_rules.py"


def collected(*options: str) -> list[str]:
    done = run_pytest("--collect-only", "-q", FILE, *options, cwd=ROOT)
    assert done.returncode == 0, done.stdout
    return [line for line in done.stdout.splitlines() if "::" in line]


def test_of_each_test_run_a_few_cases() -> None:
    everything = collected()
    few = collected("--cases", "3")
    codes = [rule.code for rule in all_rules()]
    kept = (codes[0], codes[(len(codes) - 1) // 2], codes[-1])
    test = f"{FILE}::test_the_page_is_complete"
    assert [one for one in few if test in one] == [f"{test}[{code}]" for code in kept]
    assert {one.partition("[")[0] for one in few} == {
        one.partition("[")[0] for one in everything
    }
    assert collected("--cases", "1000") == everything


def test_every_long_test_is_run_by_continuous_integration() -> None:
    """The workflow calls the target that leaves none out, and so does a release. (By itself `.ci/run` leaves out what
    takes long, to end in half an hour.)"""
    assert "test-all" in (ROOT / ".ci" / "run").read_text()
    workflows = ROOT / ".github" / "workflows"
    assert "- run: bash .ci/run test-all" in (workflows / "tests.yml").read_text()
    release = (workflows / "release.yml").read_text()
    commands = [line for line in release.splitlines() if "test-default" in line]
    assert commands
    assert not any("FEW" in line for line in commands)
    assert "make test-all" in (ROOT / "README.md").read_text()
