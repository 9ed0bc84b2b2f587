"""``scripts/first_hour.sh``: a newcomer's first hour works from the wheel, and a step that fails is seen."""

from __future__ import annotations

import os
import re
import sys
import sysconfig

import pytest

from scripts import first_hour
from scripts.first_hour import STEPS, Hour, expect
from tests.support import ROOT, run

pytestmark = pytest.mark.once


@pytest.mark.long
def test_the_first_hour() -> None:
    """From the wheel of this tree. The packages that it needs are those of this environment: a newcomer's come from the
    index."""
    environment = dict(os.environ)
    environment["FIRST_HOUR_PACKAGES"] = sysconfig.get_path("purelib")
    environment["PYTHON"] = sys.executable
    done = run(["sh", ROOT / "scripts" / "first_hour.sh"], env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [re.split(r" {2,}", row) for row in done.stdout.splitlines()]
    assert [(row[0], row[1]) for row in rows] == [(title, "ok") for title, *_ in STEPS]


def test_a_step_that_fails_is_named_with_its_output(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others are tried all the same, unless they need it."""

    def prints(hour: Hour) -> None:
        hour.project.mkdir()
        hour.run(sys.executable, "-c", "print('printed')")

    def wrong_status(hour: Hour) -> None:
        hour.run(sys.executable, "-c", "import sys; sys.exit('said')")

    def wrong_key(hour: Hour) -> None:
        hour.about["Version"]

    steps = (
        ("first", prints, True),
        ("second", wrong_status, False),
        ("third", wrong_key, True),
        ("fourth", prints, False),
    )
    monkeypatch.setattr(first_hour, "STEPS", steps)
    assert first_hour.main() == 1
    shown = capsys.readouterr().out
    assert "== second: failed: expected status 0, got 1 ==" in shown
    assert shown.index("said\n") < shown.index("== end of second ==")
    assert "printed" not in shown
    assert "== third: failed: KeyError('Version') ==" in shown
    rows = [row.split()[:3] for row in shown.splitlines()[-4:]]
    verdicts = ["ok", "failed", "failed"]
    assert [row[1] for row in rows[:3]] == verdicts
    assert rows[3] == ["fourth", "not", "run"]


def test_what_is_not_as_expected_is_said() -> None:
    expect(True, "nothing")
    with pytest.raises(first_hour.StepFailed, match="expected a file"):
        expect(False, "a file")


def test_nothing_in_it_is_of_one_machine() -> None:
    for name in ("first_hour.sh", "first_hour.py"):
        text = (ROOT / "scripts" / name).read_text("utf-8")
        assert not re.search(r"https?://|/(?:opt|home|root|Users|tmp)/", text), name
