"""What each test did, gathered from the reports, which xdist brings from its workers: time and collectives."""

from __future__ import annotations

from collections.abc import Generator, Iterable

import pytest

COLLECTIVES = pytest.StashKey[list[str]]()
LEAKS = pytest.StashKey[list[str]]()


def note_collectives(item: pytest.Item, lines: Iterable[str]) -> None:
    """Remember what a test compiled."""
    item.stash.setdefault(COLLECTIVES, []).extend(lines)


def note_leak(item: pytest.Item, text: str) -> None:
    """Remember what a test left behind, or found left behind."""
    item.stash.setdefault(LEAKS, []).append(text)


class Facts:
    """The hooks that gather them."""

    def __init__(self) -> None:
        self.collectives: dict[str, tuple[str, ...]] = {}
        self.leaks: list[str] = []
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Put what was noted into the report."""
        report = yield
        if call.when == "call" and COLLECTIVES in item.stash:
            vars(report)["shardtypes_collectives"] = item.stash[COLLECTIVES]
        if call.when == "teardown" and LEAKS in item.stash:
            vars(report)["shardtypes_leaks"] = item.stash[LEAKS]
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take it out again, in the process that prints the summary."""
        self.seconds[report.nodeid] = (
            self.seconds.get(report.nodeid, 0.0) + report.duration
        )
        self.leaks += [
            f"{report.nodeid} {text}"
            for text in getattr(report, "shardtypes_leaks", ())
        ]
        found = getattr(report, "shardtypes_collectives", None)
        if found is not None:
            self.collectives[report.nodeid] = tuple(found)
