"""Reports of items with three verdicts: one that holds passes, one that does not fails, and *could not tell* is an
outcome of its own."""

from __future__ import annotations

from typing import Any

import pytest

from pytest_shardtypes.summary import COULD_NOT_TELL


class CouldNotTell(Exception):
    """There is no answer; the message says why."""


def _without_mark(text: str) -> str:
    """What a failure says, without what pytest marks its first line with."""
    return text.removeprefix("E").lstrip(" ")


class VerdictReports:
    """The hooks for items of one ``kind``. Their reports carry the verdict as ``attribute``, by which those of xdist's
    workers are known; ``verdicts`` has them by node id."""

    def __init__(self, kind: type[pytest.Item], attribute: str) -> None:
        self.verdicts: dict[str, str] = {}
        self._kind = kind
        self._attribute = attribute

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Any:
        """Make *could not tell* an outcome of its own."""
        report = yield
        if (
            not isinstance(item, self._kind)
            or call.when != "call"
            or hasattr(report, "wasxfail")
        ):
            return report
        verdict = report.outcome
        if call.excinfo is not None and isinstance(call.excinfo.value, CouldNotTell):
            path, line, _ = item.reportinfo()
            verdict = COULD_NOT_TELL
            report.outcome = "skipped"
            report.longrepr = (
                str(path),
                (line or 0) + 1,
                f"{COULD_NOT_TELL}: {call.excinfo.value}",
            )
        setattr(report, self._attribute, verdict)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember the verdicts, those of xdist's workers too."""
        verdict = getattr(report, self._attribute, None)
        if verdict is not None:
            text = str(verdict)
            if isinstance(report.longrepr, (tuple, list)):
                text = str(report.longrepr[2])
            elif report.failed:
                text = f"{verdict}: {_without_mark(str(report.longrepr))}"
            self.verdicts[report.nodeid] = text

    def pytest_report_teststatus(
        self, report: pytest.TestReport
    ) -> tuple[str, str, str] | None:
        """``?`` in the progress, and a count of its own in the last line."""
        if (
            report.when == "call"
            and getattr(report, self._attribute, None) == COULD_NOT_TELL
        ):
            return COULD_NOT_TELL, "?", "COULD NOT TELL"
        return None
